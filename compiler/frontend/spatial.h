// The window of Conv and pool nodes: kernel_shape, strides, dilations and pads, with auto_pad resolved.
#pragma once
#include "frontend/onnx_op.h"

namespace tg {

struct SpatialArgs {
  Ints k;
  ConvArgs conv;     // pads, strides and dilations are full lists; pads are empty where SAME_* makes them change with a free size
  Shape begin, end;  // the pads of each axis, as expressions
  const Ints& fixed_pads(const OnnxNode& n) const {
    n.require(!conv.pads.empty(), "auto_pad pads a free size by an amount that changes with it; give the size a multiple of the stride, "
              "--var NAME=MIN..MAX:MULTIPLE");
    return conv.pads;
  }
};

// Of node n over input x (N, C, *in). k: the kernel's dims, or empty to take the attribute kernel_shape; an attribute that contradicts k is refused.
SpatialArgs spatial_args(const OnnxNode& n, const Tensor& x, Ints k = {});

// x (N, C, *in) with these pads around its spatial axes.
Tensor pad_spatial(const Tensor& x, const Shape& begin, const Shape& end, UOp value);

// The two sides of `total` padding: SAME_UPPER puts the odd one at the end, SAME_LOWER at the begin.
std::pair<i64, i64> split_padding(i64 total, bool upper);

Tensor conv_of(OnnxNode& n, const Tensor& x, const Tensor& w, const Tensor& bias);  // Conv with n's attributes
Tensor average_pool_of(OnnxNode& n, const Tensor& x);                               // AveragePool with n's attributes
Tensors max_pool_of(OnnxNode& n, const Tensor& x);                                  // MaxPool with n's attributes; the places if n wants them

}  // namespace tg
