#include "ir_test.h"

using namespace tg;

namespace {
i64 ints(Op op, Kind k, i64 a, i64 b = 0) {
  u64 s[] = {u64(a), u64(b)};
  return i64(eval_alu(op, k, s));
}
f64 floats(Op op, Kind k, f64 a, f64 b = 0, f64 c = 0) {
  u64 s[] = {from_f64(a), from_f64(b), from_f64(c)};
  return as_f64(eval_alu(op, k, s));
}
i64 to_int(Kind to, f64 x) { return i64(eval_cast(to, Kind::F64, from_f64(x))); }
}  // namespace

TEST(IntOps, WrapToTheirKind) {
  EXPECT_EQ(ints(Op::Add, Kind::I8, 127, 1), -128);
  EXPECT_EQ(ints(Op::Sub, Kind::U8, 0, 1), 255);
  EXPECT_EQ(ints(Op::Mul, Kind::I32, 65536, 65536), 0);
  EXPECT_EQ(ints(Op::Neg, Kind::I8, -128), -128);
  EXPECT_EQ(ints(Op::Not, Kind::U8, 0x0f), 0xf0);
  EXPECT_EQ(ints(Op::Abs, Kind::I16, -7), 7);
  EXPECT_EQ(ints(Op::Not, Kind::Bool, 1), 0);
}
TEST(IntOps, DivisionsRoundEachItsWay) {
  EXPECT_EQ(ints(Op::Div, Kind::I32, -7, 2), -3);
  EXPECT_EQ(ints(Op::Rem, Kind::I32, -7, 2), -1);
  EXPECT_EQ(ints(Op::FloorDiv, Kind::I32, -7, 2), -4);
  EXPECT_EQ(ints(Op::FloorMod, Kind::I32, -7, 2), 1);
  EXPECT_EQ(ints(Op::FloorMod, Kind::I32, 7, -2), -1);
  EXPECT_EQ(ints(Op::Div, Kind::U64, -1, 2), std::numeric_limits<i64>::max());
}
TEST(IntOps, DivisionByZeroAndOverflowAreFixed) {
  EXPECT_EQ(ints(Op::Div, Kind::I32, 7, 0), 0);
  EXPECT_EQ(ints(Op::Rem, Kind::I32, 7, 0), 7);
  EXPECT_EQ(ints(Op::Div, Kind::I32, int_min(Kind::I32), -1), int_min(Kind::I32));
  EXPECT_EQ(ints(Op::Rem, Kind::I64, int_min(Kind::I64), -1), 0);
}
TEST(IntOps, ShiftsPastTheWidth) {
  EXPECT_EQ(ints(Op::Shl, Kind::U8, 3, 7), 128);
  EXPECT_EQ(ints(Op::Shl, Kind::U8, 3, 8), 0);
  EXPECT_EQ(ints(Op::Shr, Kind::I8, -128, 3), -16);
  EXPECT_EQ(ints(Op::Shr, Kind::I8, -128, 9), -1);
  EXPECT_EQ(ints(Op::Shr, Kind::U64, -1, 63), 1);
}
TEST(IntOps, U64ComparesUnsigned) {
  EXPECT_EQ(ints(Op::Lt, Kind::U64, -1, 1), 0);
  EXPECT_EQ(ints(Op::Lt, Kind::I64, -1, 1), 1);
  EXPECT_EQ(ints(Op::Max, Kind::U64, -1, 1), -1);
}
TEST(FloatOps, MaxAndMinPassNaN) {
  EXPECT_TRUE(std::isnan(floats(Op::Max, Kind::F32, kNaN, 1)));
  EXPECT_TRUE(std::isnan(floats(Op::Min, Kind::F32, 1, kNaN)));
  EXPECT_EQ(floats(Op::Max, Kind::F32, -kInf, 1), 1);
}
TEST(FloatOps, RoundTiesToEven) {
  EXPECT_EQ(floats(Op::Round, Kind::F32, 2.5), 2);
  EXPECT_EQ(floats(Op::Round, Kind::F32, -3.5), -4);
}
TEST(FloatOps, RemHasTheSignOfTheDividend) { EXPECT_EQ(floats(Op::Rem, Kind::F32, -7, 3), -1); }
TEST(FloatOps, ValuesFromTables) {
  EXPECT_EQ(floats(Op::Exp, Kind::F32, 1), f64(2.7182817f));
  EXPECT_EQ(floats(Op::Erf, Kind::F32, 0.5), f64(0.5204999f));
  EXPECT_EQ(floats(Op::Tanh, Kind::F32, 1), f64(0.7615942f));
  EXPECT_EQ(floats(Op::Exp, Kind::F32, -kInf), 0);
  EXPECT_EQ(floats(Op::Log, Kind::F32, 0), -kInf);
  EXPECT_EQ(floats(Op::Exp, Kind::F32, 89), kInf);
}
TEST(FloatOps, DenormalsAreKept) { EXPECT_EQ(floats(Op::Mul, Kind::F32, 0x1p-126, 0.25), 0x1p-128); }
TEST(FloatOps, MulAccRoundsOnce) {
  // (1 + 2^-12)^2 - (1 + 2^-11) is 2^-24 exactly; with a rounded product it is 0.
  EXPECT_EQ(floats(Op::MulAcc, Kind::F32, 1 + 0x1p-12, 1 + 0x1p-12, -(1 + 0x1p-11)), 0x1p-24);
  // f16: 2048 * 1 + (1 + 2^-10) lies just above the tie between 2048 and 2050.
  EXPECT_EQ(floats(Op::MulAcc, Kind::F16, 2048, 1, 1 + 0x1p-10), 2050);
  EXPECT_EQ(floats(Op::MulAcc, Kind::F16, 2048, 1, 1), 2048);
}
TEST(FloatOps, Bf16SumOfFarExponentsRoundsOnce) {
  // 259 is a tie of bf16 that goes to 260; anything below goes to 258, however little.
  EXPECT_EQ(floats(Op::MulAcc, Kind::BF16, 7, 37, 0), 260);
  EXPECT_EQ(floats(Op::MulAcc, Kind::BF16, 7, 37, -0x1p-100), 258);
}
TEST(FloatOps, IntegerOpsAreErrors) { EXPECT_THROW(floats(Op::And, Kind::F32, 1, 1), Error); }
TEST(FloatOps, StorageKindsHaveNoArithmetic) { EXPECT_THROW(floats(Op::Add, Kind::F8E5M2, 1, 1), Error); }

TEST(CastOp, FloatToIntTruncatesAndSaturates) {
  EXPECT_EQ(to_int(Kind::I32, -2.9), -2);
  EXPECT_EQ(to_int(Kind::I8, 300), 127);
  EXPECT_EQ(to_int(Kind::U8, -5), 0);
  EXPECT_EQ(to_int(Kind::I64, 1e30), std::numeric_limits<i64>::max());
  EXPECT_EQ(to_int(Kind::I64, -1e30), std::numeric_limits<i64>::min());
  EXPECT_EQ(to_int(Kind::U64, kInf), -1);
  EXPECT_EQ(to_int(Kind::U64, 0x1p63), std::numeric_limits<i64>::min());
  EXPECT_EQ(to_int(Kind::I32, kNaN), 0);
}
TEST(CastOp, ToBoolIsNotZero) {
  EXPECT_EQ(to_int(Kind::Bool, kNaN), 1);
  EXPECT_EQ(to_int(Kind::Bool, 0.25), 1);
  EXPECT_EQ(to_int(Kind::Bool, -0.0), 0);
  EXPECT_EQ(eval_cast(Kind::Bool, Kind::I32, 256), 1u);
}
TEST(CastOp, IntegersToFloatRoundOnce) {
  // 2^24 + 1 + 2^-40 in units of 2^30: above the tie, though its f64 is exactly on it.
  i64 v = (i64(1) << 54) + (i64(1) << 30) + 1;
  EXPECT_EQ(as_f64(eval_cast(Kind::F32, Kind::I64, u64(v))), 0x1p54 + 0x1p31);
  EXPECT_EQ(as_f64(eval_cast(Kind::F32, Kind::U64, ~u64(0))), 0x1p64);
  EXPECT_EQ(as_f64(eval_cast(Kind::F16, Kind::I32, 2049)), 2048);
  EXPECT_EQ(as_f64(eval_cast(Kind::F16, Kind::I32, 70000)), kInf);
  EXPECT_EQ(as_f64(eval_cast(Kind::BF16, Kind::I64, u64(i64(1) << 62) + (u64(1) << 54) + 1)), 0x1p62 + 0x1p55);
}
TEST(CastOp, IntegersWrap) {
  EXPECT_EQ(eval_cast(Kind::U8, Kind::I32, u64(-1)), 255u);
  EXPECT_EQ(i64(eval_cast(Kind::I4, Kind::I32, 9)), -7);
}
