// Products of one activation with several constant weights (queries, keys and values; the heads of a detector) as one: the weights lie side
// by side, and each reader takes its part of the result. Fewer kernels, one of which has more for its lanes and tasks.
#pragma once
#include <functional>
#include <vector>

#include "ir/graph.h"
#include "target/target.h"

namespace tg {

struct JoinedProducts {
  // A step on each sum by a constant, as a bias is: sum op constant, or constant op sum. others: by member; null: nothing is added.
  struct Step {
    Op op;
    size_t side;  // of the constant
    std::vector<UOp> others;
  };
  std::vector<UOp> sums, tops;  // by member: the REDUCE, and the value behind the last step, which becomes a part of the result
  std::vector<i64> columns;     // by member
  std::vector<Step> steps;
  size_t side = 0;  // of the activation in the products
  i64 axis = 0;     // of the products: the members'
  i64 rows = 1, depth = 1;
  f64 apart_cycles = 0, joined_cycles = 0;  // a mean over a few cores
  f64 apart_alone = 0, joined_alone = 0;    // of one
};

// Of the graph's top, where none of them is `taken`. users: of the graph's nodes.
std::vector<JoinedProducts> find_joined_products(const Graph& g, const Target& target, Memo<std::vector<UOp>>& users, Memo<u8>& taken);

// The value whose parts the tops are; part() takes one. to: what has become of the nodes below. add: a new constant of the graph. derive:
// large ones are left to the runtime.
UOp joined_products(const JoinedProducts& p, const Graph& g, Memo<UOp>& to, const std::function<UOp(ConstantData)>& add, bool derive);
UOp part(const JoinedProducts& p, UOp joined, size_t member);

}  // namespace tg
