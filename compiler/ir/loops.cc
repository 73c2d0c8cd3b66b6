#include "ir/loops.h"

namespace tg {

std::vector<UOp> closed_ranges(UOp u) {
  size_t from = u.is(Op::Reduce) ? 1 : u.is(Op::Fold) ? size_t(u.arg<FoldArg>().inputs + 3 * u.arg<FoldArg>().states) : u.is(Op::Store) ? 2 : u.nsrc();
  std::vector<UOp> r;
  for (size_t i = from; i < u.nsrc(); i++)
    if (u.src(i).is(Op::Range)) r.push_back(u.src(i));
  return r;
}

UOp without_waits(UOp u) {
  while (u.is(Op::After)) u = u.src(0);
  return u;
}

UOp memory_of(UOp u) {
  u = without_waits(u);
  return u.is(Op::Index) ? without_waits(u.src(0)) : u;
}

std::optional<LinearIn> linear_in(UOp e, UOp r) {
  if (e == r) return LinearIn{1, idx(0)};
  if (e.in(Op::Add | Op::Sub)) {
    auto a = linear_in(e.src(0), r), b = linear_in(e.src(1), r);
    if (!a || !b) return {};
    if (a->factor == 0 && b->factor == 0) return LinearIn{0, e};
    bool add = e.is(Op::Add);
    return LinearIn{add ? a->factor + b->factor : a->factor - b->factor, add ? a->rest + b->rest : a->rest - b->rest};
  }
  if (e.is(Op::Mul) && e.src(1).is_const()) {
    auto a = linear_in(e.src(0), r);
    if (!a) return {};
    if (a->factor == 0) return LinearIn{0, e};
    return LinearIn{a->factor * e.src(1).as_int(), a->rest * e.src(1)};
  }
  for (UOp u : toposort(e))
    if (u == r) return {};
  return LinearIn{0, e};
}

}  // namespace tg
