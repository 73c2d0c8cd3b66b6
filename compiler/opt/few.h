// FEW: a version of a loop nest for small sizes.
#pragma once
#include "opt/kernel.h"

namespace tg {

// The kernel with FEW, or why not.
Result<Kernel> few(const Kernel& k, const Opt& o);
// The hundred that the ids of the axes in its copy are in: the next one in which there are none.
i64 next_hundred(UOp ast);
// Why copies of a loop nest (FEW, PEEL) may not read as they would: a LOAD that two of them share stands before the loops of both, and may lie outside
// where none of them runs.
std::string shared_read(const Kernel& k);
// The axis that PEEL gives the remainder of this one.
i64 remainder_of(UOp ast, i64 id);

}  // namespace tg
