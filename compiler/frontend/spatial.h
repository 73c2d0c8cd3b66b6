// The window of Conv and pool nodes: kernel_shape, strides, dilations and pads, with auto_pad resolved.
#pragma once
#include "frontend/onnx_op.h"

namespace tg {

struct SpatialArgs {
  Ints k;
  ConvArgs conv;  // pads, strides and dilations are full lists
};

// Of node n over input x (N, C, *in). k: the kernel's dims, or empty to take the attribute kernel_shape; an attribute that contradicts k is
// refused. auto_pad SAME_* needs input dims that are constant.
SpatialArgs spatial_args(const OnnxNode& n, const Tensor& x, Ints k = {});

// The two sides of `total` padding: SAME_UPPER puts the odd one at the end, SAME_LOWER at the begin.
std::pair<i64, i64> split_padding(i64 total, bool upper);

Tensor conv_of(OnnxNode& n, const Tensor& x, const Tensor& w, const Tensor& bias);  // Conv with n's attributes
Tensor average_pool_of(OnnxNode& n, const Tensor& x);                               // AveragePool with n's attributes
Tensors max_pool_of(OnnxNode& n, const Tensor& x);                                  // MaxPool with n's attributes; the places if n wants them

}  // namespace tg
