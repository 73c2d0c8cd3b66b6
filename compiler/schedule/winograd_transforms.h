// The transforms of Winograd's convolutions as nodes of the tensor form.
#pragma once
#include "ir/tensor.h"
#include "schedule/winograd.h"

namespace tg {

// The matrices of Lavin and Gray, with the points 0, 1, -1 and for f = 4 also 2, -2.
inline constexpr f64 kWinogradG2[4][3] = {{1, 0, 0}, {.5, .5, .5}, {.5, -.5, .5}, {0, 0, 1}};
inline constexpr f64 kWinogradG4[6][3] = {{1. / 4, 0, 0},           {-1. / 6, -1. / 6, -1. / 6}, {-1. / 6, 1. / 6, -1. / 6},
                           {1. / 24, 1. / 12, 1. / 6}, {1. / 24, -1. / 12, 1. / 6}, {0, 0, 1}};

// Writes transforms of blocks: matrices (k, k) in front of whatever else, one node a place of them.
class WinogradWriter {
 public:
  explicit WinogradWriter(bool fused) : fused_(fused) {}

  // factor * x + y
  UOp step(f64 factor, UOp x, UOp y) {
    UOp c = konst_f(Kind::F32, factor);
    return fused_ ? alu(Op::MulAcc, {c, x, y}) : y + x * c;
  }
  std::vector<UOp> input(const std::vector<UOp>& d) {  // B^T d
    if (d.size() == 4) return {d[0] - d[2], d[1] + d[2], d[2] - d[1], d[1] - d[3]};
    UOp a = step(-4, d[2], d[4]), b = step(-4, d[1], d[3]), c = d[4] - d[2], e = d[3] - d[1];
    return {step(4, d[0], step(-5, d[2], d[4])), a + b, a - b, step(2, e, c), step(-2, e, c), step(4, d[1], step(-5, d[3], d[5]))};
  }
  // G g for row-major G, of f64.
  template <size_t K>
  std::vector<UOp> weights(const f64 (&matrix)[K][3], const std::vector<UOp>& g) {
    std::vector<UOp> out;
    for (const f64(&row)[3] : matrix) {
      UOp sum;
      for (size_t p = 0; p < 3; p++) {
        if (row[p] == 0) continue;
        UOp product = row[p] == 1 ? g[p] : g[p] * konst_f(Kind::F64, row[p]);
        sum = sum ? sum + product : product;
      }
      out.push_back(sum);
    }
    return out;
  }
  std::vector<UOp> output(const std::vector<UOp>& m) {  // A^T m
    if (m.size() == 4) return {m[0] + m[1] + m[2], m[1] - m[2] - m[3]};
    UOp a = m[1] + m[2], b = m[1] - m[2], c = m[3] + m[4], e = m[3] - m[4];
    return {m[0] + a + c, step(2, e, b), step(4, c, a), step(8, e, b) + m[5]};
  }
  // v[0], v[1].. along an axis where each has size 1.
  UOp join(const std::vector<UOp>& v, size_t axis) {
    Shape full = shape(v[0]), ones(full.size(), idx(1));
    UOp n = idx(i64(v.size()));
    full[axis] = n, ones[axis] = n;
    UOp place = tensor::reshape(tensor::iota(n), ones), all = tensor::expand(v.back(), full);
    for (size_t i = v.size() - 1; i-- > 0;) all = where(tensor::expand(eq(place, idx(i64(i))), full), tensor::expand(v[i], full), all);
    return all;
  }
  // Both passes over x (rows, columns, ..): along axis 0, then along axis 1, where there is anything to transform.
  template <class F>
  UOp both(UOp x, F pass) {
    return along(along(x, 0, pass), 1, pass);
  }
  template <class F>
  UOp along(UOp x, size_t axis, F pass) {
    std::vector<i64> n = const_shape(x);
    if (n[axis] == 1) return x;
    std::vector<UOp> d;
    for (i64 i = 0; i < n[axis]; i++) d.push_back(tensor::slice(x, axis, idx(i), idx(i + 1)));
    return join(pass(d), axis);
  }

  // V (kr, kc, n, rows of blocks, columns of blocks, in): the blocks of kr x kc places that lie fr and fc apart. The last ones may reach beyond the
  // convolution's own padding.
  UOp input(const Conv3& c, i64 f, UOp x) {
    const i64 fr = results(c, f, 0), fc = results(c, f, 1), kr = places(c, f, 0), kc = places(c, f, 1);
    if (rank(x) == 3) {
      std::vector<i64> d = const_shape(x);
      x = tensor::reshape(x, dims({d[0], d[1], 1, d[2]}));
    }
    if (x.dtype() != DType(Kind::F32)) x = cast(x, Kind::F32);
    std::vector<i64> d = const_shape(x);
    i64 bottom = fr * blocks(c, f, 0) + c.taps[0] - 1 - c.top - d[2], right = fc * blocks(c, f, 1) + c.taps[1] - 1 - c.left - d[3];
    UOp padded = tensor::pad(x, dims({0, 0, c.top, c.left}), dims({0, 0, bottom, right}), konst_f(Kind::F32, 0));
    UOp cut = tensor::permute(tensor::window(padded, {{2, 3}, {kr, kc}, {fr, fc}, {1, 1}}), Ints{4, 5, 0, 2, 3, 1});
    return both(cut, [&](const std::vector<UOp>& a) { return input(a); });
  }
  // c.sum from M (kr, kc, blocks, out).
  UOp output(const Conv3& c, i64 f, UOp m) {
    const i64 fr = results(c, f, 0), fc = results(c, f, 1), br = blocks(c, f, 0), bc = blocks(c, f, 1);
    UOp y = both(m, [&](const std::vector<UOp>& s) { return output(s); });  // (fr, fc, blocks, out)
    y = tensor::permute(tensor::reshape(y, dims({fr, fc, c.n, br, bc, c.out})), Ints{2, 5, 3, 0, 4, 1});
    return placed(c, tensor::reshape(y, dims({c.n, c.out, br * fr, bc * fc})));
  }
  // c.sum from all results of all blocks (n, out, rows, columns).
  static UOp placed(const Conv3& c, UOp y) {
    y = tensor::shrink(y, dims({0, 0, 0, 0}), dims({c.n, c.out, c.rows, c.columns}), dims({1, 1, 1, 1}));
    return tensor::reshape(tensor::permute(y, c.order), shape(c.sum));
  }

 private:
  bool fused_;
};

}  // namespace tg
