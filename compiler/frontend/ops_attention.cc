// Attention, RotaryEmbedding, LinearAttention. https://onnx.ai/onnx/operators/
#include <cmath>
#include <limits>

#include "frontend/attention.h"
#include "frontend/onnx_op.h"

namespace tg {
namespace {

Tensors attention_op(OnnxNode& n) {
  Tensor q = n[0], k = n[1], v = n[2];
  bool joined = q.rank() == 3;
  if (joined) {
    i64 heads = n.attr_int("q_num_heads"), kv = n.attr_int("kv_num_heads");
    q = split_heads(q, heads), k = split_heads(k, kv), v = split_heads(v, kv);
  }
  n.require(q.rank() == 4, "q, k and v must have rank 3 or 4");
  AttentionArgs a;
  a.scale = n.attr("scale", 0.0f);
  a.softcap = n.attr("softcap", 0.0f);
  a.causal = n.attr("is_causal", 0);
  if (n.has(4)) {
    a.past = cast(n[4].dim(2), Kind::I64);
    k = Tensor::concat({n[4], k}, 2);
  }
  if (n.has(5)) v = Tensor::concat({n[5], v}, 2);
  if (n.has(3)) {
    a.mask = n[3];
    bool whole = a.mask.dim(-1) == k.dim(2) || a.mask.dim(-1).is_const(1);
    UOp missing = whole ? idx(0) : normal_dim(k.dim(2) - a.mask.dim(-1));  // keys beyond the mask are not seen
    n.require(size_bounds(missing).lo >= 0, "attn_mask has ", shape_text({a.mask.dim(-1)}), " keys, there are ", shape_text({k.dim(2)}));
    if (!missing.is_const(0)) {
      Shape zero(size_t(a.mask.rank()), idx(0)), end = zero;
      end.back() = missing;
      Tensor fill = a.mask.like(a.mask.dtype().kind == Kind::Bool ? 0 : -std::numeric_limits<f64>::infinity());
      a.mask = a.mask.pad(zero, end, PadMode::Constant, fill.uop());
    }
  }
  if (n.has(6)) a.keys = n[6].reshape(Shape{n[6].dim(0), idx(1), idx(1), idx(1)});
  Attended r = attention(q, k, v, a);
  i64 mode = n.attr("qk_matmul_output_mode", 0);
  n.require(mode >= 0 && mode <= 3, "qk_matmul_output_mode ", mode, " is unknown");
  Tensor qk = mode == 0 ? r.scores : mode == 1 ? r.capped : mode == 2 ? r.masked : r.probabilities;
  return {joined ? join_heads(r.y) : r.y, k, v, qk.cast(q.dtype())};
}

// Attention with subgraphs that change the scores and the probabilities.
Tensor flex_attention(OnnxNode& n) {
  AttentionArgs a;
  a.scale = n.attr("scale", 0.0f);
  auto hook = [&](const char* name) -> std::function<Tensor(const Tensor&)> {
    if (!n.has_attr(name)) return nullptr;
    return [&n, name](const Tensor& x) {
      Tensor in[] = {x};
      Tensors out = n.subgraph(n.attr_graph(name), in);
      n.require(out.size() == 1 && out[0].dtype() == x.dtype() && same_shape(out[0].shape(), x.shape()), name,
                " must keep dtype and shape");
      return out[0];
    };
  };
  a.score_mod = hook("score_mod"), a.prob_mod = hook("prob_mod");
  DType d = n.attr_dtype("softmax_precision", n[0].dtype().kind == Kind::F64 ? Kind::F64 : Kind::F32);
  n.require(d == n[0].widen().dtype(), "softmax_precision ", name(d), " for inputs of ", name(n[0].dtype()), " is not supported");
  return attention(n[0], n[1], n[2], a).y;
}

Tensor rotary_embedding(OnnxNode& n) {
  Tensor x = n[0], cos = n[1], sin = n[2];
  bool joined = x.rank() == 3;
  if (joined) x = split_heads(x, n.attr_int("num_heads"));
  n.require(x.rank() == 4, "the input must have rank 3 or 4");
  if (n.has(3)) cos = cos.take(0, n[3]), sin = sin.take(0, n[3]);
  n.require(cos.rank() == 3 && sin.rank() == 3, "without position_ids the caches must be (batch, sequence, size)");
  i64 rotary = n.attr("rotary_embedding_dim", 0);
  Tensor y = rotate(x, cos, sin, rotary ? rotary : x.size(3), n.attr("interleaved", 0));
  return joined ? join_heads(y) : y;
}

// A state (B, H, Dk, Dv) runs over the T steps, which are written out one by one.
constexpr i64 kMostSteps = 256;
Tensors linear_attention(OnnxNode& n) {
  i64 heads = n.attr_int("q_num_heads"), kv = n.attr_int("kv_num_heads");
  std::string rule = n.attr("update_rule", "gated_delta");
  bool gated = rule == "gated" || rule == "gated_delta", delta = rule == "delta" || rule == "gated_delta";
  n.require(gated || delta || rule == "linear", "update_rule \"", rule, "\" is unknown");
  n.require(kv > 0 && heads % kv == 0, "q_num_heads ", heads, " is no multiple of kv_num_heads ", kv);
  n.require(gated == n.has(4) && delta == n.has(5), "update_rule ", rule, gated ? " needs" : " takes no", " decay and ",
            delta ? "needs" : "takes no", " beta");
  DType d = n[0].widen().dtype();
  Tensor q = split_heads(n[0], heads).cast(d), k = split_heads(n[1], kv).cast(d), v = split_heads(n[2], kv).cast(d);
  i64 steps = q.size(2), dk = k.size(3), dv = v.size(3);
  n.require(steps <= kMostSteps, "a sequence of ", steps, " steps is not supported (at most ", kMostSteps, ")");
  Tensor decay = gated ? split_heads(n[4], kv).cast(d).exp() : Tensor();  // (B, H, T, 1 or Dk)
  Tensor beta;                                                            // (B, H or 1, T, 1)
  if (delta) beta = split_heads(n[5], n[5].size(2)).cast(d);
  Tensor state = n.has(3) ? n[3].cast(d) : Tensor::full(Shape{q.dim(0), idx(kv), idx(dk), idx(dv)}, d, 0);
  f64 scale = n.attr("scale", 0.0f);
  if (scale == 0) scale = 1 / std::sqrt(f64(dk));
  std::vector<Tensor> out;
  for (i64 t = 0; t < steps; t++) {
    Tensor kt = k.shrink(2, t, 1), vt = v.shrink(2, t, 1);  // (B, H, 1, D)
    if (gated) state = state * decay.shrink(2, t, 1).transpose();
    if (delta) vt = beta.shrink(2, t, 1) * (vt - kt.matmul(state));
    state = (state + kt.transpose() * vt).contiguous();
    Shape grouped{q.dim(0), idx(kv), idx(heads / kv), idx(dk)};
    out.push_back((q.shrink(2, t, 1).reshape(grouped).matmul(state) * scale).reshape(Shape{q.dim(0), idx(1), idx(heads * dv)}));
  }
  Tensor y = out.empty() ? Tensor::full(Shape{q.dim(0), idx(0), idx(heads * dv)}, d, 0) : Tensor::concat(out, 1);
  return {y.cast(n[0].dtype()), state.cast(n.has(3) ? n[3].dtype() : n[0].dtype())};
}

constexpr OnnxOp kAttentionOps[] = {
    {"Attention", 23, attention_op},
    {"LinearAttention", 27, linear_attention},
    {"RotaryEmbedding", 23, rotary_embedding},
};

}  // namespace

std::span<const OnnxOp> attention_ops() { return kAttentionOps; }

std::span<const OnnxOp> preview_ops() {
  static constexpr OnnxOp kPreviewOps[] = {{"FlexAttention", 1, flex_attention}};
  return kPreviewOps;
}

}  // namespace tg
