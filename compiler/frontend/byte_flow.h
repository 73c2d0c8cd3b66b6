// Quantized values between operators that only move, join or compare them: the bytes do that themselves, with no arithmetic.
#pragma once
#include "frontend/dequantized.h"

namespace tg {

// x as the dequantized bytes of one number as scale and one as zero point, through movement, joins, largest and smallest. Exact.
std::optional<Dequantized> dequantized_below(const Tensor& x);

// quantize(x, scale, zero) of such an x, where the bytes below may have other scales: rounding and saturation keep the order of numbers, so they
// move in front of all that only moves, joins and compares. Nothing is computed where the parameters are the same. Null if x is something else.
Tensor requantized(const Tensor& x, f64 scale, i64 zero, Kind q);

// Sum and mean over axes of f32; of bytes in i32, with the scale behind the sum.
Tensor sum_of(const Tensor& x, const Ints& axes, bool keepdims);
Tensor mean_of(const Tensor& x, const Ints& axes, bool keepdims);

// The same numbers as u8: an i8 is 128 more, which its zero point must be too. And back.
Tensor as_u8(const Tensor& bytes);
Tensor as_i8(const Tensor& u8);

}  // namespace tg
