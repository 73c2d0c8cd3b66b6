#include "schedule/winograd.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "schedule/index.h"
#include "schedule/realize.h"

namespace tg {
namespace {

// Follows coordinates through movement ops that read every element where it is. Null if there is padding in between.
UOp through_movement(UOp u, Shape* index) {
  while (is_movement(u.op()) && !u.in(Op::Window | Op::Concat | Op::Pad)) {
    UOp valid;
    *index = source_index(u, *index, &valid);
    u = u.src(0);
  }
  return u;
}

// The axis of a REDUCE's input that a coordinate walks; -1: the coordinate is 0; -2: anything else.
i64 axis_of(UOp coordinate) {
  if (coordinate.is_const(0)) return -1;
  return coordinate.is(Op::Range) ? coordinate.arg<RangeArg>().id : -2;
}

bool one_by_one(const WindowArg& w) {
  return w.axes == Ints{2, 3} && w.k == Ints{3, 3} && w.stride == Ints{1, 1} && w.dilation == Ints{1, 1};
}

bool is_zero_pad(UOp u) {
  if (!u.is(Op::Pad) || !u.src(3).is_const(0)) return false;
  for (size_t i = 0; i < 4; i++)
    for (size_t side : {1, 2})
      if (!u.src(side).src(i).is_const() || (i < 2 && !u.src(side).src(i).is_const(0))) return false;
  return true;
}

}  // namespace

std::optional<Conv3x3> match_conv3x3(UOp u) {
  if (!u.is(Op::Reduce) || u.dtype() != DType(Kind::F32) || u.arg<ReduceArg>().kind != ReduceKind::Add) return {};
  UOp product = u.src(0);
  if (!product.is(Op::Mul) || !has_const_shape(product)) return {};
  Ints axes = u.arg<ReduceArg>().axes;
  std::vector<i64> size = const_shape(product);
  Shape at;
  for (size_t i = 0; i < size.size(); i++) at.push_back(size[i] == 1 ? idx(0) : range(idx(size[i]), {i64(i), 0, 0, AxisKind::Loop}));
  for (int side = 0; side < 2; side++) {
    Shape xi = at, wi = at;
    UOp window = through_movement(product.src(size_t(side)), &xi), weight = through_movement(product.src(size_t(1 - side)), &wi);
    if (!window.is(Op::Window) || !weight.is(Op::Constant) || rank(window) != 6 || !one_by_one(window.arg<WindowArg>())) continue;
    Conv3x3 c;
    c.sum = u, c.weight = weight;
    Ints x_axis;  // of the product: n, channel in, row, column, window row, window column
    for (UOp i : xi) x_axis.push_back(axis_of(i));
    auto summed = [&](i64 a) { return std::binary_search(axes.begin(), axes.end(), a); };
    bool fits = axes.size() == 3;
    for (size_t i = 0; i < 6; i++) {
      bool sum = i == 1 || i >= 4;
      fits &= x_axis[i] >= (sum ? 0 : -1) && (x_axis[i] < 0 || summed(x_axis[i]) == sum);
      for (size_t j = 0; j < i; j++) fits &= x_axis[i] < 0 || x_axis[i] != x_axis[j];
    }
    if (!fits) continue;
    // The weights see the summed axes and one more: the channel out.
    i64 out_axis = -1;
    Ints weight_axes{-1, -1, -1, -1};  // of the constant: out, in, row, column; -1: of size 1
    for (size_t i = 0; i < wi.size() && fits; i++) {
      i64 a = axis_of(wi[i]);
      if (a == -1) {
        fits &= const_shape(weight)[i] == 1;
        continue;
      }
      int place = a == x_axis[1] ? 1 : a == x_axis[4] ? 2 : a == x_axis[5] ? 3 : 0;
      if (place == 0) {
        for (i64 x : x_axis) fits &= x != a;
        fits &= a >= 0 && !summed(a), out_axis = a;
      }
      fits &= weight_axes[size_t(place)] < 0;
      weight_axes[size_t(place)] = i64(i);
    }
    for (size_t place = 1; place < 4; place++) fits &= weight_axes[place] >= 0;
    // Every other axis of the product must be of size 1: nothing else is repeated.
    for (size_t i = 0; i < size.size(); i++)
      if (size[i] != 1 && i64(i) != out_axis && std::find(x_axis.begin(), x_axis.end(), i64(i)) == x_axis.end()) fits = false;
    if (!fits) continue;
    std::vector<i64> dims = const_shape(weight);
    for (i64 axis : weight_axes) {
      i64 stride = axis < 0 ? 0 : 1;
      for (size_t a = size_t(axis) + 1; axis >= 0 && a < dims.size(); a++) stride *= dims[a];
      c.weight_stride.push_back(stride);
    }
    auto extent = [&](i64 a) { return a < 0 ? 1 : size[size_t(a)]; };
    c.n = extent(x_axis[0]), c.in = extent(x_axis[1]), c.rows = extent(x_axis[2]), c.columns = extent(x_axis[3]), c.out = extent(out_axis);
    if (c.n * c.out * c.rows * c.columns == 0 || const_shape(window)[0] != c.n || const_shape(window)[1] != c.in ||
        const_shape(window)[2] != c.rows || const_shape(window)[3] != c.columns)
      continue;
    c.x = window.src(0);
    while (is_zero_pad(c.x)) {
      c.top += c.x.src(1).src(2).as_int(), c.left += c.x.src(1).src(3).as_int();
      c.x = c.x.src(0);
    }
    std::vector<std::pair<i64, i64>> order{{x_axis[0], 0}, {out_axis, 1}, {x_axis[2], 2}, {x_axis[3], 3}};
    std::sort(order.begin(), order.end());
    for (auto [axis, what] : order) c.order.push_back(what);
    return c;
  }
  return {};
}

UOp winograd_input(const Conv3x3& c) {
  UOp u = c.x;
  while (is_movement(u.op()) && !u.is(Op::Concat)) u = u.src(0);
  return u;
}

namespace {

// The matrices of Lavin and Gray, with the points 0, 1, -1 and for f = 4 also 2, -2.
constexpr f64 kG2[4][3] = {{1, 0, 0}, {.5, .5, .5}, {.5, -.5, .5}, {0, 0, 1}};
constexpr f64 kG4[6][3] = {{1. / 4, 0, 0},           {-1. / 6, -1. / 6, -1. / 6}, {-1. / 6, 1. / 6, -1. / 6},
                           {1. / 24, 1. / 12, 1. / 6}, {1. / 24, -1. / 12, 1. / 6}, {0, 0, 1}};

}  // namespace

void winograd_weights(const Conv3x3& c, i64 f, std::span<const u8> weights, f32* u) {
  TG_CHECK(f == 2 || f == 4, "no F(", f, ",3)");
  const f64(*g)[3] = f == 2 ? kG2 : kG4;
  const i64 k = f + 2;
  const Ints& stride = c.weight_stride;
  auto w = [&](i64 at) {
    f32 v;
    std::memcpy(&v, weights.data() + at * 4, 4);
    return f64(v);
  };
  // A row of channels out at a time: G w, then times G transposed.
  std::vector<f64> row(size_t(9 * c.out)), half(size_t(3 * k * c.out));
  for (i64 ci = 0; ci < c.in; ci++) {
    for (i64 co = 0; co < c.out; co++)
      for (i64 p = 0; p < 9; p++) row[size_t(p * c.out + co)] = w(co * stride[0] + ci * stride[1] + p / 3 * stride[2] + p % 3 * stride[3]);
    for (i64 i = 0; i < k; i++)
      for (i64 q = 0; q < 3; q++)
        for (i64 co = 0; co < c.out; co++)
          half[size_t((i * 3 + q) * c.out + co)] =
              g[i][0] * row[size_t(q * c.out + co)] + g[i][1] * row[size_t((3 + q) * c.out + co)] + g[i][2] * row[size_t((6 + q) * c.out + co)];
    for (i64 i = 0; i < k; i++)
      for (i64 j = 0; j < k; j++) {
        f32* to = u + ((i * k + j) * c.in + ci) * c.out;
        const f64* h = half.data() + i * 3 * c.out;
        for (i64 co = 0; co < c.out; co++) to[co] = f32(g[j][0] * h[co] + g[j][1] * h[c.out + co] + g[j][2] * h[2 * c.out + co]);
      }
  }
}

namespace {

// Writes transforms of tiles: matrices (k, k) in front of whatever else, one node a place of them.
class Writer {
 public:
  explicit Writer(bool fused) : fused_(fused) {}

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
  // Both passes over x (k, k, ..): along axis 0, then along axis 1.
  template <class F>
  UOp both(UOp x, F pass) {
    size_t k = size_t(shape(x)[0].as_int());
    std::vector<UOp> columns;
    for (size_t j = 0; j < k; j++) {
      std::vector<UOp> d;
      UOp column = tensor::slice(x, 1, idx(i64(j)), idx(i64(j) + 1));
      for (size_t i = 0; i < k; i++) d.push_back(tensor::slice(column, 0, idx(i64(i)), idx(i64(i) + 1)));
      columns.push_back(join(pass(d), 0));
    }
    return join(pass(columns), 1);
  }

 private:
  bool fused_;
};

}  // namespace

UOp winograd(const Conv3x3& c, i64 f, UOp x, UOp u, const Target& target) {
  Writer w(target.has_fma);
  const i64 k = f + 2, th = (c.rows + f - 1) / f, tw = (c.columns + f - 1) / f, tiles = c.n * th * tw;
  std::vector<i64> d = const_shape(x);
  // V (k, k, tiles, in): the blocks of k x k that lie f apart. The last ones may reach beyond the convolution's own padding.
  i64 bottom = f * th + 2 - c.top - d[2], right = f * tw + 2 - c.left - d[3];
  UOp padded = tensor::pad(x, dims({0, 0, c.top, c.left}), dims({0, 0, bottom, right}), konst_f(Kind::F32, 0));
  UOp blocks = tensor::permute(tensor::window(padded, {{2, 3}, {k, k}, {f, f}, {1, 1}}), Ints{4, 5, 0, 2, 3, 1});
  UOp v = w.both(tensor::reshape(blocks, dims({k, k, tiles, c.in})), [&](const std::vector<UOp>& a) { return w.input(a); });
  keep_in_kernel(v, x);
  v = tensor::contiguous(v);
  // M (k, k, tiles, out)
  Shape full = dims({k * k, tiles, c.out, c.in});
  UOp a = tensor::expand(tensor::reshape(v, dims({k * k, tiles, 1, c.in})), full);
  UOp b = tensor::expand(tensor::reshape(tensor::permute(u, Ints{0, 2, 1}), dims({k * k, 1, c.out, c.in})), full);
  UOp m = tensor::contiguous(tensor::reduce(a * b, ReduceKind::Add, {3}));
  UOp y = tensor::reshape(m, dims({k, k, tiles, c.out}));
  y = w.both(y, [&](const std::vector<UOp>& s) { return w.output(s); });  // (f, f, tiles, out)
  y = tensor::permute(tensor::reshape(y, dims({f, f, c.n, th, tw, c.out})), Ints{2, 5, 3, 0, 4, 1});
  y = tensor::reshape(y, dims({c.n, c.out, th * f, tw * f}));
  y = tensor::shrink(y, dims({0, 0, 0, 0}), dims({c.n, c.out, c.rows, c.columns}), dims({1, 1, 1, 1}));
  y = tensor::reshape(tensor::permute(y, c.order), shape(c.sum));
  keep_in_kernel(y, m);
  act_as_contraction(y);
  return y;
}

}  // namespace tg
