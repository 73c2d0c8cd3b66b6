// Opts of constants. PACK: one lies in the order in which the loops read it. PREFETCH: it is asked for before it is read.
#include <algorithm>

#include "ir/bounds.h"
#include "opt/apply.h"
#include "rules/symbolic.h"

namespace tg::opt {

namespace {

bool fills_row(UOp u) { return u.is(Op::Store) && memory_of(u.src(0)).is(Op::Row); }

// Padding of a packed constant is zero and may be read: LOADs of the slot lose gates that only keep a coordinate below its dim.
UOp drop_padding_gates(UOp ast, i64 slot, const std::vector<i64>& dims) {
  Memo<UOp> to;
  for (UOp u : toposort(ast)) {
    std::vector<UOp> src;
    for (UOp s : u.src()) src.push_back(to[s]);
    if (u.is(Op::Load) && u.nsrc() == 3 && u.src(0).src(0).is(Op::Param) && u.src(0).src(0).arg_int() == slot && u.src(2).is_const(0)) {
      std::vector<UOp> clauses{u.src(1)};
      bool all = true;
      for (size_t i = 0; i < clauses.size(); i++) {
        UOp c = clauses[i];
        if (c.is(Op::And)) {
          clauses.push_back(c.src(0)), clauses.push_back(c.src(1));
          continue;
        }
        bool padding = false;
        for (size_t a = 0; a < dims.size(); a++) padding |= simplify(lt(u.src(0).src(a + 1), idx(dims[a]))) == c;
        all &= padding;
      }
      if (all) {
        to[u] = node(Op::Load, u.dtype(), {src[0]});
        continue;
      }
    }
    to[u] = std::equal(src.begin(), src.end(), u.src().begin(), u.src().end()) ? u : with_src(u, src);
  }
  return to[ast];
}

}  // namespace

// The order in which the loops read the slot: each axis' coordinate must be a sum of whole digits.
R pack(const Kernel& k, const Opt& o) {
  if (o.target < 0 || o.target >= i64(k.slots.size()) || !k.slots[size_t(o.target)].constant)
    return R::no("slot ", o.target, " is no constant");
  const Slot& slot = k.slots[size_t(o.target)];
  std::vector<UOp> loads, order;
  for (UOp u : toposort(k.ast))
    if (u.is(Op::Index) && u.src(0).is(Op::Param) && u.src(0).arg_int() == o.target) loads.push_back(u);
  if (loads.empty()) return R::no("slot ", o.target, " is not read");
  // Loops from the outermost to the innermost, then what is in registers, then lanes.
  UOp main = loads[0];
  auto add = [&](UOp u) {
    for (UOp r : closed_ranges(u))
      if (std::find(order.begin(), order.end(), r) == order.end()) order.push_back(r);
  };
  std::vector<UOp> topo = toposort(k.ast);
  Memo<u8> sees;
  for (UOp u : topo) {
    u8 s = u == main;
    for (UOp x : u.src()) s |= sees[x];
    sees[u] = s;
  }
  for (UOp s : k.ast.src())
    if (sees[s]) {
      add(s);
      break;
    }
  for (size_t i = topo.size(); i-- > 0;)
    if (sees[topo[i]] && (topo[i].in(Op::Reduce | Op::Fold) || fills_row(topo[i]))) add(topo[i]);
  auto rank_of = [&](UOp r) {
    AxisKind kd = r.arg<RangeArg>().kind;
    return kd == AxisKind::Dot ? 4 : kd == AxisKind::Vector ? 3 : kd == AxisKind::Upcast ? 2 : kd == AxisKind::Unroll ? 1 : 0;
  };
  std::stable_sort(order.begin(), order.end(), [&](UOp a, UOp b) { return rank_of(a) < rank_of(b); });
  struct Digit {
    i64 axis, weight, size;
    size_t at;
  };
  std::vector<Digit> digits;
  for (size_t axis = 0; axis < slot.dims.size(); axis++) {
    UOp c = main.src(axis + 1);
    std::vector<Digit> mine;
    std::vector<UOp> terms{c};
    for (size_t i = 0; i < terms.size(); i++)
      if (terms[i].is(Op::Add)) {
        UOp t = terms[i];
        terms[i--] = t.src(0);
        terms.push_back(t.src(1));
      }
    for (UOp t : terms) {
      i64 w = 1;
      if (t.is(Op::Mul) && t.src(1).is_const()) w = t.src(1).as_int(), t = t.src(0);
      if (t.is_const(0)) continue;
      if (t.is_const()) return R::no("slot ", o.target, " is read at an offset");
      size_t at = size_t(std::find(order.begin(), order.end(), t) - order.begin());
      if (!t.is(Op::Range) || at == order.size() || !t.src(0).is_const())
        return R::no("axis ", axis, " of slot ", o.target, " is not read loop by loop");
      mine.push_back({i64(axis), w, t.src(0).as_int(), at});
    }
    std::sort(mine.begin(), mine.end(), [](const Digit& a, const Digit& b) { return a.weight < b.weight; });
    i64 expect = 1;
    for (const Digit& d : mine) {
      if (d.weight != expect) return R::no("axis ", axis, " of slot ", o.target, " is read in overlapping pieces");
      expect *= d.size;
    }
    if (expect < slot.dims[axis]) return R::no("axis ", axis, " of slot ", o.target, " is not read whole");
    digits.insert(digits.end(), mine.begin(), mine.end());
  }
  std::stable_sort(digits.begin(), digits.end(), [](const Digit& a, const Digit& b) { return a.at < b.at; });
  Kernel n = k;
  n.slots[size_t(o.target)].layout.pieces.clear();
  for (const Digit& d : digits) n.slots[size_t(o.target)].layout.pieces.push_back({d.axis, d.size});
  n.ast = drop_padding_gates(k.ast, o.target, slot.dims);
  // Other loads than the first, and those whose gates an earlier PACK has dropped, must find padding too.
  for (UOp u : toposort(n.ast))
    if (u.is(Op::Load) && u.nsrc() == 1 && u.src(0).src(0).is(Op::Param) && u.src(0).src(0).arg_int() == o.target)
      for (size_t axis = 0; axis < slot.dims.size(); axis++) {
        i64 covered = 1;
        for (const Digit& d : digits)
          if (d.axis == i64(axis)) covered *= d.size;
        if (bounds(u.src(0).src(axis + 1)).hi >= covered)
          return R::no("axis ", axis, " of slot ", o.target, " is read beyond its first loops");
      }
  n.opts.push_back(o);
  return n;
}

R prefetch(const Kernel& k, const Opt& o) {
  if (o.target < 0 || o.target >= i64(k.slots.size()) || !k.slots[size_t(o.target)].constant) return R::no("slot ", o.target, " is no constant");
  if (k.slots[size_t(o.target)].ahead) return R::no("slot ", o.target, " is asked for already");
  Kernel n = k;
  n.slots[size_t(o.target)].ahead = true;
  n.opts.push_back(o);
  return n;
}

}  // namespace tg::opt
