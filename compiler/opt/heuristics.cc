#include "opt/kernel.h"

namespace tg {
Kernel heuristics(Kernel k) { return k; }
}  // namespace tg
