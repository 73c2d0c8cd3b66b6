// Which expressions count as patterns, and which only look like them.
#include "codegen/patterns.h"

#include <gtest/gtest.h>

#include "ir/text.h"

using namespace tg;

namespace {
bool has(UOp ast, Op op) {
  for (UOp u : toposort(ast))
    if (u.is(op)) return true;
  return false;
}
const char* const kSoftmaxHead = R"(
%0 = CONST index 8
%1 = PARAM f32 #0 %0 %0
%2 = RANGE index [0, 0, 0, 4] %0
%3 = RANGE index [1, 0, 0, 4] %0
%4 = INDEX f32 %1 %2 %3
%5 = PARAM f32 #1 %0 %0
%6 = INDEX f32 %5 %2 %3
%7 = LOAD f32 %6
%8 = RANGE index [1, 0, 1, 8] %0
)";
UOp ast(const char* rest) { return parse(std::string(kSoftmaxHead) + rest); }
}  // namespace

TEST(PatternForms, ExpOfARowMinusItsMaximumIsFast) {
  Arena arena;
  Arena::Scope scope(arena);
  UOp a = ast(R"(%9 = INDEX f32 %5 %2 %8
%10 = LOAD f32 %9
%11 = REDUCE f32 [2] %10 %8
%12 = SUB f32 %7 %11
%13 = EXP f32 %12
%14 = STORE void %4 %13 %2 %3
%15 = SINK void %14
)");
  ASSERT_TRUE(has(a, Op::Exp));
  EXPECT_FALSE(has(lower_patterns(a), Op::Exp));
}
TEST(PatternForms, ADivisionByASoftmaxsSumIsAProduct) {
  const char* const row = R"(%9 = INDEX f32 %5 %2 %8
%10 = LOAD f32 %9
%11 = REDUCE f32 [2] %10 %8
%12 = RANGE index [1, 0, 2, 8] %0
%13 = INDEX f32 %5 %2 %12
%14 = LOAD f32 %13
)";
  Arena arena;
  Arena::Scope scope(arena);
  auto divisions_of_elements = [](UOp a) {
    i64 n = 0;
    for (UOp u : toposort(lower_patterns(a))) n += u.is(Op::Div) && !u.src(0).is_const(1);
    return n;
  };
  EXPECT_EQ(divisions_of_elements(ast((std::string(row) + R"(%15 = SUB f32 %14 %11
%16 = EXP f32 %15
%17 = REDUCE f32 [0] %16 %12
%18 = DIV f32 %7 %17
%19 = STORE void %4 %18 %2 %3
%20 = SINK void %19
)").c_str())), 0);
  // Another sum may be anything, 0 or a denormal too.
  EXPECT_EQ(divisions_of_elements(ast((std::string(row) + R"(%15 = SUB f32 %14 %11
%16 = REDUCE f32 [0] %15 %12
%17 = DIV f32 %7 %16
%18 = STORE void %4 %17 %2 %3
%19 = SINK void %18
)").c_str())), 1);
}
// A NaN of the row is in the sum of its exps, so the maximum may pass it over; where something else reads the maximum, it may not.
TEST(PatternForms, TheMaximumOfASoftmaxMayDropNaN) {
  const char* const row = R"(%9 = INDEX f32 %5 %2 %8
%10 = LOAD f32 %9
%11 = REDUCE f32 [2] %10 %8
%12 = RANGE index [1, 0, 2, 8] %0
%13 = INDEX f32 %5 %2 %12
%14 = LOAD f32 %13
%15 = SUB f32 %14 %11
%16 = EXP f32 %15
%17 = REDUCE f32 [0] %16 %12
)";
  Arena arena;
  Arena::Scope scope(arena);
  auto drops = [](UOp a) {
    for (UOp u : toposort(lower_patterns(a)))
      if (u.is(Op::Reduce) && u.arg<ReduceArg>().kind == ReduceKind::MaxAny) return true;
    return false;
  };
  EXPECT_TRUE(drops(ast((std::string(row) + R"(%18 = SUB f32 %7 %11
%19 = EXP f32 %18
%20 = DIV f32 %19 %17
%21 = STORE void %4 %20 %2 %3
%22 = SINK void %21
)").c_str())));
  // exp(x - max) without its sum: only the NaN's own element would show it.
  EXPECT_FALSE(drops(ast((std::string(row) + R"(%18 = SUB f32 %7 %11
%19 = EXP f32 %18
%20 = STORE void %4 %19 %2 %3
%21 = SINK void %20
)").c_str())));
  // x - max - log(sum): x - max is read by itself.
  EXPECT_FALSE(drops(ast((std::string(row) + R"(%18 = SUB f32 %7 %11
%19 = LOG f32 %17
%20 = SUB f32 %18 %19
%21 = STORE void %4 %20 %2 %3
%22 = SINK void %21
)").c_str())));
}
// The maximum of a column says nothing about an element of a row: the difference may be large, which exp_fast cannot take.
TEST(PatternForms, ExpMinusAnotherMaximumStays) {
  Arena arena;
  Arena::Scope scope(arena);
  UOp a = ast(R"(%9 = INDEX f32 %5 %8 %2
%10 = LOAD f32 %9
%11 = REDUCE f32 [2] %10 %8
%12 = SUB f32 %7 %11
%13 = EXP f32 %12
%14 = STORE void %4 %13 %2 %3
%15 = SINK void %14
)");
  EXPECT_EQ(lower_patterns(a), a);
}
TEST(PatternForms, ExpMinusAMinimumStays) {
  Arena arena;
  Arena::Scope scope(arena);
  UOp a = ast(R"(%9 = INDEX f32 %5 %2 %8
%10 = LOAD f32 %9
%11 = REDUCE f32 [3] %10 %8
%12 = SUB f32 %7 %11
%13 = EXP f32 %12
%14 = STORE void %4 %13 %2 %3
%15 = SINK void %14
)");
  EXPECT_EQ(lower_patterns(a), a);
}

TEST(PatternForms, GeluInTheOrdersThatExportersWrite) {
  Arena arena;
  Arena::Scope scope(arena);
  UOp x = node(Op::Load, Kind::F32, {node(Op::Index, Kind::F32, {node(Op::Param, Kind::F32, {}, i64(1)), idx(0)})});
  auto f = [](f64 v) { return konst_f(Kind::F32, v); };
  auto erf1 = [&](UOp y) { return alu(Op::Erf, {y}) + f(1); };
  UOp by_mul = erf1(x * f(0.7071067811865476)), by_div = erf1(x / f(1.4142135381698608));
  for (UOp g : {by_mul, by_div})
    for (UOp u : {x * f(0.5) * g, g * (x * f(0.5)), x * g * f(0.5), g * x * f(0.5), g * f(0.5) * x, x * (g * f(0.5))}) EXPECT_FALSE(has(lower_patterns(u), Op::Erf)) << u.str();
  UOp other = alu(Op::Neg, {x});
  for (UOp u : {other * f(0.5) * by_mul, x * f(0.25) * by_mul, x * f(0.5) * erf1(x * f(0.7)), x * f(0.5) * (alu(Op::Erf, {x * f(0.7071067811865476)}) + f(2))})
    EXPECT_EQ(lower_patterns(u), u) << u.str();
}

TEST(PatternForms, SigmoidAndHalfTanh) {
  Arena arena;
  Arena::Scope scope(arena);
  auto f = [](f64 v) { return konst_f(Kind::F32, v); };
  auto load = [](i64 slot) { return node(Op::Load, Kind::F32, {node(Op::Index, Kind::F32, {node(Op::Param, Kind::F32, {}, slot), idx(0)})}); };
  UOp x = load(1), y = load(2), e = alu(Op::Exp, {alu(Op::Neg, {x})}) + f(1), t = alu(Op::Tanh, {y}) + f(1);
  for (UOp u : {f(1) / e, alu(Op::Recip, {e})}) EXPECT_FALSE(has(lower_patterns(u), Op::Exp)) << u.str();
  for (UOp u : {t * f(0.5), x * f(0.5) * t, t * (x * f(0.5))}) EXPECT_FALSE(has(lower_patterns(u), Op::Tanh)) << u.str();
  for (UOp u : {f(2) / e, f(1) / (alu(Op::Exp, {x}) + f(1)), f(1) / (e + f(1)), t * f(0.25), x * t}) EXPECT_EQ(lower_patterns(u), u) << u.str();
}
