// Comparisons of integers as sum < 0: decided by bounds, divided by common factors, freed of terms too small to matter. The normal form has
// positive coefficients on both sides: 4*i + j < k + 3, or 7 < i where only the right has terms; Le becomes Lt.
#include <algorithm>

#include "rules/context.h"

namespace tg::rules {
namespace {

constexpr i64 kMax = std::numeric_limits<i64>::max();

// s < 0 or s == 0 over the whole numbers.
class Compare {
 public:
  Compare(Sum s, bool less, BoundsCache& b) : s_(std::move(s)), less_(less), bounds_(b) {}

  std::optional<bool> decide() {
    if (less_) {
      if (bounds_.wide(s_).hi < 0) return true;
      if (bounds_.never_negative(s_)) return false;
      Sum below = s_.scaled(-1);
      if (__builtin_sub_overflow(below.c, 1, &below.c)) return {};
      if (bounds_.never_negative(below)) return true;
      return {};
    }
    WideBounds w = bounds_.wide(s_);
    if (w.lo > 0 || w.hi < 0) return false;
    if (w.lo == w.hi) return true;
    i64 g = gcd_of(s_);
    if (g && s_.c % g) return false;
    for (i64 sign : {1, -1}) {
      Sum above = s_.scaled(sign);
      if (__builtin_sub_overflow(above.c, 1, &above.c)) return {};
      if (bounds_.never_negative(above)) return false;
    }
    return {};
  }

  // Simplifies in place; false when nothing changed.
  bool step() {
    i64 g = gcd_of(s_);
    if (g > 1) {
      for (Term& t : s_.terms) t.a /= g;
      s_.c = less_ ? floor_div(s_.c, g) : s_.c / g;
      return true;
    }
    if (constants()) return true;
    if (!less_) return false;
    return quotient() || small_terms() || any_positive();
  }

  Sum& sum() { return s_; }

 private:
  bool constants() {
    for (const Term& t : s_.terms)
      if (auto c = bounds_.constant(t.x)) {
        Sum v{Kind::Index, {}, *c};
        Term old = t;
        i64 p, moved;
        if (__builtin_mul_overflow(*c, old.a, &p) || __builtin_add_overflow(s_.c, p, &moved) || moved > kMax / 2 || moved < -(kMax / 2)) continue;
        s_.add(v, old.a);
        s_.add(old.x, -old.a);
        return true;
      }
    return false;
  }

  // y//d < k is y < k*d, and k < y//d is (k+1)*d - 1 < y.
  bool quotient() {
    if (s_.terms.size() != 1 || (s_.terms[0].a != 1 && s_.terms[0].a != -1)) return false;
    UOp t = s_.terms[0].x;
    if (!t.is(Op::FloorDiv) || !t.src(1).is_const() || t.src(1).as_int() <= 0) return false;
    Sum y = sum_of(t.src(0));
    if (!bounds_.fits(y)) return false;
    i64 d = t.src(1).as_int(), cd;
    if (__builtin_mul_overflow(s_.c, d, &cd) || cd > kMax / 4 || cd < -kMax / 4 || y.c > kMax / 4 || y.c < -kMax / 4 || d > kMax / 4) return false;
    for (const Term& n : y.terms)
      if (n.a > kMax / 2 || n.a < -(kMax / 2)) return false;
    Sum r{Kind::Index, y.terms, y.c};
    if (s_.terms[0].a == -1) {
      r = r.scaled(-1);
      cd += d - 1;
    }
    r.c += cd;
    s_ = r;
    return true;
  }

  // g*a + b < 0 with b smaller than g is a < a constant.
  bool small_terms() {
    std::vector<i64> gs;
    for (const Term& t : s_.terms)
      if (i64 g = t.a < 0 ? -t.a : t.a; g > 1) gs.push_back(g);
    std::sort(gs.rbegin(), gs.rend());
    gs.erase(std::unique(gs.begin(), gs.end()), gs.end());
    for (i64 g : gs) {
      Sum a, b;
      for (const Term& t : s_.terms) (t.a % g == 0 ? a : b).add(t.x, t.a % g == 0 ? t.a / g : t.a);
      if (b.terms.empty()) continue;
      b.c = s_.c;
      // a < -b/g, so a <= floor((-b - 1)/g)
      WideBounds w = bounds_.wide(b);
      if (w.lo < -(kMax / 2) || w.hi > kMax / 2) continue;
      i64 k = floor_div(i64(-w.lo) - 1, g);
      if (k != floor_div(i64(-w.hi) - 1, g)) continue;
      a.c = -k - 1;
      s_ = a;
      return true;
    }
    return false;
  }

  // Multiples of numbers that are not negative: all are 0, or not.
  bool any_positive() {
    if (s_.terms.size() < 2 && (s_.terms.empty() || s_.terms[0].a == 1 || s_.terms[0].a == -1)) return false;
    i64 sign = s_.c == 0 ? -1 : s_.c == -1 ? 1 : 0;
    if (!sign) return false;
    bool changed = false;
    for (const Term& t : s_.terms) {
      if ((t.a < 0) != (sign < 0) || bounds_(t.x).lo < 0) return false;
      changed = changed || t.a != sign;
    }
    for (Term& t : s_.terms) t.a = sign;
    return changed;
  }

  Sum s_;
  bool less_;
  BoundsCache& bounds_;
};

}  // namespace

std::optional<Sum> difference(UOp a, UOp b, BoundsCache& bounds) {
  if (!is_int(a.dtype()) || a.dtype().lanes != 1 || a.dtype().kind == Kind::U64) return {};
  Sum x = sum_of(a), y = sum_of(b);
  if (!bounds.fits(x) || !bounds.fits(y)) return {};
  return exact_difference(x, y);
}

UOp fold_compare(pat::M m) {
  UOp u = m.root;
  BoundsCache& bounds = m.ctx<Symbolic>().bounds;
  Kind kind = u.src(0).dtype().kind;
  auto d = difference(u.src(0), u.src(1), bounds);
  if (!d) return {};
  for (const Term& t : d->terms)
    if (t.a > kMax / 2 || t.a < -(kMax / 2)) return {};
  bool less = u.is(Op::Lt) || u.is(Op::Le);
  if (u.is(Op::Le) && __builtin_sub_overflow(d->c, 1, &d->c)) return {};
  if (d->c > kMax / 2 || d->c < -(kMax / 2)) return {};
  Compare c(*d, less, bounds);
  auto answer = [&](bool v) { return konst(Kind::Bool, v != u.is(Op::Ne)); };
  do {
    if (auto v = c.decide()) return answer(*v);
  } while (c.step());
  Sum& s = c.sum();

  // A bool that became a number, or chose between two.
  if (s.terms.size() == 1) {
    auto [t, a] = s.terms[0];
    bool flag = t.is(Op::Cast) && t.src(0).dtype().kind == Kind::Bool;
    bool choice = t.is(Op::Where) && t.src(1).is_const() && t.src(2).is_const();
    if (flag || choice) {
      i128 at0 = s.c + i128(a) * (flag ? 0 : t.src(2).as_int()), at1 = s.c + i128(a) * (flag ? 1 : t.src(1).as_int());
      bool v0 = less ? at0 < 0 : at0 == 0, v1 = less ? at1 < 0 : at1 == 0;
      if (u.is(Op::Ne)) v0 = !v0, v1 = !v1;
      return v0 == v1 ? konst(Kind::Bool, v0) : v1 ? t.src(0) : logical_not(t.src(0));
    }
  }

  if (!less && !s.terms.empty() && s.terms[0].a < 0) s = s.scaled(-1);
  Sum left, right;
  for (const Term& t : s.terms) (t.a > 0 ? left : right).add(t.x, t.a > 0 ? t.a : -t.a);
  if (left.terms.empty()) left.c = s.c;
  else if (right.terms.empty() || s.c <= 0) right.c = -s.c;
  else left.c = s.c;
  auto fits = [&](const Sum& x) { return bounds.fits({kind, x.terms, x.c}); };
  if (!fits(left) || !fits(right)) return {};
  Op op = less ? Op::Lt : u.op();
  UOp l = in_kind(left, kind).uop(), r = in_kind(right, kind).uop();
  return alu(op, {l, r});
}

}  // namespace tg::rules
