// What runtime-lite promises in tgb.h, one fact a test. Expected values are computed by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "sample.h"

// Every allocation of this process goes through here, so that a test can see whether a run allocates.
static long g_allocations;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which have a malloc of their own
extern "C" void* __libc_malloc(size_t);
extern "C" void* __libc_memalign(size_t, size_t);
extern "C" void* malloc(size_t n) {
  __atomic_fetch_add(&g_allocations, 1, __ATOMIC_RELAXED);
  return __libc_malloc(n);
}
extern "C" int posix_memalign(void** out, size_t align, size_t n) {
  __atomic_fetch_add(&g_allocations, 1, __ATOMIC_RELAXED);
  *out = __libc_memalign(align, n);
  return *out ? 0 : 12;
}
#endif

namespace sample {
namespace {

std::vector<tgb_tensor> nowhere(size_t n) {  // outputs that the model shows in its own memory
  std::vector<tgb_tensor> v(n);
  for (auto& t : v) t = {}, t.size = sizeof t;
  return v;
}
std::vector<float> floats(const tgb_tensor& t) {
  auto* p = static_cast<const float*>(t.data);
  return {p, p + t.bytes / 4};
}
testing::AssertionResult says(const Model& m, tgb_status got, tgb_status want, const std::string& words) {
  std::string message = tgb_message(m.m);
  if (got != want) return testing::AssertionFailure() << "status " << got << ", expected " << want << ": " << message;
  if (message.find(words) == std::string::npos) return testing::AssertionFailure() << "'" << message << "' does not say '" << words << "'";
  if (message.find('\n') != std::string::npos) return testing::AssertionFailure() << "more than one line: " << message;
  return testing::AssertionSuccess();
}

struct File {  // a bundle that is removed with the test
  std::string path;
  File(const BundleDesc& d, WriteOptions o = {})
      : path(write(d, std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) + ".tgb", o)) {}
  ~File() { remove(path.c_str()); }
};

TEST(Run, TwoKernelsAndAWeight) {
  File f(square_add(5));
  Model m(f.path);
  ASSERT_EQ(m.status, TGB_OK) << tgb_message(nullptr);
  std::vector<float> x = {1, 2, 3, -4, 0.5f}, y(5);
  std::vector<int64_t> dims = {5};
  std::vector<tgb_tensor> out = {tensor(TGB_F32, y, dims)};
  ASSERT_EQ(m.run({tensor(TGB_F32, x, dims)}, out), TGB_OK) << tgb_message(m.m);
  EXPECT_EQ(y, (std::vector<float>{1, 5, 11, 19, 4.25f}));
}

TEST(Run, EveryJitModeAndThreadCountGivesTheSame) {
  File f(square_add(1000, 16));
  std::vector<float> x(1000), expected;
  for (int i = 0; i < 1000; i++) x[i] = float(i % 37) - 9.5f, expected.push_back(x[i] * x[i] + float(i));
  for (tgb_jit jit : {TGB_JIT_OFF, TGB_JIT_GRAPH, TGB_JIT_BATCH})
    for (uint32_t threads : {1u, 2u, 3u, 7u}) {
      tgb_options o = {};
      o.jit = jit, o.threads = threads;
      Model m(f.path, o);
      ASSERT_EQ(m.status, TGB_OK) << tgb_message(nullptr);
      std::vector<float> y(1000);
      std::vector<int64_t> dims = {1000};
      std::vector<tgb_tensor> out = {tensor(TGB_F32, y, dims)};
      for (int k = 0; k < 20; k++) {
        std::fill(y.begin(), y.end(), -1.f);
        ASSERT_EQ(m.run({tensor(TGB_F32, x, dims)}, out), TGB_OK);
        ASSERT_EQ(y, expected);
      }
    }
}

TEST(Run, OutputWithoutAPlaceIsShownInTheModelsMemory) {
  File f(square_add(3));
  Model m(f.path);
  std::vector<float> x = {1, 2, 3};
  std::vector<int64_t> dims = {3};
  auto out = nowhere(1);
  ASSERT_EQ(m.run({tensor(TGB_F32, x, dims)}, out), TGB_OK);
  EXPECT_EQ(floats(out[0]), (std::vector<float>{1, 5, 11}));
  EXPECT_EQ(out[0].rank, 1u);
  EXPECT_EQ(out[0].dims[0], 3);
  EXPECT_EQ(out[0].dtype, TGB_F32);
}

TEST(Run, MemoryAtOddAddressesIsCopied) {
  File f(square_add(4));
  Model m(f.path);
  alignas(64) char room[256];
  float* x = reinterpret_cast<float*>(room + 4);
  float* y = reinterpret_cast<float*>(room + 132);
  for (int i = 0; i < 4; i++) x[i] = float(i + 1);
  int64_t dims[] = {4};
  tgb_tensor in = {sizeof in, TGB_F32, x, 16, 1, dims, TGB_HOST, 0}, out = {sizeof out, TGB_F32, y, 16, 1, dims, TGB_HOST, 0};
  ASSERT_EQ(tgb_run(m.m, &in, 1, &out, 1), TGB_OK);
  EXPECT_EQ((std::vector<float>{y[0], y[1], y[2], y[3]}), (std::vector<float>{1, 5, 11, 19}));
}

TEST(Run, LoaderResolvesTablesDataCallsAndJumps) {
  BundleDesc d = empty();
  d.outputs = {{"y", tgf::Dtype::F64, {fixed(12)}}};
  u32 p = program(d, "loader", {Access::Write}, 4);
  Variant v;
  v.targets = {0};
  v.buffers = {buffer(BufferKind::Output, 96, 0, {}, tgf::Dtype::F64)};
  v.body.commands = {Batch{0, {launch(p, {0}, {10, 1, 3, 3})}}};
  d.variants = {v};
  File f(d);
  Model m(f.path);
  ASSERT_EQ(m.status, TGB_OK) << tgb_message(nullptr);
  auto out = nowhere(1);
  ASSERT_EQ(m.run({}, out), TGB_OK);
  auto* y = static_cast<const double*>(out[0].data);
  // table + 10, the first three moved up by one; then memset's zero, two counters, y[2] * y[3].
  EXPECT_EQ((std::vector<double>(y, y + 12)),
            (std::vector<double>{11.5, 11.5, 12.5, 14.5, 26.5, 11.5, 12.5, 14.5, 0, 7, 100, 12.5 * 14.5}));
  ASSERT_EQ(m.run({}, out), TGB_OK);
  y = static_cast<const double*>(out[0].data);
  EXPECT_EQ(y[9], 8);
  EXPECT_EQ(y[10], 101);
}

TEST(Run, ThreadsShareUnevenTasks) {
  BundleDesc d = empty();
  d.outputs = {{"y", tgf::Dtype::I64, {fixed(64)}}};
  u32 p = program(d, "uneven", {Access::Write}, 0);
  Variant v;
  v.targets = {0};
  v.buffers = {buffer(BufferKind::Output, 512, 0, {}, tgf::Dtype::I64)};
  Batch b{0, {}};
  for (int i = 0; i < 20; i++) b.steps.push_back(launch(p, {0}, {}, 64));
  v.body.commands = {b};
  d.variants = {v};
  File f(d);
  tgb_options o = {};
  o.threads = 4;
  Model m(f.path, o);
  for (int k = 0; k < 30; k++) {
    auto out = nowhere(1);
    ASSERT_EQ(m.run({}, out), TGB_OK);
    for (int64_t i = 0; i < 64; i++) ASSERT_EQ(static_cast<const int64_t*>(out[0].data)[i], 3 * i);
    if (k == 15) std::this_thread::sleep_for(std::chrono::milliseconds(20));  // long enough for workers to fall asleep
  }
}

// ---- variables

TEST(Variables, SizesComeFromTheInputs) {
  File f(free_size());
  Model m(f.path);
  ASSERT_EQ(m.status, TGB_OK) << tgb_message(nullptr);
  for (int64_t n : {2, 64, 10, 10, 4}) {
    std::vector<float> x(n, 3), expected;
    for (int64_t i = 0; i < n; i++) expected.push_back(9.f + float(i));
    std::vector<int64_t> dims = {n};
    auto out = nowhere(1);
    ASSERT_EQ(m.run({tensor(TGB_F32, x, dims)}, out), TGB_OK) << tgb_message(m.m);
    EXPECT_EQ(floats(out[0]), expected);
    int64_t shape[4];
    uint32_t rank = 4;
    ASSERT_EQ(tgb_output_shape(m.m, 0, shape, &rank), TGB_OK);
    EXPECT_EQ(rank, 1u);
    EXPECT_EQ(shape[0], n);
  }
}

TEST(Variables, BoundsAndMultiplesAreKept) {
  File f(free_size());
  Model m(f.path);
  for (int64_t n : {0, 3, 66}) {
    std::vector<float> x(n + 1);
    x.resize(n);
    std::vector<int64_t> dims = {n};
    auto out = nowhere(1);
    EXPECT_TRUE(says(m, m.run({tensor(TGB_F32, x, dims)}, out), TGB_BAD_ARGUMENT, "allowed are multiples of 2 from 2 to 64")) << n;
  }
}

TEST(Variables, SignatureNamesThem) {
  File f(free_size());
  Model m(f.path);
  tgb_signature s = {};
  s.size = sizeof s;
  ASSERT_EQ(tgb_input(m.m, 0, &s), TGB_OK);
  EXPECT_STREQ(s.name, "x");
  EXPECT_EQ(s.dims[0], 64);
  EXPECT_STREQ(s.vars[0], "N");
  tgb_var v = {};
  v.size = sizeof v;
  ASSERT_EQ(tgb_variable(m.m, 0, &v), TGB_OK);
  EXPECT_STREQ(v.name, "N");
  EXPECT_EQ(v.multiple, 2);
}

TEST(Variables, VariantIsChosenBySize) {
  BundleDesc d = free_size();
  d.variants.push_back(d.variants[0]);
  d.variants[0].bounds = {{0, 2, 8}};
  u32 fill = program(d, "fill", {Access::Write}, 2);
  d.variants[0].body.commands = {Batch{0, {launch(fill, {2}, {Expr::var(0), -1})}}};  // the small variant answers -1
  File f(d);
  Model m(f.path);
  ASSERT_EQ(m.status, TGB_OK) << tgb_message(nullptr);
  for (int64_t n : {8, 10, 2, 64}) {
    std::vector<float> x(n, 1);
    std::vector<int64_t> dims = {n};
    auto out = nowhere(1);
    ASSERT_EQ(m.run({tensor(TGB_F32, x, dims)}, out), TGB_OK) << tgb_message(m.m);
    EXPECT_EQ(floats(out[0])[1], n <= 8 ? -1.f : 2.f);
  }
}

// ---- control flow

TEST(Control, ReadVarIfWhile) {
  File f(control());
  Model m(f.path);
  ASSERT_EQ(m.status, TGB_OK) << tgb_message(nullptr);
  std::vector<int64_t> dims = {8};
  std::vector<float> x = {-1, 2, 3, -4, 5, 0, -7, -8};
  auto out = nowhere(2);
  ASSERT_EQ(m.run({tensor(TGB_F32, x, dims)}, out), TGB_OK) << tgb_message(m.m);
  EXPECT_EQ(floats(out[0]), (std::vector<float>{2, 3, 5}));
  EXPECT_EQ(floats(out[1]), (std::vector<float>{0, 0, 0, 0}));  // -3, then three rounds of +1
  x = {1, 2, 3, 4, 5, 6, 7, -8};
  out = nowhere(2);
  ASSERT_EQ(m.run({tensor(TGB_F32, x, dims)}, out), TGB_OK);
  EXPECT_EQ(floats(out[0]), (std::vector<float>{1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(floats(out[1]), (std::vector<float>{103, 103, 103, 103}));
  x.assign(8, -1);
  out = nowhere(2);
  ASSERT_EQ(m.run({tensor(TGB_F32, x, dims)}, out), TGB_OK);
  EXPECT_EQ(out[0].bytes, 0u);
  EXPECT_EQ(out[0].dims[0], 0);
}

TEST(Control, EndlessLoopIsAnError) {
  BundleDesc d = control();
  std::get<While>(d.variants[0].body.commands[5]).body->commands.pop_back();  // `rounds` no longer changes
  File f(d);
  Model m(f.path);
  std::vector<float> x(8, 1);
  std::vector<int64_t> dims = {8};
  auto out = nowhere(2);
  EXPECT_TRUE(says(m, m.run({tensor(TGB_F32, x, dims)}, out), TGB_BAD_ARGUMENT, "more than 10 rounds"));
}

// ---- memory

TEST(Memory, InputThatTheModelWritesIsCopiedFirst) {
  BundleDesc d = empty();
  d.inputs = {f32("x", {fixed(4)})}, d.outputs = {f32("y", {fixed(4)})};
  u32 p = program(d, "increment", {Access::ReadWrite}, 1);
  Variant v;
  v.targets = {0};
  v.buffers = {buffer(BufferKind::Input, 16), buffer(BufferKind::Output, 16, 0, {0})};
  v.body.commands = {Batch{0, {launch(p, {0}, {4}), Copy{0, 0, 1, 0, 16}}}};
  d.variants = {v};
  File f(d);
  Model m(f.path);
  alignas(64) float x[4] = {1, 2, 3, 4}, y[4] = {};
  int64_t dims[] = {4};
  tgb_tensor in = {sizeof in, TGB_F32, x, 16, 1, dims, TGB_HOST, 0}, out = {sizeof out, TGB_F32, y, 16, 1, dims, TGB_HOST, 0};
  for (int k = 0; k < 2; k++) {
    ASSERT_EQ(tgb_run(m.m, &in, 1, &out, 1), TGB_OK);
    EXPECT_EQ(x[0], 1);
    EXPECT_EQ(y[0], 2);
    EXPECT_EQ(y[3], 5);
  }
}

TEST(Memory, OutputMayLieOnItsInput) {
  File f(square_add(4));
  Model m(f.path);
  alignas(64) float x[4] = {1, 2, 3, 4};
  int64_t dims[] = {4};
  tgb_tensor t = {sizeof t, TGB_F32, x, 16, 1, dims, TGB_HOST, 0}, out = t;
  ASSERT_EQ(tgb_run(m.m, &t, 1, &out, 1), TGB_OK);
  EXPECT_EQ(x[3], 19);
}

TEST(Memory, BoundOnceRunOften) {
  BundleDesc d = empty();
  d.inputs = {f32("a", {fixed(4)}), f32("b", {fixed(4)})}, d.outputs = {f32("y", {fixed(4)})};
  u32 p = program(d, "add", {Access::Write, Access::Read, Access::Read}, 2);
  Variant v;
  v.targets = {0};
  v.buffers = {buffer(BufferKind::Input, 16), buffer(BufferKind::Input, 16, 1, {0}), buffer(BufferKind::Output, 16, 0, {1})};
  v.body.commands = {Batch{0, {launch(p, {2, 0, 1}, {4, 1})}}};
  d.variants = {v};
  File f(d);
  Model m(f.path);
  alignas(64) float x[4] = {1, 2, 3, 4}, y[4] = {};
  int64_t dims[] = {4};
  tgb_tensor t = {sizeof t, TGB_F32, x, 16, 1, dims, TGB_HOST, 0}, out = {sizeof t, TGB_F32, y, 16, 1, dims, TGB_HOST, 0};
  EXPECT_TRUE(says(m, tgb_run(m.m, nullptr, 0, nullptr, 0), TGB_BAD_ARGUMENT, "input 'a' is neither given nor bound"));
  ASSERT_EQ(tgb_bind(m.m, TGB_INPUT, 0, &t), TGB_OK);
  ASSERT_EQ(tgb_bind(m.m, TGB_INPUT, 1, &t), TGB_OK);  // the same memory twice
  ASSERT_EQ(tgb_bind(m.m, TGB_OUTPUT, 0, &out), TGB_OK);
  ASSERT_EQ(tgb_run(m.m, nullptr, 0, nullptr, 0), TGB_OK);
  EXPECT_EQ(y[3], 8);
  x[3] = 10;
  ASSERT_EQ(tgb_run(m.m, nullptr, 0, nullptr, 0), TGB_OK);
  EXPECT_EQ(y[3], 20);
  ASSERT_EQ(tgb_bind(m.m, TGB_INPUT, 1, nullptr), TGB_OK);
  EXPECT_TRUE(says(m, tgb_run(m.m, nullptr, 0, nullptr, 0), TGB_BAD_ARGUMENT, "input 'b' is neither given nor bound"));
}

TEST(Memory, StateLivesFromRunToRunAndResets) {
  File f(state());
  Model m(f.path);
  ASSERT_EQ(m.status, TGB_OK) << tgb_message(nullptr);
  std::vector<float> x = {1, 2, 3, 4};
  std::vector<int64_t> dims = {4};
  for (int round = 0; round < 2; round++) {
    auto out = nowhere(1);
    ASSERT_EQ(m.run({tensor(TGB_F32, x, dims)}, out), TGB_OK);
    EXPECT_EQ(floats(out[0]), (std::vector<float>{6, 7, 8, 9}));
    ASSERT_EQ(m.run({tensor(TGB_F32, x, dims)}, out), TGB_OK);
    EXPECT_EQ(floats(out[0]), (std::vector<float>{7, 9, 11, 13}));
    ASSERT_EQ(tgb_reset(m.m), TGB_OK);
  }
}

TEST(Memory, DerivedWeightsArePreparedAtOpen) {
  BundleDesc d = square_add(4);
  Form derived;
  derived.derived = true, derived.bytes.size = 16;
  d.constants[0].forms.push_back(derived);
  Buffer b = buffer(BufferKind::Weight, 0, 0);
  b.form = 1;
  d.variants[0].buffers.push_back(b);
  u32 square = 0;
  d.variants[0].prepare = Block{{Batch{0, {launch(square, {4, 3}, {4})}}}};                // w * w
  std::get<Launch>(std::get<Batch>(d.variants[0].body.commands[0]).steps[1]).args[2] = 4;  // y = x * x + w * w
  File f(d);
  Model m(f.path);
  ASSERT_EQ(m.status, TGB_OK) << tgb_message(nullptr);
  std::vector<float> x = {1, 1, 1, 1};
  std::vector<int64_t> dims = {4};
  auto out = nowhere(1);
  ASSERT_EQ(m.run({tensor(TGB_F32, x, dims)}, out), TGB_OK);
  EXPECT_EQ(floats(out[0]), (std::vector<float>{1, 2, 5, 10}));
}

TEST(Memory, WeightsInHugePagesGiveTheSame) {
  File f(square_add(1000));
  tgb_options o = {};
  o.huge = 1;
  Model m(f.path, o);
  ASSERT_EQ(m.status, TGB_OK) << tgb_message(nullptr);
  std::vector<float> x(1000, 2);
  std::vector<int64_t> dims = {1000};
  auto out = nowhere(1);
  ASSERT_EQ(m.run({tensor(TGB_F32, x, dims)}, out), TGB_OK);
  for (int i = 0; i < 1000; i++) ASSERT_EQ(floats(out[0])[i], 4.f + float(i));
}

TEST(Memory, NothingIsAllocatedAfterOpen) {
  for (auto make : {free_size, control, state}) {
    File f(make());
    static long blocks;
    blocks = 0;
    tgb_options o = {};
    o.alloc = [](void*, size_t n, size_t align) { return blocks++, aligned_alloc(align, (n + align - 1) / align * align); };
    o.free = [](void*, void* p) { blocks--, free(p); };
    {
      Model m(f.path, o);
      ASSERT_EQ(m.status, TGB_OK);
      tgb_signature s = {};
      s.size = sizeof s;
      tgb_input(m.m, 0, &s);
      std::vector<float> x(64, 1);
      long before = blocks, all = __atomic_load_n(&g_allocations, __ATOMIC_RELAXED);
      int64_t sizes[] = {s.dims[0], s.vars[0] ? 2 : s.dims[0], s.dims[0]};
      for (int64_t n : sizes) {
        int64_t dims[] = {n, 1};
        tgb_tensor in = {sizeof in, TGB_F32, x.data(), size_t(n) * 4, 1, dims, TGB_HOST, 0}, out[2] = {};
        out[0].size = out[1].size = sizeof in;
        ASSERT_EQ(tgb_run(m.m, &in, 1, out, tgb_output_count(m.m)), TGB_OK) << tgb_message(m.m);
        in.rank = 2;
        ASSERT_EQ(tgb_run(m.m, &in, 1, out, tgb_output_count(m.m)), TGB_BAD_ARGUMENT);  // nor does a failure
      }
      EXPECT_EQ(blocks, before);
      EXPECT_EQ(__atomic_load_n(&g_allocations, __ATOMIC_RELAXED), all);
    }
    EXPECT_EQ(blocks, 0) << "not all memory was given back";
  }
}

TEST(Memory, OutOfMemoryAtAnyPointIsAStatus) {
  File f(state());
  for (long room = 0; room < 40; room++) {
    static long left;
    left = room;
    tgb_options o = {};
    o.alloc = [](void*, size_t n, size_t align) -> void* {
      return left-- > 0 ? aligned_alloc(align, (n + align - 1) / align * align) : nullptr;
    };
    o.free = [](void*, void* p) { free(p); };
    Model m(f.path, o);
    if (m.status == TGB_OK) return;  // everything was allowed
    EXPECT_EQ(m.status, TGB_OUT_OF_MEMORY) << tgb_message(nullptr);
  }
  FAIL() << "never opened";
}

TEST(Memory, NeededIsKnownWithoutADevice) {
  File f(square_add(1000));
  tgb_options o = {};
  o.inspect = 1;
  Model m(f.path, o);
  uint64_t bytes = 0;
  ASSERT_EQ(tgb_memory_needed(m.m, 0, &bytes), TGB_OK);
  EXPECT_EQ(bytes, 2u * 4032 + 4000);  // three buffers of 4000 bytes, each upon the one before, at multiples of 64
  auto out = nowhere(1);
  EXPECT_TRUE(says(m, m.run({}, out), TGB_BAD_ARGUMENT, "opened to inspect"));
}

TEST(Memory, TheNeedGrowsWithTheSizesOfARun) {
  File f(free_size());
  tgb_options o = {};
  o.inspect = 1;
  Model m(f.path, o);
  uint64_t most = 0, bytes = 0;
  ASSERT_EQ(tgb_memory_needed(m.m, 0, &most), TGB_OK);
  std::vector<uint64_t> needs;
  for (int64_t n : {2, 32, 64}) {
    ASSERT_EQ(tgb_memory_at(m.m, 0, &n, 1, &bytes), TGB_OK);
    needs.push_back(bytes);
  }
  EXPECT_LT(needs[0], needs[1]);
  EXPECT_LT(needs[1], needs[2]);
  EXPECT_EQ(needs[2], most);
  int64_t n = 66;
  EXPECT_TRUE(says(m, tgb_memory_at(m.m, 0, &n, 1, &bytes), TGB_BAD_ARGUMENT, "N = 66 is outside 2..64"));
  EXPECT_TRUE(says(m, tgb_memory_at(m.m, 0, nullptr, 0, &bytes), TGB_BAD_ARGUMENT, "0 values given for 1 variables"));
}

// ---- errors

TEST(Errors, WrongTensorsAreNamed) {
  File f(square_add(4));
  Model m(f.path);
  std::vector<float> x(4), y(4);
  std::vector<double> wide(4);
  std::vector<int64_t> four = {4}, five = {5}, two = {2, 2};
  std::vector<tgb_tensor> out = {tensor(TGB_F32, y, four)};
  auto in = tensor(TGB_F32, x, four);
  EXPECT_TRUE(says(m, m.run({in, in}, out), TGB_BAD_ARGUMENT, "2 inputs given, the model has 1"));
  EXPECT_TRUE(says(m, m.run({tensor(TGB_F64, wide, four)}, out), TGB_BAD_ARGUMENT, "input 'x' is f64, expected f32"));
  EXPECT_TRUE(says(m, m.run({tensor(TGB_F32, x, five)}, out), TGB_BAD_ARGUMENT, "input 'x' has shape [5], expected [4]"));
  EXPECT_TRUE(says(m, m.run({tensor(TGB_F32, x, two)}, out), TGB_BAD_ARGUMENT, "input 'x' has shape [2,2], expected [4]"));
  auto small = in;
  small.bytes = 12;
  EXPECT_TRUE(says(m, m.run({small}, out), TGB_BAD_ARGUMENT, "input 'x' has 12 bytes, expected 16"));
  std::vector<tgb_tensor> bad = {tensor(TGB_F32, y, five)};
  EXPECT_TRUE(says(m, m.run({in}, bad), TGB_BAD_ARGUMENT, "output 'y' has shape [5], expected [4]"));
  bad = {tensor(TGB_F32, y, four)};
  bad[0].bytes = 8;
  EXPECT_TRUE(says(m, m.run({in}, bad), TGB_BAD_ARGUMENT, "output 'y' needs 16 bytes, 8 given"));
  tgb_dtype nonsense = tgb_dtype(99);
  auto odd = in;
  odd.dtype = nonsense;
  EXPECT_TRUE(says(m, m.run({odd}, out), TGB_BAD_ARGUMENT, "no dtype"));
  ASSERT_EQ(m.run({in}, out), TGB_OK) << "the model must stay usable";
}

TEST(Errors, FilesThatAreNoBundles) {
  tgb_model* m = nullptr;
  EXPECT_EQ(tgb_open_file("/nowhere/x.tgb", nullptr, &m), TGB_IO_ERROR);
  EXPECT_STREQ(tgb_message(nullptr), "/nowhere/x.tgb: No such file or directory");
  EXPECT_EQ(tgb_open_file("/", nullptr, &m), TGB_IO_ERROR);
  EXPECT_STREQ(tgb_message(nullptr), "/: Is a directory");
  EXPECT_EQ(tgb_open_file(KERNELS, nullptr, &m), TGB_BAD_BUNDLE);
  EXPECT_NE(std::string(tgb_message(nullptr)).find("is not a .tgb bundle"), std::string::npos);
  EXPECT_EQ(tgb_open_file("/dev/null", nullptr, &m), TGB_BAD_BUNDLE);
  EXPECT_EQ(m, nullptr);
}

TEST(Errors, MissingFeaturesAreNamed) {
  BundleDesc d = square_add(4);
  d.targets[0].needs.push_back("avx9000");
  d.targets[0].needs.push_back("warpdrive");
  File f(d);
  Model m(f.path);
  EXPECT_TRUE(says(m, m.status, TGB_NO_DEVICE, "this one lacks avx9000, warpdrive"));
}

TEST(Errors, UndefinedSymbolIsNamed) {
  BundleDesc d = square_add(4);
  d.objects.push_back(Bytes::own(file_bytes(BORROWS)));
  u32 p = program(d, "borrows", {Access::Write}, 1);
  d.programs[p].object = 1;
  File f(d);
  Model m(f.path);
  EXPECT_TRUE(says(m, m.status, TGB_BAD_BUNDLE, "undefined symbol 'expf'"));
}

TEST(Errors, MissingEntryIsNamed) {
  BundleDesc d = square_add(4);
  d.programs[0].entry = "nothing";
  File f(d);
  Model m(f.path);
  EXPECT_TRUE(says(m, m.status, TGB_BAD_BUNDLE, "has no entry 'nothing'"));
}

TEST(Errors, CompressedWeightsNeedZstd) {
  File f(square_add(4), {true});
  Model m(f.path);
#ifdef TGB_ZSTD
  EXPECT_EQ(m.status, TGB_OK) << tgb_message(nullptr);
#else
  EXPECT_TRUE(says(m, m.status, TGB_UNSUPPORTED, "TGB_ZSTD"));
#endif
}

TEST(Errors, DamagedWeightsAreFoundByCheckAndVerify) {
  File f(square_add(1000));
  std::vector<u8> bytes = file_bytes(f.path);
  bytes[bytes.size() - 3] ^= 1;  // the last segment holds the weights
  FILE* out = fopen(f.path.c_str(), "wb");
  fwrite(bytes.data(), 1, bytes.size(), out);
  fclose(out);
  Model m(f.path);
  ASSERT_EQ(m.status, TGB_OK);
  EXPECT_TRUE(says(m, tgb_check(m.m), TGB_BAD_BUNDLE, "is damaged"));
  tgb_options o = {};
  o.verify = 1;
  Model strict(f.path, o);
  EXPECT_EQ(strict.status, TGB_BAD_BUNDLE);
}

// ---- targets

TEST(Targets, FirstThatFitsIsTakenOrTheOneNamed) {
  BundleDesc d = square_add(4);
  d.targets.push_back({"CPU", "LLVM", "x86_64,tomorrow", {"avx9000"}});
  Target first = d.targets[0];
  Variant other = d.variants[0];
  std::swap(d.targets[0], d.targets[1]);  // the first target cannot open here
  for (u32 i = 0, n = u32(d.programs.size()); i < n; i++) {
    Program p = d.programs[i];
    p.target = 1;
    d.programs.push_back(p);
  }
  other.targets = {1};
  for (Step& s : std::get<Batch>(other.body.commands[0]).steps) std::get<Launch>(s).program += 2;
  d.variants.push_back(other);
  File f(d);
  Model m(f.path);
  ASSERT_EQ(m.status, TGB_OK) << tgb_message(nullptr);
  tgb_variant_info v = {};
  v.size = sizeof v;
  ASSERT_EQ(tgb_variant(m.m, 0, &v), TGB_OK);
  EXPECT_EQ(v.open, 0u);
  ASSERT_EQ(tgb_variant(m.m, 1, &v), TGB_OK);
  EXPECT_EQ(v.open, 1u);
  EXPECT_EQ(v.kernels, 2u);
  tgb_options o = {};
  o.device = "CPU:LLVM";
  Model refused(f.path, o);
  EXPECT_TRUE(says(refused, refused.status, TGB_NO_DEVICE, "CPU:LLVM:x86_64,tomorrow: this one lacks avx9000"));
  o.device = "METAL";
  Model none(f.path, o);
  EXPECT_TRUE(
      says(none, none.status, TGB_NO_DEVICE, "DEV=METAL names none of its targets: CPU:LLVM:x86_64,tomorrow " + first.device + ":CLANG"));
  o.device = "CPUU";
  Model typo(f.path, o);
  EXPECT_TRUE(says(typo, typo.status, TGB_BAD_ARGUMENT, "did you mean: 'CPU'"));
}

// ---- what it says about itself

TEST(Tell, CountersAndProfile) {
  File f(square_add(100));
  Model m(f.path);
  std::vector<float> x(100, 1);
  std::vector<int64_t> dims = {100};
  auto out = nowhere(1);
  ASSERT_EQ(m.run({tensor(TGB_F32, x, dims)}, out), TGB_OK);
  tgb_counters c = {};
  c.size = sizeof c;
  ASSERT_EQ(tgb_count(m.m, &c), TGB_OK);
  EXPECT_EQ(c.runs, 1u);
  EXPECT_EQ(c.kernels, 2u);
  EXPECT_EQ(c.flops, 200u);
  EXPECT_EQ(c.bytes, 2000u);
  std::vector<std::string> names;
  auto note = [](void* ctx, const tgb_event* e) {
    static_cast<std::vector<std::string>*>(ctx)->push_back(e->name);
    EXPECT_LE(e->start_ns, e->end_ns);
    EXPECT_EQ(e->flops, 100);
  };
  for (tgb_jit jit : {TGB_JIT_GRAPH, TGB_JIT_BATCH}) {
    tgb_options o = {};
    o.jit = jit;
    Model timed(f.path, o);
    names.clear();
    ASSERT_EQ(tgb_profile(timed.m, note, &names), TGB_OK);
    ASSERT_EQ(timed.run({tensor(TGB_F32, x, dims)}, out), TGB_OK);
    EXPECT_EQ(names, (std::vector<std::string>{"square of the test", "add of the test"}));
    ASSERT_EQ(tgb_profile(timed.m, nullptr, nullptr), TGB_OK);
    ASSERT_EQ(timed.run({tensor(TGB_F32, x, dims)}, out), TGB_OK);
    EXPECT_EQ(names.size(), 2u);
  }
}

TEST(Tell, SelftestComparesWithItsVectors) {
  BundleDesc d = square_add(2);
  auto bytes = [](std::vector<float> v) {
    std::vector<u8> b(v.size() * 4);
    memcpy(b.data(), v.data(), b.size());
    return b;
  };
  d.tests.push_back({"first", {{Bytes::own(bytes({2, 3})), {2}}}, {{Bytes::own(bytes({4, 10.001f})), {2}}}, 0, 1e-3});
  File f(d);
  Model m(f.path);
  EXPECT_EQ(tgb_selftest(m.m), TGB_OK) << tgb_message(m.m);
  d.tests[0].relative = 1e-6;
  File g(d);
  Model strict(g.path);
  EXPECT_TRUE(says(strict, tgb_selftest(strict.m), TGB_MISMATCH, "first: output 'y', element 1 is 10, expected 10.001"));
}

TEST(Tell, OpensFromMemory) {
  File f(square_add(3));
  std::vector<u8> bytes = file_bytes(f.path);
  std::vector<u8> room(bytes.size() + 128);
  u8* at = room.data() + (64 - reinterpret_cast<uintptr_t>(room.data()) % 64);
  memcpy(at, bytes.data(), bytes.size());
  tgb_model* m = nullptr;
  ASSERT_EQ(tgb_open_memory(at, bytes.size(), nullptr, &m), TGB_OK) << tgb_message(nullptr);
  tgb_close(m);
  EXPECT_EQ(tgb_open_memory(at + 1, bytes.size(), nullptr, &m), TGB_BAD_ARGUMENT);
}

TEST(Tell, OldCallersSmallerStructsAreRespected) {
  File f(square_add(3));
  Model m(f.path);
  struct {
    tgb_signature s;
    char guard[8];
  } old;
  memset(&old, 0x77, sizeof old);
  old.s.size = offsetof(tgb_signature, rank);
  ASSERT_EQ(tgb_input(m.m, 0, &old.s), TGB_OK);
  EXPECT_STREQ(old.s.name, "x");
  EXPECT_EQ(old.s.rank, 0x77777777u);
  EXPECT_EQ(old.s.size, offsetof(tgb_signature, rank));
}

}  // namespace
}  // namespace sample
