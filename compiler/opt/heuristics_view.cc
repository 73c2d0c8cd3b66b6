// A kernel as the heuristics see it: its axes, and how each access moves along them.
#include "opt/planner.h"

namespace tg::heuristic {

View view_of(const Kernel& k) {
  View v;
  v.axes = axes(k.ast);
  std::vector<UOp> topo = toposort(k.ast);
  Memo<u8> in_reduce;
  in_reduce[k.ast];
  for (UOp u : topo)
    if (u.in(Op::Reduce | Op::Fold))
      for (UOp x : toposort(u)) in_reduce[x] = 1;
  for (UOp u : topo) {
    if (u.in(Op::Load | Op::Store)) {
      v.accesses.push_back({u, physical_offset(k, u.src(0)), reads_constant(k, u.src(0)), u.is(Op::Store), in_reduce[u] != 0});
    }
    DType d = u.dtype();
    if (d.kind != Kind::Index && d.kind != Kind::Void && d.kind != Kind::Bool && !u.in(Op::Const | Op::Param | Op::Index))
      v.widest = std::max(v.widest, bits(d) / 8);
    if (u.in(kTranscendental)) v.widest = std::max(v.widest, 4);
  }
  if (v.widest == 1)
    for (UOp u : topo)
      if (u.is(Op::Cast)) v.widest = std::max(v.widest, bits(u.src(0).dtype()) / 8);
  return v;
}

std::optional<i64> step(const Access& a, const Axis& x) {
  i64 f = 0;
  for (UOp r : x.ranges) {
    auto l = linear_in(a.offset, r);
    if (!l) return {};
    if (l->factor) f = l->factor;
  }
  return f;
}

}  // namespace tg::heuristic
