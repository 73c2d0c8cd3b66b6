#include "rules/at_bounds.h"

namespace tg {

UOp first_places(UOp x, const Shape& to) { return tensor::shrink(x, Shape(to.size(), idx(0)), to, Shape(to.size(), idx(1))); }

UOp padded_to(UOp x, const Shape& to) {
  Shape more;
  for (size_t a = 0; a < to.size(); a++) more.push_back(normal_dim(to[a] - shape(x)[a]));
  return tensor::pad(x, Shape(to.size(), idx(0)), more, konst(x.dtype(), 0));
}

UOp appended(UOp next, UOp view, UOp kept) {
  if (!next.is(Op::Concat) || next.src(0) != view) return {};
  size_t axis = size_t(next.arg_int());
  UOp behind = tensor::slice(kept, axis, shape(next)[axis], shape(kept)[axis]);
  if (shape(behind)[axis].is_const(0)) return {};
  std::vector<UOp> parts(next.src().begin(), next.src().end());
  parts.push_back(behind);
  return tensor::concat(parts, axis);
}

}  // namespace tg
