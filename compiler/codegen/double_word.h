// Numbers kept as an unevaluated sum hi + lo of two floats, about twice the precision of one, as UOp expressions. Everything here relies on
// exact rounding: no pass may reassociate, and MulAcc must round once.
// Joldes, Muller, Popescu, "Tight and rigorous error bounds for basic building blocks of double-word arithmetic", ACM TOMS 44(2), 2017.
#pragma once
#include "ir/uop.h"

namespace tg::dw {

inline UOp num(UOp like, f64 v) { return konst_f(like.dtype(), v); }
inline UOp fma(UOp a, UOp b, UOp c) { return alu(Op::MulAcc, {a, b, c}); }

struct Pair {
  UOp hi, lo;
};

// |a| >= |b| or a = 0.
inline Pair fast_two_sum(UOp a, UOp b) {
  UOp s = a + b;
  return {s, b - (s - a)};
}
inline Pair two_sum(UOp a, UOp b) {
  UOp s = a + b, bb = s - a;
  return {s, (a - (s - bb)) + (b - bb)};
}
inline Pair two_prod(UOp a, UOp b) {
  UOp p = a * b;
  return {p, fma(a, b, -p)};
}
// hi + lo of a constant that is given as a sum of two f64.
inline Pair num2(UOp like, f64 hi, f64 lo) {
  if (like.dtype().kind == Kind::F64) return {num(like, hi), num(like, lo)};
  return {num(like, f32(hi)), num(like, hi - f64(f32(hi)) + lo)};
}

inline Pair add(Pair a, Pair b) {
  Pair s = two_sum(a.hi, b.hi);
  return fast_two_sum(s.hi, s.lo + (a.lo + b.lo));
}
inline Pair add(Pair a, UOp b) {
  Pair s = two_sum(a.hi, b);
  return fast_two_sum(s.hi, s.lo + a.lo);
}
inline Pair mul(Pair a, Pair b) {
  Pair p = two_prod(a.hi, b.hi);
  return fast_two_sum(p.hi, p.lo + fma(a.hi, b.lo, a.lo * b.hi));
}
inline Pair mul(Pair a, UOp b) {
  Pair p = two_prod(a.hi, b);
  return fast_two_sum(p.hi, fma(a.lo, b, p.lo));
}
inline Pair div(Pair a, Pair b) {
  UOp q = a.hi / b.hi;
  UOp rest = fma(-q, b.lo, fma(-q, b.hi, a.hi) + a.lo);
  return fast_two_sum(q, rest / b.hi);
}
inline Pair sqrt(Pair a) {
  UOp s = alu(Op::Sqrt, {a.hi});
  UOp rest = fma(-s, s, a.hi) + a.lo;
  UOp zero = num(s, 0);
  return fast_two_sum(s, where(eq(s, zero), zero, rest / (s + s)));
}
inline UOp value(Pair a) { return a.hi + a.lo; }

}  // namespace tg::dw
