// write_bundle and read_bundle: same description, same bytes; what was written is read back; a file appears whole or not at all.
#include "bundle/bundle.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "formats/bundle_generated.h"
#include "formats/header.h"

namespace tg::bundle {
namespace {

namespace fs = std::filesystem;

struct Folder {
  std::string path = (fs::temp_directory_path() /
                      ("tg_bundle_" + std::to_string(getpid()) + "_" + testing::UnitTest::GetInstance()->current_test_info()->name()))
                         .string();
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
  std::string file(const std::string& name) const { return path + "/" + name; }
};

std::vector<u8> bytes_of(const std::string& path) {
  std::ifstream f(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(f), {}};
}
std::vector<u8> pattern(size_t n, u8 seed) {
  std::vector<u8> v(n);
  for (size_t i = 0; i < n; i++) v[i] = u8(i * 7 + seed);
  return v;
}
std::span<const u8> view(const Bytes& b) { return b.borrowed; }

// Something of everything that a bundle can hold.
BundleDesc everything() {
  BundleDesc d;
  d.vars = {{"N", 1, 64, 2}, {"found", 0, 100, 1}};
  Expr n = Expr::var(0), found = Expr::var(1);
  d.inputs = {{"x", tgf::Dtype::F32, {{n, "N", 0}, {3, "", -1}}}};
  d.outputs = {{"y", tgf::Dtype::F16, {{n * 2 + 1, "2*N+1", -1}}}};
  d.states = {{"past", "present", tgf::Dtype::F32, 40, 0}};
  d.constants.push_back({"w", tgf::Dtype::F32, {10}, {}});
  d.constants.back().forms.push_back({tgf::Dtype::F32, "", Bytes::own(pattern(40, 1)), false});
  Form derived;
  derived.layout = "(a/4, a%4)", derived.derived = true, derived.bytes.size = 48;
  d.constants.back().forms.push_back(derived);
  d.constants.push_back({"big", tgf::Dtype::U8, {70000}, {}});
  d.constants.back().forms.push_back({tgf::Dtype::U8, "packed",
                                      Bytes::lazy(70000,
                                                  [](std::span<u8> out) {
                                                    auto p = pattern(70000, 9);
                                                    std::copy(p.begin(), p.end(), out.begin());
                                                  }),
                                      false});
  d.targets = {{"CPU", "LLVM", "x86_64,znver4", {"x86_64", "avx2"}}, {"CL", "OPENCL", "", {}}};
  d.objects = {Bytes::own(pattern(1000, 3)), Bytes::own(pattern(77, 4))};
  d.programs = {{"first kernel", "k0", 0, ProgramKind::ElfObject, 0, {Access::Write, Access::Read}, 1, 0},
                {"second kernel", "k1", 0, ProgramKind::ElfObject, 0, {Access::ReadWrite}, 0, 256},
                {"third", "k2", 1, ProgramKind::OpenCLSource, 1, {Access::Write}, 2, 0}};
  Variant v;
  v.targets = {0, 1};
  v.bounds = {{0, 1, 32}};
  v.buffers.resize(5);
  v.buffers[0].kind = BufferKind::Input, v.buffers[0].bytes = n * 12, v.buffers[0].align = 4;
  v.buffers[1].kind = BufferKind::Output, v.buffers[1].bytes = (n * 2 + 1) * 2, v.buffers[1].lies_on = {0};
  v.buffers[2].kind = BufferKind::Weight, v.buffers[2].form = 1;
  v.buffers[3].kind = BufferKind::State, v.buffers[3].bytes = 40;
  v.buffers[4].bytes = 64, v.buffers[4].device = 1, v.buffers[4].image = Image{8, 2, tgf::Dtype::F16};
  Launch a;
  a.program = 0, a.args = {1, 0}, a.ints = {n}, a.grid = {n}, a.flops = n * 6, a.bytes = n * 18;
  Launch c;
  c.program = 2, c.args = {4}, c.ints = {1, -5000000000}, c.grid = {4, 2, 1}, c.block = {16, 1, 1};
  auto body = std::make_shared<Block>(), otherwise = std::make_shared<Block>();
  body->commands = {SetVar{1, found - 1}};
  otherwise->commands = {Batch{1, {c}}};
  v.body.commands = {Batch{0, {a, Copy{0, 0, 1, 2, n}}}, ReadVar{1, 3, 8}, If{Expr::op(tgf::ExprOp::Lt, found, 5), body, otherwise},
                     While{found, body, 1000}};
  v.body.commands.resize(4);
  v.buffers[3].dtype = tgf::Dtype::I32;
  v.prepare = Block{{Batch{0, {Copy{3, 0, 2, 0, 40}}}}};
  v.unmeasured = true, v.note = "a note";
  d.variants = {v};
  d.portable = Portable{pattern(5000, 5), {{0, pattern(300, 6)}, {1, pattern(3, 7)}}};
  d.provenance = {"tgaot test", "model", "abcdef", "MIT", "k0 UPCAST", {{"BEAM", "0"}, {"NOOPT", "1"}}};
  d.tests.push_back({"t", {{Bytes::own(pattern(24, 8)), {2, 3}}}, {{Bytes::own(pattern(10, 9)), {5}}}, 1e-6, 1e-3});
  return d;
}

TEST(Write, SameDescriptionSameBytes) {
  Folder f;
  write_bundle(everything(), f.file("a.tgb"));
  write_bundle(everything(), f.file("b.tgb"));
  EXPECT_EQ(bytes_of(f.file("a.tgb")), bytes_of(f.file("b.tgb")));
  write_bundle(everything(), f.file("c.tgb"), {true});
  write_bundle(everything(), f.file("d.tgb"), {true});
  EXPECT_EQ(bytes_of(f.file("c.tgb")), bytes_of(f.file("d.tgb")));
}

TEST(Write, ReadAndWrittenAgainIsTheSameFile) {
  Folder f;
  for (bool compress : {false, true}) {
    write_bundle(everything(), f.file("a.tgb"), {compress});
    Loaded l = read_bundle(f.file("a.tgb"));
    write_bundle(l.desc, f.file("b.tgb"), {compress});
    EXPECT_EQ(bytes_of(f.file("a.tgb")), bytes_of(f.file("b.tgb")));
  }
}

TEST(Write, SegmentsAndConstantsAreAligned) {
  Folder f;
  WriteStats stats = write_bundle(everything(), f.file("a.tgb"));
  std::vector<u8> b = bytes_of(f.file("a.tgb"));
  EXPECT_EQ(stats.file_bytes, b.size());
  tgf::Header h;
  memcpy(&h, b.data(), sizeof h);
  EXPECT_EQ(0, memcmp(h.magic, "\x89TGB\r\n\x1a\n", 8));
  auto* bundle = tgf::fb::GetBundle(b.data() + h.meta_offset);
  for (auto* s : *bundle->segments()) EXPECT_EQ(s->offset() % 16384, 0u);
  for (auto* c : *bundle->constants())
    for (auto* form : *c->forms()) EXPECT_EQ(form->offset() % 256, 0u);
  auto* big = bundle->constants()->Get(1)->forms()->Get(0);
  u64 at = bundle->segments()->Get(u32(big->segment()))->offset() + big->offset();
  EXPECT_TRUE(std::equal(b.begin() + long(at), b.begin() + long(at) + 70000, pattern(70000, 9).begin()));
}

TEST(Write, FeaturesSayWhatAReaderMustKnow) {
  Folder f;
  write_bundle(everything(), f.file("a.tgb"));
  EXPECT_EQ(read_bundle(f.file("a.tgb")).features, u64(tgf::kControlFlow | tgf::kDerivedForms | tgf::kSourcePrograms | tgf::kImages));
  write_bundle(everything(), f.file("a.tgb"), {true});
  EXPECT_EQ(read_bundle(f.file("a.tgb")).features, u64(31));
  write_bundle({}, f.file("empty.tgb"));
  EXPECT_EQ(read_bundle(f.file("empty.tgb")).features, 0u);
}

TEST(Write, AppearsWholeOrNotAtAll) {
  Folder f;
  write_bundle(everything(), f.file("a.tgb"));
  std::vector<u8> before = bytes_of(f.file("a.tgb"));
  BundleDesc d = everything();
  d.constants[1].forms[0].bytes = Bytes::lazy(70000, [](std::span<u8>) { fail("the constant cannot be made"); });
  EXPECT_THROW(write_bundle(d, f.file("a.tgb")), Error);
  EXPECT_EQ(bytes_of(f.file("a.tgb")), before);
  EXPECT_EQ(std::distance(fs::directory_iterator(f.path), fs::directory_iterator()), 1);
  EXPECT_THROW(write_bundle(everything(), f.file("missing/a.tgb")), Error);
}

TEST(Read, GivesBackWhatWasWritten) {
  Folder f;
  write_bundle(everything(), f.file("a.tgb"));
  Loaded l = read_bundle(f.file("a.tgb"));
  const BundleDesc& d = l.desc;
  EXPECT_EQ(l.min_runtime, 1u);
  EXPECT_EQ(d.vars[0].name, "N");
  EXPECT_EQ(d.vars[0].multiple, 2);
  EXPECT_EQ(d.outputs[0].dims[0].name, "2*N+1");
  EXPECT_EQ(d.outputs[0].dims[0].size.most, 129);  // 2 * 64 + 1
  EXPECT_EQ(d.states[0].output, "present");
  EXPECT_EQ(d.constants[0].forms[1].derived, true);
  EXPECT_EQ(d.constants[0].forms[1].bytes.size, 48u);
  EXPECT_TRUE(std::ranges::equal(view(d.constants[0].forms[0].bytes), pattern(40, 1)));
  EXPECT_EQ(d.targets[0].needs, (std::vector<std::string>{"x86_64", "avx2"}));
  EXPECT_EQ(d.objects.size(), 2u);
  EXPECT_EQ(d.programs[1].object, 0u);
  EXPECT_EQ(d.programs[2].entry, "k2");
  EXPECT_TRUE(std::ranges::equal(view(d.objects[1]), pattern(77, 4)));
  const Variant& v = d.variants[0];
  EXPECT_EQ(v.buffers[0].bytes.most, 12 * 32);  // at the variant's own upper bound
  EXPECT_EQ(v.buffers[1].lies_on, (std::vector<u32>{0}));
  EXPECT_EQ(v.buffers[4].image->width.value, 8);
  const Launch& c = std::get<Launch>(std::get<Batch>(std::get<If>(v.body.commands[2]).otherwise->commands[0]).steps[0]);
  EXPECT_EQ(c.ints[1].value, -5000000000);
  EXPECT_EQ(c.block, (std::vector<u32>{16, 1, 1}));
  EXPECT_EQ(std::get<While>(v.body.commands[3]).most, 1000u);
  EXPECT_TRUE(v.prepare.has_value());
  EXPECT_EQ(d.portable->graph, pattern(5000, 5));
  EXPECT_EQ(d.portable->kernels[1].bytes, pattern(3, 7));
  EXPECT_EQ(d.provenance.settings[1].key, "NOOPT");
  EXPECT_EQ(d.tests[0].relative, 1e-3);
  EXPECT_EQ(d.tests[0].outputs[0].dims, (std::vector<i64>{5}));
}

TEST(Read, DamageIsAnErrorThatNamesTheFile) {
  Folder f;
  write_bundle(everything(), f.file("a.tgb"));
  std::vector<u8> b = bytes_of(f.file("a.tgb"));
  for (size_t at : {size_t(3), size_t(20), size_t(100), b.size() - 5}) {
    std::vector<u8> bad = b;
    bad[at] ^= 4;
    std::ofstream(f.file("bad.tgb"), std::ios::binary).write(reinterpret_cast<const char*>(bad.data()), long(bad.size()));
    try {
      read_bundle(f.file("bad.tgb"));
      ADD_FAILURE() << "byte " << at << " was not missed";
    } catch (const Error& e) { EXPECT_EQ(std::string(e.what()).find(f.file("bad.tgb")), 0u) << e.what(); }
  }
}

// ---- memory

TEST(Arena, BuffersLieUponTheEndsOfOthers) {
  Variant v;
  v.targets = {0};
  v.buffers.resize(4);
  for (Buffer& b : v.buffers) b.bytes = 100;
  v.buffers[1].lies_on = {0};
  v.buffers[2].lies_on = {0, 1}, v.buffers[2].bytes = 10;
  v.buffers[3].align = 4096, v.buffers[3].lies_on = {2};
  Arena a = plan_arena(v, {}, 0);
  EXPECT_EQ(a.offsets, (std::vector<i64>{0, 128, 256, 4096}));
  EXPECT_EQ(a.bytes, 4196);
}

TEST(Arena, BuffersMayComeInAnyOrder) {
  Folder f;
  BundleDesc d;
  d.outputs = {{"y", tgf::Dtype::F32, {{25, "", -1}}}};
  d.targets = {{"CPU", "", "", {}}};
  Variant v;
  v.targets = {0};
  v.buffers.resize(3);
  for (Buffer& b : v.buffers) b.bytes = 100;
  v.buffers[0].lies_on = {2}, v.buffers[0].kind = BufferKind::Output;
  v.buffers[1].lies_on = {0};
  v.body.commands = {Batch{0, {Copy{2, 0, 0, 0, 100}}}};
  EXPECT_EQ(plan_arena(v, {}, 0).offsets, (std::vector<i64>{128, 256, 0}));
  d.variants = {v};
  write_bundle(d, f.file("a.tgb"));
  Variant r = read_bundle(f.file("a.tgb")).desc.variants[0];
  EXPECT_EQ(plan_arena(r, {}, 0).offsets, (std::vector<i64>{0, 128, 256}));
  EXPECT_EQ(r.buffers[1].kind, BufferKind::Output);
  const Copy& c = std::get<Copy>(std::get<Batch>(r.body.commands[0]).steps[0]);
  EXPECT_EQ(c.from, 0u);
  EXPECT_EQ(c.to, 1u);
}

// ---- expressions

i64 value(const Expr& e, std::vector<i64> vars = {}) {
  if (e.is_constant()) return e.value;
  i64 v = 0;
  EXPECT_TRUE(tgf::expr_valid(e.code.data(), e.code.size(), u32(vars.size())));
  EXPECT_TRUE(tgf::expr_eval(e.code.data(), e.code.size(), vars.data(), &v));
  return v;
}

TEST(Expr, ConstantsFold) {
  EXPECT_TRUE((Expr(3) * 4 + 5).is_constant());
  EXPECT_EQ((Expr(3) * 4 + 5).value, 17);
  EXPECT_FALSE((Expr::var(0) * 4).is_constant());
}

TEST(Expr, EveryOpByHand) {
  using Op = tgf::ExprOp;
  struct Case {
    Op op;
    i64 a, b, want;
  };
  const Case cases[] = {{Op::Add, 2, 3, 5},        {Op::Sub, 2, 3, -1},       {Op::Mul, -4, 3, -12},   {Op::FloorDiv, 7, 2, 3},
                        {Op::FloorDiv, -7, 2, -4}, {Op::FloorDiv, 7, -2, -4}, {Op::FloorMod, 7, 3, 1}, {Op::FloorMod, -7, 3, 2},
                        {Op::FloorMod, 7, -3, -2}, {Op::Min, 1, -1, -1},      {Op::Max, 1, -1, 1},     {Op::Lt, 1, 2, 1},
                        {Op::Lt, 2, 2, 0},         {Op::Le, 2, 2, 1},         {Op::Eq, 2, 3, 0},       {Op::Ne, 2, 3, 1},
                        {Op::And, 6, 3, 2},        {Op::Or, 6, 3, 7},         {Op::Xor, 6, 3, 5},      {Op::Shl, 3, 4, 48},
                        {Op::Shr, -16, 2, -4}};
  for (const Case& c : cases) {
    EXPECT_EQ(value(Expr::op(c.op, Expr::var(0), Expr::var(1)), {c.a, c.b}), c.want) << int(c.op);
    EXPECT_EQ(value(Expr::op(c.op, c.a, c.b)), c.want) << int(c.op);
  }
  EXPECT_EQ(value(Expr::select(Expr::var(0), 10, 20), {1}), 10);
  EXPECT_EQ(value(Expr::select(Expr::var(0), 10, 20), {0}), 20);
  EXPECT_EQ(value(Expr::var(0) + 1000000007, {5}), 1000000012);
}

TEST(Expr, OverflowAndDivisionByZeroAreFailures) {
  i64 v, big = INT64_MAX;
  auto fails = [&](const Expr& e, std::vector<i64> vars) { return !tgf::expr_eval(e.code.data(), e.code.size(), vars.data(), &v); };
  using Op = tgf::ExprOp;
  EXPECT_TRUE(fails(Expr::var(0) + 1, {big}));
  EXPECT_TRUE(fails(Expr::var(0) * 2, {big}));
  EXPECT_TRUE(fails(Expr::op(Op::Sub, Expr::var(0), 1), {INT64_MIN}));
  EXPECT_TRUE(fails(Expr::op(Op::FloorDiv, 1, Expr::var(0)), {0}));
  EXPECT_TRUE(fails(Expr::op(Op::FloorDiv, Expr::var(0), -1), {INT64_MIN}));
  EXPECT_TRUE(fails(Expr::op(Op::FloorMod, 1, Expr::var(0)), {0}));
  EXPECT_TRUE(fails(Expr::op(Op::Shl, Expr::var(0), 62), {2}));
  EXPECT_TRUE(fails(Expr::op(Op::Shl, 1, Expr::var(0)), {63}));
}

TEST(Expr, MalformedCodeIsRefused) {
  auto valid = [](std::vector<u8> code, u32 vars = 1) { return tgf::expr_valid(code.data(), code.size(), vars); };
  EXPECT_TRUE(valid({1, 5}));
  EXPECT_TRUE(valid({3, 0, 0}));
  EXPECT_FALSE(valid({}));
  EXPECT_FALSE(valid({1}));           // operand missing
  EXPECT_FALSE(valid({2, 0, 0, 0}));  // operand cut
  EXPECT_FALSE(valid({3, 1, 0}));     // no such variable
  EXPECT_FALSE(valid({4}));           // nothing on the stack
  EXPECT_FALSE(valid({1, 5, 4}));     // one value for two
  EXPECT_FALSE(valid({1, 5, 1, 6}));  // two values left
  EXPECT_FALSE(valid({0, 1, 5}));
  EXPECT_FALSE(valid({99}));
  std::vector<u8> deep;
  for (int i = 0; i < 33; i++) deep.insert(deep.end(), {1, 1});
  for (int i = 0; i < 32; i++) deep.push_back(4);
  EXPECT_FALSE(valid(deep));  // 33 values at once
}

}  // namespace
}  // namespace tg::bundle
