// softmax(q kT, scaled and masked) v in one kernel: scores of a few queries fill rows on the stack, the softmax goes over these, the product with v
// reads them. The matrix of all scores is never in memory.
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "ir/graph.h"
#include "target/target.h"

namespace tg {

// sum over j of softmax(scores)[.., i, j] * v[.., j, d], all f32 and of constant sizes.
struct Attention {
  UOp sum;                  // the REDUCE over j
  size_t side = 0;          // which factor of its products comes from the softmax
  std::vector<UOp> chain;   // movement from the quotient to that factor, the last op first
  UOp quotient, exp, total, scores;  // exp(scores - max) / total
  UOp product;              // the REDUCE of q and k below the scores
  i64 batch = 1, queries = 1, keys = 1, depth = 1, width = 1;
};
// users: of the nodes of u's graph. Nothing where other nodes read scores or probabilities.
std::optional<Attention> match_attention(UOp u, Memo<std::vector<UOp>>& users);

// Of the whole value on one core.
f64 split_attention_cycles(const Attention& a, const Target& t);
f64 joined_attention_cycles(const Attention& a, const Target& t);

// a.sum in one kernel. to: what has become of the nodes below it. fixed: has the value a buffer whose layout is given?
UOp joined_attention(const Attention& a, Memo<UOp>& to, const std::function<bool(UOp)>& fixed);

}  // namespace tg
