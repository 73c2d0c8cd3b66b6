// Three kernels through OpenCL's table: saxpy with a tail, a softmax of rows with local memory and barriers, a matmul with vectors and
// accumulators. What the device computes is compared with the interpreter of the same list.
#include <gtest/gtest.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmath>
#include <random>

#include "backend/cl/cl.h"
#include "base/error.h"
#include "codegen/transcendental.h"
#include "ir/eval_linear.h"
#include "runtime-lite/src/backend.h"

using namespace tg;

namespace {

// A list under construction: put() adds a node with what it needs.
struct List {
  std::vector<UOp> nodes;
  Memo<u8> have;
  UOp put(UOp u) {
    if (have[u]) return u;
    for (UOp s : u.src()) put(s);
    have[u] = 1;
    nodes.push_back(u);
    return u;
  }
  UOp param(i64 slot) { return put(node(Op::Param, Kind::F32, {}, slot)); }
  UOp special(i64 which, UOp size) { return put(node(Op::Special, Kind::Index, {size}, which)); }
  UOp load(UOp buffer, UOp at, int lanes = 1) { return put(node(Op::Load, DType(Kind::F32, u16(lanes)), {node(Op::Index, Kind::F32, {buffer, at})})); }
  UOp store(UOp buffer, UOp at, UOp v) { return put(node(Op::Store, Kind::Void, {node(Op::Index, Kind::F32, {buffer, at}), v})); }
  UOp loop(i64 size, i64 id) {
    RangeArg a;
    a.id = id;
    return put(range(idx(size), a));
  }
  UOp end(UOp r) { return put(node(Op::End, Kind::Void, {r})); }
  UOp reg(i64 number, UOp init) {
    UOp r = put(node(Op::Reg, init.dtype(), {}, number));
    put(node(Op::Store, Kind::Void, {r, init}));
    return r;
  }
  UOp read(UOp reg, UOp after) { return put(node(Op::Load, reg.dtype(), {node(Op::After, reg.dtype(), {reg, after})})); }
  UOp set(UOp reg, UOp v) { return put(node(Op::Store, Kind::Void, {reg, v})); }
};
UOp fma(UOp a, UOp b, UOp c) { return alu(Op::MulAcc, {a, b, c}); }

// A device through the runtime's table, as the core uses it.
class Device {
 public:
  Device() : b_(tgb::find_backend("CL")) {
    tgb::OpenDesc desc{{[](void*, size_t bytes, size_t) { return malloc(bytes); }, [](void*, void* p) { free(p); }, nullptr}, "", "", 0, 0};
    if (!b_) snprintf(why_, sizeof why_, "this build has no CL");
    else if (b_->open(desc, &d_, why_, sizeof why_) != TGB_OK) d_ = nullptr;
  }
  ~Device() {
    if (d_) b_->close(d_);
  }
  bool ok() const { return d_; }
  const char* why() const { return why_; }
  // Runs one kernel on buffers that lie in one allocation, each at an odd multiple of 64 bytes. Buffers are read back.
  void run(const std::string& source, const std::string& entry, std::vector<std::vector<f32>>& buffers, std::vector<i64> ints, std::vector<i64> groups,
           std::vector<u32> items) {
    tgb::Object object{source.data(), source.size(), 1};
    tgb::Entry e{0, entry.c_str(), nullptr};
    tgb::Module* module = nullptr;
    good(b_->load(d_, &object, 1, &e, 1, &module));
    u64 bytes = 64;
    std::vector<tgb::Mem> table;
    for (auto& v : buffers) table.push_back({nullptr, bytes, v.size() * 4}), bytes = (bytes + v.size() * 4 + 127) / 128 * 128 + 64;
    tgb::Mem arena;
    good(b_->alloc(d_, {bytes, 64, 0, 0, 0}, &arena));
    tgb::StepDesc s{};
    std::vector<u32> args;
    for (size_t i = 0; i < buffers.size(); i++) {
      table[i].handle = arena.handle;
      args.push_back(u32(i));
      good(b_->write(d_, table[i], buffers[i].data(), table[i].bytes));
    }
    std::vector<i64> values = ints;
    values.insert(values.end(), groups.begin(), groups.end());
    s.kernel = e.kernel, s.args = args.data(), s.n_args = u32(args.size()), s.ints = 0, s.n_ints = u32(ints.size()), s.n_grid = u32(groups.size());
    for (size_t i = 0; i < groups.size(); i++) s.grid[i] = u32(ints.size() + i), s.block[i] = items[i];
    tgb::Batch* batch = nullptr;
    good(b_->record(d_, &s, 1, tgb::kTimed, &batch));
    good(b_->replay(d_, batch, table.data(), values.data()));
    u64 fence = 0, times[2];
    good(b_->fence(d_, &fence));
    good(b_->wait(d_, fence, UINT64_MAX));
    good(b_->times(d_, batch, times));
    EXPECT_LE(times[0], times[1]);
    for (size_t i = 0; i < buffers.size(); i++) good(b_->read(d_, table[i], buffers[i].data(), table[i].bytes));
    b_->forget(d_, batch);
    b_->free(d_, arena);
    b_->unload(d_, module);
  }

  // What load() says of a program; "" if it builds.
  std::string build_error(const std::string& source, const std::string& entry) {
    tgb::Object object{source.data(), source.size(), 1};
    tgb::Entry e{0, entry.c_str(), nullptr};
    tgb::Module* module = nullptr;
    if (b_->load(d_, &object, 1, &e, 1, &module) != TGB_OK) return b_->message(d_);
    b_->unload(d_, module);
    return "";
  }

 private:
  void good(tgb_status s) { TG_CHECK(s == TGB_OK, "CL: ", b_->message(d_)); }
  const tgb::Backend* b_;
  tgb::Device* d_ = nullptr;
  char why_[256] = "";
};
Device& device() {
  static Device d;
  return d;
}
#define NEEDS_CL() \
  if (!device().ok()) GTEST_SKIP() << "no OpenCL device: " << device().why() << "; tools/setup.sh cl installs PoCL"

std::vector<f32> numbers(size_t n, u64 seed) {
  std::mt19937_64 g(seed);
  std::vector<f32> v(n);
  for (f32& x : v) x = f32(i64(g() >> 40)) * 0x1p-21f - 4;
  return v;
}
// The same on the device and in the interpreter; returns both versions of buffer 0.
std::pair<std::vector<f32>, std::vector<f64>> both(const List& l, const std::string& entry, std::vector<std::vector<f32>> buffers, const Vars& vars, std::vector<i64> groups,
                                                   std::vector<u32> items) {
  auto t = cl_target("");
  TG_CHECK(t, t.why());
  std::string source;
  auto program = compile_opencl(l.nodes, entry, *t, &source);
  TG_CHECK(program, program.why());
  std::vector<Values> values;
  for (auto& v : buffers) {
    std::vector<f64> d(v.begin(), v.end());
    values.push_back(tg::values(Kind::F32, {i64(d.size())}, d));
  }
  eval_linear(l.nodes, values, vars);
  std::vector<i64> ints;
  for (auto& [n, v] : vars) ints.push_back(v);
  device().run(std::string(program->begin(), program->end()), entry, buffers, ints, groups, items);
  std::vector<f64> want;
  for (i64 i = 0; i < values[0].elems(); i++) want.push_back(values[0].number(i));
  return {buffers[0], want};
}

}  // namespace

TEST(Cl, SaxpyStopsAtItsSize) {
  NEEDS_CL();
  Arena arena;
  Arena::Scope scope(arena);
  List l;
  UOp y = l.param(0), x = l.param(1), n = l.put(var("v0", 1, 4096));
  UOp g = l.special(1, idx(5)), i = l.put(g * 64 + l.special(4, idx(64)));
  UOp in = l.put(lt(i, n));
  auto guarded = [&](UOp b) { return l.put(node(Op::Load, Kind::F32, {node(Op::Index, Kind::F32, {b, i}), in, konst_f(Kind::F32, 0)})); };
  UOp xs = guarded(x), ys = guarded(y);
  UOp v = l.put(fma(xs, konst_f(Kind::F32, 2.5), ys));
  l.put(node(Op::Store, Kind::Void, {node(Op::Index, Kind::F32, {y, i}), v, in}));
  auto [got, want] = both(l, "saxpy", {numbers(300, 1), numbers(300, 2)}, {{"v0", 300}}, {5}, {64});
  for (size_t k = 0; k < want.size(); k++) ASSERT_EQ(f64(got[k]), want[k]) << k;  // rounded once here and there
}

TEST(Cl, SoftmaxOfRowsInLocalMemory) {
  NEEDS_CL();
  Arena arena;
  Arena::Scope scope(arena);
  constexpr i64 kRows = 7, kWidth = 200, kItems = 16;
  List l;
  UOp out = l.param(0), in = l.param(1);
  UOp row = l.special(1, idx(kRows)), item = l.special(4, idx(kItems));
  UOp part = l.put(node(Op::Local, Kind::F32, {idx(kItems)}, RowArg{0, RowPlace::Local}.ints()));
  UOp part2 = l.put(node(Op::Local, Kind::F32, {idx(kItems)}, RowArg{1, RowPlace::Local}.ints()));
  UOp lowest = konst_f(Kind::F32, -INFINITY);
  auto mine = [&](UOp r) { return l.put(r * kItems + item); };
  auto inside = [&](UOp c) { return l.put(lt(c, idx(kWidth))); };
  auto x_at = [&](UOp c) { return l.put(node(Op::Load, Kind::F32, {node(Op::Index, Kind::F32, {in, row * kWidth + c}), inside(c), lowest})); };
  constexpr i64 kSteps = (kWidth + kItems - 1) / kItems;
  // All items' values of a local array, combined.
  auto all = [&](UOp array, UOp barrier, i64 number, ReduceKind k) {
    UOp acc = l.reg(number, identity(k, Kind::F32)), r = l.loop(kItems, 10 + number);
    l.set(acc, l.put(alu(alu_op(k), {l.read(acc, r), l.load(l.put(node(Op::After, Kind::F32, {array, barrier})), r)})));
    return l.read(acc, l.end(r));
  };
  UOp m = l.reg(0, lowest), a = l.loop(kSteps, 0);
  l.set(m, l.put(max(l.read(m, a), x_at(mine(a)))));
  UOp stored = l.store(part, item, l.read(m, l.end(a)));
  UOp most = all(part, l.put(node(Op::Barrier, Kind::Void, {stored}, 0)), 1, ReduceKind::Max);
  UOp s = l.reg(2, konst_f(Kind::F32, 0)), b = l.loop(kSteps, 1);
  l.set(s, l.put(l.read(s, b) + exp_fast(x_at(mine(b)) - most)));
  UOp stored2 = l.store(part2, item, l.read(s, l.end(b)));
  UOp sum = all(part2, l.put(node(Op::Barrier, Kind::Void, {stored2}, 1)), 3, ReduceKind::Add);
  UOp c = l.loop(kSteps, 2), col = mine(c);
  UOp y = l.put(exp_fast(x_at(col) - most) / sum);
  l.put(node(Op::Store, Kind::Void, {node(Op::Index, Kind::F32, {out, row * kWidth + col}), y, inside(col)}));
  l.end(c);
  std::vector<f32> x = numbers(kRows * kWidth, 3);
  auto [got, want] = both(l, "softmax", {std::vector<f32>(kRows * kWidth), x}, {}, {kRows}, {u32(kItems)});
  for (i64 r = 0; r < kRows; r++) {
    f64 top = -INFINITY, total = 0;
    for (i64 k = 0; k < kWidth; k++) top = std::max(top, f64(x[r * kWidth + k]));
    for (i64 k = 0; k < kWidth; k++) total += std::exp(f64(x[r * kWidth + k]) - top);
    for (i64 k = 0; k < kWidth; k++) {
      i64 i = r * kWidth + k;
      ASSERT_NEAR(got[i], want[i], 1e-6 * want[i]) << i;                                                      // the sums' orders are the same
      ASSERT_NEAR(got[i], std::exp(f64(x[i]) - top) / total, 4e-6 * want[i]) << i;                            // and it is a softmax
    }
  }
}

TEST(Cl, MatmulWithVectorsOfFour) {
  NEEDS_CL();
  Arena arena;
  Arena::Scope scope(arena);
  constexpr i64 kM = 24, kN = 64, kK = 48;
  List l;
  UOp out = l.param(0), a = l.param(1), b = l.param(2);
  UOp col = l.put((l.special(1, idx(2)) * 8 + l.special(4, idx(8))) * 4);  // 2 groups of 8 items of 4 columns
  UOp row = l.put(l.special(2, idx(6)) * 4 + l.special(5, idx(4)));        // 6 groups of 4 items
  DType v4(Kind::F32, 4);
  UOp acc = l.reg(0, konst_f(v4, 0)), k = l.loop(kK, 0);
  UOp as = l.put(node(Op::Broadcast, v4, {l.load(a, row * kK + k)}));
  UOp bs = l.load(b, k * kN + col, 4);
  l.set(acc, l.put(fma(as, bs, l.read(acc, k))));
  UOp sum = l.read(acc, l.end(k));
  l.store(out, row * kN + col, sum);
  std::vector<f32> x = numbers(kM * kK, 4), y = numbers(kK * kN, 5);
  auto [got, want] = both(l, "matmul", {std::vector<f32>(kM * kN), x, y}, {}, {2, 6}, {8, 4});
  for (i64 i = 0; i < kM * kN; i++) {
    ASSERT_EQ(f64(got[i]), want[i]) << i;
    f64 exact = 0, size = 0;
    for (i64 j = 0; j < kK; j++) exact += f64(x[i / kN * kK + j]) * y[j * kN + i % kN], size += std::abs(f64(x[i / kN * kK + j]) * y[j * kN + i % kN]);
    ASSERT_NEAR(want[i], exact, (kK + 2) * 0x1p-24 * size);
  }
}

TEST(Cl, ABrokenProgramIsAnErrorInTheDriversWords) {
  NEEDS_CL();
  std::string words = device().build_error("__kernel void f(__global uchar* b) { nonsense; }", "f");
  EXPECT_NE(words.find("does not build"), std::string::npos) << words;
  EXPECT_NE(words.find("nonsense"), std::string::npos) << words;
}
TEST(Cl, DoublesNeedTheExtension) {
  Arena arena;
  Arena::Scope scope(arena);
  List l;
  UOp p = l.put(node(Op::Param, Kind::F64, {}, i64(0)));
  l.put(node(Op::Store, Kind::Void, {node(Op::Index, Kind::F64, {p, idx(0)}), konst_f(Kind::F64, 1)}));
  auto r = compile_opencl(l.nodes, "f", *cl_target(""));
  ASSERT_FALSE(r);
  EXPECT_NE(r.why().find("cl_khr_fp64"), std::string::npos);
  EXPECT_TRUE(compile_opencl(l.nodes, "f", *cl_target("cl_khr_fp64")));
}
