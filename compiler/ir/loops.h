// Loops and addresses of the kernel form: which RANGEs a node closes, what an address lies in, and how it moves with a loop.
#pragma once
#include <optional>
#include <vector>

#include "ir/uop.h"

namespace tg {

// The sources of a REDUCE, FOLD or STORE that are RANGEs it closes; none for other nodes.
std::vector<UOp> closed_ranges(UOp u);
constexpr bool closes_ranges(Op o) { return o == Op::Reduce || o == Op::Fold || o == Op::Store; }

// A node without the AFTERs around it.
UOp without_waits(UOp u);
// The buffer, row or accumulator behind an address or what waits on it: INDEX and AFTERs taken off.
UOp memory_of(UOp u);

// expr = factor * r + rest with a constant factor and a rest without r; nothing if it is not of that form.
struct LinearIn {
  i64 factor;
  UOp rest;
};
std::optional<LinearIn> linear_in(UOp expr, UOp r);

}  // namespace tg
