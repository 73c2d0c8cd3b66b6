// Arithmetic and activation functions. https://onnx.ai/onnx/operators/
#include <cmath>
#include <limits>

#include "frontend/dequantized.h"
#include "frontend/onnx_op.h"

namespace tg {
namespace {

template <Op op>
Tensor unary(OnnxNode& n) {
  return n[0].unary(op);
}
template <Op op>
Tensor binary(OnnxNode& n) {
  return n[0].binary(op, n[1]);
}
template <Op op>
Tensor binary_6(OnnxNode& n) {
  return n[0].binary(op, placed_operand(n));
}
template <Op op>
Tensor variadic(OnnxNode& n) {
  Tensor r = n[0];
  for (size_t i = 1; i < n.inputs(); i++) r = r.binary(op, n[i]);
  return r;
}
// f(x) of several operations: in f32 for halves, rounded once.
template <class F>
Tensor wide(OnnxNode& n, F f) {
  Tensor x = n[0].widen();
  return f(x).cast(n[0].dtype());
}

Tensor mean(OnnxNode& n) {
  Tensor r = n[0].widen();
  for (size_t i = 1; i < n.inputs(); i++) r = r + n[i].widen();
  return (r / f64(n.inputs())).cast(n[0].dtype());
}

Tensor clip_6(OnnxNode& n) {
  Tensor x = n[0];
  auto bound = [&](const char* a) { return n.has_attr(a) ? x.like(n.attr(a, 0.0f)) : Tensor(); };
  return x.clip(bound("min"), bound("max"));
}
Tensor clip_11(OnnxNode& n) {
  for (size_t i : {1, 2})
    if (n.has(i) && n[i].numel() != 1) n.fail("bound ", i, " has shape ", shape_text(n[i].shape()), ", a scalar is needed");
  auto bound = [&](size_t i) { return n.has(i) ? n[i].reshape(Shape{}) : Tensor(); };
  return n[0].clip(bound(1), bound(2));
}

// x^e of integers, exact with wrap; a negative e gives 0, or ±1 where x is ±1.
Tensor int_pow(const Tensor& x, const Tensor& e) {
  Tensor r = x.like(1), base = x, zero = e.like(0), one = e.like(1);
  // Bits above the 63rd never matter: e is at most 2^63, and counted by squaring.
  for (int b = 0; b < bits(e.dtype()) - (is_uint(e.dtype()) ? 0 : 1); b++) {
    Tensor bit = e.binary(Op::Shr, e.like(b)) & one;
    r = where(bit.ne(zero), r * base, r);
    base = base * base;
  }
  if (is_uint(e.dtype())) return r;
  Tensor unit = where(x.eq(x.like(1)), x.like(1), x.like(0));
  if (!is_uint(x.dtype())) unit = where(x.eq(x.like(-1)), where((e & one).ne(zero), x.like(-1), x.like(1)), unit);
  return where(e.lt(zero), unit, r);
}

Tensor power(const Tensor& x, const Tensor& e) {
  constexpr f64 inf = std::numeric_limits<f64>::infinity();
  if (!x.is_float()) {
    if (!e.is_float()) return int_pow(x, e);
    return x.cast(Kind::F64).pow(e.cast(Kind::F64)).cast(x.dtype());
  }
  if (UOp c = splat(e.uop()); c && is_float(c.dtype())) {
    const Shape* both[] = {&x.shape(), &e.shape()};
    Tensor wide = x.expand(broadcast(both)), y = wide.widen();
    f64 v = c.as_float();
    if (v == 1) return wide;
    if (v == 2) return y.square().cast(x.dtype());
    if (v == 3) return (y.square() * y).cast(x.dtype());
    if (v == -1) return wide.recip();
    // pow(-0, 0.5) is +0 and pow(-inf, 0.5) is +inf, sqrt's are not.
    if (v == 0.5) return where(y.eq(y.like(-inf)), y.like(inf), (y + 0.0).sqrt()).cast(x.dtype());
  }
  if (x.is_half()) return x.widen().pow(e.cast(Kind::F32)).cast(x.dtype());
  return x.pow(e.cast(x.dtype()));
}

Tensor pow(OnnxNode& n) { return power(n[0], n[1]); }

Tensor mod(OnnxNode& n) {
  if (n.attr("fmod", 0)) return n[0].rem(n[1]);
  return n[0].floor_mod(n[1]);
}

Tensor bit_shift(OnnxNode& n) {
  std::string d = n.attr_string("direction");
  n.require(d == "LEFT" || d == "RIGHT", "direction must be LEFT or RIGHT, not ", d);
  return n[0].binary(d == "LEFT" ? Op::Shl : Op::Shr, n[1]);
}

Tensor prelu(OnnxNode& n) {
  Tensor x = n[0], slope = n[1];
  return where(x.lt(x.like(0)), x * slope.expand(x.shape()), x);
}

// One slope, or one a channel.
Tensor prelu_6(OnnxNode& n) {
  Tensor x = n[0], slope = n[1];
  if (elems(slope.shape()).is_const(1))
    slope = slope.reshape(Shape{});
  else
    slope = slope.reshape(Shape{elems(slope.shape())});
  if (slope.rank() == 1)
    for (i64 a = 2; a < x.rank(); a++) slope = slope.unsqueeze(-1);
  return where(x.lt(x.like(0)), x * slope.expand(x.shape()), x);
}

Tensor sign(OnnxNode& n) {
  Tensor x = n[0], positive = where(x.gt(x.like(0)), x.like(1), x);  // zero and NaN stay
  if (is_uint(x.dtype())) return positive;
  return where(x.lt(x.like(0)), x.like(-1), positive);
}

Tensor gemm(OnnxNode& n) {
  f32 alpha = n.attr("alpha", 1.0f), beta = n.attr("beta", 1.0f);
  Tensor a = n[0].widen(), b = n[1].widen();
  n.require(a.rank() == 2 && b.rank() == 2, "A ", shape_text(a.shape()), " and B ", shape_text(b.shape()), " must be matrices");
  if (n.attr("transA", 0)) a = a.transpose();
  if (n.attr("transB", 0)) b = b.transpose();
  bool whole = alpha == std::trunc(alpha) && beta == std::trunc(beta);
  n.require(n[0].is_float() || whole, "alpha ", alpha, " and beta ", beta, " on integers");
  Tensor y = float_matmul(a, b);
  if (alpha != 1) y = y * f64(alpha);
  if (n.has(2) && beta != 0) {
    Tensor c = n[2].widen();
    y = y + (beta == 1 ? c : c * f64(beta)).expand(y.shape());
  }
  return y.cast(n[0].dtype());
}

// By Gaussian elimination with row exchanges, unrolled over the columns.
Tensor det(OnnxNode& n) {
  Tensor x = n[0].widen();
  n.require(x.rank() >= 2 && x.size(-1) == x.size(-2), "input ", shape_text(x.shape()), " is not square");
  i64 m = x.size(-1), row = x.rank() - 2;
  n.require(m <= 16, "a determinant of ", m, "x", m, "; up to 16x16 is supported");
  Tensor r = Tensor::full(Shape(x.shape().begin(), x.shape().end() - 2), x.dtype(), 1);
  for (i64 k = 0; k < m; k++) {
    i64 left = m - k;
    Tensor column = x.shrink(-1, 0, 1).squeeze(-1);             // (.., left)
    Tensor best = column.abs().argmax(-1).first.unsqueeze(-1);  // (.., 1)
    Tensor i = Tensor::arange(left);
    Tensor order = where(i.eq(i.like(0)), best, where(i.eq(best), i.like(0), i));  // rows 0 and best exchanged
    Shape s = x.shape();
    x = x.take_along(row, order.unsqueeze(-1).expand(s));
    Tensor pivot = x.shrink(row, 0, 1).shrink(-1, 0, 1);  // (.., 1, 1)
    Tensor p = pivot.reshape(r.shape());
    Tensor swapped = best.squeeze(-1).ne(best.like(0));
    r = r * where(swapped, p.neg(), p);
    if (left == 1) break;
    Tensor below = x.shrink(row, 1, left - 1);
    Tensor factor = where(pivot.eq(pivot.like(0)), pivot.like(0), below.shrink(-1, 0, 1) / pivot);
    x = below.shrink(-1, 1, left - 1) - factor * x.shrink(row, 0, 1).shrink(-1, 1, left - 1);
  }
  return r.cast(n[0].dtype());
}

// clang-format off
constexpr OnnxOp kMathOps[] = {
  {"Abs",        1, [](OnnxNode& n) { return is_uint(n[0].dtype()) ? n[0] : n[0].abs(); }},
  {"Acos",       7, unary<Op::Acos>},
  {"Acosh",      9, unary<Op::Acosh>},
  {"Add",       1, binary_6<Op::Add>},   // operands are placed by attributes
  {"Add",        7, binary<Op::Add>},
  {"Asin",       7, unary<Op::Asin>},
  {"Asinh",      9, unary<Op::Asinh>},
  {"Atan",       7, unary<Op::Atan>},
  {"Atanh",      9, unary<Op::Atanh>},
  {"BitShift",  11, bit_shift},
  {"Ceil",       1, [](OnnxNode& n) { return n[0].ceil(); }},
  {"Celu",      12, [](OnnxNode& n) { f64 a = n.attr("alpha", 1.0f); return wide(n, [a](Tensor x) { return x.relu() + (((x / a).exp() - 1) * a).min(x.like(0)); }); }},
  {"Clip",       1, clip_6},    // bounds are attributes
  {"Clip",      11, clip_11},   // bounds are optional inputs
  {"Cos",        7, unary<Op::Cos>},
  {"Cosh",       9, unary<Op::Cosh>},
  {"Det",       11, det},
  {"Div",       1, binary_6<Op::Div>},   // operands are placed by attributes
  {"Div",        7, binary<Op::Div>},
  {"Elu",        1, [](OnnxNode& n) { f64 a = n.attr("alpha", 1.0f); return wide(n, [a](Tensor x) { return where(x.lt(x.like(0)), (x.exp() - 1) * a, x); }); }},
  {"Erf",        9, unary<Op::Erf>},
  {"Exp",        1, unary<Op::Exp>},
  {"Floor",      1, [](OnnxNode& n) { return n[0].floor(); }},
  {"Gelu",      20, [](OnnxNode& n) { return n[0].gelu(n.attr("approximate", "none") == "tanh"); }},
  {"Gemm",       1, gemm},
  {"HardSigmoid",1, [](OnnxNode& n) { return n[0].hard_sigmoid(n.attr("alpha", 0.2f), n.attr("beta", 0.5f)); }},
  {"HardSwish", 14, [](OnnxNode& n) { return wide(n, [](Tensor x) { return x * x.hard_sigmoid(1.0 / 6, 0.5); }); }},
  {"LeakyRelu",  1, [](OnnxNode& n) { return n[0].leaky_relu(n.attr("alpha", 0.01f)); }},
  {"Log",        1, unary<Op::Log>},
  {"MatMul",     1, [](OnnxNode& n) { return float_matmul(n[0], n[1]); }},
  {"Max",        1, variadic<Op::Max>},
  {"Mean",       1, mean},
  {"Min",        1, variadic<Op::Min>},
  {"Mish",      18, [](OnnxNode& n) { return wide(n, [](Tensor x) { return x * x.softplus().tanh(); }); }},
  {"Mod",       10, mod},
  {"Mul",       1, binary_6<Op::Mul>},   // operands are placed by attributes
  {"Mul",        7, binary<Op::Mul>},
  {"Neg",        1, unary<Op::Neg>},
  {"PRelu",      1, prelu_6},
  {"PRelu",      7, prelu},
  {"Pow",        1, [](OnnxNode& n) { return power(n[0], placed_operand(n)); }},
  {"Pow",        7, pow},
  {"Reciprocal", 1, unary<Op::Recip>},
  {"Relu",       1, [](OnnxNode& n) { return n[0].relu(); }},
  {"Round",     11, [](OnnxNode& n) { return n[0].round(); }},
  {"Selu",       6, [](OnnxNode& n) { f64 a = n.attr("alpha", 1.6732632423543772f), g = n.attr("gamma", 1.0507009873554805f);
                                      return wide(n, [=](Tensor x) { return where(x.gt(x.like(0)), x, x.exp() * a - a) * g; }); }},
  {"Shrink",     9, [](OnnxNode& n) { f64 l = n.attr("lambd", 0.5f), b = n.attr("bias", 0.0f); Tensor x = n[0];
                                      if (!x.is_float()) { x = x.cast(Kind::F32); }
                                      return where(x.lt(x.like(-l)), x + b, where(x.gt(x.like(l)), x - b, x.like(0))).cast(n[0].dtype()); }},
  {"Sigmoid",    1, [](OnnxNode& n) { return n[0].sigmoid(); }},
  {"Sign",       9, sign},
  {"Sin",        7, unary<Op::Sin>},
  {"Sinh",       9, unary<Op::Sinh>},
  {"Softplus",   1, [](OnnxNode& n) { return n[0].softplus(); }},
  {"Softsign",   1, [](OnnxNode& n) { return wide(n, [](Tensor x) { return x / (1.0 + x.abs()); }); }},
  {"Sqrt",       1, unary<Op::Sqrt>},
  {"Sub",       1, binary_6<Op::Sub>},   // operands are placed by attributes
  {"Sub",        7, binary<Op::Sub>},
  {"Sum",        1, variadic<Op::Add>},
  {"Swish",     24, [](OnnxNode& n) { f64 a = n.attr("alpha", 1.0f); return wide(n, [a](Tensor x) { return x * (x * a).sigmoid(); }); }},
  {"Tan",        7, unary<Op::Tan>},
  {"Tanh",       1, unary<Op::Tanh>},
  {"ThresholdedRelu", 10, [](OnnxNode& n) { f64 a = n.attr("alpha", 1.0f); Tensor x = n[0]; return where(x.gt(x.like(a)), x, x.like(0)); }},
};
// clang-format on

}  // namespace

std::span<const OnnxOp> math_ops() { return kMathOps; }

}  // namespace tg
