// LOOP and BRANCH: regions, legality, and what the interpreter makes of them.
#include "ir/regions.h"
#include "ir/spec.h"
#include "ir/text.h"
#include "ir_test.h"

using namespace tg;

class LoopTest : public IrTest {
 public:
  UOp yes() { return konst(Kind::Bool, 1); }
  UOp f32(f64 v) { return tensor::reshape(konst_f(Kind::F32, v), dims({1})); }
  std::vector<UOp> one(UOp u) { return {u}; }
  // x = 2x + step, `n` rounds.
  UOp doubling(i64 id, UOp x, UOp n) {
    UOp c = tensor::carry({id, 0}, x.dtype(), shape(x)), s = tensor::step(id, n);
    return tensor::loop(id, n, yes(), one(x), yes(), one(c * konst_f(Kind::F32, 2) + cast(s, Kind::F32)), one(c));
  }
};

TEST_F(LoopTest, CarriesAndScans) {
  UOp l = doubling(0, f32(1), idx(3));  // 1 -> 2 -> 5 -> 12
  EXPECT_EQ(run(tensor::get(l, 0)), V({12}));
  EXPECT_EQ(run(tensor::get(l, 1)), V({1, 2, 5}));
  EXPECT_EQ(last.dims, D({3, 1}));
}
TEST_F(LoopTest, NoRoundGivesTheInitialValue) {
  UOp l = doubling(0, f32(7), idx(0));
  EXPECT_EQ(run(tensor::get(l, 0)), V({7}));
  EXPECT_EQ(run(tensor::get(l, 1)), V({}));
}
TEST_F(LoopTest, EndsWhereTheConditionSaysSo) {
  UOp c = tensor::carry({0, 0}, Kind::F32, dims({1})), next = c + c;
  UOp small = tensor::reshape(lt(next, f32(100)), {});
  UOp l = tensor::loop(0, idx(1000), yes(), one(f32(1)), small, one(next), {});
  EXPECT_EQ(run(tensor::get(l, 0)), V({128}));
  UOp none = tensor::loop(0, idx(1000), konst(Kind::Bool, 0), one(f32(1)), small, one(next), {});
  EXPECT_EQ(run(tensor::get(none, 0)), V({1}));
}
TEST_F(LoopTest, StepReadsARow) {
  UOp x = arange({3, 2}), s = tensor::step(0, idx(3)), c = tensor::carry({0, 0}, Kind::F32, dims({2}));
  UOp row = tensor::reshape(tensor::slice(x, 0, s, s + 1), dims({2}));
  UOp l = tensor::loop(0, idx(3), yes(), one(input({2}, {0, 0})), yes(), one(c + row), one(c + row));
  EXPECT_EQ(violation(Spec::Tensor, node(Op::Sink, Kind::Void, {tensor::get(l, 0)})), "");
  EXPECT_EQ(run(tensor::get(l, 0)), V({6, 9}));
  EXPECT_EQ(run(tensor::get(l, 1)), V({0, 1, 2, 4, 6, 9}));
}
TEST_F(LoopTest, ALoopInALoop) {
  UOp outer = tensor::carry({1, 0}, Kind::F32, dims({1}));
  UOp inner = doubling(2, outer, idx(2));  // x -> 4x + 1
  UOp l = tensor::loop(1, idx(3), yes(), one(f32(1)), yes(), one(tensor::get(inner, 0)), {});
  EXPECT_EQ(run(tensor::get(l, 0)), V({85}));  // 1 -> 5 -> 21 -> 85
}
TEST_F(LoopTest, ABranchComputesOneSide) {
  // The side that is not taken would fail: its index is out of range.
  UOp at = konst(Kind::I64, 9), x = arange({3});
  UOp bad = tensor::gather(x, std::vector<UOp>{tensor::reshape(at, dims({1}))}), good = f32(4);
  UOp c = tensor::reshape(lt(input({1}, {1}), f32(2)), {});
  EXPECT_EQ(run(tensor::get(tensor::branch(c, one(good), one(bad)), 0)), V({4}));
  EXPECT_ANY_THROW(run(tensor::get(tensor::branch(logical_not(c), one(good), one(bad)), 0)));
}
TEST_F(LoopTest, RegionsFollowTheReaders) {
  UOp x = input({1}, {3}), c = tensor::carry({0, 0}, Kind::F32, dims({1}));
  UOp same = x * x, then_only = x + x, cond = tensor::reshape(lt(c, f32(5)), {});
  UOp b = tensor::branch(cond, one(then_only + c), one(same + c));
  UOp l = tensor::loop(0, idx(2), yes(), one(same), yes(), one(tensor::get(b, 0)), {});
  UOp root = tensor::get(l, 0);
  std::vector<UOp> order = toposort(root);
  Regions r = regions(order, one(root));
  EXPECT_EQ(r.of[same], 0u);                   // read outside too
  EXPECT_EQ(r.of[cond], r.inside(l));
  EXPECT_EQ(r.of[then_only], r.inside(b, 0));  // does not leave its side, though it is the same in each round
  EXPECT_EQ(r.of[x], 0u);
  EXPECT_TRUE(r.in_loop(r.of[then_only], 0));
  EXPECT_FALSE(r.in_loop(r.of[then_only], r.inside(l)));
}
TEST_F(LoopTest, WhatIsTheSameInEachRoundStandsBefore) {
  UOp x = input({2, 2}, {1, 2, 3, 4}), c = tensor::carry({0, 0}, Kind::F32, dims({2}));
  UOp sum = tensor::reduce(x, ReduceKind::Add, {1});
  UOp l = tensor::loop(0, idx(4), yes(), one(input({2}, {0, 0})), yes(), one(c + sum), {});
  std::vector<UOp> order = toposort(tensor::get(l, 0));
  EXPECT_EQ(regions(order, one(tensor::get(l, 0))).of[sum], 0u);
  EXPECT_EQ(run(tensor::get(l, 0)), V({12, 28}));
}
TEST_F(LoopTest, LegalUse) {
  auto wrong = [](UOp u) { return violation(Spec::Tensor, node(Op::Sink, Kind::Void, {u})); };
  UOp l = doubling(0, f32(1), idx(3)), c = tensor::carry({0, 0}, Kind::F32, dims({1}));
  EXPECT_EQ(wrong(tensor::get(l, 0)), "");
  EXPECT_NE(wrong(tensor::get(l, 0) + c).find("is read outside the LOOP 0"), std::string::npos);
  EXPECT_NE(wrong(c).find("no LOOP has the number"), std::string::npos);
  EXPECT_NE(wrong(tensor::get(l, 0) + tensor::get(doubling(0, f32(2), idx(3)), 0)).find("two LOOPs have the number 0"), std::string::npos);
}
TEST_F(LoopTest, TextReadsBack) {
  UOp l = tensor::get(doubling(3, f32(1), idx(3)), 0);
  EXPECT_EQ(parse(print(l)), l);
}
