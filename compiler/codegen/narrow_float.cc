#include "codegen/narrow_float.h"

#include <cmath>

#include "base/error.h"

namespace tg {
namespace {

struct Layout {
  int exponent, mantissa, bias;
  f64 most;    // largest finite value
  bool fnuz;   // no -0; NaN is the sign bit alone
};
Layout layout(Kind k) {
  switch (k) {
    case Kind::F8E4M3FN: return {4, 3, 7, 448, false};
    case Kind::F8E4M3FNUZ: return {4, 3, 8, 240, true};
    case Kind::F8E5M2: return {5, 2, 15, 57344, false};
    case Kind::F8E5M2FNUZ: return {5, 2, 16, 57344, true};
    case Kind::F4E2M1: return {2, 1, 1, 6, false};
    default: TG_CHECK(false, name(k), " is no small float"); return {};
  }
}
DType like(UOp x, Kind k) { return {k, x.dtype().lanes}; }
UOp c32(UOp x, i64 v) { return konst(like(x, Kind::U32), v); }
UOp num(UOp x, f64 v) { return konst_f(like(x, Kind::F32), v); }
UOp shl(UOp a, i64 n) { return alu(Op::Shl, {a, konst(a.dtype(), n)}); }
UOp shr(UOp a, i64 n) { return alu(Op::Shr, {a, konst(a.dtype(), n)}); }
UOp as_float(UOp b) { return bitcast(b, like(b, Kind::F32)); }
UOp as_bits(UOp x) { return bitcast(x, like(x, Kind::U32)); }
UOp recast(UOp x, Kind k) { return x.dtype().kind == k ? x : node(Op::Cast, like(x, k), {x}); }
constexpr f64 kInf = __builtin_inf();
const f64 kNaN = __builtin_nan("");

}  // namespace

Kind holder(Kind k) { return k == Kind::F16 || k == Kind::BF16 ? Kind::U16 : Kind::U8; }

UOp narrow_to_f32(Kind k, UOp b) {
  UOp w = recast(b, Kind::U32);
  if (k == Kind::BF16) return as_float(shl(w, 16));
  if (k == Kind::F8E8M0) {
    UOp r = as_float(where(eq(w, c32(w, 0)), c32(w, 0x400000), shl(w, 23)));
    return where(eq(w, c32(w, 255)), num(w, kNaN), r);
  }
  if (k == Kind::F16) {
    UOp code = w & c32(w, 0x7fff);
    UOp r = as_bits(as_float(shl(code, 13)) * num(w, 0x1p112));
    r = r | where(le(c32(w, 0x7c00), code), c32(w, 0x7f800000), c32(w, 0));
    return as_float(r | shl(w & c32(w, 0x8000), 16));
  }
  Layout l = layout(k);
  int width = l.exponent + l.mantissa;
  UOp code = w & c32(w, (1 << width) - 1);
  // The fields in their places in an f32, denormals included, then the difference of the biases.
  UOp r = as_float(shl(code, 23 - l.mantissa)) * num(w, std::ldexp(1.0, 127 - l.bias));
  r = as_float(as_bits(r) | shl(w & c32(w, 1 << width), 31 - width));
  switch (k) {
    case Kind::F8E4M3FN: return where(eq(code, c32(w, 127)), num(w, kNaN), r);
    case Kind::F8E5M2: {
      UOp inf = as_float(as_bits(num(w, kInf)) | shl(w & c32(w, 128), 24));
      return where(lt(code, c32(w, 124)), r, where(eq(code, c32(w, 124)), inf, num(w, kNaN)));
    }
    case Kind::F4E2M1: return r;
    default: return where(eq(w, c32(w, 128)), num(w, kNaN), r);
  }
}

UOp narrow_from_f32(Kind k, UOp x) {
  UOp b = as_bits(x), nan = ne(x, x);
  UOp magnitude = b & c32(b, 0x7fffffff), sign = shr(b, 31);
  UOp a = as_float(magnitude);
  if (k == Kind::BF16) {
    UOp r = shr(b + c32(b, 0x7fff) + (shr(b, 16) & c32(b, 1)), 16);
    return recast(where(nan, shr(b, 16) | c32(b, 0x40), r), Kind::U16);
  }
  if (k == Kind::F8E8M0) {
    UOp e = shr(magnitude, 23);
    UOp up = where(eq(magnitude & c32(b, 0x7fffff), c32(b, 0)), c32(b, 0), c32(b, 1));
    UOp r = where(lt(e, c32(b, 254)), e + up, e);  // 254 stays, and so does 255, which is NaN
    return recast(where(le(magnitude, c32(b, 0x400000)), c32(b, 0), r), Kind::U8);
  }
  bool half = k == Kind::F16;
  Layout l = half ? Layout{5, 10, 15, 65504, false} : layout(k);
  int width = l.exponent + l.mantissa, drop = 23 - l.mantissa;
  if (!half) a = where(lt(num(b, l.most), a), num(b, l.most), a);
  UOp ab = as_bits(a);
  // Below the smallest normal value: a sum whose last place is the smallest denormal rounds, and its low bits are the code.
  f64 c = std::ldexp(1.0, 23 + 1 - l.bias - l.mantissa);
  UOp low = as_bits(a + num(b, c)) - as_bits(num(b, c));
  UOp high = shr(ab + c32(b, (i64(1) << (drop - 1)) - 1 - (i64(127 - l.bias) << 23)) + (shr(ab, drop) & c32(b, 1)), drop);
  UOp code = where(lt(a, num(b, std::ldexp(1.0, 1 - l.bias))), low, high);
  if (half) code = where(le(num(b, 65520), a), c32(b, 0x7c00), code);
  UOp s = shl(sign, width);
  UOp r = l.fnuz ? where(eq(code, c32(b, 0)), code, code | s) : code | s;
  i64 quiet = half ? 0x7e00 : k == Kind::F8E5M2 ? 0x7e : 0x7f;
  UOp nans = l.fnuz || k == Kind::F4E2M1 ? c32(b, 1 << width) : c32(b, quiet) | s;
  return recast(where(nan, nans, r), holder(k));
}

UOp odd_f32(UOp x) {
  DType wide = like(x, Kind::F64);
  Kind from = x.dtype().kind;
  UOp d = x;
  if (from == Kind::I32 || from == Kind::U32) d = node(Op::Cast, wide, {x});
  if (from == Kind::I64 || from == Kind::U64 || from == Kind::Index) {
    // hi + lo of 32 bits each are exact; their sum in f64 is rounded to odd.
    UOp u = from == Kind::U64 ? x : node(Op::Cast, like(x, Kind::I64), {x});
    UOp hi = node(Op::Cast, wide, {shr(u, 32)}) * konst_f(wide, 0x1p32);
    UOp lo = node(Op::Cast, wide, {u & konst(u.dtype(), 0xffffffff)});
    UOp s = hi + lo, t = s - hi, err = (hi - (s - t)) + (lo - t);
    UOp sb = bitcast(s, like(x, Kind::I64)), one = konst(sb.dtype(), 1), zero = konst(sb.dtype(), 0);
    UOp away = ne(lt(err, konst_f(wide, 0)), lt(s, konst_f(wide, 0)));  // the rest points towards zero
    UOp fix = where(away, zero - one, one);
    UOp even = eq(sb & one, zero), off = ne(err, konst_f(wide, 0));
    d = bitcast(sb + where(alu(Op::And, {even, off}), fix, zero), wide);
  }
  TG_CHECK(d.dtype().kind == Kind::F64, "odd_f32 of ", name(from));
  UOp r = node(Op::Cast, like(x, Kind::F32), {d});
  UOp back = node(Op::Cast, wide, {r});
  UOp b = as_bits(r);
  UOp off = alu(Op::And, {ne(back, d), eq(d, d)}), even = eq(b & c32(b, 1), c32(b, 0));
  UOp step = where(lt(alu(Op::Abs, {back}), alu(Op::Abs, {d})), c32(b, 1), c32(b, -1));
  return as_float(b + where(alu(Op::And, {off, even}), step, c32(b, 0)));
}

}  // namespace tg
