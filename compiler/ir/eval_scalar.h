// The arithmetic of the interpreter, one number at a time, shared by its three forms. A number is a u64: an i64 for integers, index and bool
// (u64 as its bits), the bits of an f64 for floats. Every op is computed in f64 by libm, or exactly on integers with wrap, then rounded once.
#pragma once
#include <bit>
#include <span>

#include "ir/uop.h"

namespace tg {

inline f64 as_f64(u64 v) { return std::bit_cast<f64>(v); }
inline u64 from_f64(f64 v) { return std::bit_cast<u64>(v); }

// x rounded to a float kind, storage kinds included: to nearest even; f16, bf16 and f32 overflow to inf, the 8- and 4-bit kinds saturate (inf
// too), f8e8m0 takes the next power of two away from zero and drops the sign, as ONNX's Cast does by default.
f64 round_to(Kind k, f64 x);

// The bits of a number in memory and back, in the low bits(k) bits.
u64 to_bits(Kind k, u64 v);
u64 from_bits(Kind k, u64 b);

// One ALU op on sources of kind k (for Where, the kind of its branches). What the model leaves open is fixed here: x/0 is 0 and the
// remainder x on integers, shifts by the width or more give 0 (or the sign), Max and Min of 0.0 and -0.0 give the second.
using ScalarFn = u64 (*)(Kind k, u64 a, u64 b, u64 c);
ScalarFn scalar_fn(Op op, Kind k);  // fails on an op that the kind has not
u64 eval_alu(Op op, DType d, std::span<const u64> src);

// Float to integer truncates and saturates, NaN becomes 0; integers wrap; to bool is x != 0; to float rounds once.
// LOOKUP of x among the numbers of its argument.
inline u64 eval_lookup(std::span<const i64> of, u64 x) { return u64(of[x & (of.size() - 1)]); }
u64 eval_cast(Kind to, Kind from, u64 v);
inline u64 eval_bitcast(Kind to, Kind from, u64 v) { return from_bits(to, to_bits(from, v)); }

// A running REDUCE: on floats sums and products are kept in f64 and rounded at the end.
struct Reducer {
  ReduceKind kind;
  Kind dtype;
  u64 acc;
  Reducer(ReduceKind k, Kind d);
  void add(u64 v);
  u64 done() const;
};
u64 identity_of(ReduceKind k, Kind d);

// Less-than of SORT: NaN is largest, 0.0 equals -0.0.
bool sorts_before(Kind k, u64 a, u64 b);

}  // namespace tg
