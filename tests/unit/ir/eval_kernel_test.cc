#include "ir/eval_kernel.h"

#include "ir/text.h"
#include "ir_test.h"

using namespace tg;

class EvalKernel : public IrTest {
 protected:
  std::vector<Values> bufs;
  void buffer(std::vector<i64> dims, std::vector<f64> v, DType d = Kind::F32) { bufs.push_back(values(d, dims, v)); }
  void buffer(std::vector<i64> dims, DType d = Kind::F32) { buffer(dims, V(count(dims), -1), d); }
  V run(std::string_view text, size_t out = 0) { return run(parse(text), out); }
  V run(UOp sink, size_t out = 0) {
    eval_kernel(sink, bufs);
    V r;
    for (i64 i = 0; i < bufs[out].elems(); i++) r.push_back(bufs[out].number(i));
    return r;
  }
  std::string error(std::string_view text) {
    try {
      run(text);
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  }
  UOp at(i64 slot, DType d, std::vector<i64> dims, std::vector<UOp> c) {
    std::vector<UOp> s{tensor::param(slot, d, tg::dims(std::span<const i64>(dims)))};
    s.insert(s.end(), c.begin(), c.end());
    return node(Op::Index, d, std::span<const UOp>(s));
  }
  UOp load(UOp ix) { return node(Op::Load, ix.dtype(), {ix}); }
  UOp loop(i64 n, i64 id, i64 phase = 0, AxisKind k = AxisKind::Loop) { return range(idx(n), {id, 0, phase, k}); }
};

TEST_F(EvalKernel, TransposeCopies) {
  buffer({3, 2}), buffer({2, 3}, {0, 1, 2, 3, 4, 5});
  EXPECT_EQ(run("%2 = CONST index 2\n%3 = CONST index 3\n"
                "%i = RANGE index [0,0,0,4] %3\n%j = RANGE index [1,0,0,4] %2\n"
                "%o = PARAM f32 #0 %3 %2\n%x = PARAM f32 #1 %2 %3\n"
                "%at = INDEX f32 %x %j %i\n%v = LOAD f32 %at\n%to = INDEX f32 %o %i %j\n"
                "%s = STORE void %to %v %i %j\n%k = SINK void %s\n"),
            V({0, 3, 1, 4, 2, 5}));
}
TEST_F(EvalKernel, ReduceRunsItsRanges) {
  buffer({2}), buffer({2, 3}, {1, 2, 3, 4, 5, 6});
  UOp i = loop(2, 0), k = loop(3, 1, 0, AxisKind::Reduce);
  UOp s = node(Op::Reduce, Kind::F32, {load(at(1, Kind::F32, {2, 3}, {i, k})), k}, Ints{i64(ReduceKind::Add)});
  EXPECT_EQ(run(node(Op::Sink, Kind::Void, {node(Op::Store, Kind::Void, {at(0, Kind::F32, {2}, {i}), s, i})})), V({6, 15}));
}
// Softmax's shape: two reduces over the same row, in phases of one kernel.
TEST_F(EvalKernel, PhasesShareOuterLoops) {
  buffer({2, 3}), buffer({2, 3}, {1, 2, 5, 4, 8, 4});
  UOp i = loop(2, 0), a = loop(3, 1, 1, AxisKind::Reduce), b = loop(3, 1, 2, AxisKind::Reduce), c = loop(3, 1);
  auto x = [&](UOp j) { return load(at(1, Kind::F32, {2, 3}, {i, j})); };
  UOp m = node(Op::Reduce, Kind::F32, {x(a), a}, Ints{i64(ReduceKind::Max)});
  UOp s = node(Op::Reduce, Kind::F32, {x(b) - m, b}, Ints{i64(ReduceKind::Add)});
  UOp st = node(Op::Store, Kind::Void, {at(0, Kind::F32, {2, 3}, {i, c}), (x(c) - m) * s, i, c});
  EXPECT_EQ(run(node(Op::Sink, Kind::Void, {st})), V({28, 21, 0, 32, 0, 32}));
}
TEST_F(EvalKernel, RowBufferIsFilledBeforeItIsRead) {
  buffer({2, 3}), buffer({2, 3}, {1, 2, 5, 4, 8, 4});
  UOp i = loop(2, 0), b = loop(3, 1, 1), s = loop(3, 1, 2, AxisKind::Reduce), c = loop(3, 1, 3);
  UOp row = node(Op::Row, Kind::F32, {idx(3)}, RowArg{0, RowPlace::Stack}.ints());
  UOp x = load(at(1, Kind::F32, {2, 3}, {i, b}));
  UOp fill = node(Op::Store, Kind::Void, {node(Op::Index, Kind::F32, {row, b}), x * x, b});  // inside the loop of i
  UOp after = node(Op::After, Kind::F32, {row, fill});
  auto e = [&](UOp j) { return load(node(Op::Index, Kind::F32, {after, j})); };
  UOp sum = node(Op::Reduce, Kind::F32, {e(s), s}, Ints{i64(ReduceKind::Add)});
  UOp st = node(Op::Store, Kind::Void, {at(0, Kind::F32, {2, 3}, {i, c}), sum - e(c), i, c});
  EXPECT_EQ(run(node(Op::Sink, Kind::Void, {st})), V({29, 26, 5, 80, 32, 80}));
}
TEST_F(EvalKernel, RowReadWithoutAfterHoldsNothing) {
  buffer({1});
  UOp row = node(Op::Row, Kind::F32, {idx(3)}, RowArg{0, RowPlace::Stack}.ints());
  UOp st = node(Op::Store, Kind::Void, {at(0, Kind::F32, {1}, {idx(0)}), load(node(Op::Index, Kind::F32, {row, idx(2)}))});
  EXPECT_NE(error(print(node(Op::Sink, Kind::Void, {st}))).find("element 2 is read before it is written in Load"), std::string::npos);
}
TEST_F(EvalKernel, ScanReadsWhatItWrote) {
  buffer({4}), buffer({4}, {1, 2, 3, 4});
  UOp r = loop(4, 0), later = lt(idx(0), r);
  UOp prev = node(Op::Load, Kind::F32, {at(0, Kind::F32, {4}, {r - 1}), later, konst_f(Kind::F32, 0)});
  UOp st = node(Op::Store, Kind::Void, {at(0, Kind::F32, {4}, {r}), prev + load(at(1, Kind::F32, {4}, {r})), r});
  EXPECT_EQ(run(node(Op::Sink, Kind::Void, {st})), V({1, 3, 6, 10}));
}
TEST_F(EvalKernel, AccumulationIntoOneElementIsSeenByTheNextStep) {
  buffer({1}, {100}), buffer({3}, {1, 2, 3});
  UOp r = loop(3, 0), to = at(0, Kind::F32, {1}, {idx(0)});
  EXPECT_EQ(run(node(Op::Sink, Kind::Void, {node(Op::Store, Kind::Void, {to, load(to) + load(at(1, Kind::F32, {3}, {r})), r})})), V({106}));
}
TEST_F(EvalKernel, StoresOfOneBodySeeMemoryAsItWas) {
  buffer({2}, {1, 2});
  UOp a = at(0, Kind::F32, {2}, {idx(0)}), b = at(0, Kind::F32, {2}, {idx(1)});
  UOp s = node(Op::Store, Kind::Void, {a, load(b)}), t = node(Op::Store, Kind::Void, {b, load(a)});
  EXPECT_EQ(run(node(Op::Sink, Kind::Void, {s, t})), V({2, 1}));
}
TEST_F(EvalKernel, LoopSizesMayDependOnOuterLoops) {
  buffer({3});
  UOp i = loop(3, 0), j = range(i + 1, {1, 0, 0, AxisKind::Reduce});
  UOp s = node(Op::Reduce, Kind::F32, {cast(j, Kind::F32), j}, Ints{i64(ReduceKind::Add)});
  EXPECT_EQ(run(node(Op::Sink, Kind::Void, {node(Op::Store, Kind::Void, {at(0, Kind::F32, {3}, {i}), s, i})})), V({0, 1, 3}));
}
TEST_F(EvalKernel, GatedStoreSkips) {
  buffer({4});
  UOp i = loop(4, 0);
  UOp st = node(Op::Store, Kind::Void, {at(0, Kind::F32, {4}, {i}), cast(i, Kind::F32), eq(i % 2, idx(0)), i});
  EXPECT_EQ(run(node(Op::Sink, Kind::Void, {st})), V({0, -1, 2, -1}));
}
TEST_F(EvalKernel, FoldFindsTheFirstLargest) {
  buffer({2}, V{-1, -1}, Kind::I64), buffer({2, 4}, {1, 5, 5, 2, 9, 0, 9, 9});
  using P = PlaceholderArg;
  UOp i = loop(2, 0), j = loop(4, 1, 0, AxisKind::Reduce);
  UOp v = tensor::placeholder({P::Input, 0, 0}, Kind::F32), p = tensor::placeholder({P::Input, 1, 0}, Kind::I64);
  UOp m = tensor::placeholder({P::State, 0, 0}, Kind::F32), mi = tensor::placeholder({P::State, 1, 0}, Kind::I64);
  UOp better = lt(m, v);
  UOp src[] = {load(at(1, Kind::F32, {2, 4}, {i, j})), cast(j, Kind::I64), konst_f(Kind::F32, -kInf), konst(Kind::I64, 0),
               where(better, v, m), where(better, p, mi), m, mi, j};
  UOp f = node(Op::Fold, Kind::Void, std::span<const UOp>(src), FoldArg{2, 2, {}}.ints());
  UOp st = node(Op::Store, Kind::Void, {at(0, Kind::I64, {2}, {i}), node(Op::Get, Kind::I64, {f}, 1), i});
  EXPECT_EQ(run(node(Op::Sink, Kind::Void, {st})), V({1, 0}));
}
TEST_F(EvalKernel, CoordinateOutsideNamesNodeAndLoops) {
  buffer({2}), buffer({2});
  UOp i = loop(2, 0);
  UOp st = node(Op::Store, Kind::Void, {at(0, Kind::F32, {2}, {i}), load(at(1, Kind::F32, {2}, {i + 1})), i});
  EXPECT_EQ(error(print(node(Op::Sink, Kind::Void, {st}))), "coordinate 2 on axis 0 of size 2 in Index f32(Param f32[1](2), (r0+1)) at r0=1");
}
TEST_F(EvalKernel, WhereReadsBothBranches) {
  buffer({2}), buffer({2});
  UOp i = loop(2, 0);
  UOp v = where(lt(i, idx(1)), load(at(1, Kind::F32, {2}, {i + 1})), konst_f(Kind::F32, 0));
  EXPECT_NE(error(print(node(Op::Sink, Kind::Void, {node(Op::Store, Kind::Void, {at(0, Kind::F32, {2}, {i}), v, i})}))), "no error");
}
