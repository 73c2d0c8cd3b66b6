// The axes of a kernel as its loops stand, and RANGEs replaced by others.
#include "opt/axes.h"

#include <algorithm>

#include "ir/bounds.h"
#include "rules/symbolic.h"

namespace tg {

bool Axis::divides(i64 n) const { return size >= 0 && const_factor(extent()) % n == 0; }

std::vector<Axis> axes(UOp ast) {
  std::vector<Axis> out;
  auto add = [&](UOp r, bool reduce) {
    RangeArg a = r.arg<RangeArg>();
    Axis* x = nullptr;
    for (Axis& y : out)
      if (y.id == a.id && y.part == a.part) x = &y;
    if (!x) {
      UOp n = r.src(0);
      out.push_back({a.id, a.part, a.kind, is_uniform(n) ? most(n) : -1, !n.is_const() && is_uniform(n), true, false, {}});
      x = &out.back();
    }
    if (std::find(x->ranges.begin(), x->ranges.end(), r) == x->ranges.end()) x->ranges.push_back(r);
    x->reduce &= reduce;
    x->output |= !reduce;
  };
  for (UOp s : ast.src())
    if (s.is(Op::Store))
      for (UOp r : closed_ranges(s)) add(r, false);
  for (UOp u : toposort(ast))
    if (closes_ranges(u.op()))
      for (UOp r : closed_ranges(u)) add(r, !u.is(Op::Store));
  return out;
}

}  // namespace tg

namespace tg::opt {

Found find_axis(const Kernel& k, const Opt& o) {
  if (std::find(k.ordered.begin(), k.ordered.end(), o.target) != k.ordered.end()) return {{}, str("axis ", o.target, " runs in its order")};
  for (Axis& a : axes(k.ast))
    if (a.id == o.target && a.part == o.part) {
      if (a.size < 0) return {{}, str("axis ", o.target, " has no fixed size")};
      return {a, {}};
    }
  return {{}, str("no axis ", o.target, "/", int(o.part))};
}

UOp replace_ranges(UOp ast, const std::map<u32, Split>& map) {
  Memo<UOp> to;
  for (UOp u : toposort(ast)) {
    if (u.is(Op::Range)) {
      auto it = map.find(u.id());
      if (it != map.end()) {
        to[u] = it->second.value;
        continue;
      }
    }
    std::vector<UOp> src;
    bool same = true;
    size_t from = u.nsrc() - closed_ranges(u).size();
    for (size_t i = 0; i < u.nsrc(); i++) {
      UOp s = u.src(i);
      auto it = i >= from && s.is(Op::Range) ? map.find(s.id()) : map.end();
      if (it != map.end()) {
        src.insert(src.end(), it->second.loops.begin(), it->second.loops.end());
        same = false;
      } else {
        src.push_back(to[s]);
        same &= to[s] == s;
      }
    }
    to[u] = same ? u : with_src(u, src);
  }
  return to[ast];
}

i64 next_part(UOp ast, i64 id) {
  i64 n = 0;
  for (UOp u : toposort(ast))
    if (u.is(Op::Range) && u.arg<RangeArg>().id == id) n = std::max(n, u.arg<RangeArg>().part);
  return n + 1;
}

UOp piece(UOp size, UOp of, i64 part, AxisKind kind) {
  RangeArg a = of.arg<RangeArg>();
  a.part = part, a.kind = kind;
  return range(size, a);
}

}  // namespace tg::opt
