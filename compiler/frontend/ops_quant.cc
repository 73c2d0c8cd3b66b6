// Quantized arithmetic: QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear, the QLinear and Integer products. Integer products are
// exact, in i32. https://onnx.ai/onnx/operators/
#include <cmath>
#include <limits>

#include "frontend/byte_flow.h"
#include "frontend/dequantized.h"
#include "frontend/onnx_op.h"
#include "frontend/pool.h"
#include "frontend/quant.h"
#include "frontend/spatial.h"

namespace tg {

namespace {
struct FloatRange {
  Kind kind;
  f64 largest;
  bool has_inf;
};
constexpr FloatRange kFloatRanges[] = {
    {Kind::F8E4M3FN, 448, false},     {Kind::F8E4M3FNUZ, 240, false}, {Kind::F8E5M2, 57344, true},
    {Kind::F8E5M2FNUZ, 57344, false}, {Kind::F4E2M1, 6, false},
};
}  // namespace

std::pair<f64, f64> integer_range(DType d) {
  i64 lo = int_min(d.kind), hi = int_max(d.kind);
  return {f64(lo), f64(hi)};
}

// r + zero as q; the cast saturates. An i8 is made from the u8 that is 128 more, which is what dot instructions take.
static Tensor saturated(const Tensor& r, const Tensor& zero, DType q) {
  Tensor z = zero ? zero.cast(Kind::I32) : Tensor();
  if (q.kind == Kind::I8) z = z ? z + 128.0 : Tensor::scalar(Kind::I32, 128);
  if (z) z = Tensor(Pool::current().fold(z.uop()));
  UOp same = z ? splat(z.uop()) : UOp();
  Tensor v = !z || (same && same.is_const(0)) ? r : r + z.cast(r.dtype());
  if (bits(q) < 8) {
    auto [lo, hi] = integer_range(q);
    v = v.clip(v.like(lo), v.like(hi));
  }
  if (q.kind != Kind::I8) return v.cast(q);
  return as_i8(v.cast(Kind::U8));
}

// x / scale, a positive constant, where x is an integer sum times constants plus constants, perhaps cut off: the scale moves in front of the sum, as
// constant scales may, so that nothing is divided. Null if x is something else.
static Tensor scaled_down(const Tensor& x, f64 scale) {
  UOp u = x.uop();
  auto constant = [](UOp c) { return made_of_constants(Tensor(c)); };
  auto divided = [&](UOp c) { return (Tensor(c).cast(Kind::F64) / scale).cast(Kind::F32); };
  if (u.dtype() != DType(Kind::F32) || !u.in(Op::Max | Op::Min | Op::Add | Op::Mul)) return {};
  for (int side = 0; side < 2; side++) {
    UOp v = u.src(size_t(side)), c = u.src(size_t(1 - side));
    if (!constant(c) || constant(v)) continue;
    if (u.is(Op::Mul)) return v.is(Op::Cast) && v.src(0).dtype() == DType(Kind::I32) ? Tensor(v) * divided(c) : Tensor();
    Tensor inner = scaled_down(Tensor(v), scale);
    return inner ? Tensor::elementwise(u.op(), {inner, divided(c)}) : Tensor();
  }
  return {};
}

Tensor to_quantized(const Tensor& x, DType q, bool saturate) {
  if (is_int(q)) {
    return saturated(x.round(), {}, q);
  }
  for (const FloatRange& r : kFloatRanges) {
    if (r.kind != q.kind) continue;
    if (saturate) return x.clip(x.like(-r.largest), x.like(r.largest)).cast(q);
    // What rounds beyond the largest number becomes inf, or NaN where there is none: half a step above is the border.
    f64 step = q.kind == Kind::F4E2M1
                   ? 2
                   : std::exp2(std::floor(std::log2(r.largest)) - (q.kind == Kind::F8E5M2 || q.kind == Kind::F8E5M2FNUZ ? 2 : 3));
    f64 border = r.largest + step / 2;
    Tensor beyond = x.abs().ge(x.like(border)), inf = x.like(std::numeric_limits<f64>::infinity());
    Tensor lost = r.has_inf ? where(x.lt(x.like(0)), -inf, inf) : x.like(std::numeric_limits<f64>::quiet_NaN());
    return where(beyond, lost, x.clip(x.like(-r.largest), x.like(r.largest))).cast(q);
  }
  fail("quantization to ", name(q), " is not supported");
}

Tensor spread_parameter(const Tensor& p, const Tensor& x, i64 axis, i64 block) {
  if (p.rank() == 0 || (p.rank() == 1 && p.dim(0).is_const(1) && !block)) return p.rank() ? p.reshape(Shape{}) : p;
  axis = x.axis(axis);
  if (!block) {
    if (p.rank() != 1 || p.dim(0) != x.dim(axis))
      fail("scale or zero point ", shape_text(p.shape()), " for axis ", axis, " of ", shape_text(x.shape()));
    Shape s(x.rank(), idx(1));
    s[axis] = p.dim(0);
    return p.reshape(s);
  }
  if (block < 0) fail("block_size ", block);
  if (p.rank() != x.rank() || p.size(axis) != (x.size(axis) + block - 1) / block)
    fail("scale or zero point ", shape_text(p.shape()), " for blocks of ", block, " along axis ", axis, " of ", shape_text(x.shape()));
  Shape s = p.shape();
  s.insert(s.begin() + axis + 1, idx(block));
  return p.unsqueeze(axis + 1).expand(s).flatten(axis, axis + 1).shrink(axis, 0, x.size(axis));
}

Tensor quantize(const Tensor& x, const Tensor& scale, const Tensor& zero, DType q, bool saturate) {
  Tensor v;
  UOp s = splat(scale.uop()), z = zero ? splat(zero.uop()) : konst(q, 0);
  if (s && z && (q.kind == Kind::U8 || q.kind == Kind::I8) && s.as_float() > 0 && std::isfinite(s.as_float()) && x.dtype() == DType(Kind::F32))
    if (Tensor bytes = requantized(x, s.as_float(), z.as_int(), q.kind)) return bytes;
  if (s && is_int(q) && s.as_float() > 0 && std::isfinite(s.as_float())) v = scaled_down(x, s.as_float());
  if (!v) v = x / scale;
  if (!zero || !is_int(q)) return to_quantized(v, q, saturate);
  // Rounded before the zero point is added: ties go to even multiples of the scale.
  return saturated(v.round(), zero, q);
}

Tensor dequantize(const Tensor& x, const Tensor& scale, const Tensor& zero, DType d) {
  Tensor v;
  DType whole = bits(x.dtype()) < 8 ? Kind::I8 : Kind::I32;  // that holds a number less a zero point
  if (!is_int(x.dtype()))
    v = x.cast(d);  // f8 and f4: the zero point can only be 0
  else if (!zero)
    v = x.cast(bits(x.dtype()) < 8 ? whole : x.dtype()).cast(d);
  else
    v = (x.cast(whole) - zero.cast(whole)).cast(d);
  return v * scale.cast(d);
}

namespace {

// Halves are computed in f32, as their quotient would round twice.
Tensor quantize_linear(OnnxNode& n) {
  Tensor x = n[0];
  i64 axis = n.attr("axis", 1), block = n.attr("block_size", 0);
  DType q = n.has(2) ? n[2].dtype() : n.attr_dtype("output_dtype", Kind::U8);
  if (n.has_attr("output_dtype") && n.attr("output_dtype", 0) == 0 && !n.has(2)) q = Kind::U8;
  DType d = n.attr("precision", 0) ? n.attr_dtype("precision", Kind::F32) : DType(Kind::F32);
  if (d.kind == Kind::F16 || d.kind == Kind::BF16) d = Kind::F32;
  if (x.rank() <= 1 && axis == 1 && !block) axis = 0;
  Tensor scale = spread_parameter(n[1].cast(d), x, axis, block);
  Tensor zero = n.has(2) && is_int(q) ? spread_parameter(n[2], x, axis, block) : Tensor();
  return quantize(x.cast(d), scale, zero, q, n.attr("saturate", 1));
}

Tensor dequantize_linear(OnnxNode& n) {
  Tensor x = n[0];
  i64 axis = n.attr("axis", 1), block = n.attr("block_size", 0);
  if (x.rank() <= 1 && axis == 1 && !block) axis = 0;
  DType out = n.attr("output_dtype", 0) ? n.attr_dtype("output_dtype", Kind::F32) : n[1].dtype();
  Tensor scale = spread_parameter(n[1], x, axis, block);
  Tensor zero = n.has(2) ? spread_parameter(n[2], x, axis, block) : Tensor();
  return dequantize(x, scale, zero, Kind::F32).cast(out);
}

Tensors dynamic_quantize_linear(OnnxNode& n) {
  Dynamic q = dynamic_quantize(n[0]);
  return {q.y, q.scale, q.zero};
}

}  // namespace

Dynamic dynamic_quantize(const Tensor& x, const Ints& axes) {
  Ints all = axes.empty() ? x.all_axes() : axes;
  Tensor hi = x.max(all, !axes.empty()).max(x.like(0)), lo = x.min(all, !axes.empty()).min(x.like(0));
  Tensor range = hi - lo;
  Tensor scale = where(range.eq(range.like(0)), range.like(1), range) / 255.0;
  Tensor zero = (-lo / scale).clip(x.like(0), x.like(255)).round();
  Tensor y = ((x / scale).round() + zero).clip(x.like(0), x.like(255)).cast(Kind::U8);
  return {y, scale, zero.cast(Kind::U8)};
}

Tensor centred(const Tensor& x, const Tensor& zero) {
  Tensor v = x.cast(Kind::I32);
  return zero ? v - zero.cast(Kind::I32) : v;
}

Tensor requantize(const Tensor& acc, const Tensor& factor, const Tensor& zero, DType q) {
  return saturated((acc.cast(factor.dtype()) * factor).round(), zero, q);
}

Tensor row_parameter(const Tensor& p) {
  return p && p.rank() == 1 && !p.dim(0).is_const(1) ? p.unsqueeze(-1) : p && p.rank() == 1 ? p.reshape(Shape{}) : p;
}

Tensor channel_parameter(const Tensor& p, i64 rank) {
  if (!p || p.rank() == 0) return p;
  if (p.rank() == 1 && p.dim(0).is_const(1)) return p.reshape(Shape{});
  Shape s(rank, idx(1));
  s[rank > 1 ? 1 : 0] = p.dim(0);
  return p.reshape(s);
}

namespace {

// a's scale and zero point: a number, or one a row; b's: a number, or one a column.
Tensor matmul_integer(OnnxNode& n) { return integer_matmul(n[0], row_parameter(n.opt(2)), n[1], n.opt(3)); }

Tensor qlinear_matmul(OnnxNode& n) {
  Tensor acc = integer_matmul(n[0], row_parameter(n.opt(2)), n[3], n.opt(5));
  auto wide = [](const Tensor& s) { return s.widen(); };
  Tensor factor = row_parameter(wide(n[1])) * wide(n[4]) / row_parameter(wide(n[6]));
  return requantize(acc, factor, row_parameter(n.opt(7)), n.has(7) ? n[7].dtype() : n[0].dtype());
}

// The convolution of integers with zero points taken off; the weight's one a number or one an output channel.
Tensor conv_integer(OnnxNode& n, const Tensor& x, const Tensor& x_zero, const Tensor& w, const Tensor& w_zero, const Tensor& bias) {
  Ints k;
  for (i64 i = 2; i < w.rank(); i++) k.push_back(w.size(i));
  SpatialArgs sp = spatial_args(n, x, k);
  ConvArgs a = sp.conv;
  a.pads = sp.fixed_pads(n);
  a.groups = n.attr("group", 1);
  Tensor wz = w_zero;
  if (wz && wz.rank() == 1) {
    Shape s(w.rank(), idx(1));
    s[0] = wz.dim(0);
    wz = wz.reshape(s);
  }
  Tensor xz = x_zero && x_zero.rank() ? x_zero.reshape(Shape{}) : x_zero;
  return integer_conv(x, xz, w, wz, bias, a);
}

}  // namespace

Tensor qlinear_conv_of(OnnxNode& n, const Tensor& x) {
  Tensor acc = conv_integer(n, x, n.opt(2), n[3], n.opt(5), n.opt(8));
  Tensor factor = channel_parameter(n[1].widen(), acc.rank()) * channel_parameter(n[4].widen(), acc.rank()) /
                  channel_parameter(n[6].widen(), acc.rank());
  return requantize(acc, factor, channel_parameter(n.opt(7), acc.rank()), n.has(7) ? n[7].dtype() : x.dtype());
}

namespace {

constexpr OnnxOp kQuantOps[] = {
    {"ConvInteger", 10, [](OnnxNode& n) { return conv_integer(n, n[0], n.opt(2), n[1], n.opt(3), {}); }},
    {"DequantizeLinear", 10, dequantize_linear},
    {"DynamicQuantizeLinear", 11, dynamic_quantize_linear},
    {"MatMulInteger", 10, matmul_integer},
    {"QLinearConv", 10, [](OnnxNode& n) { return qlinear_conv_of(n, n[0]); }},
    {"QLinearMatMul", 10, qlinear_matmul},
    {"QuantizeLinear", 10, quantize_linear},
};

}  // namespace

std::span<const OnnxOp> quant_ops() { return kQuantOps; }

}  // namespace tg
