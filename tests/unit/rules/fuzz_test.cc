// Random expressions over small loops: simplify keeps the value at every point, twice is once, bounds and divisors tell the truth.
#include <algorithm>
#include <cstdlib>
#include <random>

#include "expect.h"

namespace tg {
namespace {

class Gen {
 public:
  Gen(u64 seed, Kind k) : r_(seed), kind_(k) {}
  std::vector<UOp> leaves;       // loops, as Index
  std::vector<i64> sizes, lows;

  void loops(int n) {
    static const i64 kSizes[] = {1, 2, 3, 4, 5, 6, 8};
    for (int a = 0; a < n; a++) {
      sizes.push_back(kSizes[r_() % std::size(kSizes)]);
      lows.push_back(0);
      leaves.push_back(loop(sizes.back(), a));
    }
  }
  // A size that the compiler knows only within bounds; loops over it come from symbolic().
  void variable(std::string_view name, i64 lo, i64 hi) {
    leaves.push_back(var(name, lo, hi));
    sizes.push_back(hi - lo + 1), lows.push_back(lo);
  }
  u64 pick(u64 n) { return r_() % n; }
  i64 number() {
    static const i64 kNumbers[] = {0, 1, 2, 3, 4, 5, 6, 8, 9, 12, 16, 24, -1, -2, -3, -4, -7, 10};
    // Index arithmetic does not overflow; all other kinds may.
    if (kind_ != Kind::Index && pick(12) == 0) {
      const i64 ends[] = {int_min(kind_), int_max(kind_), int_max(kind_) - 1, int_max(kind_) / 2 + 1, int_min(kind_) / 3};
      return ends[pick(std::size(ends))];
    }
    return kNumbers[pick(std::size(kNumbers))];
  }
  UOp leaf() {
    if (pick(4) == 0) return konst(kind_, number());
    return cast(leaves[pick(leaves.size())], kind_);
  }
  UOp integer(int depth) {
    if (depth == 0) return leaf();
    auto sub = [&] { return integer(depth - 1 - int(pick(2)) * (depth > 1)); };
    switch (pick(16)) {
      case 0:
      case 1:
      case 2:
      case 3: return sub() + sub();
      case 4: return sub() - sub();
      case 5:
      case 6: return sub() * number();
      case 7: return pick(3) ? sub() * konst(kind_, 1 + i64(pick(12))) + sub() : sub() * sub();
      case 8:
      case 9: return sub() / konst(kind_, pick(8) ? 1 + i64(pick(12)) : number());
      case 10:
      case 11: return sub() % konst(kind_, pick(8) ? 1 + i64(pick(12)) : number());
      case 12: return pick(2) ? max(sub(), sub()) : min(sub(), sub());
      case 13: return where(boolean(depth - 1), sub(), sub());
      case 14: return pick(2) ? alu(Op::Div, {sub(), konst(kind_, 1 + i64(pick(6)))}) : alu(Op::Rem, {sub(), konst(kind_, 1 + i64(pick(6)))});
      default: return pick(3) ? -sub() : cast(boolean(depth - 1), kind_);
    }
  }
  UOp boolean(int depth) {
    if (depth <= 0) return lt(leaf(), leaf());
    auto sub = [&] { return integer(depth - 1); };
    switch (pick(9)) {
      case 0: return lt(sub(), sub());
      case 1: return lt(sub(), konst(kind_, number()));
      case 2: return lt(konst(kind_, number()), sub());
      case 3: return le(sub(), sub());
      case 4: return eq(sub(), konst(kind_, number()));
      case 5: return ne(sub(), sub());
      case 6: return boolean(depth - 1) & boolean(depth - 1);
      case 7: return boolean(depth - 1) | boolean(depth - 1);
      default: return logical_not(boolean(depth - 1));
    }
  }

 private:
  std::mt19937_64 r_;
  Kind kind_;
};

// Calls f with every assignment of the leaves.
template <class F>
void each_point(const Gen& g, Evaluator& e, F f) {
  std::vector<i64> at(g.leaves.size(), 0);
  for (;;) {
    for (size_t a = 0; a < at.size(); a++) e.leaf[g.leaves[a].id()] = u64(at[a] + g.lows[a]);
    f();
    size_t a = 0;
    while (a < at.size() && ++at[a] == g.sizes[a]) at[a++] = 0;
    if (a == at.size()) return;
  }
}

void expect_same(Gen& g, UOp before, UOp after, UOp where_true, const char* what) {
  Evaluator e;
  each_point(g, e, [&] {
    if (::testing::Test::HasFailure()) return;
    if (where_true && !e(where_true)) return;
    u64 a = e(before), b = e(after);
    std::string point;
    if (a != b)
      for (size_t k = 0; k < g.leaves.size(); k++) point += str(" ", g.leaves[k].str(), "=", i64(e.leaf[g.leaves[k].id()]));
    EXPECT_EQ(i64(a), i64(b)) << what << " at" << point << "\n" << before.str() << "\n" << after.str()
                              << (where_true ? "\nunder " + where_true.str() : std::string());
  });
}

class Fuzz : public ::testing::TestWithParam<Kind> {};

// FUZZ_ROUNDS=100000 for a long run by hand.
const int kRounds = std::getenv("FUZZ_ROUNDS") ? std::atoi(std::getenv("FUZZ_ROUNDS")) : 1000;

TEST_P(Fuzz, SimplifyKeepsEveryValueAndIsIdempotent) {
  for (int seed = 0; seed < kRounds && !HasFailure(); seed++) {
    Arena arena;
    Arena::Scope scope(arena);
    Gen g(u64(seed), GetParam());
    g.loops(1 + seed % 3);
    UOp u = seed % 4 ? g.integer(1 + seed % 6) : g.boolean(1 + seed % 5);
    UOp s = simplify(u);
    expect_same(g, u, s, {}, str("seed ", seed).c_str());
    EXPECT_TRUE(simplify(s) == s) << "seed " << seed << "\n" << u.str() << "\n" << s.str() << "\n" << simplify(s).str();
  }
}

// The memo of simplify would hide a normal form that is not one: do it again in another arena.
UOp copy(UOp root) {
  IdMap<UOp> to;
  for (UOp u : toposort(root)) {
    std::vector<UOp> s;
    for (UOp x : u.src()) s.push_back(*to.find(x));
    to.set(u, u.is(Op::Range) ? node(u.op(), u.dtype(), s, u.arg_ints())
              : u.is(Op::Var) ? node_str(u.op(), u.dtype(), s, u.arg_str())
              : u.is_const()  ? konst_bits(u.dtype(), u.arg_bits())
                              : node(u.op(), u.dtype(), s));
  }
  return *to.find(root);
}

TEST_P(Fuzz, NormalFormsStayInAFreshArena) {
  for (int seed = 0; seed < kRounds && !HasFailure(); seed++) {
    Arena arena, other;
    Arena::Scope scope(arena);
    Gen g(u64(seed) + 77777, GetParam());
    g.loops(1 + seed % 4);
    UOp s = simplify(seed % 4 ? g.integer(1 + seed % 6) : g.boolean(1 + seed % 5));
    Arena::Scope second(other);
    UOp t = copy(s);
    std::string was = t.str(), is = simplify(t).str();
    EXPECT_EQ(was, is) << "seed " << seed;
  }
}

TEST_P(Fuzz, BoundsAndFactorsHold) {
  for (int seed = 0; seed < kRounds && !HasFailure(); seed++) {
    Arena arena;
    Arena::Scope scope(arena);
    Gen g(u64(seed) + 5000, GetParam());
    g.loops(1 + seed % 3);
    UOp u = g.integer(1 + seed % 5);
    Bounds b = bounds(u);
    i64 f = const_factor(u);
    std::optional<UOp> half = divide_exact(u, 4);
    Evaluator e;
    each_point(g, e, [&] {
      u64 bits = e(u);
      // A u64 from 2^63 up counts as i64's largest in bounds.
      bool big = GetParam() == Kind::U64 && bits >> 63;
      i64 v = big ? int_max(Kind::I64) : i64(bits);
      EXPECT_LE(b.lo, v) << u.str();
      EXPECT_GE(b.hi, v) << u.str();
      u64 rest = !f ? bits : GetParam() == Kind::U64 ? bits % u64(f) : u64(v % f);
      EXPECT_EQ(rest, 0u) << u.str() << " factor " << f;
      if (half) {
        EXPECT_EQ(e(*half) * 4, bits) << u.str() << " / 4: " << half->str();
      }
    });
  }
}

TEST_P(Fuzz, GivenAConditionValuesHoldWhereItIsTrue) {
  for (int seed = 0; seed < kRounds && !HasFailure(); seed++) {
    Arena arena;
    Arena::Scope scope(arena);
    Gen g(u64(seed) + 20000, GetParam());
    g.loops(1 + seed % 3);
    UOp c = g.boolean(1 + seed % 4), u = seed % 4 ? g.integer(1 + seed % 5) : g.boolean(2);
    if (seed % 2) c = c & g.boolean(1 + seed % 3);
    UOp s = simplify_given(u, c);
    expect_same(g, u, s, c, str("given, seed ", seed).c_str());
    EXPECT_TRUE(simplify_given(s, c) == s) << "seed " << seed << "\n" << u.str() << "\n" << s.str() << "\n" << simplify_given(s, c).str();
  }
}

TEST_P(Fuzz, ShorterGatesAreTheSameCondition) {
  for (int seed = 0; seed < kRounds && !HasFailure(); seed++) {
    Arena arena;
    Arena::Scope scope(arena);
    Gen g(u64(seed) + 30000, GetParam());
    g.loops(1 + seed % 3);
    UOp c = g.boolean(2);
    for (int n = seed % 4; n >= 0; n--) c = c & g.boolean(1 + seed % 3);
    UOp s = simplify_valid(c);
    expect_same(g, c, s, {}, str("valid, seed ", seed).c_str());
    EXPECT_TRUE(simplify_valid(s) == s) << "seed " << seed << "\n" << s.str() << "\n" << simplify_valid(s).str();
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Fuzz, ::testing::Values(Kind::Index, Kind::I32, Kind::I8, Kind::U8, Kind::I64, Kind::U64),
                         [](const auto& info) { return std::string(name(info.param)); });

// Loops over sizes known at run time only.
TEST(FuzzSymbolic, SizesUnknownAtCompileTime) {
  for (int seed = 0; seed < 2 * kRounds && !HasFailure(); seed++) {
    Arena arena;
    Arena::Scope scope(arena);
    std::mt19937_64 r(seed);
    auto pick = [&](u64 n) { return r() % n; };
    UOp n = var("n", 1, 4), m = var("m", 2, 6, 2);
    UOp a = loop(3, 0), i = loop(n, 1), j = loop(m, 2);
    UOp atoms[] = {a, i, j, n, m, a * n + i, a * m + j, i * m + j, a * (n * m) + i * m + j, n * m, idx(1), idx(3)};
    UOp sizes[] = {n, m, n * m, m * 2, n * 3, idx(2), idx(4), n + 1};
    auto atom = [&] { return atoms[pick(std::size(atoms))]; };
    auto size = [&] { return sizes[pick(std::size(sizes))]; };
    UOp u = atom();
    for (u64 k = 0; k < 1 + pick(5); k++) switch (pick(8)) {
        case 0: u = u / size(); break;
        case 1: u = u % size(); break;
        case 2: u = u + atom(); break;
        case 3: u = u * (pick(2) ? size() : idx(2)); break;
        case 4: u = u - atom(); break;
        case 5: u = where(lt(u, size()), u, atom()); break;
        case 6: u = max(u, atom()); break;
        case 7: u = min(u, atom()); break;
      }
    if (pick(4) == 0) u = lt(u, atom());
    UOp s = simplify(u);
    EXPECT_TRUE(simplify(s) == s);
    for (i64 vn = 1; vn <= 4; vn++)
      for (i64 vm = 2; vm <= 6; vm += 2)
        for (i64 va = 0; va < 3; va++)
          for (i64 vi = 0; vi < vn; vi++)
            for (i64 vj = 0; vj < vm && !HasFailure(); vj++) {
              Evaluator e;
              e.leaf = {{n.id(), vn}, {m.id(), vm}, {a.id(), va}, {i.id(), vi}, {j.id(), vj}};
              EXPECT_EQ(i64(e(u)), i64(e(s))) << "seed " << seed << " n=" << vn << " m=" << vm << " a=" << va << " i=" << vi << " j=" << vj << "\n"
                                             << u.str() << "\n" << s.str();
            }
  }
}

}  // namespace
}  // namespace tg
