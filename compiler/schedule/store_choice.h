// Values that several kernels read: stored once, or computed again by each, where the cost model does not tell clearly which is better.
#pragma once
#include <vector>

#include "ir/graph.h"
#include "schedule/realize.h"
#include "target/target.h"

namespace tg {

struct StoreChoice {
  UOp value;
  i64 readers = 0;
  bool stored = false;  // as the schedule has it if nobody asks otherwise
  f64 stored_cycles = 0, again_cycles = 0;
};
// The few costliest that are close, sources first. Not of graphs with loops or branches, which the schedule takes apart first.
std::vector<StoreChoice> close_stores(const Graph& g, const Target& target);

// All of which the rule alone decides, in the same graphs; of `g` as it is, with what was asked of its nodes.
std::vector<StoredOrNot> stored_or_not(const Graph& g);

// Asks the schedule to do other than it would.
void store_otherwise(UOp value, bool stored);

}  // namespace tg
