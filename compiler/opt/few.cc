// FEW a n: where free axis a has at most n values, a copy of the loop nest does them, and the nest as it stands does none; where it has more it is the
// other way round. All axes of the copy are its own (with ids in the next free hundred), so it gets Opts of its own: rows of a product that are
// few want a tile that is wider and less high. Loops around axis a are those of both.
#include "opt/few.h"

#include <algorithm>

#include "ir/bounds.h"
#include "ir/loops.h"
#include "opt/prepare.h"
#include "rules/symbolic.h"

namespace tg {

i64 next_hundred(UOp ast) {
  i64 most = 0;
  for (UOp u : toposort(ast))
    if (u.is(Op::Range)) most = std::max(most, u.arg<RangeArg>().id);
  return (most / 100 + 1) * 100;
}

i64 remainder_of(UOp ast, i64 id) {
  i64 next = id + 100;
  for (UOp u : toposort(ast))
    if (u.is(Op::Range))
      while (u.arg<RangeArg>().id >= next && (u.arg<RangeArg>().id - id) % 100 == 0) next += 100;
  return next;
}

std::string shared_read(const Kernel& k) {
  if (std::none_of(k.opts.begin(), k.opts.end(), [](const Opt& o) { return o.kind == OptKind::Few || o.kind == OptKind::Peel; })) return "";
  Memo<u32> seen;  // by LOAD: one more than the number of the STORE that reads it first
  std::span<const UOp> stores = k.ast.src();
  seen[k.ast];
  // Is there a VAR below the LOAD, in its address or its buffer's sizes, on which the size of a loop depends that only one of the two is in?
  auto may_lie_outside = [](UOp load, const std::vector<UOp>& a, const std::vector<UOp>& b) {
    std::vector<UOp> sizes;
    for (auto [x, y] : {std::pair{&a, &b}, std::pair{&b, &a}})
      for (UOp r : *x)
        if (std::find(y->begin(), y->end(), r) == y->end()) sizes.push_back(r.src(0));
    std::vector<UOp> of_loops = toposort(sizes), below = toposort(load.src(0));
    return std::any_of(below.begin(), below.end(), [&](UOp x) { return x.is(Op::Var) && std::find(of_loops.begin(), of_loops.end(), x) != of_loops.end(); });
  };
  for (u32 i = 0; i < stores.size(); i++)
    for (UOp u : toposort(stores[i])) {
      if (!u.is(Op::Load)) continue;
      if (u32 j = seen[u]; j && j != i + 1)
        if (std::vector<UOp> a = loops_of(stores[j - 1]), b = loops_of(stores[i]); a != b && may_lie_outside(u, a, b)) return "two copies of the loops would share what they read";
      if (!seen[u]) seen[u] = i + 1;
    }
  return "";
}

Result<Kernel> few(const Kernel& k, const Opt& o) {
  using R = Result<Kernel>;
  if (std::find(k.ordered.begin(), k.ordered.end(), o.target) != k.ordered.end()) return R::no("axis ", o.target, " runs in its order");
  if (!k.ordered.empty() && k.ast.nsrc() > 1) return R::no("loops that wait for one another have no second copy");
  const Axis* a = nullptr;
  std::vector<Axis> all = axes(k.ast);
  for (const Axis& x : all)
    if (x.id == o.target && x.part == o.part) a = &x;
  if (!a) return R::no("no axis ", o.target, "/", int(o.part));
  if (!a->output || a->reduce || a->ranges.size() != 1 || a->kind != AxisKind::Loop || o.part) return R::no("FEW is for an output axis of one loop");
  if (!a->free) return R::no("axis ", o.target, " has the same size in every run");
  if (o.arg < 1 || o.arg >= a->size || bounds(a->extent()).lo > o.arg) return R::no("axis ", o.target, " has never, or always, at most ", o.arg, " values");
  UOp r = a->ranges[0], size = a->extent(), many = lt(idx(o.arg), size);
  UOp none = idx(0), sizes[] = {simplify(where(many, size, none)), simplify(min(where(many, none, size), idx(o.arg)))};
  for (UOp n : sizes)
    if (n.is_const()) return R::no("axis ", o.target, " has never, or always, at most ", o.arg, " values");
  // The lowest of its axes comes into the next free hundred: after PEEL they are of several hundreds.
  i64 lowest = o.target, rows = next_row(k.ast);
  for (UOp s : k.ast.src()) {
    std::vector<UOp> loops = loops_of(s);
    auto at = std::find(loops.begin(), loops.end(), r);
    if (at == loops.end()) continue;
    for (UOp u : toposort(s))
      if (u.is(Op::Range) && std::find(loops.begin(), at, u) == at) lowest = std::min(lowest, u.arg<RangeArg>().id);
  }
  i64 up = next_hundred(k.ast) - lowest / 100 * 100;
  std::vector<UOp> stores;
  for (int copy = 0; copy < 2; copy++)
    for (UOp s : k.ast.src()) {
      std::vector<UOp> loops = loops_of(s);
      auto at = std::find(loops.begin(), loops.end(), r);
      if (at == loops.end()) {
        if (!copy) stores.push_back(s);
        continue;
      }
      std::vector<UOp> outer(loops.begin(), at);
      std::vector<std::pair<UOp, UOp>> map;
      for (UOp u : toposort(s)) {
        if (u == r) {
          RangeArg x = r.arg<RangeArg>();
          x.id += copy * up;
          map.push_back({r, range(sizes[copy], x)});
        } else if (copy && u.is(Op::Range) && std::find(outer.begin(), outer.end(), u) == outer.end()) {
          RangeArg x = u.arg<RangeArg>();
          x.id += up;
          map.push_back({u, range(substitute(u.src(0), map), x)});  // sizes come before the loops that have them
        } else if (copy && u.is(Op::Row)) {
          RowArg row = u.arg<RowArg>();
          row.number += rows;
          map.push_back({u, node(Op::Row, u.dtype(), {substitute(u.src(0), map)}, row.ints())});
        }
      }
      stores.push_back(substitute(s, map));
    }
  Kernel n = k;
  n.ast = simplify(node(Op::Sink, Kind::Void, std::span<const UOp>(stores)));
  n.opts.push_back(o);
  return n;
}

}  // namespace tg
