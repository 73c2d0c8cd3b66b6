#pragma once
#include "opt/kernel.h"

namespace tg {

// A costly value that is computed in the loop k of a reduce (first) and again in the last loop j of the kernel (again).
struct Kept {
  UOp first, again, reduce, k, j;
};
std::vector<Kept> kept_values(UOp ast);

// KEEP v p: row value v (number in kept_values) is kept in place p (RowPlace).
Result<Kernel> keep(const Kernel& k, const Opt& o);

}  // namespace tg
