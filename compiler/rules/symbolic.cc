// The rules together, and the ways to run them.
#include "rules/symbolic.h"

#include <algorithm>
#include <cmath>

#include "base/settings.h"
#include "ir/tensor.h"
#include "rules/context.h"
#include "rules/sizes.h"

namespace tg {
namespace rules {
namespace {
using namespace pat;

constexpr OpSet kNumbers = Op::Add | Op::Sub | Op::Mul | Op::Div | Op::Rem | Op::FloorDiv | Op::FloorMod | Op::Max | Op::Min | Op::And | Op::Or |
                           Op::Xor | Op::Shl | Op::Shr | Op::Lt | Op::Le | Op::Eq | Op::Ne | Op::Where | Op::MulAcc | Op::Neg | Op::Not |
                           Op::Abs | Op::Cast;

// Nothing but elementwise ops is entered under an assumption: a load inside runs whether it holds or not.
constexpr OpSet leaves_of_conditions() {
  OpSet s;
  for (int o = 0; o < kOps; o++)
    if (!is_elementwise(Op(o))) s = s | Op(o);
  return s;
}

UOp constant_by_bounds(M m) {
  UOp u = m.root;
  if (u.dtype().lanes != 1) return {};
  if (auto c = m.ctx<Symbolic>().bounds.constant(u)) return konst(u.dtype(), *c);
  return {};
}

// Truncating division of numbers that are not negative.
UOp floor_of_div(M m) {
  UOp u = m.root;
  BoundsCache& b = m.ctx<Symbolic>().bounds;
  if (u.dtype().lanes != 1 || u.dtype().kind == Kind::U64 || b(u.src(0)).lo < 0 || b(u.src(1)).lo <= 0) return {};
  return alu(u.is(Op::Div) ? Op::FloorDiv : Op::FloorMod, u.src());
}

UOp fold_min_max(M m) {
  UOp u = m.root;
  BoundsCache& b = m.ctx<Symbolic>().bounds;
  auto d = difference(u.src(0), u.src(1), b);
  if (!d) return {};
  bool max = u.is(Op::Max);
  if (b.never_negative(*d)) return u.src(max ? 0 : 1);
  if (d->c != std::numeric_limits<i64>::min() && b.never_negative(d->scaled(-1))) return u.src(max ? 1 : 0);
  return {};
}

// One order for sources that may be swapped; constants stay right.
UOp order_sources(M m) {
  UOp u = m.root;
  if (u.src(1).is_const() || structural_less(u.src(0), u.src(1))) return {};
  return node(u.op(), u.dtype(), {u.src(1), u.src(0)});
}

// Casts between integers that keep every value.
UOp fold_cast(M m) {
  UOp u = m.root, mid = u.src(0);
  DType to = u.dtype();
  BoundsCache& b = m.ctx<Symbolic>().bounds;
  auto whole_kind = [](DType d) { return is_int(d) || d.kind == Kind::Bool; };
  if (mid.is(Op::Cast)) {
    DType from = mid.src(0).dtype(), m_ = mid.dtype();
    if (is_storage(from.kind) || is_storage(m_.kind)) return {};
    if (whole_kind(from) && is_int(m_) && from.lanes == 1 && from.kind != Kind::U64) {
      Bounds v = b(mid.src(0));
      if (v.lo >= int_min(m_.kind) && v.hi <= int_max(m_.kind)) return cast(mid.src(0), to);
      // A narrower cast at the end sees the low bits only, which the first one keeps.
      if (is_int(to) && to.kind != Kind::Index && bits(to) <= bits(m_)) return cast(mid.src(0), to);
    }
    if (whole_kind(from) && is_float(m_) && from.lanes == 1 && from.kind != Kind::U64 && is_int(to)) {
      Bounds v = b(mid.src(0));
      i64 exact = i64(1) << (m_.kind == Kind::F64 ? 53 : m_.kind == Kind::F32 ? 24 : m_.kind == Kind::F16 ? 11 : 8);
      if (v.lo >= -exact && v.hi <= exact && v.lo >= int_min(to.kind) && v.hi <= int_max(to.kind)) return cast(mid.src(0), to);
    }
    // f16 and bf16 fit f32, and all fit f64: the rounding is the last cast's own.
    if (is_float(from) && is_float(m_) && (m_.kind == Kind::F64 || (m_.kind == Kind::F32 && bits(from) == 16))) return cast(mid.src(0), to);
    return {};
  }
  // Into index arithmetic: what cannot wrap means the same there.
  constexpr OpSet kThrough = Op::Add | Op::Sub | Op::Mul | Op::FloorDiv | Op::FloorMod | Op::Max | Op::Min | Op::Neg | Op::Where;
  if (to.kind == Kind::Index && to.lanes == 1 && mid.in(kThrough) && is_int(mid.dtype()) && b.exact(mid)) {
    if (mid.dtype().kind == Kind::U64) {
      for (UOp s : mid.src())
        if (b(s).hi == int_max(Kind::U64)) return {};
      if (b(mid).hi == int_max(Kind::U64)) return {};
    }
    UOp s[3];
    for (size_t a = 0; a < mid.nsrc(); a++) s[a] = mid.is(Op::Where) && a == 0 ? mid.src(0) : cast(mid.src(a), to);
    return alu(mid.op(), std::span(s, mid.nsrc()));
  }
  return {};
}

UOp under(UOp expr, UOp cond, bool value) {
  if (expr.is_const() || (!is_int(expr.dtype()) && expr.dtype().kind != Kind::Bool)) return expr;
  BoundsCache bounds;
  assume_condition(bounds, cond, value);
  if (bounds.contradiction()) return expr;
  IdMap<UOp> memo;
  Symbolic s{bounds, memo, true};
  UOp r = normal(expr, s);
  if (auto c = r.dtype().lanes == 1 ? bounds.constant(r) : std::nullopt) return konst(r.dtype(), *c);
  return r;
}

// NOT goes inside where it costs nothing: comparisons of integers turn around.
UOp not_inside(M m) {
  UOp inner = m.root.src(0);
  if (inner.dtype().lanes != 1) return {};
  auto turns = [](UOp c) { return c.is(Op::Not) || c.in(Op::Eq | Op::Ne) || (c.in(Op::Lt | Op::Le) && is_int(c.src(0).dtype())); };
  std::vector<UOp> cs = clauses(inner, inner.op());
  if (!std::all_of(cs.begin(), cs.end(), turns)) return {};
  UOp r;
  for (UOp c : cs) {
    UOp n = logical_not(c);
    r = !r ? n : inner.is(Op::And) ? r | n : r & n;
  }
  return r;
}

// Small integer branches know their condition.
UOp branches(M m) {
  UOp u = m.root;
  if (m.ctx<Symbolic>().given || u.dtype().lanes != 1) return {};
  auto small = [](UOp x) {
    int n = 0;
    std::vector<UOp> todo{x};
    while (!todo.empty() && n < 64) {
      UOp y = todo.back();
      todo.pop_back();
      n++;
      if (is_elementwise(y.op())) todo.insert(todo.end(), y.src().begin(), y.src().end());
    }
    return n < 64;
  };
  UOp a = small(u.src(1)) ? under(u.src(1), u.src(0), true) : u.src(1);
  UOp b = small(u.src(2)) ? under(u.src(2), u.src(0), false) : u.src(2);
  return where(u.src(0), a, b);
}

bool is_gate(UOp g) { return g.dtype().kind == Kind::Bool && g.dtype().lanes == 1; }

UOp index_given(UOp index, UOp gate) {
  if (!index.is(Op::Index)) return index;
  std::vector<UOp> s(index.src().begin(), index.src().end());
  for (size_t a = 1; a < s.size(); a++)
    if (s[a].dtype().lanes == 1) s[a] = under(s[a], gate, true);
  return with_src(index, s);
}

// A gated access may take its gate for granted in its address.
UOp gated_load(M m) {
  UOp u = m.root, gate = u.src(1);
  if (!is_gate(gate) || m.ctx<Symbolic>().given) return {};
  if (gate.is_const()) return gate.as_int() ? node(Op::Load, u.dtype(), {u.src(0)}) : u.src(2).dtype() == u.dtype() ? u.src(2) : UOp();
  UOp shorter = simplify_valid(gate);
  UOp s[] = {index_given(u.src(0), shorter), shorter, u.src(2)};
  return with_src(u, s);
}
UOp gated_store(M m) {
  UOp u = m.root;
  if (!is_gate(u.src(2)) || m.ctx<Symbolic>().given) return {};
  std::vector<UOp> s(u.src().begin(), u.src().end());
  if (s[2].is_const(1)) s.erase(s.begin() + 2);
  else if (!s[2].is_const()) {
    s[2] = simplify_valid(s[2]);
    s[0] = index_given(s[0], s[2]);
  }
  return with_src(u, s);
}

// An index that is always the same number: the variable of a loop that runs once.
UOp fold_index(M m) {
  UOp u = m.root;
  BoundsCache& b = m.ctx<Symbolic>().bounds;
  std::vector<UOp> s(u.src().begin(), u.src().end());
  for (size_t a = 1; a < s.size(); a++)
    if (is_int(s[a].dtype()) && s[a].dtype().lanes == 1)
      if (auto c = b.constant(s[a])) s[a] = konst(s[a].dtype(), *c);
  return with_src(u, s);
}

// clang-format off
static constexpr Rule kBounds[] = {
  {op(kNumbers, {}).of(kInts | kBool),             constant_by_bounds},
};
static constexpr Rule kNormal[] = {
  {op(Op::Add | Op::Sub | Op::Mul, {i, j}),        fold_sum},
  {-i,                                             fold_sum},
  {op(Op::FloorDiv | Op::FloorMod, {i, j}),        fold_floor},
  {op(Op::Div | Op::Rem, {i, j}),                  floor_of_div},
  {op(kComparison, {i, j}),                        fold_compare},
  {op(Op::And | Op::Or, {b, p}),                   fold_clauses},
  {~(b & p),                                       not_inside},
  {~(b | p),                                       not_inside},
  {op(Op::Max | Op::Min, {i, j}),                  fold_min_max},
  {op(Op::Max | Op::Min | Op::And | Op::Or | Op::Xor, {i, j}), order_sources},
  {op(Op::Eq | Op::Ne, {b, p}),                    order_sources},
  {cast(x),                                        fold_cast},
  {where(b, i, j),                                 branches},
  {where(b, p, q),                                 branches},
  {op(Op::Index, {x}).more(),                      fold_index},
  {op(Op::Load, {x, b, y}),                        gated_load},
  {op(Op::Store, {x, y, b}).more(),                gated_store},
};
// clang-format on

const RuleSet& with_fast() {
  static const RuleSet s = floats_fast() + symbolic();
  return s;
}
const RuleSet& in_force() { return settings::FASTMATH() ? with_fast() : symbolic(); }

}  // namespace

const RuleSet& symbolic() {
  static const RuleSet s = RuleSet("bounds", kBounds) + bits_and_bools() + integers() + floats_exact() + RuleSet("normal", kNormal);
  return s;
}

UOp normal(UOp u, Symbolic& s) {
  static constexpr OpSet kLeaves = leaves_of_conditions();
  RewriteOptions o{.name = "symbolic", .memo = &s.memo};
  if (s.given) o.leaves = kLeaves;
  return rewrite(u, in_force(), o.ctx(s));
}

}  // namespace rules

UOp simplify(UOp root) {
  struct Known {
    IdMap<UOp> exact, fast;
  };
  Known& k = Arena::current().side<Known>();
  rules::Symbolic s{bounds_cache(), settings::FASTMATH() ? k.fast : k.exact};
  return rules::normal(root, s);
}

namespace {
// Shapes spell their sizes in this normal form (ir/tensor.h).
[[maybe_unused]] const bool sizes_are_simplified = (set_normal_dim(normal_size), true);
}  // namespace

UOp simplify_given(UOp expr, UOp valid) {
  UOp v = simplify(valid), x = simplify(expr);
  for (int round = 0; round < 8; round++) {
    UOp next = simplify(rules::under(x, v, true));
    if (next == x) break;
    x = next;
  }
  return x;
}

UOp simplify_valid(UOp cond) {
  UOp c = simplify(cond);
  BoundsCache all;
  assume_condition(all, c);
  if (all.contradiction() && c.dtype().lanes == 1) return konst(Kind::Bool, 0);
  for (int round = 0; round < 8; round++) {
    std::vector<UOp> cs = rules::clauses(c, Op::And);
    if (cs.size() < 2 || cs.size() > 32) return c;
    for (size_t a = 0; a < cs.size(); a++) {
      UOp rest;
      for (size_t b = 0; b < cs.size(); b++)
        if (b != a) rest = rest ? rest & cs[b] : cs[b];
      cs[a] = rules::under(cs[a], rest, true);
    }
    UOp next = cs[0];
    for (size_t a = 1; a < cs.size(); a++) next = next & cs[a];
    next = simplify(next);
    if (next == c) return c;
    c = next;
  }
  return c;
}

}  // namespace tg
