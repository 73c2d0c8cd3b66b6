#include "driver/narrow.h"

#include "base/error.h"

namespace tg::driver {
namespace {

class Narrower {
 public:
  UOp of(UOp u) {
    if (rank(u) == 0) return u;
    UOp& known = done_[u];
    if (known) return known;
    UOp n = find(u);
    return done_[u] = n;
  }

 private:
  UOp find(UOp u) {
    switch (u.op()) {
      case Op::Expand: return of(u.src(0));
      case Op::Permute: return tensor::permute(of(u.src(0)), u.arg_ints());
      case Op::Reshape: return reshape(u);
      default: return is_elementwise(u.op()) ? elementwise(u) : u;
    }
  }

  UOp elementwise(UOp u) {
    const Shape& full = shape(u);
    Shape common(full.size(), idx(1));
    std::vector<UOp> src;
    for (UOp s : u.src()) {
      src.push_back(of(s));
      if (rank(src.back()) == 0) continue;
      for (size_t a = 0; a < full.size(); a++)
        if (!shape(src.back())[a].is_const(1)) common[a] = full[a];
    }
    for (UOp& s : src) s = widen(s, common);
    UOp n = with_src(u, src);
    return rank(n) == full.size() ? n : u;  // what folded to a number is left as it was
  }

  // The dims of both sides in the smallest groups of equal products: a group repeats as a whole or not at all.
  UOp reshape(UOp u) {
    UOp x = u.src(0), y = of(x);
    if (rank(x) == 0) return u;
    std::vector<i64> from = const_shape(x), to = const_shape(u), now = const_shape(y);
    for (i64 n : from)
      if (n == 0) return u;
    Shape part(from.size()), result(to.size());
    for (size_t i = 0, j = 0; i < from.size() || j < to.size();) {
      size_t i0 = i, j0 = j;
      i64 a = i < from.size() ? from[i++] : 1, b = j < to.size() ? to[j++] : 1;
      while (a != b) a < b ? a *= from[i++] : b *= to[j++];
      bool repeats = true;
      for (size_t k = i0; k < i; k++) repeats &= now[k] == 1;
      for (size_t k = i0; k < i; k++) part[k] = idx(repeats ? 1 : from[k]);
      for (size_t k = j0; k < j; k++) result[k] = idx(repeats ? 1 : to[k]);
    }
    return tensor::reshape(widen(y, part), result);
  }

  Memo<UOp> done_;
};

}  // namespace

UOp narrow(UOp u) { return Narrower().of(u); }

UOp widen(UOp x, const Shape& s) { return rank(x) == 0 || same_shape(shape(x), s) ? x : tensor::expand(x, s); }

}  // namespace tg::driver
