// Small bundles, written through compiler/bundle, for the tests of the runtime.
#pragma once
#include <string>
#include <vector>

#include "bundle/bundle.h"
#include "runtime-lite/include/tgb.h"

namespace sample {

using namespace tg;
using namespace tg::bundle;

std::vector<u8> file_bytes(const std::string& path);
std::string temp_path(const std::string& name);

// A description with one target of this machine's CPU and the test kernels as its only object.
BundleDesc empty();
u32 program(BundleDesc& d, const std::string& entry, std::vector<Access> params, u32 ints, u32 target = 0);
u32 constant(BundleDesc& d, const std::string& name, const std::vector<float>& values);
Signature f32(const std::string& name, std::vector<Dim> dims);
Dim fixed(i64 n);
Buffer buffer(BufferKind kind, Expr bytes, u32 index = 0, std::vector<u32> lies_on = {}, tgf::Dtype dtype = tgf::Dtype::F32);
Launch launch(u32 program, std::vector<u32> args, std::vector<Expr> ints, Expr tasks = 1);
std::string write(const BundleDesc& d, const std::string& name, WriteOptions options = {});

// y = x * x + w over n floats: two kernels, a scratch buffer, a weight of 0, 1, 2, ...
BundleDesc square_add(i64 n, i64 tasks = 1);
// y[N] = x[N] + w[0..N), N in 1..64, multiple of 2.
BundleDesc free_size();
// The positive elements of x[8]: their number is found while running. Uses ReadVar, If and While (doubling `rounds` times).
BundleDesc control();
// state += x; y = state. The state starts at 5, 5, 5, 5.
BundleDesc state();

// ---- the C side

struct Model {
  tgb_model* m = nullptr;
  tgb_status status = TGB_OK;
  explicit Model(const std::string& path, tgb_options options = {});
  ~Model() { tgb_close(m); }
  Model(const Model&) = delete;
  tgb_status run(const std::vector<tgb_tensor>& in, std::vector<tgb_tensor>& out);
};
template <class T>
tgb_tensor tensor(tgb_dtype dtype, std::vector<T>& v, const std::vector<int64_t>& dims) {
  return {sizeof(tgb_tensor), dtype, v.data(), v.size() * sizeof(T), uint32_t(dims.size()), dims.data(), TGB_HOST, 0};
}

}  // namespace sample
