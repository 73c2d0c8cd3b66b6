// com.microsoft: operators that onnxruntime's optimizer and exporters emit, fused products, activations and normalizations.
// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md ; attention and quantized ones have files of their own.
#include <cmath>

#include "frontend/ms.h"
#include "frontend/norm.h"
#include "frontend/spatial.h"

namespace tg {

Tensor activate(OnnxNode& n, const Tensor& x, const std::vector<f32>& params) {
  std::string a = n.attr("activation", "");
  auto param = [&](size_t i, f64 def) { return i < params.size() ? f64(params[i]) : def; };
  if (a.empty()) return x;
  if (a == "Relu") return x.relu();
  if (a == "Tanh") return x.tanh();
  if (a == "Sigmoid") return x.sigmoid();
  if (a == "LeakyRelu") return x.leaky_relu(param(0, 0.01));
  if (a == "Clip") return x.clip(params.size() > 0 ? x.like(params[0]) : Tensor(), params.size() > 1 ? x.like(params[1]) : Tensor());
  if (a == "HardSigmoid") return x.hard_sigmoid(param(0, 0.2), param(1, 0.5));
  n.fail("activation \"", a, "\" is not supported; known: Relu, Tanh, Sigmoid, LeakyRelu, Clip, HardSigmoid");
}

Tensors as_onnx(OnnxNode& n, std::string_view op, i64 opset) {
  std::string why;
  const OnnxOp* o = find_op("", op, opset, &why);
  TG_CHECK(o, op, " of opset ", opset, ": ", why);
  return o->fn(n);
}

Tensor channels_first(const Tensor& x) {
  Ints o = x.all_axes();
  o.pop_back();
  o.insert(o.begin() + 1, x.rank() - 1);
  return x.permute(o);
}
Tensor channels_last(const Tensor& x) {
  Ints o = x.all_axes();
  o.erase(o.begin() + 1);
  o.push_back(1);
  return x.permute(o);
}

namespace {

// transBatch: axes 0..r-2 are (rows, batch..) instead of (batch.., rows); trans then swaps the last two.
Tensor operand(const Tensor& x, bool trans, bool trans_batch) {
  Tensor y = x;
  if (trans_batch && x.rank() > 2) {
    Ints o = x.all_axes();
    o.erase(o.begin());
    o.insert(o.end() - 1, 0);
    y = x.permute(o);
  }
  return trans && y.rank() > 1 ? y.transpose() : y;
}
Tensor fused_matmul(OnnxNode& n) {
  Tensor a = operand(n[0], n.attr("transA", 0), n.attr("transBatchA", 0)), b = operand(n[1], n.attr("transB", 0), n.attr("transBatchB", 0));
  f64 alpha = n.attr("alpha", 1.0f);
  Tensor y = a.widen().matmul(b.widen());
  return (alpha == 1 ? y : y * alpha).cast(n[0].dtype());
}

Tensor fused_gemm(OnnxNode& n) {
  Tensor y = as_onnx(n, "Gemm", 13)[0];
  std::vector<f32> params;
  for (const char* p : {"activation_alpha", "activation_beta", "activation_gamma"})
    if (n.has_attr(p)) params.push_back(n.attr(p, 0.0f));
  return activate(n, y, params);
}

Tensor fused_conv(OnnxNode& n) {
  Tensor y = conv_of(n, n[0], n[1], n.opt(2));
  if (n.has(3)) y = y + n[3];
  return activate(n, y, n.attr_floats("activation_params"));
}
Tensor nhwc_fused_conv(OnnxNode& n) {
  Tensor y = conv_of(n, channels_first(n[0]), n[1], n.opt(2));
  if (n.has(3)) y = y + channels_first(n[3]);
  return channels_last(activate(n, y, n.attr_floats("activation_params")));
}

Tensor fast_gelu(const Tensor& x) { return x.widen().gelu(true).cast(x.dtype()); }
Tensor gelu(const Tensor& x) { return x.widen().gelu().cast(x.dtype()); }
Tensor quick_gelu(OnnxNode& n) {
  Tensor x = n[0].widen();
  return (x * (x * f64(n.attr("alpha", 1.702f))).sigmoid()).cast(n[0].dtype());
}
Tensor bias_split_gelu(OnnxNode& n) {
  Tensor x = n[0] + n[1];
  i64 half = x.size(-1) / 2;
  return x.shrink(-1, 0, half) * gelu(x.shrink(-1, half, half));
}

Tensor bias_softmax(OnnxNode& n) {
  Tensor x = n[0] + n[1];
  i64 axis = x.axis(n.attr("axis", 1));
  return axis == x.rank() - 1 ? x.softmax(axis) : x.flatten(axis).softmax(axis).reshape(x.shape());
}

// --- normalization ----------------------------------------------------------------------------------------------------------------------
// sum = input + skip + bias; skip may be (1, S, H) or (S, H).
Tensor skip_sum(OnnxNode& n, size_t bias) {
  Tensor s = n[0].widen() + n[1].widen();
  return n.has(bias) ? s + n[bias].widen() : s;
}
Tensors skip_layer_norm(OnnxNode& n) {
  Tensor s = skip_sum(n, 4);
  Normalized r = normalize(s, Ints{s.rank() - 1}, n.attr("epsilon", 1e-12f));
  Tensor y = r.y * n[2].widen();
  if (n.has(3)) y = y + n[3].widen();
  return {y.cast(n[0].dtype()), r.mean, r.inv, s.cast(n[0].dtype())};
}
Tensors skip_rms_norm(OnnxNode& n) {
  Tensor s = skip_sum(n, 3), inv = rms_inverse(s, Ints{s.rank() - 1}, n.attr("epsilon", 1e-12f));
  return {(s * inv * n[2].widen()).cast(n[0].dtype()), Tensor(), inv, s.cast(n[0].dtype())};
}

Tensors embed_layer_norm(OnnxNode& n) {
  Tensor ids = n[0];
  n.require(ids.rank() == 2, "input_ids ", shape_text(ids.shape()), " must be (batch, sequence)");
  Tensor at = n.has(8) ? n[8] : Tensor::arange(ids.dim(1)).unsqueeze(0);
  Tensor sum = n[2].take(0, ids).widen() + n[3].take(0, at).widen();
  if (n.has(4)) sum = sum + (n.has(1) ? n[4].take(0, n[1]) : n[4].shrink(0, 0, 1).unsqueeze(0)).widen();
  Tensor y = normalize(sum, Ints{2}, n.attr("epsilon", 1e-12f)).y * n[5].widen() + n[6].widen();
  Tensor mask = n.has(7) ? n[7].ne(n[7].like(0)).cast(Kind::I32).sum(Ints{1}) : Tensor::full(Shape{ids.dim(0)}, Kind::I32, 0);
  return {y.cast(n[2].dtype()), mask, sum.cast(n[2].dtype())};
}

// x (N, C, *), gamma and beta (C), in f32.
Tensor group_norm(OnnxNode& n, const Tensor& x, const Tensor& gamma, const Tensor& beta) {
  i64 groups = n.attr_int("groups");
  n.require(groups > 0 && x.size(1) % groups == 0, "groups=", groups, " does not divide ", x.size(1), " channels");
  Shape s{x.dim(0), idx(groups), idx(x.size(1) / groups)};
  s.insert(s.end(), x.shape().begin() + 2, x.shape().end());
  Tensor g = x.reshape(s);
  Tensor y = normalize(g, axes_from(g, 2), n.attr("epsilon", 1e-5f)).y.reshape(x.shape());
  y = y * per_channel(gamma.cast(y.dtype()), x.rank()) + per_channel(beta.cast(y.dtype()), x.rank());
  return n.attr("activation", 0) == 1 ? y.silu() : y;
}
Tensors skip_group_norm(OnnxNode& n) {
  bool last = n.attr("channels_last", 1);
  Tensor x = n[0].widen(), skip = n[3].widen();
  Tensor v = last ? channels_first(x) : x;
  if (skip.rank() == 2)
    skip = skip.unsqueeze(Ints{2, 3});
  else if (last)
    skip = channels_first(skip);
  v = v + skip;
  if (n.has(4)) v = v + per_channel(n[4].widen(), v.rank());
  Tensor y = group_norm(n, v, n[1], n[2]);
  auto out = [&](const Tensor& t) { return (last ? channels_last(t) : t).cast(n[0].dtype()); };
  return {out(y), out(v)};
}
Tensor group_norm_op(OnnxNode& n) {
  bool last = n.attr("channels_last", 1);
  Tensor x = n[0].widen(), y = group_norm(n, last ? channels_first(x) : x, n[1], n[2]);
  return (last ? channels_last(y) : y).cast(n[0].dtype());
}

Tensor cdist(OnnxNode& n) {
  Tensor a = n[0].unsqueeze(1), b = n[1].unsqueeze(0);
  Tensor d = (a - b).square().sum(Ints{2});
  std::string metric = n.attr("metric", "sqeuclidean");
  if (metric == "sqeuclidean") return d;
  n.require(metric == "euclidean", "metric \"", metric, "\" is not supported; known: sqeuclidean, euclidean");
  return d.sqrt();
}

constexpr OnnxOp kMsOps[] = {
    {"BiasAdd", 1, [](OnnxNode& n) { return n[0] + n[1] + n[2]; }},
    {"BiasGelu", 1, [](OnnxNode& n) { return gelu(n[0] + n[1]); }},
    {"BiasSoftmax", 1, bias_softmax},
    {"BiasSplitGelu", 1, bias_split_gelu},
    {"CDist", 1, cdist},
    {"EmbedLayerNormalization", 1, embed_layer_norm},
    {"ExpandDims", 1, [](OnnxNode& n) { return as_onnx(n, "Unsqueeze", 13); }},
    {"FastGelu", 1, [](OnnxNode& n) { return fast_gelu(n.has(1) ? n[0] + n[1] : n[0]); }},
    {"FusedConv", 1, fused_conv},
    {"FusedGemm", 1, fused_gemm},
    {"FusedMatMul", 1, fused_matmul},
    {"FusedMatMulActivation", 1,
     [](OnnxNode& n) {
       return activate(n, fused_matmul(n), {n.attr("activation_alpha", 0.01f), n.attr("activation_beta", 0.0f)});
     }},
    {"Gelu", 1, [](OnnxNode& n) { return gelu(n[0]); }},
    {"GemmFastGelu", 1,
     [](OnnxNode& n) {
       Tensor y = n[0].matmul(n[1]);
       return fast_gelu(n.has(2) ? y + n[2] : y);
     }},
    {"GridSample", 1, [](OnnxNode& n) { return as_onnx(n, "GridSample", 16); }},
    {"GroupNorm", 1, group_norm_op},
    {"NhwcConv", 1, [](OnnxNode& n) { return channels_last(conv_of(n, channels_first(n[0]), n[1], n.opt(2))); }},
    {"NhwcFusedConv", 1, nhwc_fused_conv},
    {"QuickGelu", 1, quick_gelu},
    {"SkipGroupNorm", 1, skip_group_norm},
    {"SkipLayerNormalization", 1, skip_layer_norm},
    {"SkipSimplifiedLayerNormalization", 1, skip_rms_norm},
    {"TransposeMatMul", 1, fused_matmul},
    {"Trilu", 1, [](OnnxNode& n) { return as_onnx(n, "Trilu", 14); }},
};

}  // namespace

std::span<const OnnxOp> ms_ops() { return kMsOps; }

}  // namespace tg
