// PADTO: an axis runs to a multiple; what lies outside is neither loaded nor stored.
#include <algorithm>

#include "opt/apply.h"
#include "rules/symbolic.h"

namespace tg::opt {

namespace {

// A product of two LOADs that are zero outside: a sum needs no gate of its own.
bool vanishes(ReduceKind k, UOp u, Memo<u8>& dep) {
  if (k != ReduceKind::Add || !u.is(Op::Mul)) return false;
  for (UOp s : u.src()) {
    while (s.is(Op::Cast)) s = s.src(0);
    if (!s.is(Op::Load) || !dep[s.src(0)] || (s.nsrc() > 1 && !s.src(2).is_const(0))) return false;
  }
  return true;
}

// Every LOAD below u that depends on r gets the gate; outside, it reads zero, which nothing uses.
UOp gate_loads(UOp ast, UOp r, UOp inside) {
  Memo<UOp> to;
  Memo<u8> dep;
  for (UOp u : toposort(ast)) {
    std::vector<UOp> src;
    bool same = true;
    u8 d = u == r;
    for (UOp s : u.src()) src.push_back(to[s]), same &= src.back() == s, d |= dep[s];
    if (closes_ranges(u.op()) && d) {
      bool closed = std::find(u.src().begin(), u.src().end(), r) != u.src().end();
      if (closed && u.is(Op::Reduce)) {
        ReduceArg a = u.arg<ReduceArg>();
        if (!vanishes(a.kind, u.src(0), dep)) src[0] = where(inside, src[0], identity(a.kind, u.dtype()));
        same = false;
      }
      if (u.is(Op::Store)) {  // also one in a loop of its own inside r, as KEEP makes
        bool gated = u.nsrc() > 2 && !u.src(2).is(Op::Range);
        if (gated)
          src[2] = src[2] & inside;
        else
          src.insert(src.begin() + 2, inside);
        same = false;
      }
      if (closed) d = 0;
      dep[u] = d;
      to[u] = same ? u : Arena::current().make(u.op(), u.dtype(), src, u.node()->arg);
      continue;
    }
    dep[u] = d;
    if (u.is(Op::Load) && dep[u.src(0)]) {
      if (u.nsrc() == 1)
        to[u] = node(Op::Load, u.dtype(), {src[0], inside, konst(u.dtype(), 0)});
      else
        to[u] = node(Op::Load, u.dtype(), {src[0], src[1] & inside, src[2]});
      continue;
    }
    to[u] = same ? u : with_src(u, src);
  }
  return to[ast];
}

}  // namespace

R padto(const Kernel& k, const Opt& o) {
  Found f = find_axis(k, o);
  if (!f.why.empty()) return R::no(f.why);
  const Axis& a = f.axis;
  if (o.arg < 2 || a.divides(o.arg)) return R::no("axis ", o.target, " of size ", a.size, " is a multiple of ", o.arg);
  if (a.kind != AxisKind::Loop && a.kind != AxisKind::Reduce) return R::no("axis ", o.target, " is no loop");
  if (a.free && a.size < 2) return R::no("axis ", o.target, " has at most one value");
  UOp size = a.extent(), padded = simplify((size + (o.arg - 1)) / o.arg * o.arg);
  Kernel n = k;
  for (UOp r : a.ranges) {
    for (UOp u : toposort(n.ast))
      if (u.is(Op::Fold) && std::find(u.src().begin(), u.src().end(), r) != u.src().end()) return R::no("a FOLD runs over axis ", o.target);
    UOp wide = range(padded, r.arg<RangeArg>());
    std::pair<UOp, UOp> s{r, wide};
    n.ast = substitute(n.ast, std::span(&s, 1));
    n.ast = gate_loads(n.ast, wide, lt(wide, size));
  }
  n.ast = simplify(n.ast);
  n.opts.push_back(o);
  return n;
}

}  // namespace tg::opt
