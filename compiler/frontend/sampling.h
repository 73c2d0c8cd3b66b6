// Reading a tensor at fractional coordinates: GridSample, DeformConv, RoiAlign.
#pragma once
#include "frontend/tensor.h"

namespace tg {

struct Sampling {
  enum Mode : u8 { Nearest, Linear, Cubic } mode = Linear;
  enum Outside : u8 { Zeros, Border, Reflection } outside = Zeros;
  bool align_corners = true;  // where Reflection turns: at the centres of the border's pixels, or at their outer edges
};

// img (lead.., spatial.., rest..) at integer indices `lead` and pixel coordinates `coords` (floats of img's dtype, pixel centres at whole
// numbers), which broadcast together; gives (their shape.., rest..). Never reads outside.
// https://onnx.ai/onnx/operators/onnx__GridSample.html
Tensor sample(const Tensor& img, std::span<const Tensor> lead, std::span<const Tensor> coords, const Sampling& s = {});

}  // namespace tg
