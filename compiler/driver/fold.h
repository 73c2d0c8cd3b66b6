// The second of the two folds: arithmetic on constants that is too large for the importer's.
#pragma once
#include <string>

#include "ir/graph.h"

namespace tg::driver {

// Replaces what depends on constants alone by new constants, computed by kernels of a fixed kind, so that every host gets the same bits. A
// lone movement op is never executed, and no result over 1 MiB is kept that is larger than what it was made from. Returns how many values
// were folded.
i64 fold_constants(Graph& g);

// Whether fold_constants() would compute u, which depends on constants alone.
bool is_worth_folding(UOp u, const Graph& g);

// By node: it depends on constants alone.
Memo<u8> constant_nodes(std::span<const UOp> nodes);

// Constant scales after a sum of products with constant weights go into the weights, in f64, once: sum(x*w)*a + b = sum(x*(w*a)) + b. The
// weights are then arithmetic on constants. Returns how many sums were changed.
i64 move_scales(Graph& g);

}  // namespace tg::driver
