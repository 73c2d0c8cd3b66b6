// Layouts are applied here: logical coordinates become one element offset. Nothing after this knows of layouts.
#include "base/error.h"
#include "codegen/lower.h"

namespace tg {

UOp lower_offsets(UOp ast, const std::vector<Slot>& slots) {
  Memo<UOp> to;
  for (UOp u : toposort(ast)) {
    std::vector<UOp> src;
    bool same = true;
    for (UOp s : u.src()) {
      src.push_back(to[s]);
      same &= to[s] == s;
    }
    if (u.is(Op::Index)) {
      UOp base = u.src(0);
      while (base.is(Op::After)) base = base.src(0);
      UOp offset = base.is(Op::Param) ? slots[size_t(base.arg_int())].layout.offset(std::span(src).subspan(1)) : src[1];
      to[u] = node(Op::Index, u.dtype(), {src[0], offset});
    } else if (u.is(Op::Param)) {
      to[u] = node(Op::Param, u.dtype(), {}, u.arg_int());
    } else {
      to[u] = same ? u : with_src(u, src);
    }
  }
  return to[ast];
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
