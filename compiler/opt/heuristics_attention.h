// The hand-written choice for kernels with rows (schedule/attention.h): phases that fill rows of a few queries, and a sum of products that reads them.
#pragma once
#include <optional>

#include "opt/kernel.h"

namespace tg {

// The kernel with lanes and tiles, without tasks; nothing if it has no rows.
std::optional<Kernel> plan_attention(const Kernel& k);

}  // namespace tg
