#include "ir/eval_scalar.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "base/error.h"

namespace tg {
namespace {

constexpr f64 kNaN = std::numeric_limits<f64>::quiet_NaN();
constexpr f64 kInf = std::numeric_limits<f64>::infinity();

// --- floats under 16 bits ---------------------------------------------------------------------------------------------------------------
struct Mini {
  int exponent, mantissa, bias;
  int codes;   // finite values without sign
  bool fnuz;   // no -0, NaN is the sign bit alone
};
constexpr Mini mini(Kind k) {
  switch (k) {
    case Kind::F8E4M3FN: return {4, 3, 7, 127, false};
    case Kind::F8E4M3FNUZ: return {4, 3, 8, 128, true};
    case Kind::F8E5M2: return {5, 2, 15, 124, false};
    case Kind::F8E5M2FNUZ: return {5, 2, 16, 128, true};
    case Kind::F4E2M1: return {2, 1, 1, 8, false};
    default: return {};
  }
}

f64 mini_value(const Mini& m, int code) {
  int e = code >> m.mantissa, f = code & ((1 << m.mantissa) - 1);
  return e ? std::ldexp(f64((1 << m.mantissa) + f), e - m.bias - m.mantissa) : std::ldexp(f64(f), 1 - m.bias - m.mantissa);
}

f64 mini_from_bits(Kind k, u64 b) {
  if (k == Kind::F8E8M0) return b == 255 ? kNaN : std::ldexp(1.0, int(b) - 127);
  Mini m = mini(k);
  int width = m.exponent + m.mantissa, code = int(b & ((1 << width) - 1));
  bool minus = b >> width & 1;
  if (m.fnuz && minus && code == 0) return kNaN;
  if (code >= m.codes) return k == Kind::F8E5M2 && code == m.codes ? (minus ? -kInf : kInf) : kNaN;
  return minus ? -mini_value(m, code) : mini_value(m, code);
}

u64 mini_to_bits(Kind k, f64 x) {
  if (k == Kind::F8E8M0) {
    if (std::abs(x) <= 0x1p-127) return 0;
    u32 b = std::bit_cast<u32>(f32(x)), e = b >> 23 & 255;
    if (e == 255) return 255;
    return e + ((b & 0x7fffff) && e != 254);
  }
  Mini m = mini(k);
  int width = m.exponent + m.mantissa;
  u64 sign = std::signbit(x) ? u64(1) << width : 0;
  if (std::isnan(x)) return k == Kind::F4E2M1 || m.fnuz ? u64(1) << width : sign | (k == Kind::F8E5M2 ? 0x7e : 0x7f);
  if (std::isinf(x) && k == Kind::F8E5M2) return sign | 0x7c;
  f64 a = std::abs(x);
  int lo = 0, hi = m.codes - 1;  // the largest code whose value is not above a
  while (lo < hi) {
    int mid = (lo + hi + 1) / 2;
    if (mini_value(m, mid) <= a) lo = mid;
    else hi = mid - 1;
  }
  if (lo + 1 < m.codes) {
    f64 below = a - mini_value(m, lo), above = mini_value(m, lo + 1) - a;
    if (above < below || (above == below && lo & 1)) lo++;
  }
  return m.fnuz && lo == 0 ? 0 : sign | u64(lo);
}

// f16 and bf16 by their fields; NaN becomes the quiet one.
u64 half_to_bits(Kind k, f64 x) {
  if (k == Kind::BF16) {
    u32 b = std::bit_cast<u32>(f32(x));
    return std::isnan(x) ? (b >> 16 | 0x40) : b >> 16;
  }
  u64 sign = std::signbit(x) ? 0x8000 : 0;
  if (std::isnan(x)) return sign | 0x7e00;
  f64 a = std::abs(x);
  if (std::isinf(a)) return sign | 0x7c00;
  if (a < std::ldexp(1.0, -14)) return sign | u64(std::ldexp(a, 24));
  int e = std::ilogb(a);
  return sign | u64(e + 15) << 10 | (u64(std::ldexp(a, 10 - e)) & 0x3ff);
}
f64 half_from_bits(Kind k, u64 b) {
  if (k == Kind::BF16) return std::bit_cast<f32>(u32(b) << 16);
  int e = int(b >> 10 & 31), f = int(b & 0x3ff);
  f64 a = e == 31 ? (f ? kNaN : kInf) : e ? std::ldexp(1024.0 + f, e - 25) : std::ldexp(f64(f), -24);
  return b & 0x8000 ? -a : a;
}

// a + b rounded to odd: as if exact for any later rounding to a kind of at most 51 bits.
f64 odd_sum(f64 a, f64 b) {
  f64 s = a + b;
  if (!std::isfinite(s)) return s;
  f64 t = s - a, err = (a - (s - t)) + (b - t);
  if (err != 0 && !(std::bit_cast<u64>(s) & 1)) s = std::nextafter(s, err > 0 ? kInf : -kInf);
  return s;
}

f64 mul_acc(Kind k, f64 a, f64 b, f64 c) {
  switch (k) {
    case Kind::F64: return std::fma(a, b, c);
    case Kind::F32: return std::fma(f32(a), f32(b), f32(c));
    default: return round_float(k, odd_sum(a * b, c));  // products of f16 and bf16 are exact in f64
  }
}

// An integer as a float kind, rounded once.
f64 int_to_float(Kind to, bool uns, u64 v) {
  if (to == Kind::F64) return uns ? f64(v) : f64(i64(v));
  if (to == Kind::F32) return uns ? f32(v) : f32(i64(v));
  bool minus = !uns && i64(v) < 0;
  u64 a = minus ? 0 - v : v;
  f64 r = odd_sum(f64(a >> 32) * 4294967296.0, f64(a & 0xffffffff));
  return round_to(to, minus ? -r : r);
}

// --- ops --------------------------------------------------------------------------------------------------------------------------------
template <Op op>
f64 float_unary(f64 x) {
  switch (op) {
    case Op::Neg: return -x;
    case Op::Abs: return std::abs(x);
    case Op::Sqrt: return std::sqrt(x);
    case Op::Recip: return 1 / x;
    case Op::Floor: return std::floor(x);
    case Op::Ceil: return std::ceil(x);
    case Op::Trunc: return std::trunc(x);
    case Op::Round: return std::nearbyint(x);  // the default mode: ties to even
    case Op::Exp: return std::exp(x);
    case Op::Exp2: return std::exp2(x);
    case Op::Log: return std::log(x);
    case Op::Log2: return std::log2(x);
    case Op::Sin: return std::sin(x);
    case Op::Cos: return std::cos(x);
    case Op::Tan: return std::tan(x);
    case Op::Asin: return std::asin(x);
    case Op::Acos: return std::acos(x);
    case Op::Atan: return std::atan(x);
    case Op::Sinh: return std::sinh(x);
    case Op::Cosh: return std::cosh(x);
    case Op::Tanh: return std::tanh(x);
    case Op::Asinh: return std::asinh(x);
    case Op::Acosh: return std::acosh(x);
    case Op::Atanh: return std::atanh(x);
    case Op::Erf: return std::erf(x);
    default: return kNaN;
  }
}
constexpr OpSet kFloatBinary =
    Op::Add | Op::Sub | Op::Mul | Op::Div | Op::Rem | Op::Pow | Op::Max | Op::Min;
template <Op op>
f64 float_binary(f64 a, f64 b) {
  switch (op) {
    case Op::Add: return a + b;
    case Op::Sub: return a - b;
    case Op::Mul: return a * b;
    case Op::Div: return a / b;
    case Op::Rem: return std::fmod(a, b);
    case Op::Pow: return std::pow(a, b);
    case Op::Max: return std::isnan(a) ? a : std::isnan(b) ? b : a > b ? a : b;
    case Op::Min: return std::isnan(a) ? a : std::isnan(b) ? b : a < b ? a : b;
    default: return kNaN;
  }
}
template <Op op>
bool compare(auto a, auto b) {
  switch (op) {
    case Op::Lt: return a < b;
    case Op::Le: return a <= b;
    case Op::Eq: return a == b;
    default: return a != b;
  }
}

constexpr OpSet kIntUnary = Op::Neg | Op::Not | Op::Abs | Op::Floor | Op::Ceil | Op::Trunc | Op::Round;
constexpr OpSet kIntBinary = Op::Add | Op::Sub | Op::Mul | Op::Div | Op::Rem | Op::FloorDiv | Op::FloorMod | Op::Max | Op::Min | Op::And |
                             Op::Or | Op::Xor | Op::Shl | Op::Shr;
// a and b in their kind's range; the result is wrapped by the caller.
template <Op op>
u64 int_binary(Kind k, u64 a, u64 b) {
  bool uns = k == Kind::U64;  // smaller unsigned kinds are right as signed 64-bit numbers
  i64 x = i64(a), y = i64(b);
  switch (op) {
    case Op::Add: return a + b;
    case Op::Sub: return a - b;
    case Op::Mul: return a * b;
    case Op::Div:
    case Op::FloorDiv:
      if (b == 0) return 0;
      if (uns) return a / b;
      if (y == -1) return 0 - a;
      return u64(x / y - (op == Op::FloorDiv && x % y != 0 && (x < 0) != (y < 0)));
    case Op::Rem:
    case Op::FloorMod:
      if (b == 0) return a;
      if (uns) return a % b;
      if (y == -1) return 0;
      return u64(x % y + (op == Op::FloorMod && x % y != 0 && (x < 0) != (y < 0) ? y : 0));
    case Op::Max: return (uns ? a > b : x > y) ? a : b;
    case Op::Min: return (uns ? a < b : x < y) ? a : b;
    case Op::And: return a & b;
    case Op::Or: return a | b;
    case Op::Xor: return a ^ b;
    case Op::Shl: return b >= u64(bits(k)) ? 0 : a << b;
    case Op::Shr: return b >= u64(bits(k)) ? (is_uint(k) || x >= 0 ? 0 : ~u64(0)) : is_uint(k) ? a >> b : u64(x >> b);
    default: return 0;
  }
}

template <Op op>
ScalarFn pick(Kind k) {
  if constexpr (op == Op::Where) return [](Kind, u64 a, u64 b, u64 c) { return a ? b : c; };
  if constexpr (op == Op::MulAcc) {
    if (is_float(k)) return [](Kind d, u64 a, u64 b, u64 c) { return from_f64(mul_acc(d, as_f64(a), as_f64(b), as_f64(c))); };
    return [](Kind d, u64 a, u64 b, u64 c) { return u64(wrap_int(d, i64(a * b + c))); };
  }
  if constexpr (kComparison.has(op)) {
    if (is_float(k)) return [](Kind, u64 a, u64 b, u64) { return u64(compare<op>(as_f64(a), as_f64(b))); };
    if (k == Kind::U64) return [](Kind, u64 a, u64 b, u64) { return u64(compare<op>(a, b)); };
    return [](Kind, u64 a, u64 b, u64) { return u64(compare<op>(i64(a), i64(b))); };
  }
  if constexpr (is_unary(op) && op != Op::Not) {
    if (k == Kind::F32) return [](Kind, u64 a, u64, u64) { return from_f64(f32(float_unary<op>(as_f64(a)))); };
    if (is_float(k)) return [](Kind d, u64 a, u64, u64) { return from_f64(round_float(d, float_unary<op>(as_f64(a)))); };
  }
  if constexpr (kFloatBinary.has(op)) {
    if (k == Kind::F32) return [](Kind, u64 a, u64 b, u64) { return from_f64(f32(float_binary<op>(as_f64(a), as_f64(b)))); };
    // f64 keeps the sum of two f16 or bf16 to the last bit but for exponents far apart, where odd rounding stands in for the rest.
    if ((op == Op::Add || op == Op::Sub) && is_float(k))
      return [](Kind d, u64 a, u64 b, u64) {
        f64 y = op == Op::Sub ? -as_f64(b) : as_f64(b);
        return from_f64(d == Kind::F64 ? as_f64(a) + y : round_float(d, odd_sum(as_f64(a), y)));
      };
    if (is_float(k)) return [](Kind d, u64 a, u64 b, u64) { return from_f64(round_float(d, float_binary<op>(as_f64(a), as_f64(b)))); };
  }
  if constexpr (kIntBinary.has(op)) {
    if (!is_float(k)) return [](Kind d, u64 a, u64 b, u64) { return u64(wrap_int(d, i64(int_binary<op>(d, a, b)))); };
  }
  if constexpr (kIntUnary.has(op)) {
    if (!is_float(k))
      return [](Kind d, u64 a, u64, u64) {
        if (op == Op::Neg) return u64(wrap_int(d, i64(0 - a)));
        if (op == Op::Not) return d == Kind::Bool ? u64(!a) : u64(wrap_int(d, i64(~a)));
        if (op == Op::Abs && !is_uint(d) && i64(a) < 0) return u64(wrap_int(d, i64(0 - a)));
        return a;
      };
  }
  return nullptr;
}

}  // namespace

f64 round_to(Kind k, f64 x) {
  if (!is_storage(k)) return round_float(k, x);
  if (std::isinf(x) && k != Kind::F8E8M0) x = std::copysign(std::numeric_limits<f64>::max(), x);
  return mini_from_bits(k, mini_to_bits(k, x));
}

u64 to_bits(Kind k, u64 v) {
  if (is_float(k)) {
    f64 x = as_f64(v);
    switch (k) {
      case Kind::F64: return v;
      case Kind::F32: return std::bit_cast<u32>(f32(x));
      case Kind::F16:
      case Kind::BF16: return half_to_bits(k, round_float(k, x));
      default: return mini_to_bits(k, x);
    }
  }
  return bits(k) == 64 ? v : v & ((u64(1) << bits(k)) - 1);
}

u64 from_bits(Kind k, u64 b) {
  switch (k) {
    case Kind::F64: return b;
    case Kind::F32: return from_f64(std::bit_cast<f32>(u32(b)));
    case Kind::F16:
    case Kind::BF16: return from_f64(half_from_bits(k, b));
    default: return is_float(k) ? from_f64(mini_from_bits(k, b)) : u64(wrap_int(k, i64(b)));
  }
}

ScalarFn scalar_fn(Op op, Kind k) {
  ScalarFn f = nullptr;
  // Where moves any kind; arithmetic on floats under 16 bits is done in a wider kind.
  if (op == Op::Where || !(is_float(k) && is_storage(k))) {
    switch (op) {
#define OP(name, srcs, cls, arg) \
  case Op::name:                 \
    if constexpr (is_alu(Op::name)) f = pick<Op::name>(k); \
    break;
#include "ir/ops.def"
      default: break;
    }
  }
  if (!f) fail("the interpreter has no ", info(op).name, " on ", name(k));
  return f;
}

u64 eval_alu(Op op, DType d, std::span<const u64> src) {
  return scalar_fn(op, d.kind)(d.kind, src[0], src.size() > 1 ? src[1] : 0, src.size() > 2 ? src[2] : 0);
}

u64 eval_cast(Kind to, Kind from, u64 v) {
  if (is_float(from)) {
    f64 x = as_f64(v);
    if (is_float(to)) return from_f64(round_to(to, x));
    if (to == Kind::Bool) return x != 0;
    if (std::isnan(x)) return 0;
    x = std::trunc(x);
    if (to == Kind::U64) return x <= 0 ? 0 : x >= 18446744073709551616.0 ? ~u64(0) : u64(x);
    if (bits(to) == 64) return x < -9223372036854775808.0 ? u64(int_min(to)) : x >= 9223372036854775808.0 ? u64(int_max(to)) : u64(i64(x));
    return u64(i64(std::clamp(x, f64(int_min(to)), f64(int_max(to)))));
  }
  if (is_float(to)) return from_f64(int_to_float(to, from == Kind::U64, v));
  return u64(wrap_int(to, i64(v)));
}

u64 identity_of(ReduceKind k, Kind d) {
  bool fl = is_float(d);
  switch (k) {
    case ReduceKind::Add: return fl ? from_f64(0) : 0;
    case ReduceKind::Mul: return fl ? from_f64(1) : 1;
    case ReduceKind::Max:
    case ReduceKind::MaxAny: return fl ? from_f64(-kInf) : u64(int_min(d));
    case ReduceKind::Min: return fl ? from_f64(kInf) : d == Kind::U64 ? ~u64(0) : u64(int_max(d));
    case ReduceKind::And: return u64(wrap_int(d, -1));
    case ReduceKind::Or: return 0;
  }
  return 0;
}

Reducer::Reducer(ReduceKind k, Kind d) : kind(k), dtype(d), acc(identity_of(k, d)) {}
void Reducer::add(u64 v) {
  if (is_float(dtype)) {
    f64 a = as_f64(acc), x = as_f64(v);
    switch (kind) {
      case ReduceKind::Add: acc = from_f64(a + x); return;
      case ReduceKind::Mul: acc = from_f64(a * x); return;
      case ReduceKind::Max:
      case ReduceKind::MaxAny: acc = from_f64(float_binary<Op::Max>(a, x)); return;
      case ReduceKind::Min: acc = from_f64(float_binary<Op::Min>(a, x)); return;
      default: fail("the interpreter has no ", info(alu_op(kind)).name, " on ", name(dtype));
    }
  }
  switch (kind) {
    case ReduceKind::Add: acc += v; return;
    case ReduceKind::Mul: acc *= v; return;
    case ReduceKind::Max:
    case ReduceKind::MaxAny: acc = int_binary<Op::Max>(dtype, acc, v); return;
    case ReduceKind::Min: acc = int_binary<Op::Min>(dtype, acc, v); return;
    case ReduceKind::And: acc &= v; return;
    case ReduceKind::Or: acc |= v; return;
  }
}
u64 Reducer::done() const { return is_float(dtype) ? from_f64(round_to(dtype, as_f64(acc))) : u64(wrap_int(dtype, i64(acc))); }

bool sorts_before(Kind k, u64 a, u64 b) {
  if (is_float(k)) {
    f64 x = as_f64(a), y = as_f64(b);
    return std::isnan(y) ? !std::isnan(x) : x < y;
  }
  return k == Kind::U64 ? a < b : i64(a) < i64(b);
}

}  // namespace tg
