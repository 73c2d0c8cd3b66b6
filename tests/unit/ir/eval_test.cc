#include "ir_test.h"

#include <chrono>

using namespace tg;

class Eval : public IrTest {};

TEST_F(Eval, AddOfTwoTensors) { EXPECT_EQ(run(input({2}, {1, 2}) + input({2}, {10, 20})), V({11, 22})); }
TEST_F(Eval, ScalarStandsForAnyShape) { EXPECT_EQ(run(input({2, 1}, {1, 2}) * konst_f(Kind::F32, 3)), V({3, 6})); }
TEST_F(Eval, F32RoundsAfterEachOp) { EXPECT_EQ(run(input({1}, {16777216}) + konst_f(Kind::F32, 1)), V({16777216})); }
TEST_F(Eval, F16OverflowsToInf) { EXPECT_EQ(run(input(Kind::F16, {1}, {60000}) * konst_f(Kind::F16, 2)), V({kInf})); }
TEST_F(Eval, Bf16KeepsEightBits) { EXPECT_EQ(run(input(Kind::BF16, {2}, {256, 257}) + konst_f(Kind::BF16, 1)), V({256, 256})); }

TEST_F(Eval, ReshapeKeepsRowMajorOrder) {
  UOp x = tensor::reshape(tensor::permute(arange({2, 3}), Ints{1, 0}), dims({6}));
  EXPECT_EQ(run(x), V({0, 3, 1, 4, 2, 5}));
}
TEST_F(Eval, ReshapeMovesDimsOfOne) {
  UOp x = tensor::reshape(tensor::permute(arange({2, 1, 3}), Ints{2, 1, 0}), dims({1, 3, 2, 1}));
  EXPECT_EQ(run(x), V({0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(last.dims, D({1, 3, 2, 1}));
}
TEST_F(Eval, ExpandRepeats) { EXPECT_EQ(run(tensor::broadcast_to(arange({2, 1}), dims({2, 2, 3}))), V({0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1})); }
TEST_F(Eval, PadPutsTheValueAround) {
  EXPECT_EQ(run(tensor::pad(arange({2, 2}), dims({1, 0}), dims({0, 1}), konst_f(Kind::F32, 9))), V({9, 9, 9, 0, 1, 9, 2, 3, 9}));
}
TEST_F(Eval, ShrinkTakesSteps) {
  EXPECT_EQ(run(tensor::shrink(arange({7}), dims({1}), dims({6}), dims({2}))), V({1, 3, 5}));
  EXPECT_EQ(run(tensor::shrink(arange({7}), dims({1}), dims({5}), dims({3}))), V({1, 4}));
}
TEST_F(Eval, FlipTurnsAxes) { EXPECT_EQ(run(tensor::flip(arange({2, 3}), Ints{0, 1})), V({5, 4, 3, 2, 1, 0})); }
TEST_F(Eval, WindowIndexIsOutTimesStridePlusKTimesDilation) {
  UOp w = tensor::window(arange({7}), {{0}, {3}, {2}, {1}});
  EXPECT_EQ(run(w), V({0, 1, 2, 2, 3, 4, 4, 5, 6}));
  EXPECT_EQ(last.dims, D({3, 3}));
  EXPECT_EQ(run(tensor::window(arange({7}), {{0}, {3}, {1}, {3}})), V({0, 3, 6}));
}
TEST_F(Eval, WindowOfTwoAxesPutsKLastInOrder) {
  UOp w = tensor::window(arange({1, 3, 3}), {{1, 2}, {2, 2}, {1, 1}, {1, 1}});
  EXPECT_EQ(run(w), V({0, 1, 3, 4, 1, 2, 4, 5, 3, 4, 6, 7, 4, 5, 7, 8}));
  EXPECT_EQ(last.dims, D({1, 2, 2, 2, 2}));
}
TEST_F(Eval, ConcatAlongTheSecondAxis) {
  UOp x[] = {arange({2, 1}), arange({2, 2})};
  EXPECT_EQ(run(tensor::concat(x, 1)), V({0, 0, 1, 1, 2, 3}));
}
TEST_F(Eval, IotaCounts) { EXPECT_EQ(run(tensor::iota(idx(4), Kind::I32)), V({0, 1, 2, 3})); }

TEST_F(Eval, ReduceAddOverTwoAxes) { EXPECT_EQ(run(tensor::reduce(arange({2, 3, 2}), ReduceKind::Add, {0, 2})), V({0 + 1 + 6 + 7, 2 + 3 + 8 + 9, 4 + 5 + 10 + 11})); }
TEST_F(Eval, ReduceOfAProductReadOnce) {
  UOp a = arange({2, 3}), b = arange({2, 3});
  EXPECT_EQ(run(tensor::reduce(a * b, ReduceKind::Add, {1})), V({0 + 1 + 4, 9 + 16 + 25}));
}
TEST_F(Eval, ReduceOfAProductReadTwice) {
  UOp p = arange({2, 2}) * konst_f(Kind::F32, 2);
  EXPECT_EQ(run(tensor::reduce(p, ReduceKind::Add, {1}) + tensor::reduce(p, ReduceKind::Max, {1})), V({2 + 2, 10 + 6}));
}
TEST_F(Eval, ReduceOfNothingIsTheIdentity) {
  EXPECT_EQ(run(tensor::reduce(input({2, 0}, {}), ReduceKind::Add, {1})), V({0, 0}));
  EXPECT_EQ(run(tensor::reduce(input({0, 2}, {}), ReduceKind::Max, {0})), V({-kInf, -kInf}));
  EXPECT_EQ(run(tensor::reduce(input(Kind::I8, {0, 1}, {}), ReduceKind::Min, {0})), V({127}));
}
TEST_F(Eval, ReduceMaxPassesNaN) { EXPECT_TRUE(std::isnan(run(tensor::reduce(input({3}, {1, kNaN, 2}), ReduceKind::Max, {0}))[0])); }
TEST_F(Eval, IntegerSumsWrap) { EXPECT_EQ(run(tensor::reduce(input(Kind::I8, {3}, {100, 100, 3}), ReduceKind::Add, {0})), V({203 - 256})); }

TEST_F(Eval, FoldFindsTheFirstLargest) {
  UOp x = input({2, 4}, {1, 5, 5, 2, 9, 0, 9, 9});
  UOp i = tensor::broadcast_to(tensor::iota(idx(4), Kind::I64), dims({2, 4}));
  using P = PlaceholderArg;
  UOp v = tensor::placeholder({P::Input, 0, 0}, Kind::F32), at = tensor::placeholder({P::Input, 1, 0}, Kind::I64);
  UOp m = tensor::placeholder({P::State, 0, 0}, Kind::F32), mi = tensor::placeholder({P::State, 1, 0}, Kind::I64);
  UOp m0 = tensor::placeholder({P::Side0, 0, 0}, Kind::F32), i0 = tensor::placeholder({P::Side0, 1, 0}, Kind::I64);
  UOp m1 = tensor::placeholder({P::Side1, 0, 0}, Kind::F32), i1 = tensor::placeholder({P::Side1, 1, 0}, Kind::I64);
  UOp better = lt(m, v), side = lt(m0, m1) | (eq(m0, m1) & lt(i1, i0));
  UOp in[] = {x, i}, init[] = {konst_f(Kind::F32, -kInf), konst(Kind::I64, 0)};
  UOp step[] = {where(better, v, m), where(better, at, mi)}, merge[] = {where(side, m1, m0), where(side, i1, i0)};
  UOp f = tensor::fold(in, init, step, merge, {1});
  EXPECT_EQ(run(tensor::get(f, 1)), V({1, 0}));
  EXPECT_EQ(run(tensor::get(f, 0)), V({5, 9}));
}

TEST_F(Eval, GatherTakesAnIndexPerAxis) {
  UOp idx[] = {input(Kind::I64, {3}, {1, 0, 1}), input(Kind::I32, {3}, {2, 2, 0})};
  EXPECT_EQ(run(tensor::gather(arange({2, 3}), idx)), V({5, 2, 3}));
}
TEST_F(Eval, GatherOutsideIsAnError) {
  UOp idx[] = {input(Kind::I64, {1}, {3})};
  EXPECT_NE(message(tensor::gather(arange({3}), idx)).find("index 3 on axis 0 of size 3 in Gather"), std::string::npos);
}
TEST_F(Eval, ScatterSetTakesTheLastUpdate) {
  UOp idx[] = {input(Kind::I64, {3}, {0, 2, 0})};
  EXPECT_EQ(run(tensor::scatter(arange({3}), input({3}, {7, 8, 9}), idx, ScatterKind::Set)), V({9, 1, 8}));
  EXPECT_EQ(run(tensor::scatter(arange({3}), input({3}, {7, 8, 9}), idx, ScatterKind::Add)), V({16, 1, 10}));
  EXPECT_EQ(run(tensor::scatter(arange({3}), input({3}, {7, 8, 9}), idx, ScatterKind::Mul)), V({0, 1, 16}));
  EXPECT_EQ(run(tensor::scatter(arange({3}), input({3}, {-7, 1, -9}), idx, ScatterKind::Max)), V({0, 1, 2}));
  EXPECT_EQ(run(tensor::scatter(arange({3}), input({3}, {-7, 1, -9}), idx, ScatterKind::Min)), V({-9, 1, 1}));
}
TEST_F(Eval, SortIsStableAndPutsNaNLargest) {
  UOp x = input({6}, {2, kNaN, 1, 2, -kInf, 1});
  EXPECT_EQ(run(tensor::sort(x, {0, false})), V({4, 2, 5, 0, 3, 1}));
  EXPECT_EQ(run(tensor::sort(x, {0, true})), V({1, 0, 3, 2, 5, 4}));
}
TEST_F(Eval, SortAlongTheFirstAxis) { EXPECT_EQ(run(tensor::sort(input({3, 2}, {3, 1, 1, 2, 2, 3}), {0, false})), V({1, 0, 2, 1, 0, 2})); }
TEST_F(Eval, ScanRunsBothWays) {
  UOp x = input({4}, {1, 2, 3, 4});
  EXPECT_EQ(run(tensor::scan(x, {ReduceKind::Add, 0, false, false})), V({1, 3, 6, 10}));
  EXPECT_EQ(run(tensor::scan(x, {ReduceKind::Add, 0, true, false})), V({0, 1, 3, 6}));
  EXPECT_EQ(run(tensor::scan(x, {ReduceKind::Add, 0, false, true})), V({10, 9, 7, 4}));
  EXPECT_EQ(run(tensor::scan(x, {ReduceKind::Mul, 0, true, true})), V({24, 12, 4, 1}));
}

TEST_F(Eval, BitcastKeepsTheBits) { EXPECT_EQ(run(bitcast(input({2}, {1, -0.0}), Kind::I32)), V({0x3f800000, -2147483648.0})); }

TEST_F(Eval, FreeSizesComeFromVars) {
  env.vars = {{"n", 3}};
  UOp n = var("n", 1, 8);
  EXPECT_EQ(run(tensor::iota(n * 2 - 1, Kind::I64)), V({0, 1, 2, 3, 4}));
  EXPECT_EQ(eval_index((n + 4) / 2, env), 3);
}

TEST_F(Eval, GraphBindsFreeSizesByInputDims) {
  Graph g;
  g.arena = std::make_shared<Arena>();
  Arena::Scope s(*g.arena);
  UOp n = var("n", 1, 8), x = tensor::param(0, Kind::F32, {n}), c = tensor::constant(0, Kind::F32, {idx(1)});
  static const f32 two[] = {2};
  g.constants.push_back({"two", Kind::F32, {1}, std::span(reinterpret_cast<const u8*>(two), 4), nullptr});
  UOp out[] = {x * tensor::expand(c, {n})};
  g.sink = node(Op::Sink, Kind::Void, out);
  g.inputs = {{"x", Kind::F32, {n}}};
  Values in[] = {values(Kind::F32, {3}, V({1, 2, 3}))};
  EXPECT_EQ(eval_graph(g, in)[0], values(Kind::F32, {3}, V({2, 4, 6})));
}

TEST_F(Eval, ParamOfOtherDimsIsAnError) {
  env.params = {values(Kind::F32, {2}, V({1, 2}))};
  EXPECT_EQ(message(tensor::param(0, Kind::F32, dims({3}))), "Param f32[0](3) needs f32(3), got f32(2)");
}
