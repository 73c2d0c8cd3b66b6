#include "ir/sum.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "ir/id_map.h"

namespace tg {
namespace {

template <class T>
int cmp(T a, T b) { return a < b ? -1 : a > b ? 1 : 0; }

// Loop variables, then GPU indices, then sizes, then everything else in the order of ops.def.
int rank_of(Op o) { return o == Op::Range ? 0 : o == Op::Special ? 1 : o == Op::Var ? 2 : 3 + int(o); }

int compare_args(UOp a, UOp b) {
  switch (info(a.op()).arg) {
    case ArgKind::None: return 0;
    case ArgKind::Int: return cmp(a.arg_int(), b.arg_int());
    case ArgKind::Bits: return cmp(i64(a.arg_bits()), i64(b.arg_bits()));
    case ArgKind::Ints: {
      if (a.op() == Op::Range) {
        RangeArg x = a.arg<RangeArg>(), y = b.arg<RangeArg>();
        if (int c = cmp(x.phase, y.phase)) return c;
      }
      IntSpan x = a.arg_ints(), y = b.arg_ints();
      for (size_t i = 0; i < std::min(x.size(), y.size()); i++)
        if (int c = cmp(x[i], y[i])) return c;
      return cmp(x.size(), y.size());
    }
    case ArgKind::Str: {
      std::string_view x = a.arg_str(), y = b.arg_str();
      return x < y ? -1 : x > y ? 1 : 0;
    }
  }
  return 0;
}

// A coefficient modulo 2^bits, nearest to 0.
i64 wrapped(Kind k, u64 v) {
  int n = bits(k);
  return n == 64 ? i64(v) : i64(v << (64 - n)) >> (64 - n);
}

bool sums(UOp u) { return is_int(u.dtype()) && u.dtype().lanes == 1; }

}  // namespace

int structural_order(UOp a, UOp b) {
  while (!(a == b)) {
    if (int c = cmp(rank_of(a.op()), rank_of(b.op()))) return c;
    if (int c = cmp(int(a.dtype().kind), int(b.dtype().kind))) return c;
    if (int c = cmp(a.dtype().lanes, b.dtype().lanes)) return c;
    if (int c = compare_args(a, b)) return c;
    if (int c = cmp(a.nsrc(), b.nsrc())) return c;
    size_t i = 0;
    while (i < a.nsrc() && a.src(i) == b.src(i)) i++;
    TG_CHECK(i < a.nsrc(), "two nodes of the same content: ", a.str());
    UOp na = a.src(i), nb = b.src(i);
    a = na, b = nb;
  }
  return 0;
}

namespace {
// The last loop variable, in structural order, that u depends on; null if none.
UOp innermost(UOp root) {
  struct Known {
    IdMap<UOp> m;
  };
  IdMap<UOp>& m = Arena::current().side<Known>().m;
  if (UOp* r = m.find(root)) return *r;
  std::vector<std::pair<UOp, u32>> stack{{root, 0}};
  while (!stack.empty()) {
    auto& [u, next] = stack.back();
    if (next < u.nsrc()) {
      UOp s = u.src(next++);
      if (!m.find(s)) stack.push_back({s, 0});
      continue;
    }
    UOp best = u.is(Op::Range) || u.is(Op::Special) ? u : UOp();
    if (!best)
      for (UOp s : u.src())
        if (UOp r = *m.find(s); r && (!best || structural_less(best, r))) best = r;
    UOp n = u;
    stack.pop_back();
    m.set(n, best);
  }
  return *m.find(root);
}
}  // namespace

bool term_less(UOp a, UOp b) {
  UOp x = innermost(a), y = innermost(b);
  if (!(x == y)) return !x || (y && structural_less(x, y));
  return structural_less(a, b);
}

bool is_uniform(UOp u) {
  struct Known {
    IdMap<u8> m;  // 1 no, 2 yes
  };
  if (u.is(Op::Var) || u.is_const()) return true;
  if (!is_alu(u.op()) && !u.is(Op::Cast)) return false;
  if (!is_int(u.dtype()) && u.dtype().kind != Kind::Bool) return false;
  IdMap<u8>& m = Arena::current().side<Known>().m;
  if (u8* k = m.find(u)) return *k == 2;
  bool all = true;
  for (UOp s : u.src()) all = all && is_uniform(s);
  m.set(u, all ? 2 : 1);
  return all;
}

namespace {
// Squares of squares of squares have more factors than there is memory: a larger product is one factor.
constexpr size_t kMaxFactors = 32;
constexpr int kMaxSteps = 4096;  // of sum_of, for the same reason
bool few_factors(UOp u) {
  return u.is(Op::Mul) ? factors(u).size() > 1 : true;
}
}  // namespace

std::vector<UOp> factors(UOp term) {
  std::vector<UOp> out, todo{term};
  while (!todo.empty()) {
    UOp u = todo.back();
    todo.pop_back();
    if (u.is(Op::Mul)) todo.push_back(u.src(0)), todo.push_back(u.src(1));
    else out.push_back(u);
    if (out.size() + todo.size() > kMaxFactors) return {term};
  }
  std::sort(out.begin(), out.end(), structural_less);
  return out;
}

UOp product(std::vector<UOp> f) {
  std::sort(f.begin(), f.end(), structural_less);
  UOp own, uniform;
  for (UOp x : f) {
    UOp& p = is_uniform(x) ? uniform : own;
    p = p ? p * x : x;
  }
  return !own ? uniform : !uniform ? own : own * uniform;
}

i64 gcd(i64 a, i64 b) {
  u64 x = a < 0 ? u64(0) - u64(a) : u64(a), y = b < 0 ? u64(0) - u64(b) : u64(b);
  while (y) {
    u64 r = x % y;
    x = y, y = r;
  }
  return x >> 63 ? i64(1) << 62 : i64(x);
}

i64 Sum::coefficient(UOp x) const {
  for (const Term& t : terms)
    if (t.x == x) return t.a;
  return 0;
}

void Sum::add(UOp x, i64 a) {
  a = wrapped(kind, u64(a));
  if (!a) return;
  auto at = std::lower_bound(terms.begin(), terms.end(), x, [](const Term& t, UOp u) { return term_less(t.x, u); });
  if (at == terms.end() || !(at->x == x)) {
    terms.insert(at, {x, a});
    return;
  }
  at->a = wrapped(kind, u64(at->a) + u64(a));
  if (!at->a) terms.erase(at);
}

void Sum::add(const Sum& s, i64 k) {
  for (const Term& t : s.terms) add(t.x, wrap_mul(t.a, k));
  c = wrapped(kind, u64(c) + u64(s.c) * u64(k));
}

Sum Sum::scaled(i64 k) const {
  Sum r{kind};
  r.add(*this, k);
  return r;
}

UOp Sum::uop() const {
  // The most negative coefficient has no positive counterpart: it is added.
  auto added = [&](const Term& t) { return t.a > 0 || wrapped(kind, u64(0) - u64(t.a)) == t.a; };
  UOp r;
  for (const Term& t : terms)
    if (added(t)) {
      UOp m = t.x * t.a;
      r = r ? r + m : m;
    }
  bool constant_done = false;
  for (const Term& t : terms) {
    if (added(t)) continue;
    UOp m = t.x * -t.a;
    if (r) r = r - m;
    else if (c) r = konst(kind, c) - m, constant_done = true;
    else r = t.a == -1 ? -t.x : t.x * t.a;
  }
  if (!r) return konst(kind, c);
  if (!c || constant_done) return r;
  return c < 0 && is_uint(kind) && wrapped(kind, u64(0) - u64(c)) != c ? r - konst(kind, -c) : r + c;
}

namespace {

Sum multiply(const Sum& a, const Sum& b) {
  Sum r{a.kind};
  if (a.is_const() || b.is_const()) {
    r.add(a.is_const() ? b : a, a.is_const() ? a.c : b.c);
    return r;
  }
  auto single = [](const Sum& s) { return s.terms.size() == 1 && !s.c; };
  auto uniform = [](const Sum& s) { return std::all_of(s.terms.begin(), s.terms.end(), [](const Term& t) { return is_uniform(t.x); }); };
  size_t na = a.terms.size() + (a.c != 0), nb = b.terms.size() + (b.c != 0);
  auto times = [](UOp x, UOp y) {
    std::vector<UOp> f = factors(x), g = factors(y);
    f.insert(f.end(), g.begin(), g.end());
    return product(std::move(f));
  };
  if ((single(a) && single(b)) || ((uniform(a) || uniform(b)) && na * nb <= 8)) {
    for (const Term& s : a.terms)
      for (const Term& t : b.terms) r.add(times(s.x, t.x), wrap_mul(s.a, t.a));
    for (const Term& s : a.terms) r.add(s.x, wrap_mul(s.a, b.c));
    for (const Term& t : b.terms) r.add(t.x, wrap_mul(t.a, a.c));
    r.c = wrapped(r.kind, u64(a.c) * u64(b.c));
    return r;
  }
  // Kept as a product; a factor that is one term gives its coefficient away.
  i64 k = 1;
  auto side = [&](const Sum& s) {
    if (!single(s)) return s.uop();
    k = wrap_mul(k, s.terms[0].a);
    return s.terms[0].x;
  };
  UOp x = side(a), y = side(b);
  r.add(times(x, y), k);
  return r;
}

}  // namespace

Sum sum_of(UOp root) {
  Sum r{root.dtype().kind};
  if (!sums(root)) {
    r.terms.push_back({root, 1});
    return r;
  }
  std::vector<std::pair<UOp, i64>> todo{{root, 1}};
  for (int steps = 0; !todo.empty(); steps++) {
    auto [u, k] = todo.back();
    todo.pop_back();
    if (steps > kMaxSteps && !u.is_const()) {
      r.add(u, k);
      continue;
    }
    i64 minus = wrap_neg(k);
    switch (u.op()) {
      case Op::Const: r.c = wrapped(r.kind, u64(r.c) + u64(k) * u64(u.as_int())); break;
      case Op::Add: todo.push_back({u.src(0), k}), todo.push_back({u.src(1), k}); break;
      case Op::Sub: todo.push_back({u.src(0), k}), todo.push_back({u.src(1), minus}); break;
      case Op::Neg: todo.push_back({u.src(0), minus}); break;
      case Op::Mul:
        if (u.src(1).is_const()) todo.push_back({u.src(0), wrap_mul(k, u.src(1).as_int())});
        else if (u.src(0).is_const()) todo.push_back({u.src(1), wrap_mul(k, u.src(0).as_int())});
        else if (r.kind == Kind::Index && few_factors(u)) r.add(multiply(sum_of(u.src(0)), sum_of(u.src(1))), k);
        else r.add(u, k);  // a model's own integers: x*x*x.. has no addresses in it, and as many factors as it likes
        break;
      default: r.add(u, k);
    }
  }
  return r;
}

std::optional<Sum> exact_difference(const Sum& a, const Sum& b) {
  Sum r{Kind::Index, a.terms, a.c};
  if (__builtin_sub_overflow(a.c, b.c, &r.c)) return {};
  for (const Term& t : b.terms) {
    i64 had = r.coefficient(t.x), now;
    if (__builtin_sub_overflow(had, t.a, &now) || t.a == std::numeric_limits<i64>::min()) return {};
    r.add(t.x, -t.a);
  }
  return r;
}

bool depends_on(UOp u, UOp r) {
  IdMap<u8> seen;
  std::vector<UOp> todo{u};
  while (!todo.empty()) {
    UOp n = todo.back();
    todo.pop_back();
    if (n == r) return true;
    for (UOp s : n.src())
      if (s.id() >= r.id() && !seen.find(s)) seen.set(s, 1), todo.push_back(s);  // sources are older than their users
  }
  return false;
}

std::optional<i64> coefficient(UOp u, UOp r) {
  Sum s = sum_of(u);
  i64 k = 0;
  for (const Term& t : s.terms) {
    if (t.x == r) k = t.a;
    else if (depends_on(t.x, r)) return {};
  }
  return k;
}

}  // namespace tg
