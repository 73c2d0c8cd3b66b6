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
      UOp base = memory_of(u);
      UOp offset = base.is(Op::Param) ? slots[size_t(base.arg_int())].layout.offset(std::span(src).subspan(1), base.src()) : src[1];
      to[u] = node(Op::Index, u.dtype(), {src[0], offset});
    } else if (u.is(Op::Param)) {
      to[u] = node(Op::Param, u.dtype(), {}, u.arg_int());
    } else {
      to[u] = same ? u : with_src(u, src);
    }
  }
  return to[ast];
}

}  // namespace tg
