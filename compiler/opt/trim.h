// TRIM: the loop of a sum over a window runs over the places inside alone. What lies outside is the border of a picture: a gate says so, or the
// slot has a border of its own, and what is read there adds nothing to the sum.
#pragma once
#include "opt/kernel.h"

namespace tg {

Result<Kernel> trim(const Kernel& k, const Opt& o);

// What share of the taps along reduce axis `id` TRIM would leave out; 0 where it is refused.
f64 trimmed_share(const Kernel& k, i64 id);

// The kernel with every TRIM that it takes: the last Opts of a list.
Kernel with_trims(Kernel k);

}  // namespace tg
