// A tap t of a window reads x(t) = d*t + rest, where rest follows the loops outside, and x is inside while begin <= t < end. Both are expressions
// of those loops, so the first and last rows of a picture run through fewer taps. In a sum of products a tap outside would add 0 times a weight,
// which is nothing for any finite weight (formats/README.md says what that means for the others).
#include "opt/trim.h"

#include <algorithm>

#include "ir/loops.h"
#include "opt/axes.h"
#include "rules/context.h"
#include "rules/symbolic.h"

namespace tg {
namespace {

// What one LOAD asks of a tap: f >= 1. The clause says so in the gate, or none where a border of the slot lies there.
struct Limit {
  UOp load, f, clause, outside;  // outside: what is read where f < 1
};

// The taps that are not outside: begin <= t < end.
struct Span {
  UOp begin, end;
  std::vector<UOp> clauses;  // true for all of them
};

std::vector<Limit> limits_of(const Kernel& k, UOp load) {
  std::vector<Limit> out;
  if (load.nsrc() == 3 && load.src(2).is_const())
    for (UOp c : rules::clauses(load.src(1), Op::And))
      if (c.is(Op::Lt) && c.src(0).dtype().kind == Kind::Index) out.push_back({load, simplify(c.src(1) - c.src(0)), c, load.src(2)});
  UOp base = memory_of(load.src(0));
  if (!base.is(Op::Param) || base.arg_int() == 0) return out;
  const Slot& s = k.slots[size_t(base.arg_int())];
  for (size_t a = 0; a < s.before.size(); a++) {
    UOp x = load.src(0).src(a + 1), fill = konst_bits(load.dtype(), s.fill);
    if (s.before[a]) out.push_back({load, simplify(x - (s.before[a] - 1)), {}, fill});
    if (s.after[a]) out.push_back({load, simplify(base.src(a) - s.after[a] - x), {}, fill});
  }
  return out;
}

// Does the value add nothing to a sum (a maximum, ..)?
bool adds_nothing(UOp v, ReduceKind kind) {
  if (v == identity(kind, v.dtype())) return true;
  if (kind != ReduceKind::Add) return false;
  if (v.is_const()) return v.arg_bits() == 0;
  if (v.is(Op::Mul)) return adds_nothing(v.src(0), kind) || adds_nothing(v.src(1), kind);
  return v.is(Op::Cast) && adds_nothing(v.src(0), kind);
}

// Index arithmetic of loops that may stand outside of a sum.
bool is_outside(UOp rest, UOp t) {
  for (UOp u : toposort(rest)) {
    if (u == t || u.in(Op::Load | Op::Var)) return false;
    if (!u.is(Op::Range)) continue;
    AxisKind kind = u.arg<RangeArg>().kind;
    if (kind != AxisKind::Loop && kind != AxisKind::Task && kind != AxisKind::Reduce) return false;
  }
  return true;
}

Span taps_inside(const Kernel& k, UOp reduce, UOp t) {
  Span s{idx(0), t.src(0), {}};
  UOp value = reduce.src(0);
  ReduceKind kind = reduce.arg<ReduceArg>().kind;
  for (UOp load : toposort(value)) {
    if (!load.is(Op::Load)) continue;
    for (const Limit& l : limits_of(k, load)) {
      auto along = linear_in(l.f, t);
      if (!along || !along->factor || !is_outside(along->rest, t)) continue;
      std::pair<UOp, UOp> there{load, l.outside};
      if (!adds_nothing(simplify(substitute(value, {&there, 1})), kind)) continue;
      i64 d = std::abs(along->factor);
      if (along->factor > 0) s.begin = max(s.begin, (idx(d) - along->rest) / d);  // d*t + rest >= 1
      else s.end = min(s.end, (along->rest + (d - 1)) / d);                       // rest - d*t >= 1
      if (l.clause) s.clauses.push_back(l.clause);
    }
  }
  s.begin = simplify(s.begin), s.end = simplify(s.end);
  return s;
}

}  // namespace

Result<Kernel> trim(const Kernel& k, const Opt& o) {
  using R = Result<Kernel>;
  opt::Found f = opt::find_axis(k, o);
  if (!f.why.empty()) return R::no(f.why);
  if (!f.axis.reduce || f.axis.kind != AxisKind::Reduce) return R::no("axis ", o.target, " is no loop of a sum");
  std::vector<std::pair<UOp, UOp>> known;
  std::map<u32, opt::Split> map;
  for (UOp t : f.axis.ranges) {
    if (!t.src(0).is_const()) return R::no("axis ", o.target, " has no constant size");
    std::optional<Span> taps;
    for (UOp u : toposort(k.ast)) {
      std::vector<UOp> loops = closed_ranges(u);
      if (std::find(loops.begin(), loops.end(), t) == loops.end()) continue;
      if (!u.is(Op::Reduce)) return R::no("axis ", o.target, " is the loop of more than sums");
      Span s = taps_inside(k, u, t);
      if (taps && (taps->begin != s.begin || taps->end != s.end)) return R::no("the sums over axis ", o.target, " have different taps outside");
      if (taps) taps->clauses.insert(taps->clauses.end(), s.clauses.begin(), s.clauses.end());
      else taps = s;
    }
    if (!taps || (taps->begin.is_const(0) && taps->end == t.src(0))) continue;
    UOp count = simplify(taps->end - taps->begin);
    if (bounds(count).lo < 0) count = max(count, idx(0));
    for (UOp c : taps->clauses) known.push_back({c, konst(Kind::Bool, 1)});
    UOp inside = range(count, t.arg<RangeArg>());
    map[t.id()] = {inside + taps->begin, {inside}};
  }
  if (map.empty()) return R::no("no tap of axis ", o.target, " is outside of a picture by the loops around it alone");
  Kernel n = k;
  n.ast = simplify(opt::replace_ranges(known.empty() ? k.ast : substitute(k.ast, known), map));
  n.opts.push_back(o);
  return n;
}

f64 trimmed_share(const Kernel& k, i64 id) {
  auto taps = [&](const Kernel& q) -> UOp {
    for (UOp u : toposort(q.ast))
      if (u.is(Op::Range) && u.arg<RangeArg>().id == id) return u.src(0);
    return {};
  };
  Result<Kernel> n = k.with({OptKind::Trim, id});
  UOp whole = taps(k), size = n ? taps(*n) : UOp{}, rows;
  if (!size || !whole.is_const()) return 0;
  for (UOp u : toposort(size))
    if (u.is(Op::Range)) {
      if (rows) return 0;
      rows = u;
    }
  if (!rows || !rows.src(0).is_const() || rows.src(0).as_int() > 256) return 0;
  i64 left = 0, count = rows.src(0).as_int();
  for (i64 i = 0; i < count; i++) {
    std::pair<UOp, UOp> row{rows, idx(i)};
    left += simplify(substitute(size, {&row, 1})).as_int();
  }
  return 1 - f64(left) / f64(count * whole.as_int());
}

Kernel with_trims(Kernel k) {
  for (const Axis& a : axes(k.ast)) {
    if (!a.reduce || a.kind != AxisKind::Reduce || a.size < 2) continue;
    Opt o{OptKind::Trim, a.id};
    o.part = u8(a.part);
    if (Result<Kernel> n = k.with(o)) k = std::move(*n);
  }
  return k;
}

}  // namespace tg
