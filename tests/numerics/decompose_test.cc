// decompose(), compiled, against the interpreter's arithmetic (ir/eval_scalar.h), which is written from the meaning of each op and shares no code
// with it: every op on every kind, with and without what the target may have, scalars and lanes.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/error.h"
#include "compiled.h"
#include "ir/eval.h"
#include "ir/eval_scalar.h"

using namespace tg;
using namespace tg::test;

namespace {

const DecompFlags kBare{.fma = false, .round = false, .f16 = false}, kFull{.fma = true, .round = true, .f16 = true};
const Kind kIntKinds[] = {Kind::I8, Kind::I16, Kind::I32, Kind::I64, Kind::U8, Kind::U16, Kind::U32, Kind::U64};
const Kind kFloatKinds[] = {Kind::F16, Kind::BF16, Kind::F32, Kind::F64};
const Kind kSmallKinds[] = {Kind::I2, Kind::U2, Kind::I4, Kind::U4, Kind::F8E4M3FN, Kind::F8E4M3FNUZ, Kind::F8E5M2, Kind::F8E5M2FNUZ, Kind::F8E8M0, Kind::F4E2M1};

// Numbers of a kind that find mistakes: its ends, their neighbours, small ones, powers of two, and random bits.
std::vector<u64> samples(Kind k, u64 seed, size_t n) {
  std::vector<u64> v;
  std::mt19937_64 g(seed);
  auto bits_in = [&](u64 b) { v.push_back(from_bits(k, b & (bits(k) == 64 ? ~u64(0) : (u64(1) << bits(k)) - 1))); };
  if (is_float(k)) {
    for (f64 x : {0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, 3.5, -2.5, 0.1, 127.4, 127.5, 128.0, -128.5, 255.5, 32767.5, 65503.9, 65519.9, 65520.0, 2147483647.0,
                  2147483648.0, -2147483648.0, -2147483649.0, 4294967295.0, 4294967296.0, 9223372036854775807.0, -9223372036854775808.0, 18446744073709551615.0,
                  448.0, 464.0, 480.0, 240.0, 248.0, 57344.0, 61440.0, 0x1p-14, 0x1p-15, 0x1.8p-25, 0x1p-25, 0x1p-126, 0x1p-149, 1e-5, 1e30, -1e30, 6.0, 5.0, 0.25, 0.75,
                  f64(INFINITY), -f64(INFINITY), f64(NAN)})
      v.push_back(from_f64(round_to(k, x)));
  } else {
    for (i64 x : {int_min(k), int_min(k) + 1, int_max(k), int_max(k) - 1}) v.push_back(u64(x));
    for (i64 x = -20; x <= 70; x++) v.push_back(u64(wrap_int(k, x)));
    if (k == Kind::U64) v.push_back(~u64(0)), v.push_back(u64(1) << 63);
  }
  for (size_t i = 0; v.size() < n; i++) {
    if (!is_float(k) || i % 2) bits_in(g());
    else v.push_back(from_f64(round_to(k, std::ldexp(f64(i64(g())), int(g() % 90) - 110))));  // about 2^-47 .. 2^43
  }
  v.resize(n);
  return v;
}
std::vector<u8> bytes(Kind k, const std::vector<u64>& v) { return encode({DType(k), {i64(v.size())}, v}); }
std::vector<u64> numbers(Kind k, const std::vector<u8>& b, size_t n) { return decode(DType(k), {i64(n)}, b).v; }

struct Case {
  Op op;
  Kind kind, to;  // to: the result's kind
  int sources;
  int f[2][2] = {};  // by flags, by lanes
  // What the target may have matters to floats alone, and among casts to f16.
  // Casts go through f32 or i32 anyway: those two stand for the others in lanes.
  bool in_lanes() const { return op != Op::Cast || kind == Kind::F32 || to == Kind::F32 || kind == Kind::I32 || to == Kind::I32; }
  bool depends_on_flags() const { return op == Op::Cast ? kind == Kind::F16 || to == Kind::F16 : is_float(kind); }
};

// The same number, NaN being one number. Zeros of Max and Min may have either sign, which the contract leaves open.
bool agree(Kind k, u64 got, u64 want, bool signs) {
  if (!is_float(k)) return got == want;
  f64 a = as_f64(got), b = as_f64(want);
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b && (!signs || std::signbit(a) == std::signbit(b));
}

void check_cases(std::vector<Case>& cases) {
  Arena arena;
  Arena::Scope scope(arena);
  Library lib;
  constexpr int kLanes = 8;
  for (Case& c : cases)
    for (int flags = !c.depends_on_flags(); flags < 2; flags++)
      for (int wide = 0; wide < 1 + c.in_lanes(); wide++) {
        auto f = [&](std::span<const UOp> v) -> UOp {
          DType d(c.to, v[0].dtype().lanes);
          if (c.op == Op::Cast) return node(Op::Cast, d, {v[0]});
          if (c.op == Op::Where) {
            UOp cond = ne(v[0], konst(v[0].dtype(), 0));
            return alu(Op::Where, {cond, v[1], v[2]});
          }
          return alu(c.op, v);
        };
        c.f[flags][wide] = lib.add(std::vector<Kind>(size_t(c.sources), c.kind), f, flags ? kFull : kBare, wide ? kLanes : 1);
      }
  lib.build("-march=native");
  constexpr size_t n = 16384;
  for (Case& c : cases) {
    std::vector<u64> base = samples(c.kind, 7, n);
    size_t special = is_float(c.kind) ? 52 : 95;
    std::vector<std::vector<u64>> in(3, std::vector<u64>(n));
    for (size_t i = 0; i < n; i++) {
      in[0][i] = base[i];
      in[1][i] = i < special * special ? base[i / special] : base[(i * 7919) % n];
      if (i < special * special && c.sources > 1) in[0][i] = base[i % special];
      in[2][i] = base[(i * 104729 + 13) % n];
    }
    std::vector<std::vector<u8>> mem;
    for (auto& v : in) mem.push_back(bytes(c.kind, v));
    for (int flags = !c.depends_on_flags(); flags < 2; flags++)
      for (int wide = 0; wide < 1 + c.in_lanes(); wide++) {
        std::vector<u8> out(size_t(byte_size(c.to, n)));
        lib.call(c.f[flags][wide], {out.data(), mem[0].data(), mem[1].data(), mem[2].data()}, n);
        std::vector<u64> got = numbers(c.to, out, n);
        int shown = 0;
        for (size_t i = 0; i < n && shown < 3; i++) {
          u64 a[3] = {in[0][i], in[1][i], in[2][i]};
          u64 want = c.op == Op::Cast    ? eval_cast(c.to, c.kind, a[0])
                     : c.op == Op::Where ? (eval_cast(Kind::Bool, c.kind, a[0]) ? a[1] : a[2])
                                         : eval_alu(c.op, DType(c.kind), std::span<const u64>(a, size_t(c.sources)));
          bool signs = c.op != Op::Max && c.op != Op::Min;
          if (agree(c.to, got[i], want, signs)) continue;
          auto show = [](Kind k, u64 v) { return is_float(k) ? str(as_f64(v)) : str(i64(v)); };
          ADD_FAILURE() << info(c.op).name << " of " << name(c.kind) << " to " << name(c.to) << (flags ? " full" : " bare") << (wide ? " lanes" : " scalar") << ": ("
                        << show(c.kind, a[0]) << ", " << show(c.kind, a[1]) << ", " << show(c.kind, a[2]) << ") gives " << show(c.to, got[i]) << ", not "
                        << show(c.to, want);
          shown++;
        }
      }
  }
}

}  // namespace

TEST(Decompose, IntegerOps) {
  std::vector<Case> cases;
  for (Kind k : kIntKinds) {
    for (Op op : {Op::Neg, Op::Not, Op::Abs, Op::Floor}) cases.push_back({op, k, k, 1});
    for (Op op : {Op::Add, Op::Sub, Op::Mul, Op::Div, Op::Rem, Op::FloorDiv, Op::FloorMod, Op::Max, Op::Min, Op::And, Op::Or, Op::Xor, Op::Shl, Op::Shr})
      cases.push_back({op, k, k, 2});
    for (Op op : {Op::Lt, Op::Le, Op::Eq, Op::Ne}) cases.push_back({op, k, Kind::Bool, 2});
    for (Op op : {Op::MulAcc, Op::Where}) cases.push_back({op, k, k, 3});
  }
  check_cases(cases);
}
TEST(Decompose, BoolOps) {
  std::vector<Case> cases;
  cases.push_back({Op::Not, Kind::Bool, Kind::Bool, 1});
  for (Op op : {Op::Add, Op::Mul, Op::Max, Op::Min, Op::And, Op::Or, Op::Xor, Op::Lt, Op::Le, Op::Eq, Op::Ne}) cases.push_back({op, Kind::Bool, Kind::Bool, 2});
  cases.push_back({Op::Where, Kind::Bool, Kind::Bool, 3});
  check_cases(cases);
}
TEST(Decompose, FloatOps) {
  std::vector<Case> cases;
  for (Kind k : kFloatKinds) {
    for (Op op : {Op::Neg, Op::Abs, Op::Sqrt, Op::Recip, Op::Floor, Op::Ceil, Op::Trunc, Op::Round}) cases.push_back({op, k, k, 1});
    for (Op op : {Op::Add, Op::Sub, Op::Mul, Op::Div, Op::Rem, Op::Max, Op::Min}) cases.push_back({op, k, k, 2});
    for (Op op : {Op::Lt, Op::Le, Op::Eq, Op::Ne}) cases.push_back({op, k, Kind::Bool, 2});
    cases.push_back({Op::Where, k, k, 3});
    if (k != Kind::F64) cases.push_back({Op::MulAcc, k, k, 3});  // f64 without FMA is right but at the ends of the range
  }
  check_cases(cases);
}
TEST(Decompose, CastsBetweenAllKinds) {
  std::vector<Kind> all{Kind::Bool};
  all.insert(all.end(), std::begin(kIntKinds), std::end(kIntKinds));
  all.insert(all.end(), std::begin(kFloatKinds), std::end(kFloatKinds));
  all.insert(all.end(), std::begin(kSmallKinds), std::end(kSmallKinds));
  std::vector<Case> cases;
  for (Kind from : all)
    for (Kind to : all)
      if (from != to) cases.push_back({Op::Cast, from, to, 1});
  check_cases(cases);
}
