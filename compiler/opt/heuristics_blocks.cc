#include "opt/heuristics_blocks.h"

#include <algorithm>

#include "ir/loops.h"
#include "opt/planner.h"

namespace tg {
namespace {

bool fills_row(UOp u) { return u.is(Op::Store) && memory_of(u.src(0)).is(Op::Row); }

}  // namespace

bool has_blocks(UOp ast) {
  for (UOp s : toposort(ast)) {
    if (!fills_row(s)) continue;
    for (UOp u : toposort(s.src(1)))
      if (u.is(Op::Reduce) && u.src(0).is(Op::Mul))
        for (UOp f : u.src(0).src())
          if (f.is(Op::Load) && memory_of(f.src(0)).is(Op::Row)) return true;
  }
  return false;
}

namespace {

// The nest of one STORE as a kernel: rows are buffers that are there, and the loops around the nest have no Opts.
Kernel nest_of(const Kernel& k, UOp store, const std::vector<UOp>& around) {
  Kernel n = k;
  n.opts.clear();
  for (UOp r : around) n.ordered.push_back(r.arg<RangeArg>().id);
  Memo<UOp> to;
  for (UOp u : toposort(store)) {
    if (u.is(Op::Row)) {
      std::vector<i64> size{u.src(0).as_int()};
      to[u] = node(Op::Param, u.dtype(), {u.src(0)}, i64(n.slots.size()));
      Slot slot;
      slot.layout = Layout::row_major(size), slot.dims = size;
      n.slots.push_back(std::move(slot));
      continue;
    }
    std::vector<UOp> src;
    if (u.is(Op::After)) {
      to[u] = to[u.src(0)];
      continue;
    }
    for (UOp s : u.src()) src.push_back(to[s]);
    to[u] = std::equal(src.begin(), src.end(), u.src().begin(), u.src().end()) ? u : with_src(u, src);
  }
  UOp one = to[store];
  n.ast = node(Op::Sink, Kind::Void, {one});
  return n;
}

}  // namespace

std::optional<Kernel> plan_blocks(const Kernel& k) {
  if (k.ast.nsrc() != 1 || !has_blocks(k.ast)) return {};
  UOp result = k.ast.src(0);
  std::vector<UOp> stores, around;
  for (UOp u : toposort(k.ast)) {
    if (u.is(Op::Store)) stores.push_back(u);
    if (!fills_row(u)) continue;
    std::vector<UOp> below = toposort(u);
    for (UOp r : loops_of(result))
      if (std::find(below.begin(), below.end(), r) != below.end() && std::find(around.begin(), around.end(), r) == around.end()) around.push_back(r);
  }
  Kernel out = k;
  for (UOp s : stores)
    for (const Opt& o : heuristic::Planner(nest_of(k, s, around), true).run_nest())
      if (Result<Kernel> next = out.with(o)) out = std::move(*next);
  // Weights are read by the loops around their nest too.
  for (UOp u : toposort(k.ast))
    if (u.is(Op::Reduce) && u.src(0).is(Op::Mul))
      for (UOp f : u.src(0).src())
        if (f.is(Op::Load) && reads_constant(k, f.src(0)))
          if (Result<Kernel> next = out.with({OptKind::Pack, memory_of(f.src(0)).arg_int()})) out = std::move(*next);
  return out;
}

}  // namespace tg
