// Rewrites transcendental ops into plain arithmetic: Add Sub Mul MulAcc Div Sqrt Trunc Neg Min, compares, Where, Bitcast, Cast and integer
// shifts and masks; with `tables` LOOKUP too, for targets that have such an instruction. No branches, so the result takes lanes like any other
// expression. The errors are the numeric contract's (formats/README.md) and hold only if nothing reassociates floats and MulAcc rounds once.
#pragma once
#include "ir/uop.h"

namespace tg {

// u: a scalar node of kTranscendental. f16 and bf16 are computed in f32 and rounded; other dtypes than these, f32 and f64 are a bug.
UOp lower_transcendental(UOp u, bool tables = false);

// e^x for softmax's x - max: f32, x <= 88, <= 4 ulp where the result is at least 2^-126 and 0 below; exp_fast(-inf) = 0, NaN stays.
UOp exp_fast(UOp x, bool tables = false);
// 1 / (1 + e^-x), f32: <= 4 ulp where the result is at least 2^-126; below, some number from 0 to 2^-126. NaN stays.
UOp sigmoid_fast(UOp x, bool tables = false);
// 0.5 x (1 + erf(x / sqrt 2)), f32: within 1e-6 * max(1, |x|).
UOp gelu_erf(UOp x);

// Entries of the tables that `tables` asks for.
inline constexpr i64 kTableEntries = 32;

}  // namespace tg
