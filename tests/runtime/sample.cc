#include "sample.h"

#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iterator>

namespace sample {

std::vector<u8> file_bytes(const std::string& path) {
  std::ifstream f(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(f), {}};
}

std::string temp_path(const std::string& name) {
  const char* dir = getenv("TMPDIR");
  return std::string(dir ? dir : "/tmp") + "/tgb_test_" + std::to_string(getpid()) + "_" + name;
}

BundleDesc empty() {
  BundleDesc d;
#if defined(__aarch64__)
  d.targets.push_back({"CPU", "CLANG", "arm64,generic", {"arm64"}});
#else
  d.targets.push_back({"CPU", "CLANG", "x86_64,x86-64", {"x86_64", "sse2"}});
#endif
  d.objects.push_back(Bytes::own(file_bytes(KERNELS)));
  d.provenance = {"a test", "sample", "0123", "", "", {}};
  return d;
}

u32 program(BundleDesc& d, const std::string& entry, std::vector<Access> params, u32 ints, u32 target) {
  Program p;
  p.label = entry + " of the test", p.entry = entry, p.target = target, p.params = std::move(params), p.ints = ints;
  d.programs.push_back(std::move(p));
  return u32(d.programs.size()) - 1;
}

u32 constant(BundleDesc& d, const std::string& name, const std::vector<float>& values) {
  std::vector<u8> bytes(values.size() * 4);
  memcpy(bytes.data(), values.data(), bytes.size());
  d.constants.push_back({name, tgf::Dtype::F32, {i64(values.size())}, {}});
  d.constants.back().forms.push_back({tgf::Dtype::F32, "", Bytes::own(std::move(bytes)), false});
  return u32(d.constants.size()) - 1;
}

Signature f32(const std::string& name, std::vector<Dim> dims) { return {name, tgf::Dtype::F32, std::move(dims)}; }
Dim fixed(i64 n) { return {Expr(n), "", -1}; }

Buffer buffer(BufferKind kind, Expr bytes, u32 index, std::vector<u32> lies_on, tgf::Dtype dtype) {
  Buffer b;
  b.kind = kind, b.bytes = std::move(bytes), b.index = index, b.lies_on = std::move(lies_on), b.dtype = dtype;
  return b;
}

Launch launch(u32 program, std::vector<u32> args, std::vector<Expr> ints, Expr tasks) {
  Launch l;
  l.program = program, l.args = std::move(args), l.ints = std::move(ints), l.grid = {tasks};
  return l;
}

std::string write(const BundleDesc& d, const std::string& name, WriteOptions options) {
  std::string path = temp_path(name);
  write_bundle(d, path, options);
  return path;
}

namespace {
std::vector<float> iota(i64 n) {
  std::vector<float> v;
  for (i64 i = 0; i < n; i++) v.push_back(float(i));
  return v;
}
constexpr Access R = Access::Read, W = Access::Write, RW = Access::ReadWrite;
}  // namespace

BundleDesc square_add(i64 n, i64 tasks) {
  BundleDesc d = empty();
  d.inputs = {f32("x", {fixed(n)})}, d.outputs = {f32("y", {fixed(n)})};
  u32 square = program(d, "square", {W, R}, 1), add = program(d, "add", {W, R, R}, 2);
  constant(d, "w", iota(n));
  Variant v;
  v.targets = {0};
  v.buffers = {buffer(BufferKind::Input, 4 * n), buffer(BufferKind::Output, 4 * n, 0, {2}), buffer(BufferKind::Scratch, 4 * n, 0, {0}),
               buffer(BufferKind::Weight, 0, 0)};
  Launch first = launch(square, {2, 0}, {n}), second = launch(add, {1, 2, 3}, {n, tasks}, tasks);
  first.flops = n, first.bytes = 8 * n, second.flops = n, second.bytes = 12 * n;
  v.body.commands = {Batch{0, {first, second}}};
  d.variants = {v};
  return d;
}

BundleDesc free_size() {
  BundleDesc d = empty();
  d.vars = {{"N", 2, 64, 2}};
  Expr n = Expr::var(0);
  d.inputs = {f32("x", {{n, "N", 0}})}, d.outputs = {f32("y", {{n, "N", 0}})};
  u32 square = program(d, "square", {W, R}, 1), add = program(d, "add", {W, R, R}, 2);
  constant(d, "w", iota(64));
  Variant v;
  v.targets = {0};
  v.buffers = {buffer(BufferKind::Input, 4 * n), buffer(BufferKind::Scratch, 4 * n, 0, {0}), buffer(BufferKind::Output, 4 * n, 0, {1}),
               buffer(BufferKind::Weight, 0, 0)};
  v.body.commands = {Batch{0, {launch(square, {1, 0}, {n}), launch(add, {2, 1, 3}, {n, 2}, 2)}}};
  d.variants = {v};
  return d;
}

BundleDesc control() {
  BundleDesc d = empty();
  d.vars = {{"found", 0, 8, 1}, {"rounds", 0, 10, 1}};
  Expr found = Expr::var(0), rounds = Expr::var(1);
  d.inputs = {f32("x", {fixed(8)})}, d.outputs = {f32("y", {{found, "found", 0}}), f32("z", {fixed(4)})};
  u32 count = program(d, "count_positive", {W, R}, 1), compact = program(d, "compact", {W, R}, 1), fill = program(d, "fill", {W}, 2);
  u32 increment = program(d, "increment", {RW}, 1);
  Variant v;
  v.targets = {0};
  v.buffers = {buffer(BufferKind::Input, 32), buffer(BufferKind::Scratch, 8, 0, {0}, tgf::Dtype::I64),
               buffer(BufferKind::Output, 4 * found, 0, {1}), buffer(BufferKind::Output, 16, 1, {2})};
  auto many = std::make_shared<Block>(), few = std::make_shared<Block>(), loop = std::make_shared<Block>();
  many->commands = {Batch{0, {launch(fill, {3}, {4, 100})}}};
  few->commands = {Batch{0, {launch(fill, {3}, {4, 0 - found})}}};
  loop->commands = {Batch{0, {launch(increment, {3}, {4})}}, SetVar{1, rounds - 1}};
  v.body.commands = {Batch{0, {launch(count, {1, 0}, {8})}},          ReadVar{0, 1, 0},
                     Batch{0, {launch(compact, {2, 0}, {8})}},        If{Expr::op(tgf::ExprOp::Lt, 5, found), many, few},
                     SetVar{1, Expr::op(tgf::ExprOp::Min, found, 3)}, While{Expr::op(tgf::ExprOp::Lt, 0, rounds), loop, 10}};
  d.variants = {v};
  return d;
}

BundleDesc state() {
  BundleDesc d = empty();
  d.inputs = {f32("x", {fixed(4)})}, d.outputs = {f32("y", {fixed(4)})};
  constant(d, "first", {5, 5, 5, 5});
  d.states = {{"past", "present", tgf::Dtype::F32, 16, 0}};
  u32 add = program(d, "add", {RW, R, R}, 2);
  Variant v;
  v.targets = {0};
  v.buffers = {buffer(BufferKind::Input, 16), buffer(BufferKind::Output, 16, 0, {0}), buffer(BufferKind::State, 16, 0)};
  v.body.commands = {Batch{0, {launch(add, {2, 0, 2}, {4, 1}), Copy{2, 0, 1, 0, 16}}}};
  d.variants = {v};
  return d;
}

Model::Model(const std::string& path, tgb_options options) {
  options.size = sizeof options;
  status = tgb_open_file(path.c_str(), &options, &m);
}

tgb_status Model::run(const std::vector<tgb_tensor>& in, std::vector<tgb_tensor>& out) {
  return tgb_run(m, in.data(), u32(in.size()), out.data(), u32(out.size()));
}

}  // namespace sample
