// Loops of the kernel form: which RANGEs a node closes, and how an address moves with one.
#pragma once
#include <optional>
#include <vector>

#include "ir/uop.h"

namespace tg {

// The sources of a REDUCE, FOLD or STORE that are RANGEs it closes; none for other nodes.
std::vector<UOp> closed_ranges(UOp u);
constexpr bool closes_ranges(Op o) { return o == Op::Reduce || o == Op::Fold || o == Op::Store; }

// expr = factor * r + rest with a constant factor and a rest without r; nothing if it is not of that form.
struct LinearIn {
  i64 factor;
  UOp rest;
};
std::optional<LinearIn> linear_in(UOp expr, UOp r);

}  // namespace tg
