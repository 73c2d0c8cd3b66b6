// The list of op families. A family is a table in its own file; this is the only place that names them all.
#include "frontend/onnx_op.h"

namespace tg {

std::span<const OnnxOp> math_ops();
std::span<const OnnxOp> logic_ops();
std::span<const OnnxOp> movement_ops();
std::span<const OnnxOp> reduce_ops();
std::span<const OnnxOp> index_ops();

std::span<const OnnxFamily> onnx_families() {
  static const OnnxFamily kFamilies[] = {
      // domain, family, table
      {"", "math", math_ops()},
      {"", "logic", logic_ops()},
      {"", "movement", movement_ops()},
      {"", "reduce", reduce_ops()},
      {"", "index", index_ops()},
  };
  return kFamilies;
}

}  // namespace tg
