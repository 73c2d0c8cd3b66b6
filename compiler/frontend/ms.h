// Parts that the com.microsoft families share.
#pragma once
#include "frontend/onnx_op.h"

namespace tg {

// The activation that attribute `activation` names, with its parameters from `params`.
Tensor activate(OnnxNode& n, const Tensor& x, const std::vector<f32>& params);
// The node built as the ai.onnx operator `op` of an opset.
Tensors as_onnx(OnnxNode& n, std::string_view op, i64 opset);
// Channels from last to second place, and back.
Tensor channels_first(const Tensor& x);
Tensor channels_last(const Tensor& x);

}  // namespace tg
