// Algebra as equations. Every row holds for all values of its names: integers wrap, x/0 is 0 and x%0 is x; float rows hold bit for bit
// (floats_fast apart).
#include <cmath>

#include "ir/eval_scalar.h"
#include "rules/symbolic.h"

namespace tg::rules {
namespace {
using namespace pat;

constexpr u32 kWhole = kInts | kBool;
constexpr Pat t = Pat(1).of(kBool), n = Pat(0).of(kBool);  // true, false

bool all_ones(UOp c) { return c.as_int() == wrap_int(c.dtype().kind, -1); }

// clang-format off
static constexpr Rule kBits[] = {
  {op(Op::And | Op::Or, {x, x}),       x},
  {x.of(kWhole) & 0,                   0},
  {x.of(kWhole) & c0,                  x,                    [](M m) { return all_ones(m[c0]); }},
  {x.of(kWhole) | 0,                   x},
  {x.of(kWhole) | c0,                  c0,                   [](M m) { return all_ones(m[c0]); }},
  {x.of(kWhole) ^ x,                   0},
  {x.of(kWhole) ^ 0,                   x},
  {(x.of(kWhole) ^ y) ^ y,             x},
  {i ^ c0,                             ~i,                   [](M m) { return all_ones(m[c0]); }},
  {b ^ 1,                              ~b},
  {~~x,                                x},
  {(x.of(kWhole) & c0) & c1,           x & (c0 & c1)},
  {(x.of(kWhole) | c0) | c1,           x | (c0 | c1)},
  {(x.of(kWhole) ^ c0) ^ c1,           x ^ (c0 ^ c1)},
  {(x & y) & y,                        x & y},
  {(x | y) | y,                        x | y},
  {x & (x | y),                        x},
  {x | (x & y),                        x},
  {x & ~x,                             0},
  {b | ~b,                             1},
  {(b & ~p) | p,                       b | p},
  {(~b & p) | b,                       b | p},
  {(b | ~p) & p,                       b & p},
  {(~b | p) & b,                       b & p},
  {eq(b, t),                           b},
  {eq(b, n),                           ~b},
  {ne(b, n),                           b},
  {ne(b, t),                           ~b},
  {b ^ p,                              ne(b, p)},
  {ne(ne(b, p), p),                    b},
  {lt(b, p),                           ~b & p},
  {le(b, p),                           ~b | p},
  {max(b, p),                          b | p},
  {min(b, p),                          b & p},
  {b * p,                              b & p},
  {~eq(x, y),                          ne(x, y)},
  {~ne(x, y),                          eq(x, y)},
  {~lt(i, j),                          le(j, i)},
  {~le(i, j),                          lt(j, i)},
  {lt(x, x),                           0},
  {le(i, i),                           1},
  {eq(x.of(kWhole), x),                1},
  {ne(x.of(kWhole), x),                0},

  {where(b, x, x),                     x},
  {where(t, x, y),                     x},
  {where(n, x, y),                     y},
  {where(~b, x, y),                    where(b, y, x)},
  {where(b, t, p),                     b | p},
  {where(b, p, n),                     b & p},
  {where(b, n, p),                     ~b & p},
  {where(b, p, t),                     ~b | p},
  {where(b, b, p),                     b | p},
  {where(b, p, b),                     b & p},
  {where(b, where(b, x, y), z),        where(b, x, z)},
  {where(b, x, where(b, y, z)),        where(b, x, z)},
  {where(b, where(p, x, y), y),        where(b & p, x, y)},
  {where(b, x, where(p, x, y)),        where(b | p, x, y)},
};

static constexpr Rule kIntegers[] = {
  {i + 0,                              i},
  {i - 0,                              i},
  {i - i,                              0},
  {i * 0,                              0},
  {i * 1,                              i},
  {i + -j,                             i - j},
  {i - -j,                             i + j},
  {-(-i),                              i},
  {-(i - j),                           j - i},
  {(i + c0) + c1,                      i + (c0 + c1)},
  {(i * c0) * c1,                      i * (c0 * c1)},
  {(i + j) - j,                        i},
  {(i - j) + j,                        i},
  {where(lt(i, j), i, j),              min(i, j)},
  {where(lt(i, j), j, i),              max(i, j)},
  {i / 0,                              0},
  {i % 0,                              i},
  {div(i, 0),                          0},
  {rem(i, 0),                          i},
  {i / 1,                              i},
  {i % 1,                              0},
  {div(i, 1),                          i},
  {rem(i, 1),                          0},
  {i % i,                              0},
  {rem(i, i),                          0},
  {(i % j) % j,                        i % j},
  {rem(rem(i, j), j),                  rem(i, j)},
  {(i / j) * j + i % j,                i},
  {i << 0,                             i},
  {i >> 0,                             i},
  {op(Op::Max | Op::Min, {i, i}),      i},
  {max(max(i, j), j),                  max(i, j)},
  {min(min(i, j), j),                  min(i, j)},
  {max(min(i, j), j),                  j},
  {min(max(i, j), j),                  j},
  {max(max(i, c0), c1),                max(i, max(c0, c1))},
  {min(min(i, c0), c1),                min(i, min(c0, c1))},
  {op(Op::Abs, {op(Op::Abs, {i}).as(j)}), j},
  {op(Op::Abs, {-i}),                  op(Op::Abs, {i}),     [](M m) { return !is_uint(m[i].dtype()); }},
};

constexpr OpSet kRounding = Op::Floor | Op::Ceil | Op::Trunc | Op::Round;
constexpr OpSet kFolds = Op::Add | Op::Sub | Op::Mul | Op::Div | Op::Rem | Op::Neg | Op::Abs | Op::Sqrt | Op::Recip | Op::Floor | Op::Ceil | Op::Trunc |
                         Op::Round | Op::Max | Op::Min | Op::MulAcc | Op::Lt | Op::Le | Op::Eq | Op::Ne;

// Ops that IEEE rounds correctly: the number is the same wherever it is computed.
UOp fold_floats(M m) {
  UOp u = m.root;
  u64 v[3];
  for (size_t a = 0; a < u.nsrc(); a++) v[a] = u.src(a).arg_bits();
  Kind kd = u.src(0).dtype().kind;
  return konst_bits(u.dtype(), eval_alu(u.op(), kd, std::span(v, u.nsrc())));
}

// x / 2^n is x * 2^-n: both round the same real number.
UOp times_power_of_two(M m) {
  f64 c = m[c0].as_float();
  int e;
  Kind kd = m[c0].dtype().kind;
  if (!std::isfinite(c) || std::abs(std::frexp(c, &e)) != 0.5) return {};
  f64 r = round_float(kd, 1 / c);
  return 1 / r == c && std::isfinite(r) && r != 0 ? m[f] * konst_f(m[c0].dtype(), r) : UOp();
}

static constexpr Rule kFloatsExact[] = {
  {f * 1,                              f},
  {f * -1,                             -f},
  {div(f, 1),                          f},
  {div(f, -1),                         -f},
  {f - 0,                              f},
  {f + -0.0,                           f},
  {f + -g,                             f - g},
  {f - -g,                             f + g},
  {-f * -g,                            f * g},
  {-(-f),                              f},
  {op(Op::Abs, {-f}),                  op(Op::Abs, {f})},
  {op(Op::Abs, {op(Op::Abs, {f}).as(g)}), g},
  {op(kRounding, {op(kRounding, {f}).as(g)}), g},
  {op(Op::Max | Op::Min, {f, f}),      f},
  {div(f, c0),                         times_power_of_two},
  {op(kFolds, {each(some_const.of(kFloats))}), fold_floats},
};

static constexpr Rule kFloatsFast[] = {
  {f + 0,                              f},
  {f * 0,                              0},
  {f - f,                              0},
  {div(f, f),                          1},
  {(f + c0) + c1,                      f + (c0 + c1)},
  {(f * c0) * c1,                      f * (c0 * c1)},
  {div(f, c0),                         f * div(1, c0),        [](M m) { return m[c0].as_float() != 0; }},
  {(f + g) - g,                        f},
  {(f - g) + g,                        f},
  {div(f * g, g),                      f},
  {f * g + h * g,                      (f + h) * g},
  {f + f,                              f * 2},
  {f * h + f,                          f * (h + 1),           [](M m) { return m[h].is_const(); }},
  {op(Op::Sqrt, {f}) * op(Op::Sqrt, {f}), f},
  {op(Op::Exp, {f}) * op(Op::Exp, {g}),   op(Op::Exp, {f + g})},
  {op(Op::Log, {op(Op::Exp, {f})}),       f},
};
// clang-format on

}  // namespace

const RuleSet& bits_and_bools() {
  static const RuleSet s("bits", kBits);
  return s;
}
const RuleSet& integers() {
  static const RuleSet s("integers", kIntegers);
  return s;
}
const RuleSet& floats_exact() {
  static const RuleSet s("floats_exact", kFloatsExact);
  return s;
}
const RuleSet& floats_fast() {
  static const RuleSet s("floats_fast", kFloatsFast);
  return s;
}

}  // namespace tg::rules
