// Random networks of the layers that models are made of: convolutions of all kinds, matmuls, pools, residuals, concats, borders, rows. All
// numbers are small integers, so that sums are exact in any order and compiled code must agree bit for bit.
#pragma once
#include "graph_gen.h"

namespace tg::fuzz {

Case generate_layers(u64 seed);

}  // namespace tg::fuzz
