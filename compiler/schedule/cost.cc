#include "schedule/cost.h"

#include <algorithm>

namespace tg {

Work work_of(const Schedule& s, const Call& c) {
  Work w;
  using Deps = std::vector<UOp>;
  Memo<Deps> deps;
  deps[c.ast];
  for (UOp u : toposort(c.ast)) {
    Deps d;
    if (u.is(Op::Range)) d.push_back(u);
    for (UOp x : u.src())
      for (UOp r : deps[x])
        if (std::find(d.begin(), d.end(), r) == d.end()) d.push_back(r);
    double times = 1;
    for (UOp r : d) times *= r.src(0).is_const() ? double(r.src(0).as_int()) : 1.0;
    bool counted = is_alu(u.op()) && u.dtype().kind != Kind::Index && u.dtype().kind != Kind::Bool;
    if (counted || u.is(Op::Reduce)) w.flops += i64(times);
    if (u.in(Op::Reduce | Op::Fold | Op::Store))
      std::erase_if(d, [&](UOp r) { return std::find(u.src().begin(), u.src().end(), r) != u.src().end(); });
    deps[u] = d;
  }
  for (u32 b : c.buffers) w.bytes += byte_size(s.buffers[b].dtype.kind, s.buffers[b].layout.elems());
  return w;
}

}  // namespace tg
