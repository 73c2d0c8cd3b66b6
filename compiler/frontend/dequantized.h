// Products whose factors are dequantized bytes: summed as integers, with the scales taken off the sums.
#pragma once
#include <optional>

#include "frontend/tensor.h"

namespace tg {

// x = (q - zero) * scale in f32: q of bytes, zero in i32 or absent; scale and zero numbers, or of x's rank with dims of 1 where they
// repeat.
struct Dequantized {
  Tensor q, zero, scale;
  Tensor centred;  // q - zero in f32
};
std::optional<Dequantized> dequantized(const Tensor& x);

// a.matmul(b) and x.conv(w, bias, args) of floats. Two dequantized factors, one of them constant, are an integer product; a constant scale
// of one factor moves behind the sum, so that the factor itself is exact in any float.
Tensor float_matmul(const Tensor& a, const Tensor& b);
Tensor float_conv(const Tensor& x, const Tensor& w, const Tensor& bias, const ConvArgs& args);

bool made_of_constants(const Tensor& x);

}  // namespace tg
