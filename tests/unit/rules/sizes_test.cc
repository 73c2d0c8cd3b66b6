// How sizes are spelled: random expressions of a few variables, some of them multiples, against their values at all sizes.
#include "rules/sizes.h"

#include <gtest/gtest.h>

#include <random>

#include "ir/eval.h"
#include "rules/symbolic.h"

using namespace tg;

namespace {

struct Maker {
  std::mt19937 rng;
  std::vector<UOp> vars;
  i64 number(i64 lo, i64 hi) { return std::uniform_int_distribution<i64>(lo, hi)(rng); }
  UOp make(int depth) {
    if (depth == 0 || number(0, 5) == 0) return number(0, 3) ? vars[size_t(number(0, i64(vars.size()) - 1))] : idx(number(-3, 9));
    UOp a = make(depth - 1), b = make(depth - 1);
    switch (number(0, 8)) {
      case 0:
      case 1: return a + b;
      case 2: return a - b;
      case 3: return a * b;
      case 4: return a * number(2, 32);
      case 5: return a / number(1, 32);
      case 6: return a % number(1, 32);
      case 7: return max(a, b);
      default: return number(0, 1) ? min(a, b) : where(lt(a, b), a, b);
    }
  }
};

// Of all combinations of the variables' values.
template <class F>
void at_all_sizes(const std::vector<UOp>& vars, F f) {
  EvalEnv env;
  for (UOp v : vars) env.vars.push_back({std::string(v.arg_str()), v.src(0).as_int()});
  while (true) {
    f(env);
    size_t k = 0;
    for (; k < vars.size(); k++) {
      if ((env.vars[k].second += vars[k].src(2).as_int()) <= vars[k].src(1).as_int()) break;
      env.vars[k].second = vars[k].src(0).as_int();
    }
    if (k == vars.size()) return;
  }
}

TEST(SizesTest, TheSpellingHasTheValue) {
  for (u32 seed = 0; seed < 300; seed++) {
    Arena arena;
    Arena::Scope scope(arena);
    Maker m{std::mt19937(seed), {var("N", 1, 4), var("H", 16, 64, 16), var("W", 8, 24, 8)}};
    UOp e = m.make(4), n = normal_size(e);
    Bounds b = size_bounds(e);
    EXPECT_EQ(normal_size(n), n) << "seed " << seed << ": " << e.str() << " is " << n.str();
    i64 least = std::numeric_limits<i64>::max(), most = std::numeric_limits<i64>::min();
    at_all_sizes(m.vars, [&](const EvalEnv& env) {
      i64 want = eval_index(e, env);
      ASSERT_EQ(eval_index(n, env), want) << "seed " << seed << ": " << e.str() << " became " << n.str();
      least = std::min(least, want), most = std::max(most, want);
    });
    EXPECT_LE(b.lo, least) << "seed " << seed << ": " << e.str();
    EXPECT_GE(b.hi, most) << "seed " << seed << ": " << e.str();
  }
}

// Products and quotients that come to the same, whichever way a model writes them.
TEST(SizesTest, EqualMonomialsAreOneNode) {
  for (u32 seed = 0; seed < 200; seed++) {
    Arena arena;
    Arena::Scope scope(arena);
    std::mt19937 rng(seed);
    auto number = [&](i64 lo, i64 hi) { return std::uniform_int_distribution<i64>(lo, hi)(rng); };
    std::vector<UOp> vars{var("N", 1, 4), var("H", 16, 64, 16), var("W", 8, 24, 8)};
    // Factors of one product, once in units (h/4 is 4*(h/16)), once as they are.
    std::vector<UOp> factors{vars[0], vars[1] / (i64(1) << number(0, 4)), vars[2] / (i64(1) << number(0, 3)), idx(number(1, 64)), idx(number(1, 8))};
    UOp a = idx(1), b = idx(1);
    for (UOp f : factors) a = a * f;
    std::shuffle(factors.begin(), factors.end(), rng);
    for (UOp f : factors) b = normal_size(b * f);
    EXPECT_EQ(normal_size(a), b) << "seed " << seed << ": " << a.str();
  }
}

}  // namespace
