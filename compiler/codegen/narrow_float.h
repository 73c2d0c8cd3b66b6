// Floats under 32 bits as integer arithmetic: bits of a kind in a u8 or u16 to f32 and back.
#pragma once
#include "ir/uop.h"

namespace tg {

// The integer kind that holds a value of a narrow kind: u16 for f16 and bf16, u8 for the rest.
Kind holder(Kind k);

UOp narrow_to_f32(Kind k, UOp bits);   // exact
// To nearest even, once; f16 and bf16 overflow to inf, f8 and f4 kinds saturate, f8e8m0 goes up to the next power of two.
UOp narrow_from_f32(Kind k, UOp x);
// x (f64, i32, u32, i64, u64, index) as an f32 that rounds to any narrower kind as x itself would: rounded to odd.
UOp odd_f32(UOp x);

}  // namespace tg
