// The steps of codegen on tiny kernels, as text: what goes in, what comes out. The texts are read into one arena, where the same graph is the
// same node.
#include <gtest/gtest.h>

#include "base/error.h"
#include "codegen/lower.h"
#include "ir/eval_linear.h"
#include "ir/spec.h"
#include "ir/text.h"

using namespace tg;

namespace {

class Steps : public testing::Test {
 protected:
  Arena arena;
  Arena::Scope scope{arena};

  static void same(UOp got, std::string_view want) { EXPECT_EQ(got, parse(want)) << "got\n" << print(got); }
  static void same(const std::vector<UOp>& got, std::string_view want) {
    EXPECT_EQ(got, parse_list(want)) << "got\n" << print_list(got);
    EXPECT_EQ(violation(got), "");
  }
};
// RANGE kinds: 4 LOOP, 5 UPCAST, 6 VECTOR, 7 UNROLL, 8 REDUCE

// --- offsets ----------------------------------------------------------------------------------------------------------------------------
TEST_F(Steps, OffsetsFollowTheLayout) {
  UOp in = parse(R"(
    %4 = CONST index 4
    %6 = CONST index 6
    %o = PARAM f32 #0 %4 %6
    %i = RANGE index [0, 0, 0, 4] %4
    %j = RANGE index [1, 0, 0, 4] %6
    %at = INDEX f32 %o %i %j
    %v = CONST f32 1
    %s = STORE void %at %v %i %j
    %k = SINK void %s)");
  Slot columns;
  columns.dims = {4, 6}, columns.layout = Layout::permuted(columns.dims, std::vector<i64>{1, 0});
  same(lower_offsets(in, {columns}), R"(
    %4 = CONST index 4
    %6 = CONST index 6
    %o = PARAM f32 #0
    %i = RANGE index [0, 0, 0, 4] %4
    %j = RANGE index [1, 0, 0, 4] %6
    %column = MUL index %j %4
    %offset = ADD index %i %column
    %at = INDEX f32 %o %offset
    %v = CONST f32 1
    %s = STORE void %at %v %i %j
    %k = SINK void %s)");
}
TEST_F(Steps, LinearInARange) {
  UOp r = range(idx(8), {0, 0, 0, AxisKind::Loop}), q = range(idx(3), {1, 0, 0, AxisKind::Loop});
  auto l = linear_in((r * 4 + q) * 2 - r, r);
  ASSERT_TRUE(l);
  EXPECT_EQ(l->factor, 7);
  EXPECT_EQ(l->rest, q * 2);
  EXPECT_EQ(linear_in(q * 5 + 1, r)->factor, 0);
  EXPECT_EQ(linear_in(q * 5 + 1, r)->rest, q * 5 + 1);
  EXPECT_FALSE(linear_in(r / 2, r));
  EXPECT_FALSE(linear_in(r * q, r));
}

// --- expand -----------------------------------------------------------------------------------------------------------------------------
TEST_F(Steps, UpcastMakesANodeAValue) {
  same(expand(parse(R"(
    %2 = CONST index 2
    %o = PARAM f32 #0
    %x = PARAM f32 #1
    %i = RANGE index [0, 1, 0, 5] %2
    %xi = INDEX f32 %x %i
    %v = LOAD f32 %xi
    %w = ADD f32 %v %v
    %oi = INDEX f32 %o %i
    %s = STORE void %oi %w %i
    %k = SINK void %s)")),
       R"(
    %o = PARAM f32 #0
    %x = PARAM f32 #1
    %0 = CONST index 0
    %1 = CONST index 1
    %x0 = INDEX f32 %x %0
    %x1 = INDEX f32 %x %1
    %v0 = LOAD f32 %x0
    %v1 = LOAD f32 %x1
    %w0 = ADD f32 %v0 %v0
    %w1 = ADD f32 %v1 %v1
    %o0 = INDEX f32 %o %0
    %o1 = INDEX f32 %o %1
    %s0 = STORE void %o0 %w0
    %s1 = STORE void %o1 %w1
    %k = SINK void %s0 %s1)");
}
TEST_F(Steps, WhatDoesNotDependOnTheTileIsOneNode) {
  UOp out = expand(parse(R"(
    %2 = CONST index 2
    %0 = CONST index 0
    %o = PARAM f32 #0
    %x = PARAM f32 #1
    %i = RANGE index [0, 1, 0, 5] %2
    %x0 = INDEX f32 %x %0
    %v = LOAD f32 %x0
    %oi = INDEX f32 %o %i
    %s = STORE void %oi %v %i
    %k = SINK void %s)"));
  int loads = 0;
  for (UOp u : toposort(out)) loads += u.is(Op::Load);
  EXPECT_EQ(loads, 1);
}
TEST_F(Steps, AnUnrolledSumWithoutALoopIsATree) {
  same(expand(parse(R"(
    %4 = CONST index 4
    %0 = CONST index 0
    %o = PARAM f32 #0
    %x = PARAM f32 #1
    %i = RANGE index [0, 1, 1, 7] %4
    %xi = INDEX f32 %x %i
    %v = LOAD f32 %xi
    %r = REDUCE f32 [0] %v %i
    %oi = INDEX f32 %o %0
    %s = STORE void %oi %r
    %k = SINK void %s)")),
       R"(
    %0 = CONST index 0
    %1 = CONST index 1
    %2 = CONST index 2
    %3 = CONST index 3
    %o = PARAM f32 #0
    %x = PARAM f32 #1
    %x0 = INDEX f32 %x %0
    %x1 = INDEX f32 %x %1
    %x2 = INDEX f32 %x %2
    %x3 = INDEX f32 %x %3
    %v0 = LOAD f32 %x0
    %v1 = LOAD f32 %x1
    %v2 = LOAD f32 %x2
    %v3 = LOAD f32 %x3
    %a = ADD f32 %v0 %v1
    %b = ADD f32 %v2 %v3
    %r = ADD f32 %a %b
    %oi = INDEX f32 %o %0
    %s = STORE void %oi %r
    %k = SINK void %s)");
}
TEST_F(Steps, FewUnrolledSumsHaveAnAccumulatorEach) {
  same(expand(parse(R"(
    %2 = CONST index 2
    %8 = CONST index 8
    %0 = CONST index 0
    %o = PARAM f32 #0
    %x = PARAM f32 #1
    %l = RANGE index [0, 0, 1, 8] %8
    %i = RANGE index [0, 1, 1, 7] %2
    %l2 = MUL index %l %2
    %at = ADD index %l2 %i
    %xi = INDEX f32 %x %at
    %v = LOAD f32 %xi
    %r = REDUCE f32 [0] %v %l %i
    %oi = INDEX f32 %o %0
    %s = STORE void %oi %r
    %k = SINK void %s)")),
       R"(
    %2 = CONST index 2
    %8 = CONST index 8
    %0 = CONST index 0
    %1 = CONST index 1
    %o = PARAM f32 #0
    %x = PARAM f32 #1
    %l = RANGE index [0, 0, 1, 8] %8
    %l2 = MUL index %l %2
    %at1 = ADD index %l2 %1
    %x0 = INDEX f32 %x %l2
    %x1 = INDEX f32 %x %at1
    %v0 = LOAD f32 %x0
    %v1 = LOAD f32 %x1
    %r0 = REDUCE f32 [0] %v0 %l
    %r1 = REDUCE f32 [0] %v1 %l
    %r = ADD f32 %r0 %r1
    %oi = INDEX f32 %o %0
    %s = STORE void %oi %r
    %k = SINK void %s)");
}
TEST_F(Steps, ManyUnrolledSumsTakeTheirTermsInTurn) {
  UOp out = expand(parse(R"(
    %2 = CONST index 2
    %8 = CONST index 8
    %o = PARAM f32 #0
    %x = PARAM f32 #1
    %j = RANGE index [1, 1, 0, 5] %8
    %l = RANGE index [0, 0, 1, 8] %8
    %i = RANGE index [0, 1, 1, 7] %2
    %l2 = MUL index %l %2
    %at = ADD index %l2 %i
    %j16 = MUL index %j %8
    %at2 = ADD index %at %j16
    %xi = INDEX f32 %x %at2
    %v = LOAD f32 %xi
    %r = REDUCE f32 [0] %v %l %i
    %oi = INDEX f32 %o %j
    %s = STORE void %oi %r %j
    %k = SINK void %s)"));
  int reduces = 0;
  for (UOp u : toposort(out))
    if (u.is(Op::Reduce)) {
      reduces++;
      EXPECT_EQ(reduce_values(u).size(), 2u) << "two terms a step, one accumulator";
      EXPECT_EQ(closed_ranges(u).size(), 1u);
    }
  EXPECT_EQ(reduces, 8);
}

// --- vectorize --------------------------------------------------------------------------------------------------------------------------
TEST_F(Steps, NeighboursAreAVector) {
  same(vectorize(parse(R"(
    %4 = CONST index 4
    %8 = CONST index 8
    %o = PARAM f32 #0
    %x = PARAM f32 #1
    %i = RANGE index [0, 0, 0, 4] %8
    %l = RANGE index [0, 1, 0, 6] %4
    %i4 = MUL index %i %4
    %at = ADD index %i4 %l
    %xi = INDEX f32 %x %at
    %v = LOAD f32 %xi
    %c = CONST f32 2
    %w = MUL f32 %v %c
    %oi = INDEX f32 %o %at
    %s = STORE void %oi %w %i %l
    %k = SINK void %s)")),
       R"(
    %4 = CONST index 4
    %8 = CONST index 8
    %o = PARAM f32 #0
    %x = PARAM f32 #1
    %i = RANGE index [0, 0, 0, 4] %8
    %i4 = MUL index %i %4
    %xi = INDEX f32 %x %i4
    %v = LOAD f32x4 %xi
    %c = CONST f32x4 2
    %w = MUL f32x4 %v %c
    %oi = INDEX f32 %o %i4
    %s = STORE void %oi %w %i
    %k = SINK void %s)");
}
TEST_F(Steps, WhatAllLanesShareIsBroadcastLate) {
  same(vectorize(parse(R"(
    %4 = CONST index 4
    %0 = CONST index 0
    %o = PARAM f32 #0
    %x = PARAM f32 #1
    %b = PARAM f32 #2
    %l = RANGE index [0, 1, 0, 6] %4
    %xi = INDEX f32 %x %l
    %v = LOAD f32 %xi
    %bi = INDEX f32 %b %0
    %bias = LOAD f32 %bi
    %n = NEG f32 %bias
    %w = ADD f32 %v %n
    %oi = INDEX f32 %o %l
    %s = STORE void %oi %w %l
    %k = SINK void %s)")),
       R"(
    %0 = CONST index 0
    %o = PARAM f32 #0
    %x = PARAM f32 #1
    %b = PARAM f32 #2
    %xi = INDEX f32 %x %0
    %v = LOAD f32x4 %xi
    %bi = INDEX f32 %b %0
    %bias = LOAD f32 %bi
    %n = NEG f32 %bias
    %all = BROADCAST f32x4 %n
    %w = ADD f32x4 %v %all
    %oi = INDEX f32 %o %0
    %s = STORE void %oi %w
    %k = SINK void %s)");
}
TEST_F(Steps, StepsOfMoreThanOneAreAGather) {
  UOp out = vectorize(parse(R"(
    %4 = CONST index 4
    %3 = CONST index 3
    %o = PARAM f32 #0
    %x = PARAM f32 #1
    %l = RANGE index [0, 1, 0, 6] %4
    %l3 = MUL index %l %3
    %xi = INDEX f32 %x %l3
    %v = LOAD f32 %xi
    %oi = INDEX f32 %o %l
    %s = STORE void %oi %v %l
    %k = SINK void %s)"));
  UOp value = out.src(0).src(1);
  ASSERT_TRUE(value.is(Op::Load));
  EXPECT_EQ(value.dtype(), DType(Kind::F32, 4));
  EXPECT_EQ(value.src(0).src(1).dtype(), DType(Kind::Index, 4)) << "an offset a lane";
  EXPECT_EQ(out.src(0).src(0).src(1), idx(0)) << "the store is one vector";
}
TEST_F(Steps, AReduceOverLanesEndsHorizontally) {
  same(vectorize(parse(R"(
    %4 = CONST index 4
    %8 = CONST index 8
    %0 = CONST index 0
    %o = PARAM f32 #0
    %x = PARAM f32 #1
    %i = RANGE index [0, 0, 1, 8] %8
    %l = RANGE index [0, 1, 1, 6] %4
    %i4 = MUL index %i %4
    %at = ADD index %i4 %l
    %xi = INDEX f32 %x %at
    %v = LOAD f32 %xi
    %r = REDUCE f32 [2] %v %i %l
    %oi = INDEX f32 %o %0
    %s = STORE void %oi %r
    %k = SINK void %s)")),
       R"(
    %4 = CONST index 4
    %8 = CONST index 8
    %0 = CONST index 0
    %o = PARAM f32 #0
    %x = PARAM f32 #1
    %i = RANGE index [0, 0, 1, 8] %8
    %i4 = MUL index %i %4
    %xi = INDEX f32 %x %i4
    %v = LOAD f32x4 %xi
    %r = REDUCE f32x4 [2] %v %i
    %h = HREDUCE f32 #2 %r
    %oi = INDEX f32 %o %0
    %s = STORE void %oi %h
    %k = SINK void %s)");
}
TEST_F(Steps, LanesWithoutALoopNeedNoAccumulator) {
  UOp out = vectorize(parse(R"(
    %4 = CONST index 4
    %0 = CONST index 0
    %o = PARAM f32 #0
    %x = PARAM f32 #1
    %l = RANGE index [0, 1, 1, 6] %4
    %xi = INDEX f32 %x %l
    %v = LOAD f32 %xi
    %r = REDUCE f32 [0] %v %l
    %oi = INDEX f32 %o %0
    %s = STORE void %oi %r
    %k = SINK void %s)"));
  same(out, R"(
    %0 = CONST index 0
    %o = PARAM f32 #0
    %x = PARAM f32 #1
    %xi = INDEX f32 %x %0
    %v = LOAD f32x4 %xi
    %h = HREDUCE f32 #0 %v
    %oi = INDEX f32 %o %0
    %s = STORE void %oi %h
    %k = SINK void %s)");
}
TEST_F(Steps, AGateALaneIsAMask) {
  same(vectorize(parse(R"(
    %4 = CONST index 4
    %3 = CONST index 3
    %o = PARAM f32 #0
    %x = PARAM f32 #1
    %l = RANGE index [0, 1, 0, 6] %4
    %in = LT bool %l %3
    %xi = INDEX f32 %x %l
    %z = CONST f32 0
    %v = LOAD f32 %xi %in %z
    %oi = INDEX f32 %o %l
    %s = STORE void %oi %v %in %l
    %k = SINK void %s)")),
       R"(
    %0 = CONST index 0
    %3 = CONST indexx4 3
    %o = PARAM f32 #0
    %x = PARAM f32 #1
    %l = LANES indexx4
    %in = LT boolx4 %l %3
    %xi = INDEX f32 %x %0
    %z = CONST f32x4 0
    %v = LOAD f32x4 %xi %in %z
    %oi = INDEX f32 %o %0
    %s = STORE void %oi %v %in
    %k = SINK void %s)");
}
// Lanes over an axis whose other loop is a reduce inside an address: both get lanes, the address is one number.
TEST_F(Steps, AReduceInAnAddressHasLanesToo) {
  UOp out = vectorize(parse(R"(
    %4 = CONST index 4
    %o = PARAM f32 #0
    %x = PARAM i64 #1
    %t = PARAM f32 #2
    %l = RANGE index [0, 1, 0, 6] %4
    %q = RANGE index [0, 1, 1, 6] %4
    %xi = INDEX i64 %x %q
    %v = LOAD i64 %xi
    %r = REDUCE i64 [2] %v %q
    %n = CAST index %r
    %row = MUL index %n %4
    %at = ADD index %row %l
    %ti = INDEX f32 %t %at
    %w = LOAD f32 %ti
    %oi = INDEX f32 %o %l
    %s = STORE void %oi %w %l
    %k = SINK void %s)"));
  for (UOp u : toposort(out)) EXPECT_FALSE(u.is(Op::Range)) << u.str();
  UOp value = out.src(0).src(1);
  EXPECT_EQ(value.dtype(), DType(Kind::F32, 4));
  EXPECT_EQ(value.src(0).src(1).dtype(), DType(Kind::Index)) << "four neighbours";
}

// --- linearize --------------------------------------------------------------------------------------------------------------------------
TEST_F(Steps, AStoreInALoop) {
  same(linearize(parse(R"(
    %n = CONST index 3
    %o = PARAM f32 #0
    %x = PARAM f32 #1
    %i = RANGE index [0, 0, 0, 4] %n
    %xi = INDEX f32 %x %i
    %v = LOAD f32 %xi
    %c = CONST f32 2
    %w = MUL f32 %v %c
    %oi = INDEX f32 %o %i
    %s = STORE void %oi %w %i
    %k = SINK void %s)")),
       R"(
    %n = CONST index 3
    %c = CONST f32 2
    %o = PARAM f32 #0
    %x = PARAM f32 #1
    %i = RANGE index [0, 0, 0, 4] %n
    %oi = INDEX f32 %o %i
    %xi = INDEX f32 %x %i
    %v = LOAD f32 %xi
    %w = MUL f32 %v %c
    %s = STORE void %oi %w
    %e = END void %i)");
}
TEST_F(Steps, AReduceIsAnAccumulatorAroundItsLoop) {
  same(linearize(parse(R"(
    %n = CONST index 3
    %0 = CONST index 0
    %o = PARAM f32 #0
    %x = PARAM f32 #1
    %i = RANGE index [0, 0, 1, 8] %n
    %xi = INDEX f32 %x %i
    %v = LOAD f32 %xi
    %r = REDUCE f32 [0] %v %i
    %oi = INDEX f32 %o %0
    %s = STORE void %oi %r
    %k = SINK void %s)")),
       R"(
    %n = CONST index 3
    %zero = CONST f32 0
    %0 = CONST index 0
    %x = PARAM f32 #1
    %acc = REG f32 #0
    %start = STORE void %acc %zero
    %i = RANGE index [0, 0, 1, 8] %n
    %xi = INDEX f32 %x %i
    %v = LOAD f32 %xi
    let %in = AFTER f32 %acc %i
    %old = LOAD f32 %in
    %new = ADD f32 %old %v
    %set = STORE void %acc %new
    %e = END void %i
    let %out = AFTER f32 %acc %e
    %sum = LOAD f32 %out
    %o = PARAM f32 #0
    %oi = INDEX f32 %o %0
    %s = STORE void %oi %sum)");
}

class Lists : public testing::Test {
 protected:
  Arena arena;
  Arena::Scope scope{arena};
  std::vector<UOp> list;
  void linear(std::string_view kernel) {
    list = linearize(parse(kernel));
    EXPECT_EQ(violation(list), "") << print_list(list);
  }
  i64 count(Op op) const {
    i64 n = 0;
    for (UOp u : list) n += u.is(op);
    return n;
  }
  // How many loops are open where the first node of an op stands.
  i64 depth(Op op) const {
    i64 d = 0;
    for (UOp u : list) {
      if (u.is(op)) return d;
      d += u.is(Op::Range), d -= u.is(Op::End);
    }
    return -1;
  }
};
TEST_F(Lists, AProductInASumIsFused) {
  linear(R"(
    %n = CONST index 3
    %0 = CONST index 0
    %o = PARAM f32 #0
    %x = PARAM f32 #1
    %y = PARAM f32 #2
    %i = RANGE index [0, 0, 1, 8] %n
    %xi = INDEX f32 %x %i
    %yi = INDEX f32 %y %i
    %v = LOAD f32 %xi
    %w = LOAD f32 %yi
    %p = MUL f32 %v %w
    %r = REDUCE f32 [0] %p %i
    %oi = INDEX f32 %o %0
    %s = STORE void %oi %r
    %k = SINK void %s)");
  EXPECT_EQ(count(Op::MulAcc), 1);
  EXPECT_EQ(count(Op::Mul), 0);
}
TEST_F(Lists, AProductThatAnotherReadsIsMadeOnce) {
  linear(R"(
    %n = CONST index 3
    %0 = CONST index 0
    %o = PARAM f32 #0
    %x = PARAM f32 #1
    %i = RANGE index [0, 0, 1, 8] %n
    %xi = INDEX f32 %x %i
    %v = LOAD f32 %xi
    %p = MUL f32 %v %v
    %r = REDUCE f32 [0] %p %i
    %m = REDUCE f32 [2] %p %i
    %y = ADD f32 %r %m
    %oi = INDEX f32 %o %0
    %s = STORE void %oi %y
    %k = SINK void %s)");
  EXPECT_EQ(count(Op::Mul), 1);
  EXPECT_EQ(count(Op::MulAcc), 0);
  EXPECT_EQ(count(Op::Range), 1) << "both reduces share the loop";
}
TEST_F(Lists, WhatALoopDoesNotChangeStandsBeforeIt) {
  linear(R"(
    %n = CONST index 3
    %0 = CONST index 0
    %o = PARAM f32 #0
    %x = PARAM f32 #1
    %i = RANGE index [0, 0, 0, 4] %n
    %x0 = INDEX f32 %x %0
    %v = LOAD f32 %x0
    %w = SQRT f32 %v
    %oi = INDEX f32 %o %i
    %s = STORE void %oi %w %i
    %k = SINK void %s)");
  EXPECT_EQ(depth(Op::Sqrt), 0);
  EXPECT_EQ(depth(Op::Store), 1);
}
TEST_F(Lists, AReduceOfARowStandsInTheRowsLoop) {
  linear(R"(
    %n = CONST index 3
    %m = CONST index 5
    %o = PARAM f32 #0
    %x = PARAM f32 #1
    %i = RANGE index [0, 0, 0, 4] %n
    %j = RANGE index [1, 0, 1, 8] %m
    %row = MUL index %i %m
    %at = ADD index %row %j
    %xi = INDEX f32 %x %at
    %v = LOAD f32 %xi
    %r = REDUCE f32 [2] %v %j
    %w = SQRT f32 %r
    %oi = INDEX f32 %o %i
    %s = STORE void %oi %w %i
    %k = SINK void %s)");
  EXPECT_EQ(depth(Op::Reg), 1);
  EXPECT_EQ(depth(Op::Max), 2);
  EXPECT_EQ(depth(Op::Sqrt), 1);
}
TEST_F(Lists, AStoreThatIsWaitedForComesFirst) {
  linear(R"(
    %n = CONST index 3
    %o = PARAM f32 #0
    %t = ROW f32 [0, 0] %n
    %i = RANGE index [0, 0, 0, 4] %n
    %j = RANGE index [1, 0, 1, 4] %n
    %tj = INDEX f32 %t %j
    %c = CAST f32 %j
    %first = STORE void %tj %c %j
    %full = AFTER f32 %t %first
    %ti = INDEX f32 %full %i
    %v = LOAD f32 %ti
    %oi = INDEX f32 %o %i
    %s = STORE void %oi %v %i
    %k = SINK void %s)");
  EXPECT_EQ(count(Op::Range), 2);
  std::vector<Op> order;
  for (UOp u : list)
    if (u.in(Op::Range | Op::End | Op::Load | Op::Store)) order.push_back(u.op());
  EXPECT_EQ(order, (std::vector<Op>{Op::Range, Op::Store, Op::End, Op::Range, Op::Load, Op::Store, Op::End}));
}

}  // namespace

// --- elements under 8 bits --------------------------------------------------------------------------------------------------------------
TEST_F(Steps, CopiesThatShareAByteSeeOneAnother) {
  // Five elements as one tile, in two copies of a loop, and in a loop: each byte is read and stored again for each element.
  const std::vector<f64> from = {-3, 12, 5, 9, 22}, u4 = {13, 12, 5, 9, 6}, i2 = {1, 0, 1, 1, -2};  // modulo 16; the low two bits with a sign
  for (const char* kind : {"u4", "i2"})
    for (const char* opts : {"", "UPCAST 0 5", "PEEL 0 2, UPCAST 0 2", "PEEL 0 3, UPCAST 0 3, UPCAST 100 2", "PADTO 0 8, UPCAST 0 4"}) {
      Target target;
      Kernel k;
      k.target = &target;
      k.ast = parse(str("%5 = CONST index 5\n%o = PARAM ", kind, " #0 %5\n%x = PARAM i32 #1 %5\n%i = RANGE index [0, 0, 0, 4] %5\n%to = INDEX ", kind,
                        " %o %i\n%at = INDEX i32 %x %i\n%l = LOAD i32 %at\n%v = CAST ", kind, " %l\n%s = STORE void %to %v %i\n%k = SINK void %s"));
      Slot slot;
      slot.dims = {5}, slot.layout = Layout::row_major(slot.dims);
      k.slots = {slot, slot};
      Result<Kernel> q = with_opts(k, opts);
      ASSERT_TRUE(q) << q.why();
      bool small = kind[0] == 'i';
      std::vector<Values> bufs{values(small ? Kind::I2 : Kind::U4, {5}, std::vector<f64>(5, 0)), values(Kind::I32, {5}, from)};
      eval_linear(lower(*q).linear, bufs);
      for (i64 i = 0; i < 5; i++) EXPECT_EQ(bufs[0].number(i), (small ? i2 : u4)[size_t(i)]) << kind << " [" << opts << "] element " << i;
    }
}

// --- waiting ----------------------------------------------------------------------------------------------------------------------------
TEST_F(Steps, AWaitStandsInTheLoopsThatItShares) {
  // Rounds over a row, each clipping what the one before left. Of the tile's copies only the first has values in a second round of the outer loop,
  // so the addresses of the others name no loop at all.
  Target target;
  target.vector_bytes = 64;
  Kernel k;
  k.target = &target;
  k.ordered = {0};
  k.ast = parse(R"(
    %zero = CONST index 0
    %one = CONST index 1
    %two = CONST index 2
    %64 = CONST index 64
    %n = VAR index "n" %zero %64 %one
    %rows = PARAM f32 #0 %two %n
    %i = RANGE index [1, 0, 0, 4] %n
    %first = INDEX f32 %rows %zero %i
    %x = PARAM f32 #2 %n
    %xi = INDEX f32 %x %i
    %start = LOAD f32 %xi
    %begin = STORE void %first %start %i
    %t = RANGE index [0, 0, 0, 4] %n
    %t1 = ADD index %t %one
    %next = FLOORMOD index %t1 %two
    %to = INDEX f32 %rows %next %i
    %begun = AFTER f32 %rows %begin
    %last = FLOORMOD index %t %two
    %from = INDEX f32 %begun %last %i
    %old = LOAD f32 %from
    %low = CONST f32 -8
    %clipped = MAX f32 %old %low
    %round = STORE void %to %clipped %i %t
    %y = PARAM f32 #1 %n
    %yi = INDEX f32 %y %i
    %done = AFTER f32 %rows %begin %round
    %end = FLOORMOD index %n %two
    %at = INDEX f32 %done %end %i
    %result = LOAD f32 %at
    %out = STORE void %yi %result %i
    %k = SINK void %begin %round %out)");
  for (std::vector<i64> dims : {std::vector<i64>{2, 64}, {64}, {64}}) {
    Slot slot;
    slot.dims = dims, slot.layout = Layout::row_major(dims);
    k.slots.push_back(slot);
  }
  Result<Kernel> q = with_opts(k, "PADTO 1 48, VECTOR 1 16, UPCAST 1 3");
  ASSERT_TRUE(q) << q.why();
  for (i64 n : {1, 17, 40, 64}) {
    std::vector<f64> from, want;
    for (i64 i = 0; i < n; i++) from.push_back(f64(i * 7 % 32 - 16)), want.push_back(std::max(from.back(), -8.0));
    std::vector<f64> none(size_t(n), 0);
    std::vector<Values> bufs{values(Kind::F32, {2 * n}, std::vector<f64>(size_t(2 * n), 0)), values(Kind::F32, {n}, none), values(Kind::F32, {n}, from)};
    eval_linear(lower(*q).linear, bufs, {{"n", n}});
    for (i64 i = 0; i < n; i++) EXPECT_EQ(bufs[1].number(i), want[size_t(i)]) << "element " << i << " of " << n;
  }
}
TEST_F(Steps, WhatARowIsWrittenOverWithIsMadeAnewInEachRound) {
  // The doubles lie where the row's own elements did, of which the last is the same for every i.
  Target target;
  Kernel k;
  k.target = &target;
  k.ast = parse(R"(
    %3 = CONST index 3
    %4 = CONST index 4
    %o = PARAM f32 #0 %3
    %x = PARAM f32 #1 %3 %4
    %i = RANGE index [0, 0, 0, 4] %3
    %j = RANGE index [1, 0, 1, 5] %4
    %xi = INDEX f32 %x %i %j
    %got = LOAD f32 %xi
    %inside = LT bool %j %3
    %six = CONST f32 -6
    %v = WHERE f32 %inside %got %six
    %row = ROW f32 [0, 0] %4
    %at = INDEX f32 %row %j
    %fill = STORE void %at %v %j
    %filled = AFTER f32 %row %fill
    %k = RANGE index [1, 0, 2, 5] %4
    %from = INDEX f32 %filled %k
    %e = LOAD f32 %from
    %twice = ADD f32 %e %e
    %other = ROW f32 [1, 0] %4
    %to = INDEX f32 %other %k
    %double = STORE void %to %twice %k
    %doubled = AFTER f32 %other %double
    %m = RANGE index [1, 0, 3, 8] %4
    %de = INDEX f32 %doubled %m
    %d = LOAD f32 %de
    %sum = REDUCE f32 [0] %d %m
    %oi = INDEX f32 %o %i
    %s = STORE void %oi %sum %i
    %sink = SINK void %s)");
  for (std::vector<i64> dims : {std::vector<i64>{3}, {3, 4}}) {
    Slot slot;
    slot.dims = dims, slot.layout = Layout::row_major(dims);
    k.slots.push_back(slot);
  }
  Lowered low = lower(k);
  EXPECT_EQ(std::count_if(low.linear.begin(), low.linear.end(), [](UOp u) { return u.is(Op::Row); }), 1);
  const std::vector<f64> none(3, 0), from{1, 2, 3, 100, 4, 5, 6, 100, 7, 8, 9, 100};
  std::vector<Values> bufs{values(Kind::F32, {3}, none), values(Kind::F32, {12}, from)};
  eval_linear(low.linear, bufs);
  for (i64 i = 0; i < 3; i++) EXPECT_EQ(bufs[0].number(i), f64(2 * (9 * i + 6 - 6)));
}
