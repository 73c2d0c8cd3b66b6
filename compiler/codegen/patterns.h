// Forms of several ops that have a faster computation of their own, within the numeric contract's bounds for patterns (formats/README.md).
#pragma once
#include "ir/uop.h"

namespace tg {

// Kernel form, f32:
//   exp(x - max over x's row)        exp_fast; the maximum may drop NaN if the row's sum, which shows it, is in every output
//   a / sum of these                 a times its reciprocal
//   1 / (1 + exp(-x))                sigmoid_fast
//   x * 0.5 * (1 + tanh(y))          x * sigmoid_fast(2 y)
//   x * 0.5 * (1 + erf(x / sqrt 2))  gelu_erf
// tables: see transcendental.h.
UOp lower_patterns(UOp ast, bool tables = false);

}  // namespace tg
