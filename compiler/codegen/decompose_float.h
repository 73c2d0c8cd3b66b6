// Float ops as sequences of simpler ones; see decompose_float.cc. f32 and f64, any lanes.
#pragma once
#include "ir/uop.h"

namespace tg {

UOp exact_fma(UOp a, UOp b, UOp c);       // without fused multiply-add
UOp odd_sum(UOp a, UOp b);                // a + b rounded to odd: rounding it again to a kind of 2 bits less is right
UOp round_by_sums(Op op, UOp x);          // Floor, Ceil, Trunc, Round

}  // namespace tg
