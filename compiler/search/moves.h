// From one list of Opts to those near it: one Opt more, one less, another size, another register tile. PACK and TRIM follow
// the loops and THREAD the work, so they are put anew behind every list (finish).
#pragma once
#include <string>
#include <vector>

#include "opt/actions.h"
#include "opt/kernel.h"

namespace tg {

// The plain kernel with a list of Opts in the form that the search uses: PACKs, tasks by the work and TRIMs last. One of these that no longer
// fits is left out; any other Opt that is refused refuses the list.
Result<Kernel> finish(const Kernel& plain, const std::vector<Opt>& opts);

// Lists that `from` may become, in a fixed order; the same list may come twice. Not all are legal.
std::vector<std::vector<Opt>> moves(const Kernel& plain, const std::vector<Opt>& from, const ActionLimits& limits);

// Lists to start from that know nothing but the axes: every register tile of every pair of axes.
std::vector<std::vector<Opt>> templates(const Kernel& plain, const ActionLimits& limits);

}  // namespace tg
