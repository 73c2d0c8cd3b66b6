// FloorDiv and FloorMod of sums. Everything rests on x = c*q + r: floor(x/c) = q + floor(r/c) and x mod c = r mod c, whatever r is; when the
// bounds of r lie within one multiple of c, the division is gone. The two share split(), so that fold_sum recognizes them as a pair.
#include <algorithm>

#include "rules/context.h"

namespace tg::rules {
namespace {

struct Split {
  Sum q, r;  // x = c*q + r
};

std::optional<i64> single_quotient(const Sum& s, i64 c, BoundsCache& bounds) {
  WideBounds w = bounds.wide(s);
  if (w.lo < std::numeric_limits<i64>::min() || w.hi > std::numeric_limits<i64>::max()) return {};
  i64 k = floor_div(i64(w.lo), c);
  return k == floor_div(i64(w.hi), c) ? std::optional(k) : std::nullopt;
}

Split split(const Sum& x, i64 c, BoundsCache& bounds) {
  Split s;
  for (const Term& t : x.terms) {
    if (t.a % c == 0) {
      s.q.add(t.x, t.a / c);
      continue;
    }
    i64 g = gcd(t.a, c);
    i64 f = const_factor(t.x);
    if (f == 0) continue;
    if (f % (c / g) == 0)
      if (auto e = divide_exact(t.x, c / g)) {
        s.q.add(whole(sum_of(*e)), t.a / g);
        continue;
      }
    s.q.add(t.x, t.a / c);
    s.r.add(t.x, t.a % c);
  }
  s.q.c = floor_div(x.c, c);
  s.r.c = floor_mod(x.c, c);
  if (single_quotient(s.r, c, bounds)) return s;
  // A remainder above 0 is cheaper to divide, and hides no sign.
  bool negative = std::any_of(s.r.terms.begin(), s.r.terms.end(), [](const Term& t) { return t.a < 0; });
  if (negative && bounds.wide(s.r).lo < 0) {
    Split p = s;
    for (const Term& t : s.r.terms)
      if (t.a < 0) p.r.add(t.x, c), p.q.add(t.x, -1);
    if (bounds.wide(p.r).lo >= 0) s = p;
  }
  // Each coefficient may also be taken as c less: (7*i + 3) mod 8 is 3 - i for i < 4.
  size_t n = s.r.terms.size();
  if (n == 0 || n > 5) return s;
  for (u32 mask = 1; mask < 1u << n; mask++) {
    Split p = s;
    for (size_t k = 0; k < n; k++)
      if (mask >> k & 1) {
        i64 by = s.r.terms[k].a > 0 ? c : -c;
        p.r.add(s.r.terms[k].x, wrap_neg(by)), p.q.add(s.r.terms[k].x, by / c);
      }
    if (single_quotient(p.r, c, bounds)) return p;
  }
  return s;
}

// x = f*a + b with b from f times k to f times k + f-1: then x//c = (a + k)//(c/f) and x mod c = f*((a + k) mod (c/f)) + b - f*k.
bool split_by_factor(const Sum& x, i64 c, BoundsCache& bounds, i64* factor, Sum* a, Sum* b) {
  std::vector<i64> fs;
  for (const Term& t : x.terms) {
    i64 g = gcd(t.a, c);
    if (g > 1 && g < c) fs.push_back(g);
  }
  std::sort(fs.rbegin(), fs.rend());
  fs.erase(std::unique(fs.begin(), fs.end()), fs.end());
  for (i64 f : fs) {
    Sum hi, lo;
    for (const Term& t : x.terms) (t.a % f == 0 ? hi : lo).add(t.x, t.a % f == 0 ? t.a / f : t.a);
    hi.c = floor_div(x.c, f), lo.c = floor_mod(x.c, f);
    auto k = single_quotient(lo, f, bounds);
    if (!k) continue;
    hi.c += *k, lo.c = wrap_add(lo.c, wrap_neg(wrap_mul(*k, f)));
    *factor = f, *a = hi, *b = lo;
    return true;
  }
  return false;
}

class Floor {
 public:
  Floor(UOp u, BoundsCache& b) : u_(u), div_(u.is(Op::FloorDiv)), kind_(u.dtype().kind), bounds_(b) {}

  // What u is instead, or null.
  UOp fold() {
    UOp n = u_.src(0), d = u_.src(1);
    Sum own = sum_of(n);
    if (!bounds_.fits(own)) return {};
    Sum x = whole(own);
    // Room for signs to turn and constants to move.
    constexpr i64 most = std::numeric_limits<i64>::max() / 4;
    bool large = x.c > most || x.c < -most;
    for (const Term& t : x.terms) large = large || t.a > most || t.a < -most;
    if (large) return {};
    if (auto c = bounds_.constant(d)) return *c > 0 ? by_const(x, *c) : *c < 0 ? by_negative(x, *c) : UOp();
    // Products of sizes are numbers only where nothing wraps.
    if (bounds_(d).lo > 0 && kind_ == Kind::Index) return by_symbol(x, d);
    return {};
  }

 private:
  UOp make(const Sum& s) { return in_kind(s, kind_).uop(); }
  // s / c or s % c as a term; s must be a value of the kind.
  bool fits(const Sum& s) { return bounds_.fits({kind_, s.terms, s.c}); }
  // Does s not overflow, of an Index too, which may be any number that a kernel has loaded?
  bool is_small(const Sum& s) {
    WideBounds w = bounds_.wide(s);
    return w.lo >= std::numeric_limits<i64>::min() && w.hi <= std::numeric_limits<i64>::max();
  }
  UOp again(const Sum& s, i64 c) { return alu(u_.op(), {make(s), konst(kind_, c)}); }

  UOp by_negative(const Sum& x, i64 c) {
    Sum minus = x.scaled(-1);
    if (c == int_min(kind_) || c == int_min(Kind::I64) || !fits(minus)) return {};
    UOp r = again(minus, -c);
    return div_ ? r : -r;
  }

  UOp by_const(const Sum& x, i64 c) {
    if (c == 1) return div_ ? u_.src(0) : konst(kind_, 0);
    if (auto k = single_quotient(x, c, bounds_)) {
      if (div_) return konst(kind_, *k);
      Sum r = x;
      r.c = wrap_add(r.c, wrap_neg(wrap_mul(*k, c)));
      return make(r);
    }
    Split s = split(x, c, bounds_);
    if (auto k = single_quotient(s.r, c, bounds_)) {
      Sum r = div_ ? s.q : s.r;
      r.c = wrap_add(r.c, div_ ? *k : wrap_neg(wrap_mul(*k, c)));
      return make(r);
    }
    if (!div_)
      if (UOp r = without_inner_mods(s.r, c)) return r;
    if (!fits(s.r)) return {};
    UOp rest = smaller(s.r, c);
    if (!rest) rest = again(s.r, c);
    return div_ ? add(s.q, rest) : rest;
  }

  UOp add(const Sum& q, UOp rest) {
    Sum r = in_kind(q, kind_);
    r.add(sum_of(rest), 1);
    return r.uop();
  }

  // (x % m) mod c = x mod c where c divides m (and a*(x % m) where it divides a*m)
  UOp without_inner_mods(const Sum& r, i64 c) {
    Sum to = r;
    bool changed = false;
    for (const Term& t : r.terms) {
      if (!t.x.is(Op::FloorMod)) continue;
      i64 m = const_factor(t.x.src(1)), am;
      if (bounds_(t.x.src(1)).lo <= 0 || __builtin_mul_overflow(t.a, m, &am) || am % c) continue;
      Sum inner = sum_of(t.x.src(0));
      if (!bounds_.fits(inner)) continue;
      to.add(t.x, wrap_neg(t.a));
      to.add(whole(inner), t.a);
      changed = true;
    }
    // Without its remainders a number that was loaded is as large as it may be, times a.
    return changed && fits(to) && is_small(to) ? again(to, c) : UOp();
  }

  // r op c by a smaller division, or null.
  UOp smaller(const Sum& r, i64 c) {
    i64 g = gcd(gcd_of(r), c);
    if (g > 1) {
      Sum a{Kind::Index};
      for (const Term& t : r.terms) a.add(t.x, t.a / g);
      a.c = floor_div(r.c, g);
      if (!fits(a)) return {};
      UOp q = again(a, c / g);
      return div_ ? q : q * g + floor_mod(r.c, g);
    }
    if (div_ && r.terms.size() == 1 && r.terms[0].a == 1) {
      UOp t = r.terms[0].x;
      i64 d = t.in(Op::FloorDiv | Op::FloorMod) && t.src(1).is_const() ? t.src(1).as_int() : 0, cd, rd;
      if (t.is(Op::FloorDiv) && d > 0 && !__builtin_mul_overflow(c, d, &cd) && !__builtin_mul_overflow(r.c, d, &rd) && cd <= int_max(kind_)) {
        Sum y = sum_of(t.src(0));
        if (bounds_.fits(y)) {
          y = whole(y);
          if (!__builtin_add_overflow(y.c, rd, &y.c) && fits(y) && is_small(y)) return again(y, cd);
        }
      }
      if (t.is(Op::FloorMod) && r.c == 0 && d > 0 && d % c == 0) return (t.src(0) / konst(kind_, c)) % konst(kind_, d / c);
    }
    i64 f;
    Sum a, b;
    if (split_by_factor(r, c, bounds_, &f, &a, &b) && fits(a)) {
      UOp q = again(a, c / f);
      if (div_) return q;
      Sum whole_mod = in_kind(b, kind_);
      whole_mod.add(sum_of(q), f);
      return whole_mod.uop();
    }
    return {};
  }

  // A divisor that is a product of sizes: terms that contain all of it are multiples of it.
  UOp by_symbol(const Sum& x, UOp d) {
    Sum ds = sum_of(d);
    if (ds.is_const() || !bounds_.fits(ds)) return {};
    ds = whole(ds);
    if (!ds.c && ds.terms.size() == 1 && ds.terms[0].a > 0) {
      Split s;
      for (const Term& t : x.terms) {
        if (auto q = quotient(t, ds.terms[0])) s.q.add(whole(sum_of(q->x)), q->a);
        else s.r.add(t.x, t.a);
      }
      // quotient() of a term that is d itself has x == 1: it comes back as a constant from sum_of.
      s.r.c = x.c;
      if (within(s.r, ds)) return make(div_ ? s.q : s.r);
      if (UOp r = cancel(s, ds.terms[0])) return r;
      if (UOp r = by_part(s, ds.terms[0])) return r;
      if (!s.q.terms.empty() || s.q.c) {
        if (!fits(s.r)) return {};
        UOp rest = alu(u_.op(), {make(s.r), d});
        return div_ ? add(s.q, rest) : rest;
      }
      return {};
    }
    if (within(x, ds)) return div_ ? konst(kind_, 0) : u_.src(0);
    // x = k*d + r for a divisor that is a sum: try the multiple that its first term asks for.
    const Term& lead = ds.terms[0];
    if (i64 a = x.coefficient(lead.x); a && a % lead.a == 0) {
      Sum r = x;
      r.add(ds, -(a / lead.a));
      if (within(r, ds)) return div_ ? konst(kind_, a / lead.a) : make(r);
    }
    return {};
  }

  bool within(const Sum& r, const Sum& d) {
    Sum room = d;
    room.add(r, -1);
    room.c -= 1;
    return bounds_.never_negative(r) && bounds_.never_negative(room);
  }

  // t / d where d's factors are all in t.
  std::optional<Term> quotient(const Term& t, const Term& d) {
    if (t.a % d.a) return {};
    std::vector<UOp> rest = factors(t.x);
    for (UOp f : factors(d.x)) {
      auto at = std::find(rest.begin(), rest.end(), f);
      if (at == rest.end()) return {};
      rest.erase(at);
    }
    return Term{rest.empty() ? konst(kind_, 1) : product(rest), t.a / d.a};
  }

  // (a*n) // (b*n) = a // b, and mod n*(a mod b), for a size n in all terms.
  UOp cancel(const Split& s, const Term& d) {
    if (s.r.c || s.r.terms.empty()) return {};
    std::vector<UOp> df = factors(d.x);
    if (df.size() < 2) return {};
    for (UOp n : df) {
      if (bounds_(n).lo <= 0) continue;
      Sum a;
      bool all = true;
      for (const Term& t : s.r.terms) {
        auto q = quotient(t, {n, 1});
        all = all && q;
        if (q) a.add(whole(sum_of(q->x)), q->a);
      }
      if (!all || !fits(a)) continue;
      std::vector<UOp> rest = df;
      rest.erase(std::find(rest.begin(), rest.end(), n));
      UOp r = alu(u_.op(), {make(a), product(rest) * d.a});
      return div_ ? add(s.q, r) : r * n;
    }
    return {};
  }

  // x = n*a + b with 0 <= b < n, for a factor n of the divisor.
  UOp by_part(const Split& s, const Term& d) {
    std::vector<UOp> df = factors(d.x);
    for (size_t k = 0; k < df.size(); k++) {
      if (df.size() == 1 && d.a == 1) break;
      UOp n = df[k];
      if (bounds_(n).lo <= 0) continue;
      Sum a, b;
      for (const Term& t : s.r.terms) {
        if (auto q = quotient(t, {n, 1})) a.add(whole(sum_of(q->x)), q->a);
        else b.add(t.x, t.a);
      }
      b.c = s.r.c;
      if ((a.terms.empty() && !a.c) || !within(b, whole(sum_of(n))) || !fits(a)) continue;
      std::vector<UOp> rest = df;
      rest.erase(rest.begin() + k);
      UOp r = alu(u_.op(), {make(a), rest.empty() ? konst(kind_, d.a) : product(rest) * d.a});
      if (div_) return add(s.q, r);
      Sum out = in_kind(b, kind_);
      out.add(sum_of(r * n), 1);
      return out.uop();
    }
    return {};
  }

  UOp u_;
  bool div_;
  Kind kind_;
  BoundsCache& bounds_;
};

}  // namespace

UOp fold_floor(pat::M m) {
  UOp u = m.root;
  if (u.dtype().lanes != 1 || u.dtype().kind == Kind::U64) return {};
  return Floor(u, m.ctx<Symbolic>().bounds).fold();
}

}  // namespace tg::rules
