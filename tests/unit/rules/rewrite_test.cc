// The engine: forms of patterns, orders of visiting, and what a table that does not end says.
#include "expect.h"

namespace tg {
namespace {

using namespace pat;

class Rewrite : public RulesTest {
 protected:
  UOp a = free_value(Kind::I32, 0), c = free_value(Kind::I32, 1), f_ = free_value(Kind::F32, 2);
  UOp run(UOp u, std::span<const Rule> rules, Order o = Order::BottomUp, Trace* t = nullptr) {
    return rewrite(u, RuleSet("test", rules), {.name = "test", .order = o, .trace = t});
  }
};

TEST_F(Rewrite, TheFirstRuleWins) {
  static constexpr Rule kRules[] = {{i + j, i - j}, {i + j, i * j}};
  EXPECT_TRUE(run(a + c, kRules) == a - c);
}
TEST_F(Rewrite, TheSecondUseOfANameIsTheSameNode) {
  static constexpr Rule kRules[] = {{(i * j) - j, i}};
  EXPECT_TRUE(run(a * c - c, kRules) == a);
  EXPECT_TRUE(run(c * a - c, kRules) == a) << "both orders of a commutative op";
  EXPECT_TRUE(run(a * c - (a + c), kRules) == a * c - (a + c));
}
TEST_F(Rewrite, KindsRestrictNames) {
  static constexpr Rule kRules[] = {{i * j, i}};
  EXPECT_TRUE(run(f_ * f_, kRules) == f_ * f_);
}
TEST_F(Rewrite, AGuardThatSaysNoMovesOnToTheOtherOrder) {
  static constexpr Rule kRules[] = {{i.as(i) * (j + k), i, [](M m) { return m[i].is(Op::Param); }}};
  UOp s = a + c;
  EXPECT_TRUE(run(alu(Op::Mul, {s, a}), kRules) == a);
}
TEST_F(Rewrite, LiteralsTakeTheDtypeOfTheirSibling) {
  static constexpr Rule kRules[] = {{lt(i, j), lt(i - j, 0)}, {op(Op::Abs, {x}), x * 2}};
  EXPECT_TRUE(run(alu(Op::Abs, {f_}), kRules) == f_ * konst_f(Kind::F32, 2));
}
TEST_F(Rewrite, FormsEachMoreEitherAs) {
  static constexpr Rule kRules[] = {
      {op(Op::Pack, {each(x)}), [](M m) { return m[x]; }},
      {op(Op::Shuffle, {either(op(Op::Broadcast, {x}), op(Op::Extract, {x})), y}), [](M m) { return cast(m[x], m.root.dtype()); }},
      {op(Op::Sink, {(i + j).as(k)}).more(), [](M m) { return node(Op::Group, m.root.dtype(), {m[k]}); }},
  };
  UOp same[] = {a, a, a}, differ[] = {a, c, a};
  static constexpr Rule kSame[] = {{op(Op::Stack, {each(x)}), [](M m) -> UOp { return m[x]; }}};
  UOp s = node(Op::Stack, Kind::I32, same), d = node(Op::Stack, Kind::I32, differ);
  EXPECT_TRUE(run(s, kSame) == a);
  EXPECT_TRUE(run(d, kSame) == d);
  UOp sink = node(Op::Sink, Kind::Void, {a + c, f_});
  EXPECT_TRUE(run(sink, kRules) == node(Op::Group, Kind::Void, {a + c}));
  UOp bc = node(Op::Broadcast, DType(Kind::I32, 4), {a});
  UOp sh = node(Op::Shuffle, DType(Kind::I32, 4), {bc, bc}, Ints{0, 1, 2, 3});
  EXPECT_TRUE(run(sh, kRules) == node(Op::Cast, DType(Kind::I32, 4), {a}));
}
TEST_F(Rewrite, ResultsAreRewrittenAgain) {
  static constexpr Rule kRules[] = {{i * 4, i * 2}, {i * 2, i}};
  EXPECT_TRUE(run(a * 4, kRules) == a);
  EXPECT_TRUE(run(a * 4, kRules, Order::Once) == a * 2);
}
TEST_F(Rewrite, TopDownSeesANodeBeforeItsSources) {
  static constexpr Rule kRules[] = {{-(i + j), i}, {i + j, i - j}};
  EXPECT_TRUE(run(-(a + c), kRules, Order::TopDown) == a);
  EXPECT_TRUE(run(-(a + c), kRules) == -(a - c));
}
TEST_F(Rewrite, LeavesAreNotEntered) {
  static constexpr Rule kRules[] = {{i * 4, i}};
  UOp u = -(a * 4);
  EXPECT_TRUE(rewrite(u, RuleSet("test", kRules), {.leaves = Op::Neg}) == u);
}
TEST_F(Rewrite, TraceKeepsEveryStep) {
  static constexpr Rule kRules[] = {{i * 4, i * 2}, {i * 2, i}};
  Trace t;
  run(a * 4, kRules, Order::BottomUp, &t);
  ASSERT_EQ(t.steps.size(), 2u);
  EXPECT_EQ(t.steps[0].by.name(), "test[0]");
  EXPECT_TRUE(t.steps[0].before == a * 4);
  EXPECT_TRUE(t.steps[1].after == a);
}
TEST_F(Rewrite, RulesThatUndoEachOtherAreNamed) {
  static constexpr Rule kRules[] = {{i * 1, i}, {i + j, i - j}, {i - j, i + j}};
  try {
    run(a + c, kRules);
    FAIL() << "no error";
  } catch (const Error& e) {
    std::string s = e.what();
    EXPECT_NE(s.find("rewrite \"test\" does not converge"), std::string::npos) << s;
    EXPECT_NE(s.find("test[1] ((i + j) -> (i - j))"), std::string::npos) << s;
    EXPECT_NE(s.find("test[2] ((i - j) -> (i + j))"), std::string::npos) << s;
  }
}
TEST_F(Rewrite, GrowthWithoutEndIsAnError) {
  static constexpr Rule kGrow[] = {{i + c0, (i + c0) * 2}};
  EXPECT_THROW(run(a + 1, kGrow), Error);
  static constexpr Rule kMul[] = {{i * c0, [](M m) { return m[i] * (m[c0].as_int() + 1); }}};
  EXPECT_THROW(run(a * 2, kMul), Error);
}
TEST_F(Rewrite, DeepGraphsNeedNoStack) {
  static constexpr Rule kRules[] = {{i - j, i + j}};
  UOp u = a;
  for (int k = 0; k < 200000; k++) u = k % 2 ? u + c : u - a;
  UOp r = run(u, kRules);
  EXPECT_FALSE(r.src_ops().has(Op::Sub));
}
TEST_F(Rewrite, RulesPrintAsEquations) {
  static constexpr Rule r{lt((i + c0), c1), lt(i, c1 - c0)};
  EXPECT_EQ(text(r), "Lt((i + c0), c1) -> Lt(i, (c1 - c0))");
}

}  // namespace
}  // namespace tg
