// What a search may try on a kernel: for each kind of Opt the targets and arguments that make sense for the axes as they stand. Whether one
// is legal is for Kernel::with to say.
#pragma once
#include <vector>

#include "opt/kernel.h"

namespace tg {

struct ActionLimits {
  i64 upcast_max = 256;  // values of a register tile: copies, lanes not counted
  bool padto = true;
};

// In a fixed order: by kind, then by axis, then by argument.
std::vector<Opt> actions(const Kernel& k, const ActionLimits& limits);

// Arguments that may stand in the place of o's: other sizes of the same piece. o.arg is not among them.
std::vector<i64> other_args(OptKind kind, i64 arg, const Target& t);

// Copies of the innermost body: the product of all UPCAST and UNROLL axes.
i64 copies(const Kernel& k);

}  // namespace tg
