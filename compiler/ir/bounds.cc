#include "ir/bounds.h"

#include <algorithm>
#include <limits>

namespace tg {
namespace {

constexpr i64 kMin = std::numeric_limits<i64>::min(), kMax = std::numeric_limits<i64>::max();
constexpr i128 kU64Max = i128(std::numeric_limits<u64>::max());

bool whole(Kind k) { return is_int(k) || k == Kind::Bool; }

WideBounds kind_range(Kind k) {
  if (!whole(k)) return {kMin, kMax};
  return {int_min(k), k == Kind::U64 ? kU64Max : i128(int_max(k))};
}
i64 clamp(i128 v) { return v < kMin ? kMin : v > kMax ? kMax : i64(v); }

i128 floor_div(i128 a, i128 b) { return a / b - (a % b != 0 && (a % b < 0) != (b < 0)); }

template <class F>
WideBounds corners(WideBounds a, WideBounds b, F f) {
  i128 v[] = {f(a.lo, b.lo), f(a.lo, b.hi), f(a.hi, b.lo), f(a.hi, b.hi)};
  return {*std::min_element(v, v + 4), *std::max_element(v, v + 4)};
}
// Products of u64 bounds reach 2^128: saturate well below, which is outside every kind all the same.
i128 mul(i128 a, i128 b) {
  i128 r;
  constexpr i128 most = i128(1) << 100;
  if (__builtin_mul_overflow(a, b, &r)) return (a < 0) != (b < 0) ? -most : most;
  return r > most ? most : r < -most ? -most : r;
}
WideBounds join(WideBounds a, WideBounds b) { return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)}; }
i128 all_ones_up_to(i128 v) {
  i128 m = 0;
  while (m < v) m = m * 2 + 1;
  return m;
}

// Ops whose interval follows from their integer sources.
constexpr OpSet kFollows = Op::Add | Op::Sub | Op::Mul | Op::Div | Op::Rem | Op::FloorDiv | Op::FloorMod | Op::Max | Op::Min | Op::And | Op::Or |
                           Op::Xor | Op::Shl | Op::Shr | Op::Lt | Op::Le | Op::Eq | Op::Ne | Op::Where | Op::MulAcc | Op::Neg | Op::Not | Op::Abs |
                           Op::Cast | Op::Range | Op::Special | Op::Step | Op::After | Op::Reshape | Op::Permute | Op::Expand | Op::Pad | Op::Shrink |
                           Op::Flip | Op::Window | Op::Concat | Op::Iota | Op::Gather | Op::Contiguous | Op::Broadcast | Op::HReduce |
                           Op::Extract | Op::Pack | Op::Shuffle;

}  // namespace

BoundsCache::Fact BoundsCache::compute(UOp u) {
  Kind kind = u.dtype().kind;
  WideBounds full = kind_range(kind);
  auto result = [&](WideBounds r) -> Fact {
    if (kind == Kind::Index) return {{clamp(r.lo), clamp(r.hi)}, true};
    if (r.lo < full.lo || r.hi > full.hi) return {{clamp(full.lo), clamp(full.hi)}, false};
    return {{clamp(r.lo), clamp(r.hi)}, true};
  };
  Fact unknown{{clamp(full.lo), clamp(full.hi)}, true};
  if (!whole(kind)) return unknown;
  auto at = [&](size_t i) -> WideBounds {
    UOp s = u.src(i);
    if (!whole(s.dtype().kind)) return {kMin, kMax};
    Bounds b = (*this)(s);
    return {b.lo, s.dtype().kind == Kind::U64 && b.hi == kMax ? kU64Max : i128(b.hi)};
  };
  switch (u.op()) {
    case Op::Const:
      if (kind == Kind::U64 && u.as_int() < 0) return {{kMax, kMax}, true};
      return {{u.as_int(), u.as_int()}, true};
    case Op::Var: return {{u.src(0).as_int(), u.src(1).as_int()}, true};
    case Op::Range:
    case Op::Step:
    case Op::Special: return result({0, std::max<i128>(0, at(0).hi - 1)});
    case Op::Iota: return result({0, std::max<i128>(0, at(0).hi - 1)});
    case Op::Lanes: return result({0, u.dtype().lanes - 1});
    default: break;
  }
  if (!u.in(kFollows)) return unknown;
  if (u.in(kComparison)) {
    if (!whole(u.src(0).dtype().kind)) return unknown;
    WideBounds a = at(0), b = at(1);
    int is = -1;
    if (u.is(Op::Lt)) is = a.hi < b.lo ? 1 : a.lo >= b.hi ? 0 : -1;
    else if (u.is(Op::Le)) is = a.hi <= b.lo ? 1 : a.lo > b.hi ? 0 : -1;
    else if (a.hi < b.lo || b.hi < a.lo) is = u.is(Op::Ne);
    else if (a.lo == a.hi && b.lo == b.hi) is = u.is(Op::Eq);
    if (u.src(0) == u.src(1)) is = u.is(Op::Le) || u.is(Op::Eq);
    return is < 0 ? unknown : Fact{{is, is}, true};
  }
  switch (u.op()) {
    case Op::Add: {
      if (kind == Kind::Bool) return unknown;
      WideBounds a = at(0), b = at(1);
      return result({a.lo + b.lo, a.hi + b.hi});
    }
    case Op::Sub: {
      if (kind == Kind::Bool) return unknown;
      WideBounds a = at(0), b = at(1);
      return result({a.lo - b.hi, a.hi - b.lo});
    }
    case Op::Mul: return result(corners(at(0), at(1), mul));
    case Op::MulAcc: {
      WideBounds m = corners(at(0), at(1), mul), c = at(2);
      return result({m.lo + c.lo, m.hi + c.hi});
    }
    case Op::FloorDiv:
    case Op::Div: {
      WideBounds b = at(1);
      if (b.lo <= 0 && b.hi >= 0) return unknown;
      if (u.is(Op::Div)) return result(corners(at(0), b, [](i128 x, i128 y) { return x / y; }));
      return result(corners(at(0), b, floor_div));
    }
    case Op::FloorMod: {
      WideBounds a = at(0), b = at(1);
      if (b.hi < 0) return result({b.lo + 1, 0});
      if (b.lo <= 0) return unknown;
      if (b.lo == b.hi && floor_div(a.lo, b.lo) == floor_div(a.hi, b.lo)) {
        i128 q = floor_div(a.lo, b.lo) * b.lo;
        return result({a.lo - q, a.hi - q});
      }
      if (a.lo >= 0 && a.hi < b.lo) return result(a);
      return result({0, a.lo >= 0 ? std::min(a.hi, b.hi - 1) : b.hi - 1});
    }
    case Op::Rem: {
      WideBounds a = at(0), b = at(1);
      if (b.lo <= 0 && b.hi >= 0) return unknown;
      i128 m = std::max(b.lo < 0 ? -b.lo : b.lo, b.hi < 0 ? -b.hi : b.hi) - 1;
      return result({a.lo >= 0 ? 0 : std::max(a.lo, -m), a.hi <= 0 ? 0 : std::min(a.hi, m)});
    }
    case Op::Max: {
      WideBounds a = at(0), b = at(1);
      return result({std::max(a.lo, b.lo), std::max(a.hi, b.hi)});
    }
    case Op::Min: {
      WideBounds a = at(0), b = at(1);
      return result({std::min(a.lo, b.lo), std::min(a.hi, b.hi)});
    }
    case Op::And: {
      WideBounds a = at(0), b = at(1);
      if (kind == Kind::Bool) return result({a.lo & b.lo, a.hi & b.hi});
      if (a.lo >= 0 && b.lo >= 0) return result({0, std::min(a.hi, b.hi)});
      if (a.lo >= 0) return result({0, a.hi});
      if (b.lo >= 0) return result({0, b.hi});
      return unknown;
    }
    case Op::Or: {
      WideBounds a = at(0), b = at(1);
      if (a.lo < 0 || b.lo < 0) return unknown;
      return result({std::max(a.lo, b.lo), all_ones_up_to(std::max(a.hi, b.hi))});
    }
    case Op::Xor: {
      WideBounds a = at(0), b = at(1);
      if (a.lo < 0 || b.lo < 0) return unknown;
      return result({0, all_ones_up_to(std::max(a.hi, b.hi))});
    }
    case Op::Shl: {
      WideBounds a = at(0), s = at(1);
      if (s.lo < 0 || s.hi >= bits(kind)) return unknown;
      return result(corners(a, s, [](i128 x, i128 n) { return mul(x, i128(1) << int(n)); }));
    }
    case Op::Shr: {
      WideBounds a = at(0), s = at(1);
      if (s.lo < 0 || s.hi >= bits(kind)) return unknown;
      return result(corners(a, s, [](i128 x, i128 n) { return x >> int(n); }));
    }
    case Op::Neg: {
      if (kind == Kind::Bool) return unknown;
      WideBounds a = at(0);
      return result({-a.hi, -a.lo});
    }
    case Op::Not: {
      WideBounds a = at(0);
      if (kind == Kind::Bool) return result({1 - a.hi, 1 - a.lo});
      if (is_uint(kind)) return result({full.hi - a.hi, full.hi - a.lo});
      return result({-a.hi - 1, -a.lo - 1});
    }
    case Op::Abs: {
      WideBounds a = at(0);
      if (a.lo >= 0) return result(a);
      if (a.hi <= 0) return result({-a.hi, -a.lo});
      return result({0, std::max(-a.lo, a.hi)});
    }
    case Op::Where: {
      WideBounds c = at(0);
      if (c.lo == c.hi) return result(c.lo ? at(1) : at(2));
      return result(join(at(1), at(2)));
    }
    case Op::Cast: {
      if (!whole(u.src(0).dtype().kind)) return unknown;
      WideBounds a = at(0);
      if (kind == Kind::Bool) return result({a.lo > 0 || a.hi < 0, a.lo != 0 || a.hi != 0});
      return result(a);
    }
    case Op::Pad: return result(join(at(0), at(3)));
    case Op::Shuffle: return result(join(at(0), at(1)));
    case Op::Concat:
    case Op::Pack: {
      WideBounds r = at(0);
      for (size_t i = 1; i < u.nsrc(); i++) r = join(r, at(i));
      return result(r);
    }
    case Op::HReduce: {
      ReduceKind k = ReduceKind(u.arg_int());
      return k == ReduceKind::Max || k == ReduceKind::Min ? result(at(0)) : unknown;
    }
    default: return result(at(0));  // the values of source 0, moved
  }
}

BoundsCache::Fact BoundsCache::fact(UOp root) {
  if (Fact* f = facts_.find(root)) return *f;
  std::vector<std::pair<UOp, u32>> stack{{root, 0}};
  while (!stack.empty()) {
    auto& [u, next] = stack.back();
    if (u.in(kFollows) && whole(u.dtype().kind) && next < u.nsrc()) {
      UOp s = u.src(next++);
      if (whole(s.dtype().kind) && !facts_.find(s)) stack.push_back({s, 0});
      continue;
    }
    UOp n = u;
    stack.pop_back();
    Fact f = compute(n);
    for (auto& [x, b] : pins_)
      if (x == n) f.bounds = {std::max(f.bounds.lo, b.lo), std::min(f.bounds.hi, b.hi)};
    if (!known_.empty() && (n.is(Op::Add) || n.is(Op::Sub) || n.is(Op::Mul) || n.is(Op::Neg)) && is_int(n.dtype()) && n.dtype().lanes == 1) {
      Sum s = sum_of(n);
      bool itself = s.terms.size() == 1 && s.terms[0].x == n;
      if (!itself && fits(s)) {
        WideBounds w = wide(s);
        f.bounds = {std::max(f.bounds.lo, clamp(w.lo)), std::min(f.bounds.hi, clamp(w.hi))};
        f.exact = true;
      }
    }
    if (f.bounds.lo > f.bounds.hi) f.bounds.lo = f.bounds.hi;  // only where the assumptions contradict each other
    facts_.set(n, f);
  }
  return *facts_.find(root);
}

std::optional<i64> BoundsCache::constant(UOp u) {
  Bounds b = (*this)(u);
  if (b.lo != b.hi || (u.dtype().kind == Kind::U64 && b.hi == kMax)) return {};
  return b.lo;
}

WideBounds BoundsCache::plain(const Sum& s) {
  WideBounds r{s.c, s.c};
  for (const Term& t : s.terms) {
    Bounds b = (*this)(t.x);
    i128 hi = t.x.dtype().kind == Kind::U64 && b.hi == kMax ? kU64Max : i128(b.hi);
    i128 p = mul(t.a, b.lo), q = mul(t.a, hi);
    r.lo += std::min(p, q), r.hi += std::max(p, q);
  }
  return r;
}

WideBounds BoundsCache::wide(const Sum& s) {
  WideBounds r = plain(s);
  for (const Known& k : known_) {
    const Term& lead = k.sum.terms[0];
    i64 a = s.coefficient(lead.x);
    if (!a || lead.a == kMin || (lead.a == -1 && a == kMin) || a % lead.a) continue;
    i64 m = a / lead.a;
    Sum rest{Kind::Index, s.terms, s.c};
    rest.add(k.sum, wrap_neg(m));
    if (rest.terms.size() + k.sum.terms.size() > s.terms.size()) continue;
    WideBounds w = plain(rest);
    i128 p = mul(m, k.lo), q = mul(m, k.hi);
    r.lo = std::max(r.lo, w.lo + std::min(p, q)), r.hi = std::min(r.hi, w.hi + std::max(p, q));
  }
  if (r.lo > r.hi) r.lo = r.hi;
  return r;
}

bool BoundsCache::fits(const Sum& s) {
  if (s.kind == Kind::Index) return true;
  WideBounds w = wide(s), full = kind_range(s.kind);
  return w.lo >= full.lo && w.hi <= full.hi;
}

bool BoundsCache::never_negative(const Sum& sum) {
  if (wide(sum).lo >= 0) return true;
  // Take each loop variable and remainder that has a symbolic limit at the end that makes the sum smallest.
  Sum s = sum;
  for (int step = 0; step < 8; step++) {
    bool changed = false;
    for (const Term& t : s.terms) {
      if (t.x.dtype().kind != Kind::Index) continue;  // a product that wraps does not grow with its factors
      std::vector<UOp> f = factors(t.x);
      for (size_t i = 0; i < f.size() && !changed; i++) {
        bool loop = f[i].is(Op::Range) || f[i].is(Op::Special);
        bool rest = f[i].is(Op::FloorMod) && (*this)(f[i].src(1)).lo > 0;
        if (!loop && !rest) continue;
        UOp size = f[i].src(loop ? 0 : 1);
        if (size.is_const() && f.size() == 1) continue;  // the interval says as much
        if (!is_int(size.dtype()) || size.dtype().kind != f[i].dtype().kind) continue;
        bool others = true;
        for (size_t j = 0; j < f.size(); j++) others = others && (j == i || (*this)(f[j]).lo >= 0);
        if (!others) continue;
        std::vector<UOp> without = f;
        without.erase(without.begin() + i);
        UOp p = without.empty() ? UOp() : product(without);
        i64 a = t.a;
        UOp x = t.x;
        s.add(x, wrap_neg(a));
        if (a < 0) {
          UOp last = size + -1;
          s.add(sum_of(p ? last * p : last), a);
        }
        changed = true;
      }
      if (changed) break;
    }
    if (!changed) return false;
    if (wide(s).lo >= 0) return true;
  }
  return false;
}

void BoundsCache::pin(UOp u, Bounds b) {
  Bounds had = (*this)(u);
  if (b.lo <= had.lo && b.hi >= had.hi) return;
  contradiction_ = contradiction_ || b.lo > had.hi || b.hi < had.lo;
  pins_.push_back({u, {std::max(b.lo, had.lo), std::min(b.hi, had.hi)}});
  facts_.clear();
}

void BoundsCache::assume(UOp u, Bounds b) {
  bool number = is_int(u.dtype()) && u.dtype().lanes == 1 && u.dtype().kind != Kind::U64;
  Sum s = number ? sum_of(u) : Sum{};
  if (number && !s.is_const() && fits(s)) assume(s, b);
  else pin(u, b);
}

void BoundsCache::assume(const Sum& sum, Bounds b) {
  contradiction_ = contradiction_ || b.lo > b.hi;
  if (contradiction_ || sum.is_const()) return;
  Sum s{Kind::Index, sum.terms, 0};
  constexpr i128 far = i128(1) << 100;
  i128 lo = b.lo == kMin ? -far : i128(b.lo) - sum.c, hi = b.hi == kMax ? far : i128(b.hi) - sum.c;
  WideBounds had = plain(s);
  contradiction_ = contradiction_ || lo > had.hi || hi < had.lo;
  if (s.terms.size() > 1) known_.push_back({s, lo, hi}), facts_.clear();
  // Each term alone: a*x is within [lo, hi] minus what the others can be.
  for (const Term& t : s.terms) {
    Sum others = s;
    others.add(t.x, wrap_neg(t.a));
    WideBounds o = plain(others);
    i128 tl = lo - o.hi, th = hi - o.lo, a = t.a;
    if (a < 0) {
      std::swap(tl, th);
      tl = -tl, th = -th, a = -a;
    }
    pin(t.x, {clamp(-floor_div(-tl, a)), clamp(floor_div(th, a))});
  }
}

BoundsCache& bounds_cache() {
  struct Own {
    BoundsCache cache;
  };
  return Arena::current().side<Own>().cache;
}

i64 most_elems(std::span<const UOp> dims) {
  i64 n = 1;
  for (UOp d : dims)
    if (__builtin_mul_overflow(n, most(d), &n) || n > i64(1) << 48) n = i64(1) << 48;
  return n;
}

// --- divisors ---------------------------------------------------------------------------------------------------------------------------
namespace {
i64 magnitude(i64 v) { return v == kMin ? 1 : v < 0 ? -v : v; }

i64 factor(UOp u, IdMap<i64>& memo) {
  if (u.is_const()) return u.dtype().kind == Kind::U64 && u.as_int() < 0 ? 1 : magnitude(u.as_int());
  if (u.is(Op::Var)) return std::max<i64>(1, u.src(2).as_int());
  constexpr OpSet kSees = Op::Add | Op::Sub | Op::Mul | Op::Neg | Op::Where | Op::Max | Op::Min | Op::Cast | Op::FloorMod | Op::Shl;
  if (!u.in(kSees)) return 1;
  if (i64* f = memo.find(u)) return *f;
  i64 r = 1;
  auto of = [&](size_t i) { return factor(u.src(i), memo); };
  if (bounds_cache().exact(u)) {
    switch (u.op()) {
      case Op::Add:
      case Op::Sub:
      case Op::Max:
      case Op::Min: r = gcd(of(0), of(1)); break;
      case Op::Mul:
        if (__builtin_mul_overflow(of(0), of(1), &r)) r = of(0);
        break;
      case Op::Neg: r = of(0); break;
      case Op::Where: r = gcd(of(1), of(2)); break;
      case Op::Cast: r = is_int(u.src(0).dtype()) ? of(0) : 1; break;
      case Op::FloorMod: r = gcd(of(0), of(1)); break;
      case Op::Shl:
        if (u.src(1).is_const() && u.src(1).as_int() < 62 && u.src(1).as_int() >= 0)
          if (__builtin_mul_overflow(of(0), i64(1) << u.src(1).as_int(), &r)) r = of(0);
        break;
      default: break;
    }
  }
  memo.set(u, r);
  return r;
}
}  // namespace

i64 const_factor(UOp u) {
  struct Own {
    IdMap<i64> memo;
  };
  if (!is_int(u.dtype())) return 1;
  return factor(u, Arena::current().side<Own>().memo);
}

std::optional<UOp> divide_exact(UOp u, i64 c) {
  if (c == 0) return {};
  if (c == 1) return u;
  if (!is_int(u.dtype()) || !bounds_cache().exact(u)) return {};
  auto go = [&](size_t i, i64 d) { return divide_exact(u.src(i), d); };
  switch (u.op()) {
    case Op::Const:
      if (u.as_int() % c || (u.dtype().kind == Kind::U64 && u.as_int() < 0)) return {};
      return konst(u.dtype(), u.as_int() / c);
    case Op::Var:
      if (c < 0 || u.src(2).as_int() % c) return {};
      return (u / u.src(2)) * (u.src(2).as_int() / c);  // all quotients of a variable in one unit, so that they meet
    case Op::Neg:
      if (auto a = go(0, c)) return -*a;
      return {};
    case Op::Add:
    case Op::Sub:
      if (auto a = go(0, c))
        if (auto b = go(1, c)) return alu(u.op(), {*a, *b});
      return {};
    case Op::Max:
    case Op::Min:
      if (c < 0) return {};
      if (auto a = go(0, c))
        if (auto b = go(1, c)) return alu(u.op(), {*a, *b});
      return {};
    case Op::Where:
      if (auto a = go(1, c))
        if (auto b = go(2, c)) return where(u.src(0), *a, *b);
      return {};
    case Op::Mul: {
      i64 g = gcd(const_factor(u.src(1)), c);
      if (g == 0) return u;  // a factor is 0
      auto b = go(1, c < 0 && g != 1 ? -g : g);
      if (!b) return {};
      i64 rest = c / (c < 0 && g != 1 ? -g : g);
      if (auto a = go(0, rest)) return *a * *b;
      return {};
    }
    default: return {};
  }
}

}  // namespace tg
