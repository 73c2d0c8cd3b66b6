// A reduce of many elements to a few, in two stages: parts of it are reduced side by side and stored, then the parts. Few outputs fill no
// tasks; parts do.
#pragma once
#include <optional>
#include <vector>

#include "ir/graph.h"
#include "target/target.h"

namespace tg {

struct SplitSum {
  UOp sum;                 // a REDUCE of constant sizes
  std::vector<i64> parts;  // by axis of its input: into how many parts it is cut; 1: not cut. Each divides its axis
  i64 count = 1;           // their product. From the work alone, whatever the number of cores, so that results are the same on all
  i64 outputs = 1, terms = 1;
  f64 whole_cycles = 0, split_cycles = 0;  // a mean over a few cores, as opt/threads.cc takes it
  bool worth = false;                      // enough work that on a single core, too, the second kernel costs nothing to speak of
};
// Nothing where no axis can be cut, or where there are `terms` too few for it to be worth a thought (any: from two).
std::optional<SplitSum> match_split_sum(UOp u, const Target& target, bool any);

// s.sum over x, which has become of its input.
UOp split_sum(const SplitSum& s, UOp x);

}  // namespace tg
