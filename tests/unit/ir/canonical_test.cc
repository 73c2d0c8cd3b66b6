#include "ir/canonical.h"

#include "ir/text.h"
#include "ir_test.h"

using namespace tg;

class CanonicalTest : public IrTest {
 protected:
  // out[i] = sum over k of a[i, k] * b[k] with the numbers given.
  UOp dot(i64 out, i64 a, i64 b, i64 i_id, i64 k_id, bool swapped = false, i64 n = 4) {
    UOp i = range(idx(n), {i_id, 0, 0, AxisKind::Loop}), k = range(idx(8), {k_id, 0, 0, AxisKind::Reduce});
    UOp x = node(Op::Load, Kind::F32, {node(Op::Index, Kind::F32, {tensor::param(a, Kind::F32, dims({n, 8})), i, k})});
    UOp y = node(Op::Load, Kind::F32, {node(Op::Index, Kind::F32, {tensor::param(b, Kind::F32, dims({8})), k})});
    UOp m = swapped ? y * x : x * y;
    UOp s = node(Op::Reduce, Kind::F32, {m, k}, ReduceArg{ReduceKind::Add, {}}.ints());
    UOp at = node(Op::Index, Kind::F32, {tensor::param(out, Kind::F32, dims({n})), i});
    return node(Op::Sink, Kind::Void, {node(Op::Store, Kind::Void, {at, s, i})});
  }
};

TEST_F(CanonicalTest, NumbersAndOperandOrderDoNotMatter) {
  Canonical a = canonical(dot(0, 1, 2, 0, 1)), b = canonical(dot(7, 3, 5, 9, 4, true));
  EXPECT_EQ(a.digest, b.digest);
  EXPECT_EQ(print(a.ast), print(b.ast));
  EXPECT_EQ(b.slot_of.size(), 3u);
  EXPECT_EQ(b.slot_of[0], 7);
  EXPECT_EQ(b.axis_of, (std::vector<i64>{9, 4}));
  EXPECT_EQ(a.axis_of, (std::vector<i64>{0, 1}));
  // Whichever operand comes first, it is the same one in both.
  EXPECT_EQ(a.slot_of[1] == 1, b.slot_of[1] == 3);
}
TEST_F(CanonicalTest, SizesMatter) { EXPECT_NE(canonical(dot(0, 1, 2, 0, 1)).digest, canonical(dot(0, 1, 2, 0, 1, false, 5)).digest); }
TEST_F(CanonicalTest, SharedBuffersMatter) { EXPECT_NE(canonical(dot(0, 1, 2, 0, 1)).digest, canonical(dot(0, 1, 1, 0, 1)).digest); }
TEST_F(CanonicalTest, ArenaAndHistoryDoNotMatter) {
  Digest here = canonical(dot(0, 1, 2, 0, 1)).digest;
  Arena other;
  Arena::Scope s(other);
  for (i64 i = 100; i < 200; i++) idx(i);
  EXPECT_EQ(canonical(dot(0, 1, 2, 0, 1)).digest, here);
}
TEST_F(CanonicalTest, CanonicalOfCanonicalIsItself) {
  Canonical a = canonical(dot(7, 3, 5, 9, 4, true)), b = canonical(a.ast);
  EXPECT_EQ(a.digest, b.digest);
  EXPECT_EQ(b.slot_of, (std::vector<i64>{0, 1, 2}));
  Canonical c = canonical(parse(print(a.ast)));
  EXPECT_EQ(c.digest, a.digest);
}
TEST_F(CanonicalTest, LoopsOfOneSizeStayTwo) {
  UOp i = range(idx(4), {3, 0, 0, AxisKind::Loop}), j = range(idx(4), {1, 0, 0, AxisKind::Loop});
  UOp x = node(Op::Load, Kind::F32, {node(Op::Index, Kind::F32, {tensor::param(5, Kind::F32, dims({4, 4})), j, i})});
  UOp at = node(Op::Index, Kind::F32, {tensor::param(2, Kind::F32, dims({4, 4})), i, j});
  Canonical c = canonical(node(Op::Sink, Kind::Void, {node(Op::Store, Kind::Void, {at, x, i, j})}));
  EXPECT_EQ(c.axis_of, (std::vector<i64>{3, 1}));
  EXPECT_EQ(c.slot_of, (std::vector<i64>{2, 5}));
  EXPECT_EQ(print(c.ast),
            "%0 = CONST index 4\n"
            "%1 = PARAM f32 #0 %0 %0\n"
            "%2 = RANGE index [0, 0, 0, 4] %0\n"
            "%3 = RANGE index [1, 0, 0, 4] %0\n"
            "%4 = INDEX f32 %1 %2 %3\n"
            "%5 = PARAM f32 #1 %0 %0\n"
            "%6 = INDEX f32 %5 %3 %2\n"
            "%7 = LOAD f32 %6\n"
            "%8 = STORE void %4 %7 %2 %3\n"
            "%9 = SINK void %8\n");
}
TEST_F(CanonicalTest, ConstantsStayRight) {
  UOp i = range(idx(4), {0, 0, 0, AxisKind::Loop});
  UOp at = node(Op::Index, Kind::F32, {tensor::param(0, Kind::F32, dims({8})), i + 1});
  Canonical c = canonical(node(Op::Sink, Kind::Void, {node(Op::Store, Kind::Void, {at, cast(i, Kind::F32), i})}));
  UOp sum = c.ast.src(0).src(0).src(1);
  EXPECT_TRUE(sum.is(Op::Add) && sum.src(1).is_const(1));
}
