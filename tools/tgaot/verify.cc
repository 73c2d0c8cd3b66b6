// tgaot verify: runs a bundle on recorded inputs and compares its outputs with recorded ones.
#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>

#include "base/error.h"
#include "base/settings.h"
#include "ir/eval.h"
#include "tensor_file.h"
#include "tgb.h"
#include "verbs.h"

namespace {

using namespace tg;

struct Args {
  std::string bundle, data;
  f64 rtol = 1e-3, atol = 1e-7, relative_to_largest = -1;
};

bool exists(const std::string& path) {
  struct stat st;
  return stat(path.c_str(), &st) == 0;
}

std::vector<std::string> entries(const std::string& folder) {
  std::vector<std::string> names;
  DIR* d = opendir(folder.c_str());
  if (!d) fail(folder, ": cannot be read as a folder; --data takes one with input_0.npy or input_0.pb, output_0..., or with test_data_set_0 in it");
  while (dirent* e = readdir(d)) names.push_back(e->d_name);
  closedir(d);
  std::sort(names.begin(), names.end());
  return names;
}

// The folders that hold one set of inputs and outputs each: ONNX's test_data_set_*, or the folder itself.
std::vector<std::string> data_sets(const std::string& folder) {
  std::vector<std::string> sets;
  for (const std::string& e : entries(folder))
    if (e.starts_with("test_data_set_")) sets.push_back(folder + "/" + e);
  if (sets.empty()) sets.push_back(folder);
  return sets;
}

// input_<i>.pb, input_<i>.npy or <name>.npy; "" if there is none.
std::string find(const std::string& folder, const char* side, u32 i, const std::string& name) {
  for (const std::string& file : {str(side, "_", i, ".pb"), str(side, "_", i, ".npy"), name + ".npy"})
    if (exists(folder + "/" + file)) return folder + "/" + file;
  return {};
}

struct Model {
  tgb_model* m = nullptr;
  ~Model() { tgb_close(m); }
};

void need(tgb_status status, const tgb_model* m) {
  if (status != TGB_OK) fail(tgb_message(m));
}

tgb_signature signature(const tgb_model* m, bool input, u32 i) {
  tgb_signature s{};
  s.size = sizeof s;
  need(input ? tgb_input(m, i, &s) : tgb_output(m, i, &s), m);
  return s;
}

// tgb_dtype and tgf::Dtype are made of the same rows, in the same order.
DType dtype_of(tgb_dtype d) {
  static_assert(int(TGB_F4E2M1) == int(tgf::Dtype::F4E2M1) && int(TGB_F32) == int(tgf::Dtype::F32));
  return DType(Kind(int(d)));
}

struct Difference {
  i64 bad = 0, worst_at = -1;
  f64 worst = 0, largest = 0;  // largest: of the expected values
};

Difference compare(const Values& got, const Values& want, const Args& a) {
  Difference d;
  for (i64 i = 0; i < want.elems(); ++i)
    if (std::isfinite(want.number(i))) d.largest = std::max(d.largest, std::abs(want.number(i)));
  for (i64 i = 0; i < want.elems(); ++i) {
    f64 g = got.number(i), w = want.number(i), error = std::abs(g - w);
    // Equal bits first: a double does not tell large 64-bit integers apart.
    if (got.v[i] == want.v[i] || (is_float(want.dtype) && ((std::isnan(g) && std::isnan(w)) || g == w))) continue;
    if (!is_float(want.dtype) && error == 0) error = 1;
    f64 allowed = a.relative_to_largest >= 0 ? a.relative_to_largest * d.largest : a.atol + a.rtol * std::abs(w);
    if (!(error <= allowed)) ++d.bad;
    if (!(error <= d.worst)) d.worst = error, d.worst_at = i;
  }
  return d;
}

// Prints a line an output; returns how many outputs differ.
i64 run_set(tgb_model* m, const std::string& folder, const Args& a) {
  u32 n_in = tgb_input_count(m), n_out = tgb_output_count(m);
  std::vector<TensorFile> inputs(n_in);
  std::vector<tgb_tensor> in(n_in), out(n_out);
  for (u32 i = 0; i < n_in; ++i) {
    tgb_signature s = signature(m, true, i);
    std::string file = find(folder, "input", i, s.name);
    if (file.empty()) fail(folder, ": no data for input ", i, " \"", s.name, "\": expected input_", i, ".pb, input_", i, ".npy or ", s.name, ".npy");
    inputs[i] = read_tensor_file(file, tgf::Dtype(s.dtype));
    in[i] = {sizeof(tgb_tensor), s.dtype, inputs[i].bytes.data(), inputs[i].bytes.size(), u32(inputs[i].dims.size()), inputs[i].dims.data(), TGB_HOST, 0};
  }
  for (u32 i = 0; i < n_out; ++i) out[i] = {sizeof(tgb_tensor), signature(m, false, i).dtype, nullptr, 0, 0, nullptr, TGB_HOST, 0};
  need(tgb_run(m, in.data(), n_in, out.data(), n_out), m);

  i64 compared = 0, different = 0;
  for (u32 i = 0; i < n_out; ++i) {
    tgb_signature s = signature(m, false, i);
    std::string file = find(folder, "output", i, s.name);
    if (file.empty()) continue;
    ++compared;
    TensorFile want = read_tensor_file(file, tgf::Dtype(s.dtype));
    std::vector<i64> dims(out[i].dims, out[i].dims + out[i].rank);
    std::string where = str(folder, ": output ", i, " \"", s.name, "\" ", tgb_dtype_name(s.dtype), "[", join(dims), "]");
    if (dims != want.dims) {
      std::printf("%s: shape differs, expected [%s]\n", where.c_str(), join(want.dims).c_str());
      ++different;
      continue;
    }
    DType d = dtype_of(s.dtype);
    Values got = decode(d, dims, {static_cast<const u8*>(out[i].data), out[i].bytes}), expected = decode(d, dims, want.bytes);
    Difference diff = compare(got, expected, a);
    different += diff.bad > 0;
    std::string worst = diff.worst_at < 0 ? "" : str(" at element ", diff.worst_at, " (", got.number(diff.worst_at), ", expected ", expected.number(diff.worst_at), ")");
    std::printf("%s: %s, largest error %.3g%s, largest value %.3g\n", where.c_str(),
                diff.bad ? str(diff.bad, " of ", want.dims.empty() ? 1 : expected.elems(), " elements differ").c_str() : "agrees", diff.worst, worst.c_str(), diff.largest);
  }
  if (!compared) fail(folder, ": no outputs to compare with: expected output_0.pb or output_0.npy");
  return different;
}

void verify(const Args& a) {
  Model model;
  tgb_options o{};
  o.size = sizeof o;
  std::string dev = settings::DEV();
  o.device = dev.empty() ? nullptr : dev.c_str();
  need(tgb_open_file(a.bundle.c_str(), &o, &model.m), nullptr);
  i64 different = 0, sets = 0;
  for (const std::string& folder : data_sets(a.data)) {
    different += run_set(model.m, folder, a);
    ++sets;
    need(tgb_reset(model.m), model.m);
  }
  std::printf("%lld data sets\n", (long long)sets);
  if (different) fail(a.bundle, ": ", different, " outputs differ from ", a.data, " by more than allowed");
}

}  // namespace

void add_verify(CLI::App& app) {
  auto a = std::make_shared<Args>();
  Verb(app, "verify", "compares a bundle's outputs with a data set")
      .required("bundle", &a->bundle, "the .tgb file")
      .required("--data", &a->data, "folder with input_<i> and output_<i> as .pb or .npy, or with ONNX's test_data_set_* folders")
      .option("--rtol", &a->rtol, "allowed: atol + rtol * |expected|")
      .option("--atol", &a->atol, "see --rtol")
      .option("--of-largest", &a->relative_to_largest, "allowed instead: this share of the output's largest value, e.g. 1e-3")
      .run([a] { verify(*a); });
}
