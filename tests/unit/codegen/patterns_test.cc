// What codegen knows as a whole: softmax's exp, whose argument is never positive, and gelu.
#include "codegen/patterns.h"

#include <gtest/gtest.h>

#include "ir/tensor.h"

using namespace tg;

namespace {

class Patterns : public testing::Test {
 protected:
  Arena arena;
  Arena::Scope scope{arena};
  UOp n = idx(8), i = range(idx(4), {0, 0, 0, AxisKind::Loop}), j = range(n, {1, 0, 0, AxisKind::Loop}), k = range(n, {1, 0, 1, AxisKind::Reduce});
  UOp x = tensor::param(1, Kind::F32, dims({4, 8})), o = tensor::param(0, Kind::F32, dims({4, 8}));

  static UOp load(UOp b, UOp a, UOp c) { return node(Op::Load, Kind::F32, {node(Op::Index, Kind::F32, {b, a, c})}); }
  static UOp largest(UOp v, UOp r) { return node(Op::Reduce, Kind::F32, {v, r}, ReduceArg{ReduceKind::Max, {}}.ints()); }
  // Is the EXP (or ERF) of out[i, j] = v still there when the patterns are lowered?
  bool stays(UOp v) const {
    UOp st = node(Op::Store, Kind::Void, {node(Op::Index, Kind::F32, {o, i, j}), v, i, j});
    for (UOp u : toposort(lower_patterns(node(Op::Sink, Kind::Void, {st}))))
      if (u.in(Op::Exp | Op::Erf)) return true;
    return false;
  }
  static UOp exp(UOp v) { return alu(Op::Exp, {v}); }
  static UOp number(f64 v) { return konst_f(Kind::F32, v); }
};

TEST_F(Patterns, ExpOfAnElementLessTheLargestOfItsRow) { EXPECT_FALSE(stays(exp(load(x, i, j) - largest(load(x, i, k), k)))); }
TEST_F(Patterns, ScaledAndMaskedScores) {
  auto score = [&](UOp at) { return load(x, i, at) * number(0.125) + where(lt(i, at), number(-1e9), number(0)); };
  EXPECT_FALSE(stays(exp(score(j) - largest(score(k), k))));
}
TEST_F(Patterns, TheLargestOfAPaddedRow) {
  UOp inside = lt(k, idx(7));
  UOp padded = where(inside, node(Op::Load, Kind::F32, {node(Op::Index, Kind::F32, {x, i, k}), inside, number(0)}), identity(ReduceKind::Max, Kind::F32));
  UOp outside = node(Op::Load, Kind::F32, {node(Op::Index, Kind::F32, {x, i, j}), lt(j, idx(7)), number(0)});
  EXPECT_FALSE(stays(exp(outside - largest(padded, k))));
}
TEST_F(Patterns, ExpOfSomethingElseIsTheFullOne) {
  EXPECT_TRUE(stays(exp(load(x, i, j))));
  EXPECT_TRUE(stays(exp(load(x, i, j) - load(x, i, idx(0)))));
  EXPECT_TRUE(stays(exp(load(x, i, j) * number(2) - largest(load(x, i, k), k)))) << "2 x may be above the largest x";
  EXPECT_TRUE(stays(exp(largest(load(x, i, k), k) - load(x, i, j))));
}
TEST_F(Patterns, AMaskOnTheLargestAloneIsNoRowMaximum) {
  // What the mask hides may be the larger one.
  UOp causal = where(lt(k, i + 1), load(x, i, k), identity(ReduceKind::Max, Kind::F32));
  EXPECT_TRUE(stays(exp(load(x, i, j) - largest(causal, k))));
  UOp seen = tensor::param(2, Kind::Bool, dims({4, 8}));
  UOp chosen = where(node(Op::Load, Kind::Bool, {node(Op::Index, Kind::Bool, {seen, i, k})}), load(x, i, k), identity(ReduceKind::Max, Kind::F32));
  EXPECT_TRUE(stays(exp(load(x, i, j) - largest(chosen, k))));
}
TEST_F(Patterns, AnotherRowIsNoRowMaximum) {
  EXPECT_TRUE(stays(exp(load(x, i, j) - largest(load(x, idx(0), k), k))));
}
TEST_F(Patterns, ASmallestIsNoLargest) {
  UOp least = node(Op::Reduce, Kind::F32, {load(x, i, k), k}, ReduceArg{ReduceKind::Min, {}}.ints());
  EXPECT_TRUE(stays(exp(load(x, i, j) - least)));
}
TEST_F(Patterns, GeluInAllItsOrders) {
  UOp v = load(x, i, j), half = number(0.5), one = number(1), root = number(0.70710678118654752);
  UOp e = alu(Op::Erf, {v * root}) + one;
  EXPECT_FALSE(stays(v * half * e));
  EXPECT_FALSE(stays(v * e * half));
  EXPECT_FALSE(stays(v * (e * half)));
  EXPECT_FALSE(stays(v * half * (alu(Op::Erf, {v / number(1.4142135623730951)}) + one)));
}
TEST_F(Patterns, WhatIsNotQuiteGelu) {
  UOp v = load(x, i, j), w = load(x, i, idx(0)), half = number(0.5), one = number(1), root = number(0.70710678118654752);
  EXPECT_TRUE(stays(w * half * (alu(Op::Erf, {v * root}) + one))) << "of two values";
  EXPECT_TRUE(stays(v * half * (alu(Op::Erf, {v * number(0.7)}) + one)));
  EXPECT_TRUE(stays(v * number(0.25) * (alu(Op::Erf, {v * root}) + one)));
  EXPECT_TRUE(stays(alu(Op::Erf, {v * root})));
}

}  // namespace
