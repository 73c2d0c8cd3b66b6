// Matmul and convolution of 8-bit integers: u8 by i8 where one side is constant, with the zero points taken off the sums.
//   sum (x - xz)(w - wz) = sum x*w - xz * sum w - wz * sum x + n * xz * wz
#include <algorithm>

#include "frontend/byte_flow.h"
#include "frontend/dequantized.h"
#include "frontend/pool.h"
#include "frontend/quant.h"

namespace tg {
namespace {

// A tensor of bytes that stands for q - zero; zero in i32, absent for 0.
struct Bytes {
  Tensor q, zero;
};

bool is_byte(const Tensor& x) { return x.dtype().kind == Kind::U8 || x.dtype().kind == Kind::I8; }
Tensor wide(const Tensor& zero) {
  if (!zero) return {};
  Tensor z = zero.cast(Kind::I32);
  z = Tensor(Pool::current().fold(z.uop()));
  UOp s = splat(z.uop());
  return s && s.is_const(0) ? Tensor() : z;
}
Tensor plus(const Tensor& zero, f64 v) { return wide(zero ? zero + v : Tensor::scalar(Kind::I32, v)); }

// The same numbers as bytes of kind k: 128 more or less, and the zero point with them.
Bytes as(Kind k, const Tensor& x, const Tensor& zero) {
  if (x.dtype().kind == k) return {x, wide(zero)};
  f64 off = k == Kind::U8 ? 128 : -128;
  if (k == Kind::U8) return {as_u8(x), plus(wide(zero), off)};
  return {as_i8(x), plus(wide(zero), off)};
}

// Constant weights whose zero point leaves them within i8 lose it. w_zero broadcasts with w.
Bytes constant_as_i8(const Tensor& w, const Tensor& zero) {
  Tensor z = wide(zero);
  if (!z && w.dtype().kind == Kind::I8) return {w, {}};
  const Values* zv = z ? Pool::current().value(z.uop()) : nullptr;
  if (w.uop().is(Op::Constant) && (!z || zv)) {
    const ConstantData& c = Pool::current().constants()[size_t(w.uop().arg_int())];
    // The place of each element's zero point, along the axes on which it is not 1.
    std::vector<i64> stride(c.dims.size(), 0);
    bool aligned = !z || z.rank() <= i64(c.dims.size());
    if (z) {
      i64 s = 1;
      for (i64 a = z.rank(); aligned && a-- > 0;) {
        size_t at = c.dims.size() - size_t(z.rank() - a);
        if (z.size(a) != 1) stride[at] = s, aligned = z.size(a) == c.dims[at];
        s *= z.size(a);
      }
    }
    auto bytes = std::make_shared<std::vector<u8>>(c.bytes.size());
    bool fits = aligned;
    std::vector<i64> at(c.dims.size(), 0);
    for (size_t i = 0; fits && i < c.bytes.size(); i++) {
      i64 zi = 0;
      for (size_t a = 0; a < at.size(); a++) zi += at[a] * stride[a];
      i64 v = (w.dtype().kind == Kind::U8 ? i64(c.bytes[i]) : i64(i8(c.bytes[i]))) - (zv ? i64(zv->v[size_t(zi)]) : 0);
      fits = v >= -128 && v <= 127;
      (*bytes)[i] = u8(v);
      for (size_t a = at.size(); a-- > 0;) {
        if (++at[a] < c.dims[a]) break;
        at[a] = 0;
      }
    }
    if (fits) {
      ConstantData d{c.name + "'", Kind::I8, c.dims, *bytes, bytes};
      return {Tensor(Pool::current().add(std::move(d))), {}};
    }
  }
  return as(Kind::I8, w, zero);
}

Tensor sum_along(const Tensor& x, i64 axis) {
  return x.cast(Kind::I32).reduce(ReduceKind::Add, Ints{axis < 0 ? axis + x.rank() : axis}, true);
}

}  // namespace

Tensor centred_i8(const Tensor& x, const Tensor& zero) {
  if (!x.uop().is(Op::Constant) || !is_byte(x)) return {};
  Bytes b = constant_as_i8(x, zero);
  return b.zero ? Tensor() : b.q;
}

Tensor integer_matmul(const Tensor& x, const Tensor& x_zero, const Tensor& w, const Tensor& w_zero) {
  bool left = made_of_constants(x), right = made_of_constants(w);
  if (!is_byte(x) || !is_byte(w) || left == right || x.rank() < 2 || w.rank() < 2)
    return centred(x, x_zero).matmul(centred(w, w_zero), Kind::I32);
  Bytes a = right ? as(Kind::U8, x, x_zero) : constant_as_i8(x, x_zero), b = right ? constant_as_i8(w, w_zero) : as(Kind::U8, w, w_zero);
  Tensor acc = a.q.matmul(b.q, Kind::I32);
  if (a.zero) acc = acc - a.zero * sum_along(b.q, -2);
  if (b.zero) acc = acc - sum_along(a.q, -1) * b.zero;
  if (a.zero && b.zero) acc = acc + a.zero * b.zero * Tensor::scalar(Kind::I32, f64(x.size(-1)));
  return acc;
}

Tensor integer_conv(const Tensor& x, const Tensor& x_zero, const Tensor& w, const Tensor& w_zero, const Tensor& bias,
                    const ConvArgs& args) {
  if (!is_byte(x) || !is_byte(w) || made_of_constants(x) || !made_of_constants(w))
    return centred(x, x_zero).conv(centred(w, w_zero), bias, args, Kind::I32);  // padding is 0 once the zero point is taken off
  Bytes a = as(Kind::U8, x, x_zero), b = constant_as_i8(w, w_zero);
  Tensor padded = a.q;
  ConvArgs c = args;
  bool pads = std::any_of(args.pads.begin(), args.pads.end(), [](i64 p) { return p != 0; });
  if (pads && a.zero) {
    size_t n = args.pads.size() / 2;
    Ints begin(size_t(x.rank()), 0), end(size_t(x.rank()), 0);
    for (size_t i = 0; i < n; i++) begin[i + 2] = args.pads[i], end[i + 2] = args.pads[n + i];
    UOp z = splat(a.zero.uop());
    if (z) {
      padded = padded.pad(begin, end, PadMode::Constant, konst(Kind::U8, z.as_int()));
    } else {
      Shape ones(size_t(x.rank()), idx(1));
      for (size_t i = 2; i < ones.size(); i++) ones[i] = x.shape()[i];
      Tensor inside = Tensor(full(ones, konst(Kind::Bool, 1))).pad(begin, end, PadMode::Constant, konst(Kind::Bool, 0));
      padded = where(inside, padded.pad(begin, end, 0.0), a.zero.cast(Kind::U8));
    }
    c.pads.clear();
  }
  Tensor acc = padded.conv(b.q, {}, c, Kind::I32);
  Shape channels(size_t(acc.rank()), idx(1));
  channels[1] = w.shape()[0];
  // What every sum has too much: one constant a channel.
  Tensor over = bias ? -bias.cast(Kind::I32).reshape(channels) : Tensor();
  if (a.zero) {
    Ints axes;
    for (i64 i = 1; i < b.q.rank(); i++) axes.push_back(i);
    Tensor zeros = a.zero * b.q.cast(Kind::I32).reduce(ReduceKind::Add, axes).reshape(channels);
    over = over ? zeros + over : zeros;
  }
  if (over) acc = acc - over;
  if (b.zero) {
    // The sum of what each window sees, by a convolution with ones; b's zero is (M, 1, 1..) or a number.
    Tensor bz = b.zero.rank() ? b.zero.reshape(channels) : b.zero;
    Shape one = w.shape();
    one[0] = idx(args.groups);
    Tensor sums =
        (a.zero ? padded.cast(Kind::I32) - a.zero : padded.cast(Kind::I32)).conv(Tensor(full(one, konst(Kind::I32, 1))), {}, c, Kind::I32);
    if (args.groups > 1) {
      Shape s = sums.shape();
      s.insert(s.begin() + 2, w.shape()[0] / idx(args.groups));
      sums = sums.unsqueeze(2).expand(s).flatten(1, 2);
    }
    acc = acc - sums * bz;
  }
  return acc;
}

}  // namespace tg
