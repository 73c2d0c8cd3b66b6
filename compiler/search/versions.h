// Moves of FEW: a kernel of free size with a version for small sizes more, or less. One Opt is too little of a step: a version has axes of
// its own, and without lanes and a tile along them it would be slow.
#pragma once
#include <vector>

#include "opt/kernel.h"

namespace tg {

// From the Opts on the loops (no PACK, no THREAD); not all that comes back is legal.
std::vector<std::vector<Opt>> versions(const Kernel& plain, const std::vector<Opt>& core);

}  // namespace tg
