// Every equation of every table, evaluated on both sides: random values, and those at the ends of each kind.
#include <cmath>
#include <random>

#include "expect.h"

namespace tg {
namespace {

using namespace pat;

struct Names {
  UOp of[kSlots];
};

// A node for a pattern, with fresh leaves for names. dtype: what a name without kinds gets.
class Instance {
 public:
  Instance(Kind any, Kind ints, Kind floats, std::mt19937_64& r) : any_(any), ints_(ints), floats_(floats), r_(r) {}

  UOp left(const Pat& l, u64 pick) {
    pick_ = pick;
    return make(&l.n[0], Kind::Void);
  }
  std::vector<UOp> leaves;
  Match m;
  bool ok = true;

 private:
  Kind kind_of(const PNode* n) {
    for (Kind k : {any_, ints_, floats_, Kind::Bool})
      if (n->kinds >> int(k) & 1) return k;
    ok = false;
    return any_;
  }
  // Literals and consts take the kind that their sibling asks for.
  Kind wanted(const PNode* n) {
    if (!n->nsrc) return n->slot >= 0 && m.bound[size_t(n->slot)] ? m.bound[size_t(n->slot)].dtype().kind
                       : n->ops == OpSet(Op::Const) && n->kinds == ~0u ? Kind::Void : kind_of(n);
    Op o = pick_op(n);
    if (kComparison.has(o)) return Kind::Bool;
    const PNode* c = n + 1;
    if (o == Op::Where) c += c->size;
    for (int a = o == Op::Where; a < n->nsrc; a++, c += c->size)
      if (Kind k = wanted(c); k != Kind::Void) return k;
    return Kind::Void;
  }
  Op pick_op(const PNode* n) {
    std::vector<Op> ops;
    for (int o = 0; o < kOps; o++)
      if (n->ops.has(Op(o))) ops.push_back(Op(o));
    return ops[pick_ % ops.size()];
  }
  UOp make(const PNode* n, Kind want) {
    if (n->flags & kLit) return konst(want, n->lit);
    if (n->flags & kLitFloat) return konst_f(want, std::bit_cast<f64>(u64(n->lit)));
    if (!n->nsrc) {
      if (n->slot >= 0 && m.bound[size_t(n->slot)]) return m.bound[size_t(n->slot)];
      Kind k = n->ops == OpSet(Op::Const) ? want : want != Kind::Void && (n->kinds >> int(want) & 1) ? want : kind_of(n);
      bool constant = n->ops == OpSet(Op::Const) || r_() % 8 == 0;
      UOp u = constant ? konst_bits(k, value(k)) : free_value(k, n->slot >= 0 ? n->slot : 99);
      if (!u.is_const()) leaves.push_back(u);
      if (n->slot >= 0) m.bound[size_t(n->slot)] = u;
      return u;
    }
    Op o = pick_op(n);
    Kind common = Kind::Void;
    const PNode* c = n + 1;
    if (o == Op::Where) c += c->size;
    for (int a = o == Op::Where; a < n->nsrc && common == Kind::Void; a++, c += c->size) common = wanted(c);
    if (common == Kind::Void) common = want == Kind::Void ? any_ : want;
    std::vector<UOp> s;
    c = n + 1;
    for (int a = 0; a < n->nsrc; a++, c += c->size) s.push_back(make(c, o == Op::Where && a == 0 ? Kind::Bool : common));
    for (size_t a = o == Op::Where; a < s.size(); a++)
      if (!(s[a].dtype() == s.back().dtype())) ok = false;
    constexpr OpSet kWhole = Op::And | Op::Or | Op::Xor | Op::Not | Op::Shl | Op::Shr | Op::FloorDiv | Op::FloorMod;
    if (is_float(s.back().dtype()) && kWhole.has(o)) ok = false;
    if (!ok) return konst(any_, 0);
    DType d = kComparison.has(o) ? DType(Kind::Bool) : s.back().dtype();
    UOp u = node(o, d, s);  // as written: not folded
    if (n->slot >= 0) m.bound[size_t(n->slot)] = u;
    return u;
  }

 public:
  u64 value(Kind k) {
    u64 x = r_();
    if (is_float(k)) {
      static const f64 kEdges[] = {0.0, -0.0, 1, -1, 0.5, 2, -3, INFINITY, -INFINITY, NAN, 1e30, -1e30, 1e-40, 65504, 1e-7, 3.14159};
      f64 v = x % 2 ? kEdges[x / 2 % std::size(kEdges)] : std::ldexp(f64(i64(r_())) / 9.3e18, int(x / 2 % 40) - 20);
      return std::bit_cast<u64>(round_float(k, v));
    }
    switch (x % 8) {
      case 0: return u64(int_min(k));
      case 1: return u64(wrap_int(k, -1));
      case 2: return u64(int_max(k));
      case 3: return 0;
      case 4: return 1;
      case 5: return u64(wrap_int(k, i64(r_() % 16) - 8));
      default: return u64(wrap_int(k, i64(r_())));
    }
  }

 private:
  Kind any_, ints_, floats_;
  std::mt19937_64& r_;
  u64 pick_ = 0;
};

// Same number, -0.0 apart from 0.0; any NaN is any NaN.
bool same(Kind k, u64 a, u64 b) {
  if (!is_float(k)) return a == b;
  return a == b || (std::isnan(as_f64(a)) && std::isnan(as_f64(b)));
}

void check(const RuleSet& rules, bool exact, int* tested) {
  std::mt19937_64 r(1);
  for (const RuleSet::Ref& ref : rules.rules()) {
    if (ref.rule->fn) continue;
    int good = 0;
    for (int round = 0; round < 300; round++) {
      Kind ints[] = {Kind::I32, Kind::I8, Kind::U8, Kind::I64, Kind::U32, Kind::Index, Kind::U64, Kind::I16};
      Kind floats[] = {Kind::F32, Kind::F64, Kind::F16, Kind::BF16};
      Kind i_ = ints[r() % std::size(ints)], f_ = floats[r() % std::size(floats)];
      Instance in(r() % 2 ? i_ : r() % 2 ? f_ : Kind::Bool, i_, f_, r);
      UOp l = in.left(ref.rule->left, r());
      if (!in.ok) continue;
      in.m.root = l;
      // The match must be found by the engine too, and by this rule's guard.
      Match m;
      if (!match(ref.rule->left, l, m, ref.rule->when)) continue;
      UOp right = build(ref.rule->right, m);
      ASSERT_EQ(name(right.dtype()), name(l.dtype())) << ref.name() << " " << text(*ref.rule);
      good++;
      for (int k = 0; k < 8; k++) {
        Evaluator e;
        std::string values;
        bool tame = true;
        for (UOp u : in.leaves) {
          u64 v = in.value(u.dtype().kind);
          if (!exact && is_float(u.dtype())) v = std::bit_cast<u64>(round_float(u.dtype().kind, std::abs(std::remainder(as_f64(v), 4)) + 0.5));
          if (!exact && std::isnan(as_f64(v))) tame = false;
          e.leaf[u.id()] = v;
          values += str(" ", is_float(u.dtype()) ? as_f64(v) : f64(i64(v)));
        }
        u64 a = e(l), b = e(right);
        if (exact) {
          EXPECT_TRUE(same(l.dtype().kind, a, b)) << ref.name() << " " << text(*ref.rule) << " on " << name(l.dtype()) << ":" << values << "\n"
                                                  << l.str() << " = " << i64(a) << "\n" << right.str() << " = " << i64(b);
        } else if (tame && std::isfinite(as_f64(a)) && std::isfinite(as_f64(b)) && l.dtype().kind == Kind::F64) {
          // f64 and values near 1: rounding alone may differ.
          bool small_consts = true;
          for (UOp u : toposort(l))
            if (u.is_const() && !(std::abs(u.as_float()) < 100)) small_consts = false;
          if (small_consts) {
            EXPECT_NEAR(as_f64(a), as_f64(b), 1e-9 * (1 + std::abs(as_f64(a)))) << ref.name() << " " << text(*ref.rule) << values;
          }
        }
        if (::testing::Test::HasFailure()) return;
      }
    }
    EXPECT_GT(good, 0) << ref.name() << " " << text(*ref.rule) << " was never instantiated";
    ++*tested;
  }
}

class Equations : public RulesTest {};

TEST_F(Equations, ExactTablesHoldForAllValues) {
  int tested = 0;
  check(rules::symbolic(), true, &tested);
  EXPECT_GT(tested, 80);
}
TEST_F(Equations, FastTableHoldsOverRealNumbers) {
  int tested = 0;
  check(rules::floats_fast(), false, &tested);
  EXPECT_GT(tested, 10);
}

}  // namespace
}  // namespace tg
