// Comparisons, booleans, bits, Where, and conversions of dtype. https://onnx.ai/onnx/operators/
#include <limits>

#include "frontend/onnx_op.h"

namespace tg {
namespace {

template <Op op>
Tensor binary(OnnxNode& n) {
  return n[0].binary(op, n[1]);
}
// Before opset 7 the second operand's axes are placed by attributes.
template <Op op>
Tensor binary_1(OnnxNode& n) {
  return n[0].binary(op, placed_operand(n));
}

Tensor is_inf(OnnxNode& n) {
  Tensor x = n[0];
  constexpr f64 inf = std::numeric_limits<f64>::infinity();
  if (is_storage(x.dtype().kind)) x = x.cast(Kind::F32);
  Tensor r = Tensor::full(x.shape(), Kind::Bool, 0);
  if (n.attr("detect_positive", 1)) r = r | x.eq(x.like(inf));
  if (n.attr("detect_negative", 1)) r = r | x.eq(x.like(-inf));
  return r;
}

// Rounding up beyond the largest number of an 8-bit float gives NaN, or infinity where the kind has it; |x| from which on it happens.
struct Overflow {
  Kind kind;
  f64 from;
  bool inclusive;
  f64 becomes;
};
constexpr f64 kNan = std::numeric_limits<f64>::quiet_NaN(), kInf = std::numeric_limits<f64>::infinity();
constexpr Overflow kOverflow[] = {
    {Kind::F8E4M3FN, 464, false, kNan},   // between 448 and 480; the tie goes to 448
    {Kind::F8E4M3FNUZ, 248, true, kNan},  // between 240 and 256
    {Kind::F8E5M2, 61440, true, kInf},    // between 57344 and 65536
    {Kind::F8E5M2FNUZ, 61440, true, kNan},
};

// Cast as IR's Cast does, which saturates 8-bit floats; saturate=0 puts NaN or infinity where that happened.
Tensor convert(OnnxNode& n, const Tensor& x, DType to) {
  // Floats go to the integers under 8 bits by way of i32, and wrap.
  Tensor y = x.is_float() && tg::is_int(to) && is_storage(to.kind) ? x.cast(Kind::I32).cast(to) : x.cast(to);
  if (n.attr("saturate", 1) || !x.is_float()) return y;
  for (const Overflow& o : kOverflow)
    if (o.kind == to.kind) {
      Tensor w = bits(x.dtype()) < 32 ? x.cast(Kind::F32) : x, a = w.abs(), limit = a.like(o.from);
      Tensor over = o.inclusive ? a.ge(limit) : a.gt(limit);
      Tensor positive = where(over, Tensor(konst_f(to, o.becomes)), y);
      return o.becomes == kInf ? where(over & w.lt(w.like(0)), Tensor(konst_f(to, -kInf)), positive) : positive;
    }
  return y;
}

Tensor cast(OnnxNode& n) {
  if (n.attr("round_mode", "up") != "up" && n.attr_dtype("to", Kind::Void).kind == Kind::F8E8M0)
    n.fail("round_mode \"", n.attr("round_mode", "up"), "\" to f8e8m0 is not supported, only \"up\"");
  n.require(n.has_attr("to"), "attribute to is missing");
  return convert(n, n[0], n.attr_dtype("to", Kind::Void));
}

Tensor bit_cast(OnnxNode& n) {
  n.require(n.has_attr("to"), "attribute to is missing");
  return n[0].bitcast(n.attr_dtype("to", Kind::Void));
}

// clang-format off
constexpr OnnxOp kLogicOps[] = {
  {"And",           1, binary_1<Op::And>},
  {"And",            7, binary<Op::And>},
  {"BitCast",       26, bit_cast},
  {"BitwiseAnd",    18, binary<Op::And>},
  {"BitwiseNot",    18, [](OnnxNode& n) { return n[0].logical_not(); }},
  {"BitwiseOr",     18, binary<Op::Or>},
  {"BitwiseXor",    18, binary<Op::Xor>},
  {"Cast",           6, cast},
  {"CastLike",      15, [](OnnxNode& n) { return convert(n, n[0], n[1].dtype()); }},
  {"Equal",         1, binary_1<Op::Eq>},
  {"Equal",          7, binary<Op::Eq>},
  {"Greater",        1, [](OnnxNode& n) { return n[0].gt(placed_operand(n)); }},
  {"Greater",        7, [](OnnxNode& n) { return n[0].gt(n[1]); }},
  {"GreaterOrEqual",12, [](OnnxNode& n) { return n[0].ge(n[1]); }},
  {"IsInf",         10, is_inf},
  {"IsNaN",          9, [](OnnxNode& n) { return (is_storage(n[0].dtype().kind) ? n[0].cast(Kind::F32) : n[0]).is_nan(); }},
  {"Less",          1, binary_1<Op::Lt>},
  {"Less",           7, binary<Op::Lt>},
  {"LessOrEqual",   12, binary<Op::Le>},
  {"Not",            1, [](OnnxNode& n) { return n[0].logical_not(); }},
  {"Or",            1, binary_1<Op::Or>},
  {"Or",             7, binary<Op::Or>},
  {"Where",          9, [](OnnxNode& n) { return where(n[0], n[1], n[2]); }},
  {"Xor",           1, binary_1<Op::Xor>},
  {"Xor",            7, binary<Op::Xor>},
};
// clang-format on

}  // namespace

std::span<const OnnxOp> logic_ops() { return kLogicOps; }

}  // namespace tg
