// Opts of a kernel whose rows are blocks (a Winograd convolution in pieces): each of its nests is planned as if it were a kernel.
#pragma once
#include <optional>

#include "opt/kernel.h"

namespace tg {

// Is a row filled by sums of what lies in another row?
bool has_blocks(UOp ast);
// Nothing if it is no such kernel.
std::optional<Kernel> plan_blocks(const Kernel& k);

}  // namespace tg
