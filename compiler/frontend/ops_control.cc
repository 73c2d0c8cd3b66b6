// Control flow. https://onnx.ai/onnx/operators/
#include "frontend/onnx_op.h"

namespace tg {
namespace {

// Of a constant condition only the chosen branch is looked at. Of one known at run time both branches are computed and each output is
// chosen: they have no effects, and an index out of range is clamped.
Tensors if_op(OnnxNode& n) {
  n.require(n[0].numel() == 1 && n[0].dtype() == DType(Kind::Bool), "the condition must be one bool");
  if (n.is_constant(0)) return n.subgraph(n.attr_graph(n.constant(0).v[0] ? "then_branch" : "else_branch"));
  Tensors yes = n.subgraph(n.attr_graph("then_branch")), no = n.subgraph(n.attr_graph("else_branch"));
  n.require(yes.size() == no.size(), "the branches have ", yes.size(), " and ", no.size(), " outputs");
  Tensor c = n[0].reshape(Shape{});
  for (size_t i = 0; i < yes.size(); i++) {
    n.require(yes[i].dtype() == no[i].dtype() && same_shape(yes[i].shape(), no[i].shape()), "output ", i, " is ", name(yes[i].dtype()),
              shape_text(yes[i].shape()), " in one branch and ", name(no[i].dtype()), shape_text(no[i].shape()),
              " in the other; with a condition known only at run time that is not supported yet");
    yes[i] = where(c, yes[i], no[i]);
  }
  return yes;
}

constexpr Refused kLoop{"loops are not supported yet"};

// clang-format off
constexpr OnnxOp kControlOps[] = {
  {"If",                  1, if_op},
  {"Loop",                1, kLoop},
  {"Scan",                8, kLoop},
};
// clang-format on

}  // namespace

std::span<const OnnxOp> control_ops() { return kControlOps; }

}  // namespace tg
