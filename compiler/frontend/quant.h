// Parts of quantized operators that the com.microsoft family builds on too.
#pragma once
#include "frontend/onnx_op.h"

namespace tg {

std::pair<f64, f64> integer_range(DType d);

// x, already divided by the scale, as q: integers rounded to even and saturated, floats by ONNX's Cast.
Tensor to_quantized(const Tensor& x, DType q, bool saturate = true);
// A scale or zero point ready to broadcast with x: a number, a vector along `axis`, or with block > 0 one number a block along `axis`.
Tensor spread_parameter(const Tensor& p, const Tensor& x, i64 axis, i64 block = 0);
// saturate(round(x / scale) + zero); zero may be absent. scale and zero broadcast with x.
Tensor quantize(const Tensor& x, const Tensor& scale, const Tensor& zero, DType q, bool saturate = true);
Tensor dequantize(const Tensor& x, const Tensor& scale, const Tensor& zero, DType d);  // (x - zero) * scale in d

struct Dynamic {
  Tensor y, scale, zero;  // u8, f32 (), u8 ()
};
// DynamicQuantizeLinear, of all of x or over some axes, which scale and zero keep as 1.
Dynamic dynamic_quantize(const Tensor& x, const Ints& axes = {});

Tensor centred(const Tensor& x, const Tensor& zero);  // x - zero in i32; zero may be absent
// (x - x_zero) (w - w_zero) summed in i32, zero points absent or broadcasting with what they belong to. Products of bytes are written as u8 by
// i8 with the zero points taken off the sums, which is what dot instructions take: x_zero falls on sums of w's columns, constant if w is.
Tensor integer_matmul(const Tensor& x, const Tensor& x_zero, const Tensor& w, const Tensor& w_zero);
// Likewise as a convolution: padding stands for x_zero, a number; w_zero is absent, a number or one an output channel (M, 1, 1..).
Tensor integer_conv(const Tensor& x, const Tensor& x_zero, const Tensor& w, const Tensor& w_zero, const Tensor& bias, const ConvArgs& a);
// x - zero of a CONSTANT of bytes as one of i8; null if x is something else, or a number does not fit.
Tensor centred_i8(const Tensor& x, const Tensor& zero);
// saturate(round(acc * factor) + zero) as q.
Tensor requantize(const Tensor& acc, const Tensor& factor, const Tensor& zero, DType q);
Tensor row_parameter(const Tensor& p);                // of a matrix' rows: (M) -> (M, 1)
Tensor channel_parameter(const Tensor& p, i64 rank);  // of channels: (C) -> (1, C, 1..)

// QLinearConv's inputs and attributes of n over x (N, C, *in), which need not be n's own.
Tensor qlinear_conv_of(OnnxNode& n, const Tensor& x);

}  // namespace tg
