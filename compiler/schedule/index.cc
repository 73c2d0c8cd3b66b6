#include "schedule/index.h"

#include "base/error.h"
#include "rules/symbolic.h"

namespace tg {

Shape reshape_index(const Shape& from, const Shape& index, const Shape& to) {
  // Dims are walked in step from the left: a group ends where both sides have covered the same number of elements, so that dims which do not
  // change pass through, and arithmetic is only within a group.
  Shape out(to.size());
  size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    size_t i0 = i, j0 = j;
    UOp a = idx(1), b = idx(1);
    if (i < from.size()) a = from[i++];
    if (j < to.size()) b = to[j++];
    while (a != b) {
      bool grow_a;
      if (a.is_const() && b.is_const()) grow_a = a.as_int() < b.as_int();
      else grow_a = i < from.size() && (j >= to.size() || i - i0 <= j - j0);
      if (grow_a && i < from.size()) a = simplify(a * from[i++]);
      else if (j < to.size()) b = simplify(b * to[j++]);
      else if (i < from.size()) a = simplify(a * from[i++]);
      else break;
    }
    UOp linear = idx(0);
    for (size_t k = i0; k < i; k++) linear = linear * from[k] + index[k];
    if (j - j0 == 1) {
      out[j0] = linear;
      continue;
    }
    UOp below = idx(1);
    for (size_t k = j; k-- > j0;) {
      if (to[k].is_const(1)) {
        out[k] = idx(0);
        continue;
      }
      bool top = true;
      for (size_t h = j0; h < k; h++) top &= to[h].is_const(1);
      UOp q = linear / below;
      out[k] = simplify(top ? q : q % to[k]);
      below = below * to[k];
    }
  }
  return out;
}

Shape source_index(UOp u, const Shape& index, UOp* valid) {
  const Shape& from = shape(u);
  const Shape& to = shape(u.src(0));
  switch (u.op()) {
    case Op::Reshape: return reshape_index(from, index, to);
    case Op::Permute: {
      Shape r(to.size());
      for (size_t i = 0; i < index.size(); i++) r[u.arg_ints()[i]] = index[i];
      return r;
    }
    case Op::Expand: {
      Shape r = index;
      for (size_t i = 0; i < r.size(); i++)
        if (to[i] != from[i]) r[i] = idx(0);
      return r;
    }
    case Op::Pad: {
      Shape r = index;
      UOp ok;
      auto need = [&](UOp c) {
        c = simplify(c);
        if (!c.is_const(1)) ok = ok ? ok & c : c;
      };
      for (size_t i = 0; i < r.size(); i++) {
        UOp b = u.src(1).src(i), e = u.src(2).src(i);
        if (b.is_const(0) && e.is_const(0)) continue;
        r[i] = simplify(r[i] - b);
        if (!b.is_const(0)) need(le(idx(0), r[i]));
        if (!e.is_const(0)) need(lt(r[i], to[i]));
      }
      *valid = ok;
      return r;
    }
    case Op::Shrink: {
      Shape r = index;
      for (size_t i = 0; i < r.size(); i++) r[i] = simplify(u.src(1).src(i) + r[i] * u.src(3).src(i));
      return r;
    }
    case Op::Flip: {
      Shape r = index;
      for (i64 a : u.arg_ints()) r[a] = simplify(to[a] - 1 - r[a]);
      return r;
    }
    case Op::Window: {
      WindowArg w = u.arg<WindowArg>();
      Shape r(index.begin(), index.begin() + to.size());
      for (size_t i = 0; i < w.axes.size(); i++)
        r[w.axes[i]] = simplify(r[w.axes[i]] * w.stride[i] + index[to.size() + i] * w.dilation[i]);
      return r;
    }
    default: TG_CHECK(false, "not a movement op: ", info(u.op()).name); return {};
  }
}

}  // namespace tg
