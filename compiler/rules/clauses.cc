// ANDs and ORs of conditions: each clause once, in structural order, without those that another clause implies.
#include <algorithm>

#include "rules/context.h"

namespace tg {
namespace rules {

std::vector<UOp> clauses(UOp cond, Op op) {
  std::vector<UOp> out, todo{cond};
  while (!todo.empty()) {
    UOp u = todo.back();
    todo.pop_back();
    if (u.is(op)) {
      todo.push_back(u.src(1));
      todo.push_back(u.src(0));
    } else out.push_back(u);
  }
  return out;
}

namespace {

constexpr i64 kMin = std::numeric_limits<i64>::min(), kMax = std::numeric_limits<i64>::max();

// lo <= x <= hi, with the first coefficient of x above 0.
struct Interval {
  std::vector<Term> x;
  i64 lo = kMin, hi = kMax;
};

std::optional<Interval> interval(UOp c, BoundsCache& bounds) {
  if (!c.is(Op::Lt) && !c.is(Op::Eq)) return {};
  auto d = difference(c.src(0), c.src(1), bounds);
  if (!d || d->terms.empty() || d->c > kMax / 2 || d->c < -(kMax / 2)) return {};
  bool flip = d->terms[0].a < 0;
  Interval r;
  i64 k = flip ? d->c : -d->c;  // x == k, or below: x < k, or x > k
  r.x = flip ? d->scaled(-1).terms : d->terms;
  if (c.is(Op::Eq)) r.lo = r.hi = k;
  else (flip ? r.lo : r.hi) = flip ? k + 1 : k - 1;
  return r;
}

bool opposite(UOp a, UOp b) {
  if (a.is(Op::Not)) return a.src(0) == b;
  if (b.is(Op::Not)) return b.src(0) == a;
  return ((a.is(Op::Eq) && b.is(Op::Ne)) || (a.is(Op::Ne) && b.is(Op::Eq))) && std::ranges::equal(a.src(), b.src());
}

}  // namespace

UOp fold_clauses(pat::M m) {
  UOp u = m.root;
  if (u.dtype().kind != Kind::Bool || u.dtype().lanes != 1) return {};
  bool all = u.is(Op::And);
  BoundsCache& bounds = m.ctx<Symbolic>().bounds;
  std::vector<UOp> cs = clauses(u, u.op());
  if (cs.size() > 64) return {};
  std::sort(cs.begin(), cs.end(), term_less);  // what inner loops do not change first
  cs.erase(std::unique(cs.begin(), cs.end()), cs.end());
  std::vector<std::optional<Interval>> in;
  for (UOp c : cs) in.push_back(interval(c, bounds));
  std::vector<bool> drop(cs.size());
  for (size_t a = 0; a < cs.size(); a++)
    for (size_t b = 0; b < cs.size(); b++) {
      if (a == b || drop[a] || drop[b]) continue;
      if (opposite(cs[a], cs[b])) return konst(Kind::Bool, !all);
      if (!in[a] || !in[b] || in[a]->x != in[b]->x) continue;
      const Interval &s = *in[a], &t = *in[b];
      if (all && std::max(s.lo, t.lo) > std::min(s.hi, t.hi)) return konst(Kind::Bool, 0);
      if (!all && ((s.lo == kMin && t.hi == kMax && t.lo - 1 <= s.hi) || (s.lo == kMin && s.hi == kMax))) return konst(Kind::Bool, 1);
      bool inside = s.lo >= t.lo && s.hi <= t.hi;  // a implies b
      if (inside) drop[all ? b : a] = true;
    }
  UOp r;
  for (size_t a = 0; a < cs.size(); a++)
    if (!drop[a]) r = r ? alu(u.op(), {r, cs[a]}) : cs[a];
  return r;
}

}  // namespace rules

void assume_condition(BoundsCache& b, UOp cond, bool value) {
  if (cond.is(value ? Op::And : Op::Or)) {
    for (UOp c : rules::clauses(cond, cond.op())) assume_condition(b, c, value);
    return;
  }
  if (cond.is(Op::Not)) return assume_condition(b, cond.src(0), !value);
  if (cond.in(kComparison)) {
    if (auto s = rules::difference(cond.src(0), cond.src(1), b)) {
      constexpr i64 lowest = std::numeric_limits<i64>::min(), highest = std::numeric_limits<i64>::max();
      bool less = cond.is(Op::Lt), below = less || cond.is(Op::Le);
      if (below) b.assume(*s, value ? Bounds{lowest, less ? -1 : 0} : Bounds{less ? 0 : 1, highest});
      else if (cond.is(Op::Eq) == value) b.assume(*s, Bounds{0, 0});
    }
  }
  b.assume(cond, {value, value});
}

}  // namespace tg
