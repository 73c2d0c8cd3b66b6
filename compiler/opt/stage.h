#pragma once
#include "opt/kernel.h"

namespace tg {

inline constexpr i64 kStageBytes = 1 << 16;  // most that lies on the stack

// STAGE s: what a tile's sum reads of slot s is copied first to a row on the stack, in the order in which the sum reads it.
Result<Kernel> stage(const Kernel& k, const Opt& o);

}  // namespace tg
