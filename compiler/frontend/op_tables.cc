// The list of op families. A family is a table in its own file; this is the only place that names them all.
#include "frontend/onnx_op.h"

namespace tg {

std::span<const OnnxOp> math_ops();
std::span<const OnnxOp> logic_ops();
std::span<const OnnxOp> movement_ops();
std::span<const OnnxOp> reduce_ops();
std::span<const OnnxOp> index_ops();
std::span<const OnnxOp> control_ops();
std::span<const OnnxOp> loop_ops();
std::span<const OnnxOp> sequence_ops();
std::span<const OnnxOp> text_ops();
std::span<const OnnxOp> select_ops();
std::span<const OnnxOp> ms_select_ops();
std::span<const OnnxOp> conv_ops();
std::span<const OnnxOp> pool_ops();
std::span<const OnnxOp> norm_ops();
std::span<const OnnxOp> attention_ops();
std::span<const OnnxOp> loss_ops();
std::span<const OnnxOp> vision_ops();
std::span<const OnnxOp> signal_ops();
std::span<const OnnxOp> resize_ops();
std::span<const OnnxOp> quant_ops();
std::span<const OnnxOp> random_ops();
std::span<const OnnxOp> preview_ops();
std::span<const OnnxOp> train_ops();
std::span<const OnnxOp> ml_ops();
std::span<const OnnxOp> ms_ops();
std::span<const OnnxOp> ms_basic_ops();
std::span<const OnnxOp> ms_attention_ops();
std::span<const OnnxOp> ms_quant_ops();
std::span<const OnnxOp> rnn_ops();
std::span<const OnnxOp> ms_rnn_ops();

std::span<const OnnxFamily> onnx_families() {
  static const OnnxFamily kFamilies[] = {
      // domain, family, table
      {"", "math", math_ops()},
      {"", "logic", logic_ops()},
      {"", "movement", movement_ops()},
      {"", "reduce", reduce_ops()},
      {"", "index", index_ops()},
      {"", "control", control_ops()},
      {"", "loop", loop_ops()},
      {"", "sequence", sequence_ops()},
      {"", "text", text_ops()},
      {"", "rnn", rnn_ops()},
      {"", "select", select_ops()},
      {"", "conv", conv_ops()},
      {"", "pool", pool_ops()},
      {"", "norm", norm_ops()},
      {"", "attention", attention_ops()},
      {"", "loss", loss_ops()},
      {"", "vision", vision_ops()},
      {"", "signal", signal_ops()},
      {"", "resize", resize_ops()},
      {"", "quant", quant_ops()},
      {"", "random", random_ops()},
      {"ai.onnx.preview", "preview", preview_ops()},
      {"ai.onnx.preview.training", "train", train_ops()},
      {"ai.onnx.ml", "ml", ml_ops()},
      {"com.microsoft", "ms", ms_ops()},
      {"com.microsoft", "ms_basic", ms_basic_ops()},
      {"com.microsoft", "ms_select", ms_select_ops()},
      {"com.microsoft", "ms_attention", ms_attention_ops()},
      {"com.microsoft", "ms_quant", ms_quant_ops()},
      {"com.microsoft", "ms_rnn", ms_rnn_ops()},
  };
  return kFamilies;
}

}  // namespace tg
