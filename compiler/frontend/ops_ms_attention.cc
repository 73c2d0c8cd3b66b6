// com.microsoft attention: Attention, MultiHeadAttention, GroupQueryAttention, RotaryEmbedding, QAttention.
// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
#include <limits>

#include "frontend/attention.h"
#include "frontend/norm.h"
#include "frontend/onnx_op.h"
#include "frontend/quant.h"

namespace tg {
namespace {

// A mask of keys as what is added to the scores (`filter` where a key is masked), broadcasting with (B, H, S, T). The forms: (B) lengths,
// (2B) ends then starts, (3B+2) lengths first, (B, T) and (B, S, T) of 0 and 1.
Tensor added_mask(OnnxNode& n, const Tensor& mask, UOp batch, UOp total, f64 filter) {
  auto added = [&](const Tensor& seen) { return where(seen, Tensor::scalar(Kind::F32, 0), Tensor::scalar(Kind::F32, filter)); };
  if (mask.rank() == 2 || mask.rank() == 3) {
    n.require(mask.dim(-1) == total && mask.dim(0) == batch, "mask ", shape_text(mask.shape()), " for a batch of ", shape_text({batch}),
              " and ", shape_text({total}), " keys");
    Tensor seen = mask.ne(mask.like(0));
    return added(mask.rank() == 2 ? seen.unsqueeze(Ints{1, 2}) : seen.unsqueeze(1));
  }
  n.require(mask.rank() == 1, "a mask of shape ", shape_text(mask.shape()), " is not supported");
  UOp count = mask.dim(0);
  bool both = count == normal_dim(batch * 2);
  n.require(count == batch || both || count == normal_dim(batch * 3 + 2), "mask ", shape_text(mask.shape()), " for a batch of ",
            shape_text({batch}));
  Tensor j = Tensor::arange(total).cast(mask.dtype());
  auto column = [&](UOp from) { return mask.shrink(0, from, batch).reshape(Shape{batch, idx(1), idx(1), idx(1)}); };
  Tensor seen = j.lt(column(idx(0)));
  if (both) seen = seen & j.ge(column(batch));
  return added(seen.expand(Shape{batch, idx(1), idx(1), total}));
}

struct Heads {
  Tensor q, k, v;  // (B, H, S, D)
};

// Attention over projected heads with an optional past (2, B, H, P, D); gives {output, present}.
Tensors attend(OnnxNode& n, Heads h, const Tensor& mask, const Tensor& past, const Tensor& bias) {
  AttentionArgs a;
  a.scale = n.attr("scale", 0.0f);
  a.causal = n.attr("unidirectional", 0);
  if (past) {
    a.past = cast(past.dim(3), Kind::I64);
    h.k = Tensor::concat({past.shrink(0, 0, 1).squeeze(0), h.k}, 2);
    h.v = Tensor::concat({past.shrink(0, 1, 1).squeeze(0), h.v}, 2);
  }
  if (mask) a.mask = added_mask(n, mask, h.q.dim(0), h.k.dim(2), n.attr("mask_filter_value", -10000.0f));
  if (bias) a.mask = a.mask ? a.mask + bias.widen() : bias;
  Tensor y = join_heads(attention(h.q, h.k, h.v, a).y);
  Tensor present = n.wants(1) ? Tensor::concat({h.k.unsqueeze(0), h.v.unsqueeze(0)}, 0) : Tensor();
  return {y, present};
}

// x (B, S, Nq+Nk+Nv) as heads.
Heads split_projection(OnnxNode& n, const Tensor& x) {
  i64 heads = n.attr_int("num_heads"), whole = x.size(-1);
  Ints sizes = n.attr("qkv_hidden_sizes", Ints{whole / 3, whole / 3, whole / 3});
  n.require(sizes.size() == 3 && sizes[0] + sizes[1] + sizes[2] == whole, "qkv_hidden_sizes (", join(sizes), ") for a projection to ",
            whole);
  std::vector<Tensor> p = x.split(2, sizes);
  return {split_heads(p[0], heads), split_heads(p[1], heads), split_heads(p[2], heads)};
}

void refuse_shared(OnnxNode& n) {
  n.require(!n.attr("do_rotary", 0), "do_rotary is not supported");
  n.require(!n.attr("past_present_share_buffer", 0), "past_present_share_buffer is not supported");
}

Tensors attention_op(OnnxNode& n) {
  refuse_shared(n);
  Tensor p = n[0].matmul(n[1]);
  if (n.has(2)) p = p + n[2];
  return attend(n, split_projection(n, p), n.opt(3), n.opt(4), n.opt(5));
}

Tensors q_attention(OnnxNode& n) {
  refuse_shared(n);
  Tensor acc = integer_matmul(n[0], n.opt(6), n[1], n.opt(7));
  Tensor p = acc.cast(Kind::F32) * (n[3].reshape(Shape{}) * n[4]) + n[2];
  return attend(n, split_projection(n, p), n.opt(5), n.opt(8), {});
}

Tensors multi_head_attention(OnnxNode& n) {
  Tensor q = n[0];
  i64 heads = n.attr_int("num_heads");
  n.require(!n.has(8) && !n.has(9), "a shared key and value buffer (past_sequence_length, cache_indirection) is not supported");
  Heads h;
  auto from_packed = [&](const Tensor& x, i64 i) { return x.shrink(3, i, 1).squeeze(3).permute(Ints{0, 2, 1, 3}); };  // (B, S, H, parts, D)
  Tensor bias = n.opt(3), bq, bk, bv;
  bool ready = n.has(1) && n[1].rank() == 4;  // key and value are heads already
  if (q.rank() == 5) {
    n.require(q.size(3) == 3 && !n.has(1), "a packed query must be (batch, sequence, heads, 3, size), without key and value");
    h = {from_packed(q, 0), from_packed(q, 1), from_packed(q, 2)};
  } else {
    h.q = split_heads(q, heads);
    if (!n.has(1)) n.fail("key is missing");
    if (n[1].rank() == 5) {
      n.require(n[1].size(3) == 2, "a packed key must be (batch, sequence, heads, 2, size)");
      h.k = from_packed(n[1], 0), h.v = from_packed(n[1], 1);
    } else {
      h.k = ready ? n[1] : split_heads(n[1], heads);
      h.v = ready ? n[2] : split_heads(n[2], heads);
    }
  }
  if (bias) {  // of the three projections, one after the other
    i64 dq = h.q.size(3) * heads, dk = h.k.size(3) * heads, at = 0;
    auto add = [&](Tensor& x, i64 d) {
      x = x + bias.shrink(0, at, d).reshape(Ints{heads, 1, d / heads});
      at += d;
    };
    add(h.q, dq);
    if (!ready) add(h.k, dk), add(h.v, h.v.size(3) * heads);
  }
  AttentionArgs a;
  a.scale = n.attr("scale", 0.0f);
  a.causal = n.attr("unidirectional", 0);
  if (n.has(6)) {
    a.past = cast(n[6].dim(2), Kind::I64);
    h.k = Tensor::concat({n[6], h.k}, 2);
    h.v = Tensor::concat({n[7], h.v}, 2);
  }
  if (n.has(4)) a.mask = added_mask(n, n[4], h.q.dim(0), h.k.dim(2), n.attr("mask_filter_value", -10000.0f));
  if (n.has(5)) a.mask = a.mask ? a.mask + n[5].widen() : n[5];
  Attended r = attention(h.q, h.k, h.v, a);
  return {join_heads(r.y), h.k, h.v, r.probabilities.cast(q.dtype())};
}

// cos or sin rows of positions (B or 1, S).
Tensor cache_rows(const Tensor& cache, const Tensor& positions) { return cache.take(0, positions); }

// New keys (B, H, S, D) written into a cache of `total` places from place past[b] on.
Tensor append(const Tensor& cache, const Tensor& fresh, const Tensor& past, UOp total) {
  UOp steps = fresh.dim(2);
  Tensor j = Tensor::arange(total), at = j - past.reshape(Shape{past.dim(0), idx(1)});  // (B, total): the new key of each place
  Tensor is_new = (at.ge(at.like(0)) & at.lt(at.like(steps))).reshape(Shape{past.dim(0), idx(1), total, idx(1)});
  Tensor lead[] = {Tensor::arange(fresh.dim(0)).reshape(Shape{fresh.dim(0), idx(1), idx(1)}),
                   Tensor::arange(fresh.dim(1)).reshape(Shape{fresh.dim(1), idx(1)}),
                   at.clip(at.like(0), at.like(steps - 1)).unsqueeze(1), Tensor()};
  Tensor placed = fresh.gather(lead);
  Tensor old = placed * 0.0;
  if (cache) {
    Shape zero(4, idx(0)), end = zero;
    end[2] = normal_dim(total - cache.dim(2));
    old = cache.pad(zero, end, PadMode::Constant, cache.like(0).uop());
  } else {
    old = Tensor::full(placed.shape(), placed.dtype(), 0);
  }
  return where(is_new, placed, old);
}

Tensors group_query_attention(OnnxNode& n) {
  i64 heads = n.attr_int("num_heads"), kv = n.attr_int("kv_num_heads");
  for (const char* a : {"k_quant_type", "v_quant_type"}) n.require(n.attr(a, "NONE") == "NONE", a, ": a quantized cache is not supported");
  n.require(!n.attr("sliding_window_cache", 0) && !n.attr("qk_output", 0) && !n.has(16),
            "sliding_window_cache, qk_output and query_seqlens are not supported");
  n.require(heads > 0 && kv > 0, "num_heads and kv_num_heads must be positive");
  Heads h;
  if (n.has(1)) {
    h = {split_heads(n[0], heads), split_heads(n[1], kv), split_heads(n[2], kv)};
  } else {
    i64 size = n[0].size(2) / (heads + 2 * kv);
    std::vector<Tensor> p = n[0].split(2, Ints{heads * size, kv * size, kv * size});
    h = {split_heads(p[0], heads), split_heads(p[1], kv), split_heads(p[2], kv)};
  }
  UOp batch = h.q.dim(0);
  UOp steps = h.q.dim(2), total = n.dim(6), room = n.has(3) ? normal_dim(max(total, n[3].dim(2))) : total;
  bool prompt = steps == total;
  n.require(prompt || always_lt(steps, total), "there may be no past keys for some sizes (", steps.str(), " new of ", total.str(),
            "), which makes another graph; raise the smallest size of the past to 1");
  // The keys of each batch entry before the new ones. At a prompt there are none, and the new ones may be padded at the end.
  Tensor real = n[5].flatten().cast(Kind::I64) + 1.0;
  Tensor past = prompt ? Tensor::full(Shape{batch}, Kind::I64, 0) : real - real.like(steps);
  auto head_norm = [&](const Tensor& x, size_t weight, const char* epsilon) {
    Tensor w = x.widen();
    f64 eps = n.attr(epsilon, n.attr("qk_norm_epsilon", 1e-6f));
    return (w * rms_inverse(w, Ints{3}, eps) * n[weight].widen()).cast(x.dtype());
  };
  if (n.has(14)) h.q = head_norm(h.q, 14, "q_norm_epsilon"), h.k = head_norm(h.k, 15, "k_norm_epsilon");
  if (n.attr("do_rotary", 0)) {
    Tensor s = Tensor::arange(steps).unsqueeze(0), at;
    if (n.has(9) && prompt)
      at = s + n[9].cast(Kind::I64).flatten().shrink(0, 0, 1);
    else if (n.has(9))
      at = n[9];
    else
      at = s + past.unsqueeze(1);
    Tensor cos = cache_rows(n[7], at), sin = cache_rows(n[8], at);
    i64 rotary = 2 * n[7].size(1);
    bool interleaved = n.attr("rotary_interleaved", 0);
    h.q = rotate(h.q, cos, sin, rotary, interleaved);
    h.k = rotate(h.k, cos, sin, rotary, interleaved);
  }
  Tensor k = append(n.opt(3), h.k, past, room), v = append(n.opt(4), h.v, past, room);
  AttentionArgs a;
  a.scale = n.attr("scale", 0.0f);
  a.softcap = n.attr("softcap", 0.0f);
  a.causal = n.attr("causal", 1);
  a.past = past.reshape(Shape{batch, idx(1), idx(1), idx(1)});
  a.keys = real.reshape(Shape{batch, idx(1), idx(1), idx(1)});
  i64 window = n.attr("local_window_size", -1);
  if (window >= 0) a.window = window;
  if (n.has(10)) {
    Shape zero(4, idx(0)), end = zero;
    end[3] = normal_dim(room - n[10].dim(3));
    a.mask = n[10].pad(zero, end, PadMode::Constant, n[10].like(0).uop());
  }
  if (n.has(11))
    a.sink = n[11].reshape(Ints{heads, 1, 1});
  else if (n.attr("smooth_softmax", 0) == 1)
    a.sink = Tensor::scalar(Kind::F32, 0);
  return {join_heads(attention(h.q, k, v, a).y), k, v};
}

Tensor rotary_embedding(OnnxNode& n) {
  Tensor x = n[0], at = n[1], cos = n[2], sin = n[3];
  n.require(!n.attr("is_packed_batching", 0), "is_packed_batching is not supported");
  i64 rotary = n.attr("rotary_embedding_dim", 0), heads = n.attr("num_heads", 0);
  bool joined = x.rank() == 3;
  if (joined) {
    i64 size = heads ? x.size(2) / heads : 2 * cos.size(1);
    n.require(size > 0 && x.size(2) % size == 0, "input ", shape_text(x.shape()), " for heads of ", size);
    x = split_heads(x, x.size(2) / size);
  }
  n.require(x.rank() == 4, "the input must have rank 3 or 4");
  // One position: that of the first element of every sequence.
  if (at.rank() == 1) at = Tensor::arange(x.dim(2)).unsqueeze(0) + at.cast(Kind::I64);
  Tensor y = rotate(x, cache_rows(cos, at), cache_rows(sin, at), rotary ? rotary : 2 * cos.size(1), n.attr("interleaved", 0));
  f64 scale = n.attr("scale", 1.0f);
  if (scale != 1) y = y * scale;
  return joined ? join_heads(y) : y;
}

constexpr OnnxOp kMsAttentionOps[] = {
    {"Attention", 1, attention_op}, {"GroupQueryAttention", 1, group_query_attention}, {"MultiHeadAttention", 1, multi_head_attention},
    {"QAttention", 1, q_attention}, {"RotaryEmbedding", 1, rotary_embedding},
};

}  // namespace

std::span<const OnnxOp> ms_attention_ops() { return kMsAttentionOps; }

}  // namespace tg
