// Float ops that a target may lack, by exact sequences: fmod, a fused multiply-add, rounding to integers.
#include <limits>

#include "base/error.h"
#include "codegen/decompose.h"
#include "codegen/decompose_float.h"
#include "codegen/double_word.h"

namespace tg {
namespace {
using namespace dw;

DType like(UOp x, Kind k) { return {k, x.dtype().lanes}; }
bool wide(UOp x) { return x.dtype().kind == Kind::F64; }
UOp abs(UOp x) { return alu(Op::Abs, {x}); }
UOp bits_of(UOp x) { return bitcast(x, like(x, wide(x) ? Kind::I64 : Kind::I32)); }
UOp sign_from(UOp r, UOp x) {
  UOp b = bits_of(x);
  UOp mask = konst(b.dtype(), wide(x) ? std::numeric_limits<i64>::min() : i64(std::numeric_limits<i32>::min()));
  return bitcast(bits_of(r) ^ (b & mask), r.dtype());
}

// r mod y for r, y > 0 with r/y below 2^(52 * steps): r - q*y is exact for a q rounded to nearest as long as q is an integer, and then at
// most half a place of q is left. https://hal.science/hal-00000892, "exact remainders". The last step's q is truncated and may be one off.
UOp reduce_by(UOp r, UOp y, int steps) {
  UOp zero = num(r, 0);
  for (int i = 0; i < steps; i++) {
    UOp q = alu(Op::Trunc, {r / y});
    r = fma(-q, y, r);
  }
  r = where(lt(r, zero), r + y, r);
  return where(le(y, r), r - y, r);
}

}  // namespace

UOp exact_fmod(UOp x, UOp y) {
  if (x.dtype().kind == Kind::F32) {  // in f64 the quotient is below 2^278
    DType d = like(x, Kind::F64);
    return node(Op::Cast, x.dtype(), {exact_fmod(node(Op::Cast, d, {x}), node(Op::Cast, d, {y}))});
  }
  bool single = x.is(Op::Cast) && x.src(0).dtype().kind == Kind::F32;
  UOp a = abs(x), b = abs(y), inf = num(x, std::numeric_limits<f64>::infinity());
  UOp r = a;
  if (single) {
    r = reduce_by(r, b, 6);
  } else {
    // First by multiples of y, so that no quotient overflows: y1 >= 1, and each divisor is at most 2^700 times the next.
    UOp one = num(x, 1), up = num(x, 0x1p700);
    UOp y2 = where(lt(b, one), b * up, b), y1 = where(lt(y2, one), y2 * up, y2);
    r = reduce_by(reduce_by(reduce_by(r, y1, 20), y2, 14), b, 14);
  }
  r = where(lt(a, b), a, r);
  UOp fine = alu(Op::And, {alu(Op::And, {lt(a, inf), lt(num(x, 0), b)}), eq(b, b)});
  return where(fine, sign_from(r, x), num(x, std::numeric_limits<f64>::quiet_NaN()));
}

UOp exact_fma(UOp a, UOp b, UOp c) {
  if (!wide(a)) {
    // The product of two f32 is exact in f64; the sum is rounded to odd, so that rounding it to f32 is as if it were exact.
    DType d = like(a, Kind::F64);
    auto up = [&](UOp x) { return node(Op::Cast, d, {x}); };
    UOp p = up(a) * up(b), s = odd_sum(p, up(c));
    return node(Op::Cast, a.dtype(), {s});
  }
  // Dekker: halves of 26 and 27 bits, whose products are exact. Right where neither the product nor its last place leaves the range.
  auto split = [&](UOp x) {
    UOp big = lt(num(x, 0x1p970), abs(x));
    UOp y = where(big, x * num(x, 0x1p-60), x), t = y * num(x, 134217729.0), hi = t - (t - y), lo = y - hi;
    UOp back = where(big, num(x, 0x1p60), num(x, 1));
    return Pair{hi * back, lo * back};
  };
  UOp p = a * b;
  Pair x = split(a), y = split(b);
  UOp e = ((x.hi * y.hi - p) + x.hi * y.lo + x.lo * y.hi) + x.lo * y.lo;
  Pair s = two_sum(p, c);
  UOp r = s.hi + odd_sum(s.lo, e);
  return where(lt(abs(r), num(r, std::numeric_limits<f64>::infinity())), r, p + c);  // inf and NaN go the plain way
}

UOp odd_sum(UOp a, UOp b) {
  Pair s = two_sum(a, b);
  UOp bits = bits_of(s.hi), one = konst(bits.dtype(), 1), zero = konst(bits.dtype(), 0), nought = num(a, 0);
  UOp towards_zero = ne(lt(s.lo, nought), lt(s.hi, nought));
  UOp fix = alu(Op::And, {eq(bits & one, zero), ne(s.lo, nought)});
  fix = alu(Op::And, {fix, lt(abs(s.hi), num(a, std::numeric_limits<f64>::infinity()))});
  return bitcast(bits + where(fix, where(towards_zero, zero - one, one), zero), a.dtype());
}

UOp round_by_sums(Op op, UOp x) {
  UOp a = abs(x), big = num(x, wide(x) ? 0x1p52 : 0x1p23), one = num(x, 1);
  // Adding and taking away 2^(mantissa) leaves the nearest integer, ties to even.
  UOp r = (a + big) - big;
  if (op == Op::Trunc) r = where(lt(a, r), r - one, r);
  r = sign_from(where(lt(a, big), r, a), x);
  if (op == Op::Floor) r = where(lt(x, r), r - one, r);
  if (op == Op::Ceil) r = where(lt(r, x), r + one, r);
  return op == Op::Ceil ? sign_from(abs(r), x) : r;
}

}  // namespace tg
