// The loops of a kernel before any Opt: digits of an index become loops of their own, loops run in the order of memory, and neighbours that every
// access walks as one are one.
#pragma once
#include "opt/kernel.h"

namespace tg {

Kernel prepare(Kernel k);

// Offset of an INDEX of a slot under the slot's layout, simplified.
UOp physical_offset(const Kernel& k, UOp index);
// The same with every VAR at its largest, so that strides are numbers.
UOp at_largest(UOp offset);

// The ranges a REDUCE, FOLD or STORE closes, and the kernel with such a list changed.
std::vector<UOp> loops_of(UOp u);
UOp with_loops(UOp u, const std::vector<UOp>& loops, std::span<const UOp> src);

}  // namespace tg
