#include "schedule/winograd.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "ir/eval_scalar.h"
#include "schedule/index.h"
#include "schedule/realize.h"
#include "schedule/winograd_transforms.h"

namespace tg {
namespace {

bool is_narrow_float(DType d) { return d == DType(Kind::F16) || d == DType(Kind::BF16); }

// Follows coordinates through movement ops that read every element where it is, and through widening. Null if there is padding in between.
UOp through_movement(UOp u, Shape* index) {
  for (;;) {
    if (u.is(Op::Cast) && u.dtype() == DType(Kind::F32) && is_narrow_float(u.src(0).dtype())) {
      u = u.src(0);
      continue;
    }
    if (!is_movement(u.op()) || u.in(Op::Window | Op::Concat | Op::Pad)) return u;
    UOp valid;
    *index = source_index(u, *index, &valid);
    u = u.src(0);
  }
}

// The axis of a REDUCE's input that a coordinate walks; -1: the coordinate is 0; -2: anything else.
i64 axis_of(UOp coordinate) {
  if (coordinate.is_const(0)) return -1;
  return coordinate.is(Op::Range) ? coordinate.arg<RangeArg>().id : -2;
}

// PAD by zeros along spatial axes.
bool is_zero_pad(UOp u) {
  if (!u.is(Op::Pad) || !u.src(3).is_const(0)) return false;
  for (size_t i = 0; i < rank(u); i++)
    for (size_t side : {1, 2})
      if (!u.src(side).src(i).is_const() || (i < 2 && !u.src(side).src(i).is_const(0))) return false;
  return true;
}

}  // namespace

std::optional<Conv3> match_conv3(UOp u) {
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
    if (!window.is(Op::Window) || !weight.is(Op::Constant)) continue;
    const size_t r = rank(window.src(0));
    if (r != 3 && r != 4) continue;
    Conv3 c;
    c.sum = u, c.weight = weight;
    // Axes of the product: n, channel in, row, column, row and column of the window; -1: of size 1.
    Ints x_axis{axis_of(xi[0]), axis_of(xi[1]), r == 4 ? axis_of(xi[2]) : -1, axis_of(xi[r - 1]), -1, -1};
    WindowArg arg = window.arg<WindowArg>();
    bool fits = true;
    for (size_t i = 0; i < arg.axes.size(); i++) {
      size_t column = size_t(arg.axes[i]) == r - 1;
      fits &= arg.axes[i] >= 2 && (arg.k[i] == 1 || arg.k[i] == 3) && arg.stride[i] == 1 && arg.dilation[i] == 1;
      c.taps[column] = arg.k[i];
      x_axis[4 + column] = axis_of(xi[r + i]);
    }
    auto summed = [&](i64 a) { return std::binary_search(axes.begin(), axes.end(), a); };
    i64 sums = 0, longer = std::count_if(axes.begin(), axes.end(), [&](i64 a) { return size[size_t(a)] != 1; });
    for (size_t i = 0; i < 6 && fits; i++) {
      bool sum = i == 1 || (i >= 4 && c.taps[i - 4] == 3);
      sums += sum;
      fits &= x_axis[i] >= (sum ? 0 : -1) && (i < 4 || sum || x_axis[i] == -1) && (x_axis[i] < 0 || summed(x_axis[i]) == sum);
      for (size_t j = 0; j < i; j++) fits &= x_axis[i] < 0 || x_axis[i] != x_axis[j];
    }
    if (!fits || (c.taps[0] == 1 && c.taps[1] == 1) || longer != sums) continue;
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
    fits &= weight_axes[1] >= 0 && (c.taps[0] == 1 || weight_axes[2] >= 0) && (c.taps[1] == 1 || weight_axes[3] >= 0);
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
    c.weight_axis = weight_axes;
    auto extent = [&](i64 a) { return a < 0 ? 1 : size[size_t(a)]; };
    c.n = extent(x_axis[0]), c.in = extent(x_axis[1]), c.rows = extent(x_axis[2]), c.columns = extent(x_axis[3]), c.out = extent(out_axis);
    std::vector<i64> w = const_shape(window);
    if (c.n * c.out * c.rows * c.columns == 0 || w[0] != c.n || w[1] != c.in || (r == 4 ? w[2] : 1) != c.rows || w[r - 1] != c.columns) continue;
    c.x = window.src(0);
    while (is_zero_pad(c.x)) {
      if (r == 4) c.top += c.x.src(1).src(2).as_int();
      c.left += c.x.src(1).src(r - 1).as_int();
      c.x = c.x.src(0);
    }
    std::vector<std::pair<i64, i64>> order{{x_axis[0], 0}, {out_axis, 1}, {x_axis[2], 2}, {x_axis[3], 3}};
    std::sort(order.begin(), order.end());
    for (auto [axis, what] : order) c.order.push_back(what);
    return c;
  }
  return {};
}

UOp winograd_input(const Conv3& c) {
  UOp u = c.x;
  while (is_movement(u.op()) && !u.is(Op::Concat)) u = u.src(0);
  return u;
}

void winograd_weights(const Conv3& c, i64 f, std::span<const u8> weights, f32* u) {
  TG_CHECK(f == 2 || f == 4, "no F(", f, ",3)");
  constexpr f64 kOne[1][3] = {{1, 0, 0}};
  const f64(*matrix)[3] = f == 2 ? kWinogradG2 : kWinogradG4;
  const f64(*gr)[3] = c.taps[0] == 3 ? matrix : kOne;
  const f64(*gc)[3] = c.taps[1] == 3 ? matrix : kOne;
  const i64 kr = places(c, f, 0), kc = places(c, f, 1), tr = c.taps[0], tc = c.taps[1];
  const Ints& stride = c.weight_stride;
  const Kind kind = c.weight.dtype().kind;
  const size_t size = size_t(bits(kind)) / 8;
  auto w = [&](i64 at) {
    u64 v = 0;
    std::memcpy(&v, weights.data() + size_t(at) * size, size);
    return as_f64(from_bits(kind, v));
  };
  // A row of channels out at a time: G w, then times G transposed.
  std::vector<f64> row(size_t(9 * c.out)), half(size_t(3 * kr * c.out));
  for (i64 ci = 0; ci < c.in; ci++) {
    for (i64 co = 0; co < c.out; co++)
      for (i64 p = 0; p < tr; p++)
        for (i64 q = 0; q < tc; q++) row[size_t((p * 3 + q) * c.out + co)] = w(co * stride[0] + ci * stride[1] + p * stride[2] + q * stride[3]);
    for (i64 i = 0; i < kr; i++)
      for (i64 q = 0; q < tc; q++)
        for (i64 co = 0; co < c.out; co++) {
          f64 sum = 0;
          for (i64 p = 0; p < tr; p++) sum += gr[i][p] * row[size_t((p * 3 + q) * c.out + co)];
          half[size_t((i * 3 + q) * c.out + co)] = sum;
        }
    for (i64 i = 0; i < kr; i++)
      for (i64 j = 0; j < kc; j++) {
        f32* to = u + ((i * kc + j) * c.in + ci) * c.out;
        const f64* h = half.data() + i * 3 * c.out;
        for (i64 co = 0; co < c.out; co++) {
          f64 sum = 0;
          for (i64 q = 0; q < tc; q++) sum += gc[j][q] * h[q * c.out + co];
          to[co] = f32(sum);
        }
      }
  }
}

UOp winograd_weights(const Conv3& c, i64 f) {
  WinogradWriter w(false);
  // (row, column, in, out)
  Ints order;
  std::vector<u8> seen(rank(c.weight));
  for (size_t place : {2, 3, 1, 0})
    if (i64 axis = c.weight_axis[place]; axis >= 0) order.push_back(axis), seen[size_t(axis)] = 1;
  for (size_t a = 0; a < seen.size(); a++)
    if (!seen[a]) order.push_back(i64(a));
  UOp g = tensor::reshape(tensor::permute(c.weight, order), dims({c.taps[0], c.taps[1], c.in, c.out}));
  UOp u = w.both(cast(g, Kind::F64), [&](const std::vector<UOp>& d) { return f == 2 ? w.weights(kWinogradG2, d) : w.weights(kWinogradG4, d); });
  u = tensor::reshape(cast(u, Kind::F32), dims({places(c, f, 0) * places(c, f, 1), c.in, c.out}));
  keep_in_kernel(u, c.weight);
  return u;
}

UOp winograd(const Conv3& c, i64 f, UOp x, UOp u, const Target& target) {
  WinogradWriter w(target.has_fma);
  const i64 kr = places(c, f, 0), kc = places(c, f, 1), all = c.n * blocks(c, f, 0) * blocks(c, f, 1);
  UOp v = tensor::reshape(w.input(c, f, x), dims({kr, kc, all, c.in}));
  keep_in_kernel(v, x);
  v = tensor::contiguous(v);
  // M (kr, kc, blocks, out)
  Shape full = dims({kr * kc, all, c.out, c.in});
  UOp a = tensor::expand(tensor::reshape(v, dims({kr * kc, all, 1, c.in})), full);
  UOp b = tensor::expand(tensor::reshape(tensor::permute(u, Ints{0, 2, 1}), dims({kr * kc, 1, c.out, c.in})), full);
  UOp m = tensor::contiguous(tensor::reduce(a * b, ReduceKind::Add, {3}));
  UOp y = w.output(c, f, tensor::reshape(m, dims({kr, kc, all, c.out})));
  keep_in_kernel(y, m);
  act_as_contraction(y);
  return y;
}

}  // namespace tg
