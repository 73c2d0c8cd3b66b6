#include "frontend/attention.h"

#include <cmath>
#include <limits>

namespace tg {

Tensor split_heads(const Tensor& x, i64 heads) {
  if (x.rank() != 3 || heads < 1 || x.size(2) % heads) fail("input ", shape_text(x.shape()), " for ", heads, " heads");
  return x.reshape(Shape{x.dim(0), x.dim(1), idx(heads), idx(x.size(2) / heads)}).permute(Ints{0, 2, 1, 3});
}
Tensor join_heads(const Tensor& x) { return x.permute(Ints{0, 2, 1, 3}).flatten(2, 3); }

namespace {
// Keys and values once for all query heads that share them: (B, Hkv, 1, S, D) against (B, Hkv, H/Hkv, S, D).
Tensor grouped_matmul(const Tensor& a, const Tensor& b, i64 groups) {
  if (groups == 1) return a.matmul(b);
  Tensor g = a.reshape(Shape{a.dim(0), a.dim(1) / idx(groups), idx(groups), a.dim(2), a.dim(3)});
  Tensor r = g.matmul(b.unsqueeze(2));
  return r.flatten(1, 2);
}
}  // namespace

Attended attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArgs& a) {
  if (q.rank() != 4 || k.rank() != 4 || v.rank() != 4) fail("q, k and v must be (batch, heads, sequence, size)");
  if (k.size(1) < 1 || q.size(1) % k.size(1) || v.dim(1) != k.dim(1))
    fail(q.size(1), " query heads for ", k.size(1), " key and ", v.size(1), " value heads");
  i64 groups = q.size(1) / k.size(1);
  f64 scale = a.scale != 0 ? a.scale : 1 / std::sqrt(f64(q.size(3)));
  Attended r;
  DType d = q.widen().dtype();
  constexpr f64 never = -std::numeric_limits<f64>::infinity();
  r.scores = grouped_matmul(q.cast(d), k.cast(d).transpose(), groups) * scale;
  r.capped = a.softcap > 0 ? (r.scores / a.softcap).tanh() * a.softcap : r.scores;
  Tensor s = r.capped;
  if (a.mask && a.mask.dtype().kind == Kind::Bool)
    s = where(a.mask, s, s.like(never));
  else if (a.mask)
    s = s + a.mask.cast(d);
  if (a.causal || a.keys) {
    Tensor i = Tensor::arange(s.dim(2)).reshape(Shape{s.dim(2), idx(1)}), j = Tensor::arange(s.dim(3));
    Tensor sees;
    if (a.causal) {
      if (a.past) i = i + a.past.cast(Kind::I64);
      sees = j.le(i);
      if (a.window >= 0) sees = sees & j.gt(i - f64(a.window));
    }
    if (a.keys) {
      Tensor real = j.lt(a.keys.cast(Kind::I64));
      sees = sees ? sees & real : real;
    }
    s = where(sees, s, s.like(never));
  }
  if (a.score_mod) s = a.score_mod(s);
  r.masked = s;
  if (a.sink) {
    Ints last{3};
    Tensor sink = a.sink.cast(d), m = s.max(last, true).max(sink), e = (s - m).exp();
    r.probabilities = e / (e.sum(last, true) + (sink - m).exp());
  } else {
    r.probabilities = s.softmax(-1);
  }
  if (a.prob_mod) r.probabilities = a.prob_mod(r.probabilities);
  r.y = grouped_matmul(r.probabilities, v.cast(d), groups).cast(q.dtype());
  return r;
}

Tensor rotate(const Tensor& x, const Tensor& cos, const Tensor& sin, i64 rotary, bool interleaved) {
  i64 size = x.size(3), half = rotary / 2;
  if (rotary % 2 || rotary > size) fail("a rotary dimension of ", rotary, " for heads of ", size);
  if (cos.size(-1) != half || sin.size(-1) != half) fail("cos and sin caches have ", cos.size(-1), " columns, expected ", half);
  Tensor turned = x.shrink(3, 0, rotary), c = cos.unsqueeze(1), s = sin.unsqueeze(1), y;
  if (interleaved) {
    Shape pairs = turned.shape();
    pairs.back() = idx(half);
    pairs.push_back(idx(2));
    Tensor p = turned.reshape(pairs), a = p.shrink(4, 0, 1), b = p.shrink(4, 1, 1);
    c = c.unsqueeze(-1), s = s.unsqueeze(-1);
    y = Tensor::concat({c * a - s * b, s * a + c * b}, 4).reshape(turned.shape());
  } else {
    Tensor a = turned.shrink(3, 0, half), b = turned.shrink(3, half, half);
    y = Tensor::concat({c * a - s * b, s * a + c * b}, 3);
  }
  return rotary == size ? y : Tensor::concat({y, x.shrink(3, rotary, size - rotary)}, 3);
}

}  // namespace tg
