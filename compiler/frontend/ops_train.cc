// ai.onnx.preview.training: one step of an optimizer for any number of tensors. https://onnx.ai/onnx/operators/index_training.html
#include "frontend/onnx_op.h"

namespace tg {
namespace {

// Inputs are R, T, then `kinds` groups of equally many tensors.
size_t tensors_of(OnnxNode& n, size_t kinds) {
  n.require(n.inputs() > 2 && (n.inputs() - 2) % kinds == 0, n.inputs(), " inputs are no R, T and ", kinds, " groups of tensors");
  return (n.inputs() - 2) / kinds;
}
Tensor number(OnnxNode& n, size_t i, DType d) { return n[i].reshape(Shape{}).cast(d); }

// base^t for a tensor t.
Tensor power(f64 base, const Tensor& t, DType d) { return Tensor::scalar(d, base).pow(t.cast(d)); }

Tensors adagrad(OnnxNode& n) {
  size_t count = tensors_of(n, 3);
  f64 decay = n.attr("decay_factor", 0.0f), epsilon = n.attr("epsilon", 0.0f), norm = n.attr("norm_coefficient", 0.0f);
  Tensors xs, hs;
  for (size_t i = 0; i < count; i++) {
    Tensor x = n[2 + i], g = n[2 + count + i], h = n[2 + 2 * count + i];
    DType d = x.dtype();
    Tensor rate = number(n, 0, d) / (number(n, 1, d) * decay + 1.0);
    Tensor grad = x * norm + g, h_new = h + grad.square();
    xs.push_back(x - rate * grad / (h_new.sqrt() + epsilon));
    hs.push_back(h_new);
  }
  xs.insert(xs.end(), hs.begin(), hs.end());
  return xs;
}

Tensors adam(OnnxNode& n) {
  size_t count = tensors_of(n, 4);
  f64 alpha = n.attr("alpha", 0.9f), beta = n.attr("beta", 0.999f), epsilon = n.attr("epsilon", 0.0f);
  f64 norm = n.attr("norm_coefficient", 0.0f), post = n.attr("norm_coefficient_post", 0.0f);
  Tensors xs, vs, hs;
  for (size_t i = 0; i < count; i++) {
    Tensor x = n[2 + i], g = n[2 + count + i], v = n[2 + 2 * count + i], h = n[2 + 3 * count + i];
    DType d = x.dtype();
    Tensor rate = number(n, 0, d), t = number(n, 1, d);
    Tensor grad = x * norm + g, v_new = v * alpha + grad * (1 - alpha), h_new = h * beta + grad.square() * (1 - beta);
    // At t = 0 there is no correction of the bias.
    Tensor corrected = rate * (1.0 - power(beta, t, d)).sqrt() / (1.0 - power(alpha, t, d));
    rate = where(t.gt(t.like(0)), corrected, rate);
    xs.push_back((x - rate * (v_new / (h_new.sqrt() + epsilon))) * (1 - post));
    vs.push_back(v_new);
    hs.push_back(h_new);
  }
  for (const Tensors* more : {&vs, &hs}) xs.insert(xs.end(), more->begin(), more->end());
  return xs;
}

Tensors momentum(OnnxNode& n) {
  size_t count = tensors_of(n, 3);
  f64 alpha = n.attr("alpha", 0.0f), beta = n.attr("beta", 0.0f), norm = n.attr("norm_coefficient", 0.0f);
  std::string mode = n.attr_string("mode");
  n.require(mode == "standard" || mode == "nesterov", "mode \"", mode, "\" is unknown");
  Tensors xs, vs;
  for (size_t i = 0; i < count; i++) {
    Tensor x = n[2 + i], g = n[2 + count + i], v = n[2 + 2 * count + i];
    DType d = x.dtype();
    Tensor t = number(n, 1, d), first = where(t.gt(t.like(0)), t.like(beta), t.like(1));
    Tensor grad = x * norm + g, v_new = v * alpha + first * grad;
    xs.push_back(x - number(n, 0, d) * (mode == "standard" ? v_new : grad + v_new * alpha));
    vs.push_back(v_new);
  }
  xs.insert(xs.end(), vs.begin(), vs.end());
  return xs;
}

constexpr OnnxOp kTrainOps[] = {
    {"Adagrad", 1, adagrad},
    {"Adam", 1, adam},
    {"Gradient", 1, Refused{"gradients are not part of a compiled model; export them as ordinary nodes"}},
    {"Momentum", 1, momentum},
};

}  // namespace

std::span<const OnnxOp> train_ops() { return kTrainOps; }

}  // namespace tg
