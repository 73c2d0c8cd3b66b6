// Signal processing: DFT, STFT, windows, MelWeightMatrix. https://onnx.ai/onnx/operators/
#include <algorithm>
#include <cmath>
#include <numbers>

#include "frontend/declared.h"
#include "frontend/onnx_op.h"

namespace tg {
namespace {

struct Complex {
  Tensor re, im;  // im absent: 0
};

Complex operator*(const Complex& a, const Complex& b) {  // b has both parts
  if (!a.im) return {a.re * b.re, a.re * b.im};
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

// cos and sin of 2 pi sign j k / n for j < rows, k < columns, exact for every j*k.
Complex roots(DType d, i64 rows, i64 columns, i64 n, f64 sign) {
  check_table(rows, columns);
  std::vector<f64> c, s;
  for (i64 j = 0; j < rows; j++)
    for (i64 k = 0; k < columns; k++) {
      f64 angle = 2 * std::numbers::pi * f64(i64((__int128(j) * k) % n)) / f64(n);
      c.push_back(std::cos(angle)), s.push_back(sign * std::sin(angle));
    }
  return {Tensor::of(d, Ints{rows, columns}, c), Tensor::of(d, Ints{rows, columns}, s)};
}

// The transform along the last axis (of length n), not normalized; `keep` first results. Lengths with a divisor are split (Cooley and
// Tukey): x[a*q + b] -> transforms over a, turned by b*k1/n, transforms over b.
constexpr i64 kDirect = 128;
Complex transform(const Complex& x, f64 sign, i64 keep) {
  i64 n = x.re.size(-1), p = 1;
  check_table(n);
  for (i64 f = 2; f * f <= n; f++)
    if (n % f == 0) p = f;  // the largest divisor up to the square root
  if (n <= kDirect || p == 1) {
    Complex w = roots(x.re.dtype(), n, keep, n, sign);
    auto times = [](const Tensor& a, const Tensor& m) { return a.matmul(m); };
    if (!x.im) return {times(x.re, w.re), times(x.re, w.im)};
    return {times(x.re, w.re) - times(x.im, w.im), times(x.re, w.im) + times(x.im, w.re)};
  }
  i64 q = n / p;
  Shape lead(x.re.shape().begin(), x.re.shape().end() - 1), split = lead;
  split.push_back(idx(p)), split.push_back(idx(q));
  auto columns = [&](const Tensor& t) { return t ? t.reshape(split).transpose() : t; };  // (.., b < q, a < p)
  Complex inner = transform({columns(x.re), columns(x.im)}, sign, p);                    // (.., b, k1)
  inner = inner * roots(x.re.dtype(), q, p, n, sign);
  inner = {inner.re.transpose().contiguous(), inner.im.transpose().contiguous()};  // (.., k1, b)
  Complex outer = transform(inner, sign, q);                                       // (.., k1, k2): result k2*p + k1
  Shape whole = lead;
  whole.push_back(idx(n));
  auto back = [&](const Tensor& t) { return t.transpose().reshape(whole).shrink(-1, 0, keep); };
  return {back(outer.re), back(outer.im)};
}

Complex parts(OnnxNode& n, const Tensor& x) {
  i64 c = x.size(-1);
  n.require(c == 1 || c == 2, "the last axis holds ", c, " numbers, expected 1 (real) or 2 (complex)");
  return {x.shrink(-1, 0, 1).squeeze(-1), c == 2 ? x.shrink(-1, 1, 1).squeeze(-1) : Tensor()};
}
Tensor join(const Complex& c) { return Tensor::concat({c.re.unsqueeze(-1), c.im.unsqueeze(-1)}, -1); }

Complex map(const Complex& c, auto f) { return {f(c.re), c.im ? f(c.im) : c.im}; }

Tensor dft(OnnxNode& n) {
  Tensor x = n[0].widen();
  n.require(x.rank() >= 2, "input ", shape_text(x.shape()), " has no signal axis");
  i64 axis = x.axis(n.opset() < 20 ? n.attr("axis", 1) : n.has(2) ? n.integer(2) : -2);
  n.require(axis < x.rank() - 1, "axis ", axis, " is the axis of real and imaginary parts");
  bool inverse = n.attr("inverse", 0), onesided = n.attr("onesided", 0);
  i64 in = x.size(axis), length = n.has(1) ? n.integer(1) : inverse && onesided ? 2 * (in - 1) : in;
  n.require(length >= 1, "dft_length ", length, " must be positive");
  Complex c = map(parts(n, x), [&](const Tensor& t) { return t.transpose(axis, -1); });
  i64 have = in;
  if (inverse && onesided) {
    // The other half of the spectrum is the conjugate of this one.
    have = length / 2 + 1;
  }
  Complex fitted = map(c, [&](const Tensor& t) {  // cut or padded with zeros
    i64 want = inverse && onesided ? have : length;
    Ints zero(t.rank()), end(t.rank());
    end.back() = want - in;
    return t.pad(zero, end);
  });
  if (inverse && onesided) {
    i64 rest = length - have;
    auto mirror = [&](const Tensor& t) { return t.shrink(-1, 1, rest).flip(Ints{t.rank() - 1}); };
    Tensor im = fitted.im ? fitted.im : fitted.re * 0.0;
    fitted = {Tensor::concat({fitted.re, mirror(fitted.re)}, -1), Tensor::concat({im, -mirror(im)}, -1)};
  }
  Complex r = transform(fitted, inverse ? 1 : -1, !inverse && onesided ? length / 2 + 1 : length);
  if (inverse) r = map(r, [&](const Tensor& t) { return t / f64(length); });
  r = map(r, [&](const Tensor& t) { return t.transpose(axis, -1); });
  Tensor y = inverse && onesided ? r.re.unsqueeze(-1) : join(r);
  return y.cast(n[0].dtype());
}

// signal (B, L) or (B, L, 1 or 2); gives (B, frames, bins, 2).
Tensor stft(OnnxNode& n) {
  Tensor x = n[0].widen();
  if (x.rank() == 2) x = x.unsqueeze(-1);
  n.require(x.rank() == 3, "signal ", shape_text(n[0].shape()), " must be (batch, length, 1 or 2)");
  i64 step = n.integer(1), length = n.has(3) ? n.integer(3) : n.has(2) ? n[2].size(0) : x.size(1);
  n.require(step > 0 && length > 0 && length <= x.size(1), "frame_step ", step, " and frame_length ", length, " for a signal of ",
            x.size(1));
  if (n.has(2)) n.require(n[2].rank() == 1 && n[2].size(0) <= length, "window ", shape_text(n[2].shape()), " for frames of ", length);
  Complex c = map(parts(n, x), [&](const Tensor& t) {
    Tensor f = t.window({{1}, {length}, {step}, {1}});  // (B, frames, length)
    if (!n.has(2)) return f;
    // A shorter window stands at the begin of the frame.
    return f * n[2].widen().cast(f.dtype()).pad(Ints{0}, Ints{length - n[2].size(0)});
  });
  bool onesided = n.attr("onesided", 1) && !c.im;
  return join(transform(c, -1, onesided ? length / 2 + 1 : length)).cast(n[0].dtype());
}

// a0 - a1 cos(2 pi i/n) + a2 cos(4 pi i/n), n being the size, or one less for a symmetric window.
Tensor window(OnnxNode& n, f64 a0, f64 a1, f64 a2) {
  auto declared = n.declared(0, 0);
  if (declared) n.must_have(n[0].reshape(Ints{1}), *declared);
  i64 size = declared ? declared->at(0) : n.integer(0);
  n.require(size >= 0, "a window of ", size, " elements");
  check_table(size);
  f64 period = f64(n.attr("periodic", 1) ? size : size - 1);
  std::vector<f64> w(size);
  for (i64 i = 0; i < size; i++) {
    f64 t = period == 0 ? 0 : 2 * std::numbers::pi * f64(i) / period;
    w[i] = size == 1 ? 1 : a0 - a1 * std::cos(t) + a2 * std::cos(2 * t);
  }
  return Tensor::of(n.attr_dtype("output_datatype", Kind::F32), Ints{size}, w);
}

Tensor mel_weight_matrix(OnnxNode& n) {
  i64 bins = n.integer(0), length = n.integer(1), rate = n.integer(2);
  f64 low = n.number(3), high = n.number(4);
  n.require(bins > 0 && length > 0 && rate > 0, "num_mel_bins, dft_length and sample_rate must be positive");
  i64 rows = length / 2 + 1;
  check_table(rows, bins);
  auto mel = [](f64 hz) { return 2595 * std::log10(1 + hz / 700); };
  f64 step = (mel(high) - mel(low)) / f64(bins + 2);
  std::vector<i64> edge(bins + 2);
  for (i64 i = 0; i < bins + 2; i++) {
    f64 hz = 700 * (std::pow(10, (f64(i) * step + mel(low)) / 2595) - 1);
    edge[i] = i64(std::floor(f64(length + 1) * hz / f64(rate)));
    n.require(edge[i] >= 0 && edge[i] <= rows, "the mel band ", i, " lies outside the spectrum");
  }
  std::vector<f64> w(rows * bins);
  auto at = [&](i64 row, i64 bin) -> f64& {
    n.require(row < rows, "the mel band ", bin, " lies outside the spectrum");
    return w[row * bins + bin];
  };
  for (i64 i = 0; i < bins; i++) {
    i64 a = edge[i], b = edge[i + 1], c = edge[i + 2];
    if (a == b)
      at(b, i) = 1;
    else
      for (i64 j = a; j <= b; j++) at(j, i) = f64(j - a) / f64(b - a);
    for (i64 j = b; j < c; j++) at(j, i) = f64(c - j) / f64(c - b);
  }
  return Tensor::of(n.attr_dtype("output_datatype", Kind::F32), Ints{rows, bins}, w);
}

constexpr OnnxOp kSignalOps[] = {
    {"BlackmanWindow", 17, [](OnnxNode& n) { return window(n, 0.42, 0.5, 0.08); }},
    {"DFT", 17, dft},
    {"HammingWindow", 17, [](OnnxNode& n) { return window(n, 25.0 / 46, 21.0 / 46, 0); }},
    {"HannWindow", 17, [](OnnxNode& n) { return window(n, 0.5, 0.5, 0); }},
    {"MelWeightMatrix", 17, mel_weight_matrix},
    {"STFT", 17, stft},
};

}  // namespace

std::span<const OnnxOp> signal_ops() { return kSignalOps; }

}  // namespace tg
