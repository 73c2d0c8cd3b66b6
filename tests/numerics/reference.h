// What transcendental ops should give, from the C library in a wider type, and how far a result is from it.
#pragma once
#include <bit>
#include <cmath>

#include "ir/op.h"

namespace tg::test {

// f64 for f32 ops, long double for f64 ops. glibc's errors there are far below an ulp of the narrower type.
template <class W>
W reference(Op op, W x, W y) {
  switch (op) {
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
    case Op::Pow: return std::pow(x, y);
    default: return std::nan("");
  }
}

// Distance in units of the last place of T at `want`; infinite where one is NaN and the other not, where an infinity is missed, or where the
// sign of a zero differs.
template <class T, class W>
f64 ulps(T got, W want) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got) ? 0 : INFINITY;
  constexpr int digits = std::numeric_limits<T>::digits, low = std::numeric_limits<T>::min_exponent - digits;
  T rounded = T(want);
  if (std::isinf(got) || std::isinf(rounded)) {
    if (got == rounded) return 0;
    // The largest float beside an infinity that only rounding made is one place away.
    W edge = std::ldexp(W(1), std::numeric_limits<T>::max_exponent), place = std::ldexp(W(1), std::numeric_limits<T>::max_exponent - digits);
    if (std::isinf(want) || std::isinf(got) == std::isinf(rounded) || std::signbit(got) != std::signbit(rounded)) return INFINITY;
    W g = std::isinf(got) ? std::copysign(edge, W(got)) : W(got);
    return f64(std::abs(g - want) / place);
  }
  if (got == 0 && want == 0) return std::signbit(got) == std::signbit(want) ? 0 : INFINITY;
  if (std::signbit(got) != std::signbit(want) && got != 0) return INFINITY;
  int e = want == 0 ? low : std::max(std::ilogb(want) - digits + 1, low);
  return f64(std::abs(W(got) - want) / std::ldexp(W(1), e));
}

}  // namespace tg::test
