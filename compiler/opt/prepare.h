// The loops of a kernel before any Opt: digits of an index become loops of their own, loops run in the order of memory, and neighbours that every
// access walks as one are one.
#pragma once
#include "opt/kernel.h"

namespace tg {

Kernel prepare(Kernel k);

// Offset of an INDEX of a slot under the slot's layout, simplified.
UOp physical_offset(const Kernel& k, UOp index);
// Is it an INDEX of a slot that holds a constant?
bool reads_constant(const Kernel& k, UOp index);
// An offset with every VAR at its largest, so that strides are numbers.
UOp at_largest(UOp offset);

// The ranges a REDUCE, FOLD or STORE closes, and the kernel with such a list changed.
std::vector<UOp> loops_of(UOp u);
// A number that no ROW of the kernel has.
i64 next_row(UOp ast);
UOp with_loops(UOp u, const std::vector<UOp>& loops, std::span<const UOp> src);

}  // namespace tg
