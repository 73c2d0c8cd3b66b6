// The hand-written choice for sums of products that a dot instruction takes.
#pragma once
#include <optional>

#include "opt/kernel.h"

namespace tg {

// The kernel with lanes, tile and TC, without tasks; nothing if no row of the target fits or it would not pay.
std::optional<Kernel> plan_dot(const Kernel& k);

}  // namespace tg
