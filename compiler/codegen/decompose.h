// Makes every node spellable by LLVM and C-like languages: what is left is arithmetic that a machine has on kinds that a machine has.
#pragma once
#include <span>
#include <vector>

#include "ir/uop.h"

namespace tg {

struct Target;

// What the target does itself. A flag that is off costs a longer, exact sequence.
struct DecompFlags {
  bool fma = true;    // MulAcc of f32 and f64
  bool round = true;  // Floor, Ceil, Trunc, Round of f32 and f64
  bool extremes = false;  // Max, Min of f32 and f64, NaN of either operand in the result
  bool bf16 = false;  // Cast from f32 to bf16, where denormals may become 0
  bool f16 = false;   // Cast between f16 and f32; values and memory keep the kind f16. Off: they are u16
};
DecompFlags decomp_flags(const Target& t);

// Kernel or linear form after offsets are lowered (INDEX has one offset); any number of lanes. After it:
//   kinds  bool, i8..i64, u8..u64, f32, f64, index; f16 only with the flag and only in Load, Store, Cast to and from f32, Where, Bitcast and
//          movement of lanes. bf16 and f16 are u16 otherwise, f8 kinds u8, their PARAMs included; kinds under 8 bits are u8 holding one element
//   ops    no transcendental, FloorDiv, FloorMod, Pow, Recip; MulAcc, Floor, Ceil, Trunc, Round of f32, f64 by the flags; Rem of integers only;
//          Max, Min of integers only but for the flag; no arithmetic or order on bool but And Or Xor Not Eq Ne
//   safe   integer Div and Rem never trap (x/0 = 0, x%0 = x, the least integer / -1 wraps); shift counts are in range (a count outside gives 0,
//          or the sign for Shr of signed kinds); a Cast from float to integer is in range (saturated before, NaN = 0)
// Kinds under 8 bits: a load reads the byte and shifts; a ROW, LOCAL or REG keeps one element a byte; a store of lanes whose offset fills whole
// bytes writes those; other stores to a PARAM read, change and write the byte, so no other task may write the same byte, and two
// such stores in one loop body must be ordered by AFTER.
UOp decompose(UOp root, const DecompFlags& flags);
std::vector<UOp> decompose(std::span<const UOp> linear, const DecompFlags& flags);

// C's fmod of f32 or f64 by exact steps, for Rem (see decompose_float.cc).
UOp exact_fmod(UOp x, UOp y);

}  // namespace tg
