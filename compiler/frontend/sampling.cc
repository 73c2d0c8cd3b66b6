#include "frontend/sampling.h"

namespace tg {
namespace {

// x folded back at lo and hi until it lies between them.
Tensor reflect(const Tensor& x, const Tensor& lo, const Tensor& hi) {
  Tensor below = x.lt(lo), d = where(below, lo - x, x - hi), length = hi - lo;
  Tensor turns = (d / length).trunc(), rest = d - turns * length;
  Tensor odd = turns.floor_mod(turns.like(2)).ne(turns.like(0));
  Tensor from_low = rest + lo, from_high = hi - rest;
  Tensor folded = where(odd ^ below, from_low, from_high);  // an odd number of turns starts from the other end
  return where(below | x.gt(hi), folded, x);
}
// Between the places of an axis of n that Reflection turns at. A single pixel is everywhere.
Tensor reflect(const Tensor& x, UOp n, const Sampling& s) {
  if (!s.align_corners) return reflect(x, x.like(-0.5), x.like(n) - 0.5);
  return n.is_const(1) ? x * 0.0 : reflect(x, x.like(0), x.like(n - 1));
}

struct Tap {
  Tensor index;   // i64, inside the axis
  Tensor weight;  // absent: 1
  Tensor inside;  // absent: always
};

Tap tap(const Tensor& at, const Tensor& weight, UOp n, const Sampling& s) {
  Tensor last = at.like(n - 1), zero = at.like(0), i = at;
  Tap t{{}, weight, {}};
  if (s.outside == Sampling::Zeros)
    t.inside = at.ge(zero) & at.le(last);
  else if (s.outside == Sampling::Reflection)
    i = reflect(at, n, s);
  t.index = i.clip(zero, last).cast(Kind::I64);  // NaN becomes 0
  return t;
}

std::vector<Tap> taps(Tensor c, UOp n, const Sampling& s) {
  if (s.mode == Sampling::Nearest) c = c.round();
  if (s.outside == Sampling::Border) c = c.clip(c.like(0), c.like(n - 1));
  if (s.outside == Sampling::Reflection) c = reflect(c, n, s);
  if (s.mode == Sampling::Nearest) return {tap(c.trunc(), {}, n, s)};
  Tensor f = c.floor(), r = c - f;
  if (s.mode == Sampling::Linear) return {tap(f, 1.0 - r, n, s), tap(f + 1.0, r, n, s)};
  // Keys' cubic convolution with a = -0.75 (https://ieeexplore.ieee.org/document/1163711).
  constexpr f64 a = -0.75;
  auto near = [&](const Tensor& x) { return ((a + 2) * x - (a + 3)) * x * x + 1.0; };     // |x| <= 1
  auto far = [&](const Tensor& x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };  // 1 < |x| < 2
  return {tap(f - 1.0, far(r + 1.0), n, s), tap(f, near(r), n, s), tap(f + 1.0, near(1.0 - r), n, s), tap(f + 2.0, far(2.0 - r), n, s)};
}

}  // namespace

Tensor sample(const Tensor& img, std::span<const Tensor> lead, std::span<const Tensor> coords, const Sampling& s) {
  i64 rest = img.rank() - i64(lead.size() + coords.size());
  std::vector<std::vector<Tap>> axes;
  for (size_t i = 0; i < coords.size(); i++) {
    UOp n = img.dim(i64(lead.size() + i));
    if (size_bounds(n).lo == 0) fail("sampling of an axis that ", n.is_const() ? "is" : "may be", " empty");
    axes.push_back(taps(coords[i], n, s));
  }
  auto over_rest = [&](Tensor t) {
    Shape sh = t.shape();
    sh.insert(sh.end(), rest, idx(1));
    return t.reshape(sh);
  };
  Tensor sum;
  std::vector<size_t> pick(axes.size());
  while (true) {
    std::vector<Tensor> index(lead.begin(), lead.end());
    Tensor weight, inside;
    for (size_t i = 0; i < axes.size(); i++) {
      const Tap& t = axes[i][pick[i]];
      index.push_back(t.index);
      if (t.weight) weight = weight ? weight * t.weight : t.weight;
      if (t.inside) inside = inside ? inside & t.inside : t.inside;
    }
    index.resize(img.rank());
    Tensor v = img.gather(index);
    if (inside) v = where(over_rest(inside), v, v.like(0));
    if (weight) v = v * over_rest(weight);
    sum = sum ? sum + v : v;
    size_t i = 0;
    while (i < axes.size() && ++pick[i] == axes[i].size()) pick[i++] = 0;
    if (i == axes.size()) return sum;
  }
}

}  // namespace tg
