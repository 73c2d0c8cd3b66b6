// Scaled dot-product attention, as ONNX's Attention and the com.microsoft operators need it.
#pragma once
#include <functional>

#include "frontend/tensor.h"

namespace tg {

struct AttentionArgs {
  f64 scale = 0;        // 0: 1 / sqrt(head size)
  f64 softcap = 0;      // > 0: scores become softcap * tanh(scores / softcap) before the mask
  Tensor mask;          // absent, bool (false: not seen) or added; broadcasts with (B, H, Sq, Sk)
  bool causal = false;  // query i sees keys 0 .. past + i
  Tensor past;          // with causal: number of keys before the queries, broadcasting with (B, H, Sq, Sk); absent: 0
  i64 window = -1;      // with causal, >= 0: at most this many keys back from the query's own place
  Tensor keys;          // absent, or how many of the keys are real, broadcasting with (B, H, Sq, Sk)
  std::function<Tensor(const Tensor&)> score_mod, prob_mod;  // none, or what becomes of scores (after the mask) and probabilities
  Tensor sink;  // absent, or a score beside the keys' that takes its share and gives nothing, broadcasting with (B, H, Sq, 1)
};
struct Attended {
  Tensor y;                                      // (B, H, Sq, Dv), in q's dtype
  Tensor scores, capped, masked, probabilities;  // (B, H, Sq, Sk), in the dtype of the sums
};
// q (B, H, Sq, D), k (B, Hkv, Sk, D), v (B, Hkv, Sk, Dv) with Hkv dividing H: each kv head serves H/Hkv query heads in a row.
Attended attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArgs& a);

Tensor split_heads(const Tensor& x, i64 heads);  // (B, S, H*D) -> (B, H, S, D)
Tensor join_heads(const Tensor& x);              // (B, H, S, D) -> (B, S, H*D)

// Rotates the first `rotary` of each head's elements by angles whose cos and sin are (B or 1, S, rotary/2); x (B, H, S, D).
Tensor rotate(const Tensor& x, const Tensor& cos, const Tensor& sin, i64 rotary, bool interleaved);

}  // namespace tg
