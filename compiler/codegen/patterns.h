// Forms of several ops that have a faster computation of their own, within the numeric contract's bounds for patterns (formats/README.md).
#pragma once
#include "ir/uop.h"

namespace tg {

// Kernel form, f32: exp(x - max over x's row) becomes exp_fast, a division by the sum of these a product with its reciprocal, 1 / (1 + exp(-x)) sigmoid_fast, x * 0.5 * (1 + tanh(y)) x * sigmoid_fast(2 y),
// x * 0.5 * (1 + erf(x / sqrt 2)) gelu_erf.
UOp lower_patterns(UOp ast);

}  // namespace tg
