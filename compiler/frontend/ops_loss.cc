// Losses: NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss. https://onnx.ai/onnx/operators/
#include "frontend/onnx_op.h"

namespace tg {
namespace {

// log_p (N, C, *d), labels (N, *d), weights (C) or absent: -log_p at the label, weighted; a label equal to ignore_index counts as nothing.
Tensor likelihood_loss(OnnxNode& n, const Tensor& log_p, const Tensor& labels, const Tensor& weights) {
  n.require(log_p.rank() >= 2 && labels.rank() == log_p.rank() - 1, "input ", shape_text(log_p.shape()), " and target ",
            shape_text(labels.shape()));
  Tensor label = labels.cast(Kind::I64), kept;
  if (n.has_attr("ignore_index")) {
    i64 ignored = n.attr_int("ignore_index");
    kept = label.ne(Tensor::integer(Kind::I64, ignored));
    label = where(kept, label, label.like(0));
  }
  Tensor loss = -log_p.take_along(1, label.unsqueeze(1)).squeeze(1), weight;
  if (weights) weight = weights.widen().cast(loss.dtype()).take(0, label);
  if (weight) loss = loss * weight;
  if (kept) {
    loss = where(kept, loss, loss.like(0));
    Tensor one = weight ? weight : Tensor::full(label.shape(), loss.dtype(), 1);
    weight = where(kept, one, one.like(0));
  }
  std::string reduction = n.attr("reduction", "mean");
  if (reduction == "none") return loss;
  Ints all = loss.all_axes();
  if (reduction == "sum") return loss.sum(all);
  n.require(reduction == "mean", "reduction \"", reduction, "\" is unknown");
  return weight ? loss.sum(all) / weight.sum(all) : loss.mean(all);
}

Tensor nll_loss(OnnxNode& n) { return likelihood_loss(n, n[0].widen(), n[1], n.opt(2)).cast(n[0].dtype()); }

Tensors cross_entropy_loss(OnnxNode& n) {
  Tensor log_p = n[0].widen().log_softmax(1);
  return {likelihood_loss(n, log_p, n[1], n.opt(2)).cast(n[0].dtype()), log_p.cast(n[0].dtype())};
}

constexpr OnnxOp kLossOps[] = {
    {"NegativeLogLikelihoodLoss", 12, nll_loss},
    {"SoftmaxCrossEntropyLoss", 12, cross_entropy_loss},
};

}  // namespace

std::span<const OnnxOp> loss_ops() { return kLossOps; }

}  // namespace tg
