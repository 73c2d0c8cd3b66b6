// Expressions of free sizes (VARs and constants alone): how shapes spell them, see normal_dim in ir/tensor.h, and what they can be.
#pragma once
#include "ir/bounds.h"

namespace tg {

// simplify() decides most; what it leaves open is which of several variables with a multiple takes in a factor (16*H*(W/32) and 16*(H/32)*W
// are equal): there is one answer here.
UOp normal_size(UOp d);

// Tighter than bounds(): a variable's multiple counts, and where the variables have few values all of them are tried.
Bounds size_bounds(UOp d);
// For all values of the variables.
bool always_le(UOp a, UOp b);
inline bool always_lt(UOp a, UOp b) { return always_le(a + 1, b); }

}  // namespace tg
