// Sums in normal form: like terms together, in structural order, the constant last; quotient and remainder of one division meet again.

#include "rules/context.h"

namespace tg::rules {

Sum in_kind(const Sum& s, Kind k) {
  Sum r{k};
  r.add(s, 1);
  return r;
}

i64 gcd_of(const Sum& s) {
  i64 g = 0;
  for (const Term& t : s.terms) g = gcd(g, t.a);
  return g;
}

namespace {

// s - k*part, if that removes all of part's terms from s.
bool take(Sum& s, const Sum& part, i64 k) {
  if (part.is_const()) return false;
  for (const Term& t : part.terms) {
    i64 want;
    if (__builtin_mul_overflow(t.a, k, &want) || s.coefficient(t.x) != want) return false;
  }
  s.add(part, wrap_neg(k));
  return true;
}

bool positive_const(UOp u) { return u.is_const() && u.as_int() > 0; }

// One step of putting x//d and x%d together again.
bool recombine(Sum& s, Symbolic& sym) {
  for (const Term& t : s.terms) {
    UOp x = t.x;
    i64 a = t.a;
    if (x.is(Op::FloorMod)) {
      // a*(x%d) + a*d*(x//d) = a*x. The quotient may have simplified: ask for the terms that its product is made of.
      UOp n = x.src(0), d = x.src(1), q = normal(n / d, sym);
      if (take(s, sum_of(q * d), a)) {
        s.add(x, wrap_neg(a));
        s.add(sum_of(n), a);
        return true;
      }
      // a*(x%d) + a*d*((x//d)%e) = a*(x % (d*e))
      if (positive_const(d))
        for (const Term& o : s.terms) {
          i64 de, ad;
          if (!o.x.is(Op::FloorMod) || !(o.x.src(0) == q) || !positive_const(o.x.src(1))) continue;
          if (__builtin_mul_overflow(d.as_int(), o.x.src(1).as_int(), &de) || __builtin_mul_overflow(a, d.as_int(), &ad) || o.a != ad) continue;
          if (de > int_max(s.kind)) continue;
          UOp other = o.x;
          s.add(other, wrap_neg(ad));
          s.add(x, wrap_neg(a));
          s.add(n % konst(s.kind, de), a);
          return true;
        }
    }
    if (x.is(Op::FloorDiv) && positive_const(x.src(1))) {
      i64 d = x.src(1).as_int();
      if (a % d) continue;
      i64 k = a / d;
      UOp n = x.src(0);
      // k*d*(x//d) = k*x where d divides x
      i64 f = const_factor(n);
      if (f && f % d == 0) {
        s.add(x, wrap_neg(a));
        s.add(sum_of(n), k);
        return true;
      }
      // m*x - m*d*(x//d) = m*(x%d)
      if (take(s, sum_of(n), wrap_neg(k))) {
        s.add(x, wrap_neg(a));
        s.add(n % x.src(1), wrap_neg(k));
        return true;
      }
    }
  }
  return false;
}

}  // namespace

UOp fold_sum(pat::M m) {
  UOp u = m.root;
  if (u.dtype().lanes != 1) return {};
  BoundsCache& bounds = m.ctx<Symbolic>().bounds;
  Sum s = sum_of(u);
  if (s.terms.size() > 256) return {};
  Sum known{s.kind, {}, s.c};
  for (const Term& t : s.terms) {
    if (auto c = bounds.constant(t.x)) known.add(Sum{s.kind, {}, *c}, t.a);
    else known.terms.push_back(t);
  }
  while (recombine(known, m.ctx<Symbolic>())) {
  }
  return known.uop();
}

}  // namespace tg::rules
