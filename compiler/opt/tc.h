// Sums of products that a dot instruction of the target takes.
#pragma once
#include <optional>

#include "opt/kernel.h"
#include "target/dots.h"

namespace tg {

// The two factors of a value that a REDUCE ADD sums, before they are cast to its dtype: each of a kind of its own.
struct Factors {
  UOp a, b;
};
std::optional<Factors> dot_factors(UOp reduce);

// Why TC (target: reduce axis, arg: row of dot_rows) is refused; empty if it is not.
std::string refuse_tc(const Kernel& k, const Opt& o);

}  // namespace tg
