#include "codegen/transcendental.h"

#include <bit>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "codegen/coefficients.h"
#include "codegen/double_word.h"

namespace tg {
namespace {
using namespace dw;

constexpr f64 kInf = std::numeric_limits<f64>::infinity();
constexpr f64 kNaN = std::numeric_limits<f64>::quiet_NaN();
constexpr f64 kLn2Hi = 0x1.62e42fefa39efp-1, kLn2Lo = 0x1.abc9e3b39803fp-56;
constexpr f64 kLog2eHi = 0x1.71547652b82fep0, kLog2eLo = 0x1.777d0ffda0d24p-56;
constexpr f64 kHalfPiHi = 0x1.921fb54442d18p0, kHalfPiLo = 0x1.1a62633145c07p-54;

// --- bits of a float ------------------------------------------------------------------------------------------------------------------
bool wide(UOp x) { return x.dtype().kind == Kind::F64; }
DType like(UOp x, Kind k) { return {k, x.dtype().lanes}; }
DType int_of(UOp x) { return like(x, wide(x) ? Kind::I64 : Kind::I32); }
int mantissa(UOp x) { return wide(x) ? 52 : 23; }
i64 bias(UOp x) { return wide(x) ? 1023 : 127; }
f64 min_normal(UOp x) { return wide(x) ? 0x1p-1022 : 0x1p-126; }

UOp gt(UOp a, UOp b) { return lt(b, a); }
UOp shl(UOp a, i64 n) { return alu(Op::Shl, {a, konst(a.dtype(), n)}); }
UOp shr(UOp a, i64 n) { return alu(Op::Shr, {a, konst(a.dtype(), n)}); }
UOp bits_of(UOp x) { return bitcast(x, int_of(x)); }
UOp abs(UOp x) { return alu(Op::Abs, {x}); }
UOp sqrt(UOp x) { return alu(Op::Sqrt, {x}); }
UOp trunc(UOp x) { return alu(Op::Trunc, {x}); }
UOp sign_bit(UOp x) { return bits_of(x) & konst(int_of(x), wide(x) ? std::numeric_limits<i64>::min() : i64(std::numeric_limits<i32>::min())); }
// r with its sign turned where x has the sign bit.
UOp sign_from(UOp r, UOp x) { return bitcast(bits_of(r) ^ sign_bit(x), r.dtype()); }
// 2^n of an integer n, min exponent <= n <= max exponent.
UOp pow2(UOp n, UOp x) { return bitcast(shl(n + bias(x), mantissa(x)), x.dtype()); }
// p * 2^n with one rounding, for n up to twice the range of exponents.
UOp scale(UOp p, UOp n) {
  UOp half = shr(n, 1);
  return p * pow2(half, p) * pow2(n - half, p);
}

template <class T, size_t N>
UOp poly(UOp x, const T (&c)[N]) {
  UOp r = num(x, c[N - 1]);
  for (size_t i = N - 1; i-- > 0;) r = fma(r, x, num(x, c[i]));
  return r;
}
#define POLY(name, x) (wide(x) ? poly(x, coef::name##64) : poly(x, coef::name##32))

UOp clamp(UOp x, f64 lo, f64 hi) {  // NaN stays
  x = where(lt(x, num(x, lo)), num(x, lo), x);
  return where(gt(x, num(x, hi)), num(x, hi), x);
}

// --- exp ----------------------------------------------------------------------------------------------------------------------------------
// The nearest integer to x, as a float and as an integer, by a sum whose last place is 1.
struct Nearest {
  UOp f, i;
};
UOp magic_of(UOp x) { return num(x, wide(x) ? 0x1.8p52 : 0x1.8p23); }
Nearest nearest(UOp shifted) {
  i64 magic_bits = wide(shifted) ? i64(std::bit_cast<u64>(0x1.8p52)) : i64(std::bit_cast<u32>(0x1.8p23f));
  return {shifted - magic_of(shifted), bits_of(shifted) - magic_bits};
}

// x clamped to where e^x is neither 0 nor inf for good.
UOp clamp_exp(UOp x) { return wide(x) ? clamp(x, -746, 710) : clamp(x, -104, 89); }

// e^x = value * 2^n.
struct Scaled {
  UOp value, n;
};
Scaled exp_scaled(UOp x) {
  Nearest n = nearest(fma(x, num(x, kLog2eHi), magic_of(x)));
  Pair ln2 = num2(x, -kLn2Hi, -kLn2Lo);
  UOp r = fma(n.f, ln2.lo, fma(n.f, ln2.hi, x));
  return {num(x, 1) + fma(r * r, POLY(kExp, r), r), n.i};
}

// e^x for f32 by a table: x = n ln2/32 + f, and e^x = 2^(n/32) e^f. The table holds 2^(j/32) for the low five bits j of n less j in the places
// that n << 18 takes, so that the sum of the two has exponent and number. kStep * 2^-15 stands for ln2/32 in units in which its product with n is
// exact and x's factor kScale is 32/ln2 * kStep to 3e-11: f comes out of two fused operations.
constexpr f64 kStep = 701.0 / 32768, kScale = 0x1.f9aa24p-1;
Ints exp_table() {
  Ints v;
  for (i64 j = 0; j < kTableEntries; j++) v.push_back(wrap_int(Kind::I32, i64(std::bit_cast<u32>(f32(std::exp2(f64(j) / 32)))) - (j << 18)));
  return v;
}
// e^x * 2^(up >> 23) for |x| < 350, where that is a normal number. c: e^f is 1 + c[0] f + c[1] f^2 ..
template <size_t N>
UOp exp_looked(UOp x, const f32 (&c)[N], UOp up = {}) {
  static const Ints table = exp_table();
  UOp t = fma(x, num(x, 32 * kLog2eHi), magic_of(x));
  UOp f = fma(x, num(x, kScale), fma(t, num(x, -kStep), num(x, 0x1.8p23 * kStep)));
  UOp bits = node(Op::Lookup, int_of(x), {bits_of(t)}, table) + shl(bits_of(t), 18);
  UOp base = bitcast(up ? bits + up : bits, x.dtype());
  auto power = [&](size_t i) { return num(x, c[i] / std::pow(kScale, f64(i + 1))); };
  UOp p = power(N - 1);
  for (size_t i = N - 1; i-- > 0;) p = fma(p, f, power(i));
  return fma(f * base, p, base);
}

UOp exp(UOp x, bool tables) {
  x = clamp_exp(x);
  if (wide(x) || !tables) {
    Scaled e = exp_scaled(x);
    return scale(e.value, e.n);
  }
  // Away from the ends of the range first, so that one product rounds.
  UOp below = lt(x, num(x, 0)), i = bits_of(x);
  UOp up = where(below, konst(i.dtype(), i64(64) << 23), konst(i.dtype(), -(i64(2) << 23)));
  return exp_looked(x, coef::kExpTable32, up) * where(below, num(x, 0x1p-64), num(x, 4));
}
// e^x of an f32 for x from -87 to 88: for functions that stay within 2 ulp.
UOp exp_normal(UOp x, bool tables) {
  if (tables) return exp_looked(x, coef::kExpTable32);
  Scaled e = exp_scaled(x);
  return e.value * pow2(e.n, x);
}
// 2^(hi + lo), |lo| far below 1.
UOp exp2(UOp hi, UOp lo = {}) {
  UOp x = wide(hi) ? clamp(hi, -1080, 1025) : clamp(hi, -152, 129);
  Nearest n = nearest(x + magic_of(x));
  UOp r = x - n.f;
  if (lo) r = r + lo;
  return scale(fma(r, POLY(kExp2_, r), num(x, 1)), n.i);
}

// e^x - 1 for 0 <= x <= 88 (f32), 709 (f64).
Pair expm1(UOp x) {
  Nearest n = nearest(fma(x, num(x, kLog2eHi), magic_of(x)));
  // The upper part of ln 2 is short, so that n * it is exact.
  f64 hi = wide(x) ? 0x1.62e42feep-1 : 0x1.62e4p-1;
  Pair r = fast_two_sum(x - n.f * num(x, hi), -(n.f * num(x, (kLn2Hi - hi) + kLn2Lo)));
  Pair e = fast_two_sum(r.hi, fma(r.hi * r.hi, POLY(kExp, r.hi), r.lo));
  UOp s = pow2(n.i, x);
  return add({e.hi * s, e.lo * s}, two_sum(s, num(x, -1)));
}

// --- log ----------------------------------------------------------------------------------------------------------------------------------
// x = m * 2^k, sqrt(1/2) <= m < sqrt(2), for positive normal x.
struct Split {
  UOp m, k;
};
Split split(UOp x) {
  UOp i = bits_of(x);
  i64 root = wide(x) ? i64(std::bit_cast<u64>(0x1.6a09e667f3bcdp-1)) : i64(std::bit_cast<u32>(0x1.6a09e6p-1f));
  UOp k = shr(i - root, mantissa(x));
  return {bitcast(i - shl(k, mantissa(x)), x.dtype()), k};
}
// A positive denormal is brought among the normal numbers; `down` is what that adds to the exponent.
struct Normal {
  UOp x, down;
};
Normal normal(UOp x) {
  UOp small = lt(x, num(x, min_normal(x)));
  f64 up = wide(x) ? 0x1p54 : 0x1p25;
  return {where(small, x * num(x, up), x), where(small, konst(int_of(x), wide(x) ? 54 : 25), konst(int_of(x), 0))};
}
// What a logarithm gives outside the finite positive numbers.
UOp log_edges(UOp x, UOp r) {
  r = where(lt(x, num(x, kInf)), r, x);  // inf and NaN
  r = where(eq(x, num(x, 0)), num(x, -kInf), r);
  return where(lt(x, num(x, 0)), num(x, kNaN), r);
}

// ln(u), u positive and normal. If minus1 is given it is u - 1 to full relative precision, which counts near u = 1.
Pair log_pair(Pair u, const Pair* minus1, UOp down, Pair* out_k) {
  Split s = split(u.hi);
  UOp one = num(u.hi, 1);
  Pair m{s.m, u.lo};
  if (minus1) m.lo = u.lo * pow2(-alu(Op::Min, {s.k, konst(s.k.dtype(), 100)}), u.hi);  // beyond 2^100 there is no lo
  Pair top = minus1 ? fast_two_sum(s.m - one, m.lo) : Pair{s.m - one, num(u.hi, 0)};
  Pair below = two_sum(one, s.m);
  if (minus1) {
    UOp k0 = eq(s.k, konst(s.k.dtype(), 0));
    top = {where(k0, minus1->hi, top.hi), where(k0, minus1->lo, top.lo)};
    below = fast_two_sum(below.hi, below.lo + m.lo);
  }
  Pair t = div(top, below), z = mul(t, t);
  UOp zz = z.hi;
  Pair c = num2(zz, 0x1.5555555555555p-1, 0x1.5555555555555p-55);
  Pair q = fast_two_sum(c.hi, fma(zz, POLY(kLogRatio, zz), c.lo));
  Pair cube = mul(mul(t, z), q);
  Pair r = add({t.hi + t.hi, t.lo + t.lo}, cube);
  UOp k = cast(down ? s.k - down : s.k, u.hi.dtype());
  if (out_k) {
    *out_k = {k, num(k, 0)};
    return r;
  }
  f64 hi = wide(k) ? 0x1.62e42feep-1 : 0x1.62e4p-1;
  Pair kln2 = two_sum(k * num(k, hi), k * num(k, (kLn2Hi - hi) + kLn2Lo));
  return add(kln2, r);
}
// ln(1 + f), f > -1/2.
Pair log1p(Pair f) {
  Pair u = two_sum(num(f.hi, 1), f.hi);
  u = fast_two_sum(u.hi, u.lo + f.lo);
  return log_pair(u, &f, {}, nullptr);
}
Pair log2_pair(UOp x) {  // positive and finite
  Normal n = normal(x);
  Pair k;
  Pair r = log_pair({n.x, num(x, 0)}, nullptr, n.down, &k);
  return add(mul(r, num2(x, kLog2eHi, kLog2eLo)), k.hi);
}

UOp log(UOp x) {
  Normal n = normal(x);
  if (wide(x)) return log_edges(x, value(log_pair({n.x, num(x, 0)}, nullptr, n.down, nullptr)));
  Split s = split(n.x);
  UOp f = s.m - num(x, 1), k = cast(s.k - n.down, x.dtype());
  UOp rest = f * f * fma(f, poly(f, coef::kLog32), num(x, -0.5));
  Pair ln2 = num2(x, kLn2Hi, kLn2Lo);
  return log_edges(x, fma(k, ln2.hi, f + fma(k, ln2.lo, rest)));
}
UOp log2(UOp x) {
  if (wide(x)) return log_edges(x, value(log2_pair(x)));
  Normal n = normal(x);
  Split s = split(n.x);
  UOp f = s.m - num(x, 1), k = cast(s.k - n.down, x.dtype());
  UOp rest = f * f * fma(f, poly(f, coef::kLog32), num(x, -0.5));
  Pair log2e = num2(x, kLog2eHi, kLog2eLo);
  Pair p = two_prod(f, log2e.hi), sum = two_sum(k, p.hi);
  return log_edges(x, sum.hi + (sum.lo + fma(rest, log2e.hi, fma(f, log2e.lo, p.lo))));
}

// --- sin, cos, tan ------------------------------------------------------------------------------------------------------------------------
// |x| = r + q * pi/2 modulo 2 pi, |r| <= pi/4. Payne and Hanek: of 2/pi only the bits count whose product with the mantissa is not a multiple
// of 4 and not below the last place that is needed; they are a window of its binary digits, found by the exponent.
struct Quarter {
  Pair r;
  UOp q;  // int_of(x), its low two bits
};
// words[j..j+n) of a constant list by the binary digits of j.
std::vector<UOp> window(std::vector<UOp> words, UOp j, size_t n, int digits) {
  for (int d = digits - 1; d >= 0; d--) {
    size_t step = size_t(1) << d, left = n + step - 1;
    UOp on = ne(j & konst(j.dtype(), i64(step)), konst(j.dtype(), 0));
    std::vector<UOp> next;
    for (size_t i = 0; i < left && i < words.size(); i++) next.push_back(i + step < words.size() ? where(on, words[i + step], words[i]) : words[i]);
    words = std::move(next);
  }
  words.resize(n);
  return words;
}
Quarter reduce32(UOp a) {
  UOp b = bitcast(a, like(a, Kind::U32));
  UOp e = shr(b, 23);
  UOp m = (b & konst(like(a, Kind::U32), 0x7fffff)) | konst(like(a, Kind::U32), 0x800000);
  // a = m * 2^(e-150); the window begins 2 digits above the binary point of m * 2^(e-150) * 2/pi, counted with one leading word of 0.
  UOp p = e - konst(like(a, Kind::U32), 150 + 2 - 32);
  UOp shift = p & konst(like(a, Kind::U32), 31);
  std::vector<UOp> all;
  for (int i = 1; i < 9; i++) all.push_back(konst(like(a, Kind::U32), coef::kTwoOverPi[i]));
  std::vector<UOp> w = window(all, shr(p, 5), 4, 3);
  UOp back = konst(like(a, Kind::U32), 31) - shift;
  for (int i = 0; i < 3; i++) w[i] = alu(Op::Shl, {w[i], shift}) | alu(Op::Shr, {shr(w[i + 1], 1), back});
  auto wide_mul = [&](UOp x, UOp y) { return cast(x, like(a, Kind::U64)) * cast(y, like(a, Kind::U64)); };
  UOp t = shl(cast(m * w[0], like(a, Kind::U64)), 32) + wide_mul(m, w[1]) + shr(wide_mul(m, w[2]), 32);
  UOp q = shr(t + konst(like(a, Kind::U64), i64(1) << 61), 62);
  UOp f = bitcast(t - shl(q, 62), like(a, Kind::I64));  // in units of 2^-62 quarter turns, signed
  // Three pieces that f32 holds exactly, and 2^-62 taken into them.
  auto piece = [&](UOp v, f64 unit) { return cast(cast(v, like(a, Kind::I32)), like(a, Kind::F32)) * num(a, unit); };
  UOp hi = piece(shr(f, 40), 0x1p-22), mid = piece(shr(f, 16) & konst(like(a, Kind::I64), 0xffffff), 0x1p-46), low = piece(f & konst(like(a, Kind::I64), 0xffff), 0x1p-62);
  Pair s = two_sum(hi, mid);
  Pair r = mul(fast_two_sum(s.hi, s.lo + low), num2(a, kHalfPiHi, kHalfPiLo));
  return {r, cast(q, like(a, Kind::I32))};
}
Quarter reduce64(UOp a) {
  auto c = [&](i64 v) { return konst(like(a, Kind::U64), v); };
  UOp low32 = c(0xffffffff);
  UOp b = bitcast(a, like(a, Kind::U64));
  UOp e = shr(b, 52);
  UOp m = (b & c((i64(1) << 52) - 1)) | c(i64(1) << 52);
  UOp p = e - c(1075 + 2 - 64);
  UOp shift = p & c(31);
  std::vector<UOp> all;
  for (u32 word : coef::kTwoOverPi) all.push_back(c(word));
  std::vector<UOp> w = window(all, shr(p, 5), 7, 6);
  // Words of 32 bits, least significant first.
  UOp v[6];
  for (int i = 0; i < 6; i++) v[5 - i] = shr(alu(Op::Shl, {shl(w[i], 32) | w[i + 1], shift}), 32);
  UOp m0 = m & low32, m1 = shr(m, 32);
  UOp x[6], y[6];
  for (int i = 0; i < 6; i++) x[i] = v[i] * m0, y[i] = v[i] * m1;
  UOp word[6], carry = c(0);
  for (int k = 1; k < 6; k++) {
    UOp sum = carry + (x[k] & low32) + shr(x[k - 1], 32) + (y[k - 1] & low32);
    if (k > 1) sum = sum + shr(y[k - 2], 32);
    word[k] = sum & low32;
    carry = shr(sum, 32);
  }
  UOp t = shl(word[5], 32) | word[4];
  UOp q = shr(t + c(i64(1) << 61), 62);
  UOp f = bitcast(t - shl(q, 62), like(a, Kind::I64));
  auto piece = [&](UOp i, f64 unit) { return cast(bitcast(i, Kind::I64), like(a, Kind::F64)) * num(a, unit); };
  Pair s = add(two_sum(piece(shr(f, 32), 0x1p-30), piece(word[4], 0x1p-62)), two_sum(piece(word[3], 0x1p-94), piece(word[2], 0x1p-126)));
  return {mul(s, num2(a, kHalfPiHi, kHalfPiLo)), bitcast(q, like(a, Kind::I64))};
}
Quarter reduce_quarter(UOp a) {
  Quarter q = wide(a) ? reduce64(a) : reduce32(a);
  UOp small = lt(a, num(a, kHalfPiHi / 2));
  return {{where(small, a, q.r.hi), where(small, num(a, 0), q.r.lo)}, where(small, konst(q.q.dtype(), 0), q.q)};
}
UOp sin_of(Pair r) {
  UOp z = r.hi * r.hi;
  return r.hi + fma(r.hi * z, POLY(kSin, z), r.lo);
}
UOp cos_of(Pair r) {
  UOp z = r.hi * r.hi, h = num(z, 0.5) * z, one = num(z, 1), w = one - h;
  return w + (((one - w) - h) + fma(z * z, POLY(kCos, z), -(r.hi * r.lo)));
}
UOp bit(UOp q, i64 which) { return ne(q & konst(q.dtype(), which), konst(q.dtype(), 0)); }
UOp only_finite(UOp a, UOp r) { return where(lt(a, num(a, kInf)), r, num(a, kNaN)); }

UOp sin_or_cos(UOp x, bool cosine) {
  UOp a = abs(x);
  Quarter q = reduce_quarter(a);
  UOp turn = cosine ? q.q + 1 : q.q;
  UOp r = where(bit(turn, 1), cos_of(q.r), sin_of(q.r));
  r = where(bit(turn, 2), -r, r);
  return only_finite(a, cosine ? r : sign_from(r, x));
}
UOp tan(UOp x) {
  UOp a = abs(x);
  Quarter q = reduce_quarter(a);
  UOp z = q.r.hi * q.r.hi, one = num(a, 1);
  Pair t = fast_two_sum(q.r.hi, fma(q.r.hi * z, POLY(kTan, z), fma(z, q.r.lo, q.r.lo)));
  UOp c = num(a, -1) / t.hi;
  UOp cot = fma(c, fma(c, t.lo, fma(c, t.hi, one)), c);
  return only_finite(a, sign_from(where(bit(q.q, 1), cot, value(t)), x));
}

// --- inverse circular ---------------------------------------------------------------------------------------------------------------------
// asin of a or of sqrt((1-a)/2), whichever is at most 1/2: first is s, second the part to add to it.
struct Asin {
  UOp big, s, rest;
};
Asin asin_core(UOp a) {
  UOp half = num(a, 0.5), big = gt(a, half);
  UOp h = (num(a, 1) - a) * half;
  UOp z = where(big, h, a * a);
  UOp root = sqrt(h);
  UOp fix = where(eq(root, num(a, 0)), num(a, 0), fma(-root, root, h) / (root + root));  // what the root lost in rounding
  UOp s = where(big, root, a);
  return {big, s, fma(s * z, POLY(kAsin, z), where(big, fix, num(a, 0)))};
}
UOp asin(UOp x) {
  UOp a = abs(x);
  Asin c = asin_core(a);
  Pair half_pi = num2(a, kHalfPiHi, kHalfPiLo);
  Pair top = fast_two_sum(half_pi.hi, -(c.s + c.s));
  UOp far = top.hi + (top.lo + (half_pi.lo - (c.rest + c.rest)));
  return sign_from(where(c.big, far, c.s + c.rest), x);
}
UOp acos(UOp x) {
  UOp a = abs(x), negative = lt(x, num(x, 0));
  Asin c = asin_core(a);
  Pair half_pi = num2(a, kHalfPiHi, kHalfPiLo);
  UOp twice = c.s + c.s, twice_rest = c.rest + c.rest;
  Pair pi{half_pi.hi + half_pi.hi, half_pi.lo + half_pi.lo};
  Pair left = fast_two_sum(pi.hi, -twice);
  UOp far = where(negative, left.hi + (left.lo + (pi.lo - twice_rest)), twice + twice_rest);
  UOp s = where(negative, -c.s, c.s), rest = where(negative, -c.rest, c.rest);
  Pair near = fast_two_sum(half_pi.hi, -s);
  return where(c.big, far, near.hi + (near.lo + (half_pi.lo - rest)));
}
UOp atan(UOp x) {
  UOp a = abs(x), one = num(a, 1), big = gt(a, one);
  UOp inv = one / a;
  UOp fix = where(lt(a, num(a, wide(a) ? 0x1p500 : 0x1p60)), fma(-inv, a, one) * inv, num(a, 0));
  UOp t = where(big, inv, a), z = t * t;
  UOp rest = fma(t * z, POLY(kAtan, z), where(big, fix, num(a, 0)));
  Pair half_pi = num2(a, kHalfPiHi, kHalfPiLo);
  Pair top = fast_two_sum(half_pi.hi, -t);
  UOp far = top.hi + (top.lo + (half_pi.lo - rest));
  return sign_from(where(big, far, t + rest), x);
}

// --- hyperbolic ---------------------------------------------------------------------------------------------------------------------------
// e^a / 2, also where e^a is beyond the largest float.
UOp half_exp(UOp a) {
  Scaled e = exp_scaled(wide(a) ? clamp(a, 0, 711) : clamp(a, 0, 90));
  return scale(e.value, e.n - 1);
}
UOp sinh(UOp x) {
  UOp a = abs(x);
  UOp near = wide(a) ? clamp(a, 0, 30) : clamp(a, 0, 20);
  Pair e = expm1(near);
  Pair s = add(e, div(e, add(e, num(a, 1))));
  UOp far = half_exp(a);
  return sign_from(where(gt(a, near), far, num(a, 0.5) * value(s)), x);
}
UOp cosh(UOp x) {
  UOp e = half_exp(abs(x));
  return e + num(x, 0.25) / e;
}
UOp tanh(UOp x, bool tables) {
  UOp a = abs(x), two = num(a, 2);
  if (wide(x)) {
    Pair e = expm1(clamp(a + a, 0, 40));
    return sign_from(value(div(e, add(e, two))), x);
  }
  UOp z = a * a, near = fma(a * z, poly(z, coef::kTanh32), a);
  UOp far = num(a, 1) - two / (exp_normal(clamp(a + a, 0, 20), tables) + num(a, 1));
  return sign_from(where(lt(a, num(a, 0.625)), near, far), x);
}
// Above `far` the 1 under the root is lost, and the square may overflow.
f64 far_log(UOp x) { return wide(x) ? 0x1p28 : 0x1p14; }
UOp asinh(UOp x) {
  UOp a = abs(x), one = num(a, 1), big = gt(a, num(a, far_log(a)));
  UOp b = where(big, one, a);
  Pair sq = two_prod(b, b);
  Pair f = add(div(sq, add(sqrt(add(sq, one)), one)), b);
  // Of a itself, when big: ln(2a) = ln(1 + (a - 1)) + ln 2.
  Pair at = two_sum(a, num(a, -1));
  UOp finite = where(lt(a, num(a, kInf)), a, one);
  at = two_sum(finite, num(a, -1));
  Pair g{where(big, at.hi, f.hi), where(big, at.lo, f.lo)};
  Pair l = log1p(g);
  Pair ln2 = num2(a, kLn2Hi, kLn2Lo);
  UOp zero = num(a, 0);
  UOp r = value(add(l, {where(big, ln2.hi, zero), where(big, ln2.lo, zero)}));
  return sign_from(where(lt(a, num(a, kInf)), r, a), x);
}
UOp acosh(UOp x) {
  UOp one = num(x, 1), big = gt(x, num(x, far_log(x)));
  UOp b = where(lt(x, num(x, kInf)), x, one);
  Pair t = two_sum(where(big, one, b), -one);
  Pair f = add(t, sqrt(mul(t, add(t, num(x, 2)))));
  Pair at = two_sum(b, -one);
  Pair l = log1p({where(big, at.hi, f.hi), where(big, at.lo, f.lo)});
  Pair ln2 = num2(x, kLn2Hi, kLn2Lo);
  UOp zero = num(x, 0);
  UOp r = value(add(l, {where(big, ln2.hi, zero), where(big, ln2.lo, zero)}));
  r = where(lt(x, num(x, kInf)), r, x);
  return where(lt(x, one), num(x, kNaN), r);
}
UOp atanh(UOp x) {
  UOp a = abs(x), one = num(a, 1), inside = lt(a, one);
  UOp b = where(inside, a, num(a, 0));
  Pair l = log1p(div({b + b, num(a, 0)}, two_sum(one, -b)));
  UOp r = where(inside, num(a, 0.5) * value(l), where(eq(a, one), num(a, kInf), num(a, kNaN)));
  return sign_from(r, x);
}

// --- erf, pow -----------------------------------------------------------------------------------------------------------------------------
UOp erf(UOp x, bool tables) {
  UOp a = abs(x), one = num(a, 1);
  UOp z = a * a, near = fma(a, POLY(kErf, z), a);
  if (!wide(x)) {
    UOp b = clamp(a, 0, 4);
    UOp far = one - exp_normal(fma(b, poly(b, coef::kErfTail32), -b), tables);
    return sign_from(where(lt(a, num(a, 0.92)), near, far), x);
  }
  UOp b = clamp(a, 1, 6);
  UOp t = (b - num(b, 3)) / (b + num(b, 3));
  Pair sq = two_prod(b, b);
  Scaled e = exp_scaled(-sq.hi);
  UOp tail = e.value * pow2(e.n, b);
  tail = fma(-sq.lo, tail, tail) * poly(t, coef::kErfc64);
  return sign_from(where(lt(a, one), near, one - tail), x);
}
// C99 F.9.4.4.
UOp pow(UOp x, UOp y) {
  UOp a = abs(x), one = num(x, 1), zero = num(x, 0), inf = num(x, kInf);
  Pair l = log2_pair(a);
  UOp edge = log_edges(a, l.hi);
  UOp usual = alu(Op::And, {lt(zero, a), lt(a, inf)});
  UOp hi = edge * y;
  UOp lo = fma(l.lo, y, fma(l.hi, y, -hi));
  UOp in_range = alu(Op::And, {usual, lt(abs(hi), num(x, wide(x) ? 2000 : 300))});
  UOp r = exp2(hi, where(in_range, lo, zero));
  r = where(eq(a, one), one, r);
  UOp half = y * num(y, 0.5);
  UOp whole = eq(trunc(y), y), odd = alu(Op::And, {whole, ne(trunc(half), half)});
  r = where(odd, sign_from(r, x), r);
  UOp below = alu(Op::And, {lt(x, zero), lt(num(x, -kInf), x)});
  // A NaN y is not whole, and r is NaN then anyway.
  r = where(alu(Op::And, {below, logical_not(whole)}), num(x, kNaN), r);
  // eq(a, one) above must not hide a NaN exponent at x = -1.
  r = where(ne(y, y), y, r);
  return where(alu(Op::Or, {eq(y, zero), eq(x, one)}), one, r);
}

UOp lower(Op op, UOp x, UOp y, bool tables) {
  switch (op) {
    case Op::Exp: return exp(x, tables);
    case Op::Exp2: return exp2(x);
    case Op::Log: return log(x);
    case Op::Log2: return log2(x);
    case Op::Sin: return sin_or_cos(x, false);
    case Op::Cos: return sin_or_cos(x, true);
    case Op::Tan: return tan(x);
    case Op::Asin: return asin(x);
    case Op::Acos: return acos(x);
    case Op::Atan: return atan(x);
    case Op::Sinh: return sinh(x);
    case Op::Cosh: return cosh(x);
    case Op::Tanh: return tanh(x, tables);
    case Op::Asinh: return asinh(x);
    case Op::Acosh: return acosh(x);
    case Op::Atanh: return atanh(x);
    case Op::Erf: return erf(x, tables);
    case Op::Pow: return pow(x, y);
    default: TG_CHECK(false, info(op).name, " is not transcendental"); return {};
  }
}
}  // namespace

UOp lower_transcendental(UOp u, bool tables) {
  TG_CHECK(u.in(kTranscendental), "not a transcendental op: ", u.str());
  DType d = u.dtype();
  TG_CHECK(is_float(d) && !is_storage(d.kind), info(u.op()).name, " of ", name(d), ": f16, bf16, f32, f64 only");
  bool narrow = d.kind == Kind::F16 || d.kind == Kind::BF16;
  auto widen = [&](UOp s) { return narrow ? cast(s, like(s, Kind::F32)) : s; };
  UOp r = lower(u.op(), widen(u.src(0)), u.nsrc() > 1 ? widen(u.src(1)) : UOp(), tables);
  return cast(r, d);
}

namespace {
// e^x for x from -87.3365 to 88, 4 ulp.
UOp exp_quick(UOp x, bool tables) {
  if (tables) return exp_looked(x, coef::kExpTableFast32);
  // With the bias in the magic number, the low bits of the sum are the exponent of 2^n.
  UOp magic = num(x, 0x1.8p23 + 127), log2e = num(x, kLog2eHi);
  UOp t = fma(x, log2e, magic);
  UOp r = fma(x, num2(x, kLog2eHi, kLog2eLo).lo, fma(x, log2e, magic - t));
  UOp power = bitcast(shl(bits_of(t), 23), x.dtype());
  return fma(r * poly(r, coef::kExp2Fast32), power, power);
}
}  // namespace

UOp exp_fast(UOp x, bool tables) {
  TG_CHECK(x.dtype().kind == Kind::F32, "exp_fast of ", name(x.dtype()));
  return where(lt(x, num(x, -87.3365)), num(x, 0), exp_quick(x, tables));
}
UOp sigmoid_fast(UOp x, bool tables) {
  TG_CHECK(x.dtype().kind == Kind::F32, "sigmoid_fast of ", name(x.dtype()));
  return num(x, 1) / (exp_quick(clamp(alu(Op::Neg, {x}), -87.3, 88), tables) + num(x, 1));
}
UOp gelu_erf(UOp x) {
  TG_CHECK(x.dtype().kind == Kind::F32, "gelu_erf of ", name(x.dtype()));
  constexpr f64 root2 = 1.4142135623730951;
  UOp c = clamp(x * num(x, root2 / 5.2), -root2, root2);
  UOp u = fma(c, c, num(x, -1));
  return x * fma(c, poly(u, coef::kGelu32), num(x, 0.5));
}

}  // namespace tg
