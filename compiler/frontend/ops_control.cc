// If. https://onnx.ai/onnx/operators/onnx__If.html
#include "frontend/onnx_op.h"
#include "frontend/pool.h"
#include "frontend/sequence.h"

namespace tg {
namespace {

// Values that a choice between elements serves better than control flow: small, and there already.
bool is_there(const Tensor& t) {
  constexpr i64 kSmall = 1024;
  UOp u = t.uop();
  while (is_movement(u.op()) && !u.is(Op::Concat)) u = u.src(0);
  i64 n = known_elems(t.shape());
  return u.in(Op::Const | Op::Constant | Op::Param) && n >= 0 && n <= kSmall;
}

// Of a constant condition only the chosen branch is looked at. Of one known at run time only the chosen branch is computed.
Tensors if_op(OnnxNode& n) {
  n.require(n[0].numel() == 1 && n[0].dtype() == DType(Kind::Bool), "the condition must be one bool");
  if (n.is_constant(0)) return n.subgraph(n.attr_graph(n.constant(0).v[0] ? "then_branch" : "else_branch"));
  Tensors sides[2];
  std::string why[2];
  for (int i = 0; i < 2; i++) {
    UOp c = n[0].reshape(Shape{}).uop();
    OnnxNode::Side side(n, i ? logical_not(c) : c);
    if (auto built = n.try_subgraph(n.attr_graph(i ? "else_branch" : "then_branch"), {}, &why[i])) sides[i] = std::move(*built);
  }
  // Sides for other sizes than these cannot be built: then the other one must be taken.
  n.require(why[0].empty() || why[1].empty(), "neither branch can be computed: ", why[0], "; ", why[1]);
  for (int i = 0; i < 2; i++)
    if (!why[i].empty()) {
      n.must_be(n[0], i == 1, str("only its ", i ? "then_branch" : "else_branch", " can be computed at these shapes"));
      n.note(str("the other branch is an error of the run: ", why[i]));
      return sides[1 - i];
    }
  Tensors &yes = sides[0], &no = sides[1];
  n.require(yes.size() == no.size(), "the branches have ", yes.size(), " and ", no.size(), " outputs");
  UOp c = n[0].reshape(Shape{}).uop();
  std::vector<UOp> a, b;
  std::vector<size_t> of(yes.size());
  for (size_t i = 0; i < yes.size(); i++) {
    if (yes[i].uop() == no[i].uop()) continue;
    for (const Tensor& t : {yes[i], no[i]})
      if (const char* what = not_tensor(t)) n.fail("output ", i, " is ", what, "; with a condition known only at run time branches give tensors");
    n.require(yes[i].dtype() == no[i].dtype(), "output ", i, " is ", name(yes[i].dtype()), " in one branch and ", name(no[i].dtype()), " in the other");
    if (!same_shape(yes[i].shape(), no[i].shape()))
      if (std::optional<Ints> d = n.declared(i, 0)) {
        bool fits[] = {same_shape(yes[i].shape(), dims(IntSpan(*d))), same_shape(no[i].shape(), dims(IntSpan(*d)))};
        if (fits[0] != fits[1]) {
          n.must_be(n[0], fits[0], str("only its ", fits[0] ? "then_branch" : "else_branch", " gives the shape that the model declares"));
          return sides[fits[0] ? 0 : 1];
        }
      }
    n.require(same_shape(yes[i].shape(), no[i].shape()), "output ", i, " is ", shape_text(yes[i].shape()), " in one branch and ",
              shape_text(no[i].shape()), " in the other; with a condition known only at run time both need one shape: fix the condition with --fix, or make the shapes equal");
    if (is_there(yes[i]) && is_there(no[i])) {
      yes[i] = where(Tensor(c), yes[i], no[i]);
      continue;
    }
    a.push_back(yes[i].uop()), b.push_back(no[i].uop());
    of[i] = a.size();
  }
  if (a.empty()) return yes;
  UOp chosen = tensor::branch(c, a, b);
  for (size_t i = 0; i < yes.size(); i++)
    if (of[i]) yes[i] = Tensor(tensor::get(chosen, i64(of[i]) - 1));
  return yes;
}

// clang-format off
constexpr OnnxOp kControlOps[] = {
  {"If",                  1, if_op},
};
// clang-format on

}  // namespace

std::span<const OnnxOp> control_ops() { return kControlOps; }

}  // namespace tg
