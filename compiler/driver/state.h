// --state OUTPUT=INPUT: pairs of a graph that feed the next run, and what they mean for sizes that --var leaves free.
#pragma once
#include <string>
#include <vector>

#include "driver/compile.h"
#include "ir/graph.h"

namespace tg::driver {

// Names to numbers. A state keeps its sizes in the model, as numbers that are state too, zeros at first:
//   - a free size that other inputs give must be, in each run, what it was in the first run since the model was opened or reset;
//   - a size that the output has more of than the input (past_key_values: P, then P + 1) is nobody's to give: it is 0 at first and then what the output
//     had. The buffer is as large as --var allows, and what is new is stored behind what is there, if the output is a CONCAT of the input and that.
// A run that does not fit ends with an error.
void pair_state(Graph& g, const std::vector<StatePair>& pairs, const std::string& model);

}  // namespace tg::driver
