#include "rules/sizes.h"

#include <limits>
#include <optional>
#include <unordered_map>

#include "ir/eval_scalar.h"
#include "ir/id_map.h"
#include "ir/sum.h"
#include "rules/symbolic.h"

namespace tg {
namespace {

// Variables that are multiples of m, as m times a variable of their own, and what that variable is.
struct Units {
  std::vector<std::pair<UOp, UOp>> to, from;
  explicit Units(UOp d) {
    for (UOp v : toposort(d)) {
      if (!v.is(Op::Var) || v.src(2).is_const(1)) continue;
      i64 m = v.src(2).as_int();
      UOp unit = var(std::string(v.arg_str()) + "/" + std::to_string(m), v.src(0).as_int() / m, v.src(1).as_int() / m);
      to.push_back({v / m, unit}), to.push_back({v, unit * m}), from.push_back({unit, v / m});
    }
  }
};

constexpr i64 kMostTried = 1 << 14;

// A sum of variables, each once: its bounds are exact.
bool is_linear(UOp d) {
  for (const Term& t : sum_of(d).terms)
    if (!t.x.is(Op::Var)) return false;
  return true;
}

// The least and the largest value of d over all values of its variables, if these are few.
std::optional<Bounds> by_trying(UOp d) {
  std::vector<UOp> order = toposort(d);
  std::vector<size_t> vars;
  i64 tries = 1;
  for (size_t i = 0; i < order.size(); i++) {
    UOp u = order[i];
    if (u.is(Op::Var)) {
      vars.push_back(i);
      tries *= (u.src(1).as_int() - u.src(0).as_int()) / u.src(2).as_int() + 1;
      if (tries > kMostTried) return {};
    } else if (!u.is_const() && !u.is(Op::Cast) && !is_alu(u.op())) {
      return {};
    }
  }
  std::unordered_map<u32, size_t> place;
  for (size_t i = 0; i < order.size(); i++) place[order[i].id()] = i;
  struct Step {
    size_t out, in[3] = {};
    ScalarFn fn;
    Kind kind, to;
  };
  std::vector<u64> v(order.size());
  std::vector<Step> steps;
  for (size_t i = 0; i < order.size(); i++) {
    UOp u = order[i];
    if (u.is(Op::Var)) v[i] = u64(u.src(0).as_int());
    else if (u.is_const()) v[i] = u.arg_bits();
    else {
      Step s{i, {}, nullptr, u.src(u.is(Op::Where) ? 1 : 0).dtype().kind, u.dtype().kind};
      for (size_t k = 0; k < u.nsrc(); k++) s.in[k] = place[u.src(k).id()];
      if (!u.is(Op::Cast)) s.fn = scalar_fn(u.op(), s.kind);
      steps.push_back(s);
    }
  }
  Bounds b{std::numeric_limits<i64>::max(), std::numeric_limits<i64>::min()};
  while (true) {
    for (const Step& s : steps)
      v[s.out] = s.fn ? s.fn(s.kind, v[s.in[0]], v[s.in[1]], v[s.in[2]]) : eval_cast(s.to, s.kind, v[s.in[0]]);
    i64 x = i64(v.back());
    b = {std::min(b.lo, x), std::max(b.hi, x)};
    size_t k = 0;
    for (; k < vars.size(); k++) {
      UOp u = order[vars[k]];
      v[vars[k]] += u64(u.src(2).as_int());
      if (i64(v[vars[k]]) <= u.src(1).as_int()) break;
      v[vars[k]] = u64(u.src(0).as_int());
    }
    if (k == vars.size()) return b;
  }
}

// Max, Min and Where without the sides that no value of the variables takes.
UOp decided(UOp d) {
  constexpr OpSet kChoosing = Op::Max | Op::Min | Op::Where;
  std::vector<std::pair<UOp, UOp>> map;
  for (UOp u : toposort(d)) {
    if (!u.in(kChoosing) || u.dtype().kind != Kind::Index) continue;
    UOp now = map.empty() ? u : substitute(u, map), r;
    if (!now.in(kChoosing)) continue;
    if (now.is(Op::Where)) {
      if (Bounds c = size_bounds(now.src(0)); c.single()) r = now.src(c.lo ? 1 : 2);
    } else {
      UOp a = now.src(0), b = now.src(1);
      if (always_le(a, b)) r = now.is(Op::Max) ? b : a;
      else if (always_le(b, a)) r = now.is(Op::Max) ? a : b;
    }
    if (r) map.push_back({u, r});
  }
  return map.empty() ? d : substitute(d, map);
}

// a * x, where x is a product: the variables whose multiple divides a stand for themselves, the first ones first.
void add_term(const Term& t, const Units& units, Sum* sum) {
  i64 a = t.a;
  std::vector<UOp> fs;
  for (UOp f : factors(t.x)) {
    UOp back = substitute(f, units.from);
    if (f.is(Op::Var) && back != f)
      if (i64 m = back.src(1).as_int(); a % m == 0) a /= m, back = back.src(0);
    fs.push_back(back);
  }
  sum->add(product(fs), a);
}

}  // namespace

UOp normal_size(UOp d) {
  struct Known {
    IdMap<UOp> m;
  };
  IdMap<UOp>& known = Arena::current().side<Known>().m;
  if (UOp* k = known.find(d)) return *k;
  UOp r, simple = simplify(d);
  if (UOp s = decided(simple); s != simple) {
    r = normal_size(s);
  } else if (Units units(d); units.to.empty()) {
    r = simple;
  } else {
    Sum in_units = sum_of(simplify(substitute(d, units.to))), sum;
    sum.c = in_units.c;
    for (const Term& t : in_units.terms) add_term(t, units, &sum);
    r = sum.uop();
  }
  known.set(d, r);
  known.set(r, r);
  return r;
}

Bounds size_bounds(UOp d) {
  if (d.is_const()) return bounds(d);
  struct Known {
    IdMap<Bounds> m;
  };
  IdMap<Bounds>& known = Arena::current().side<Known>().m;
  if (Bounds* k = known.find(d)) return *k;
  UOp s = simplify(substitute(d, Units(d).to));
  Bounds b = bounds(s);
  if (!b.single() && !is_linear(s))
    if (auto tried = by_trying(s)) b = *tried;
  known.set(d, b);
  return b;
}

bool always_le(UOp a, UOp b) {
  UOp c = simplify(le(a, b));
  if (c.is_const()) return c.as_int() != 0;
  return size_bounds(b - a).lo >= 0;
}

}  // namespace tg
