// The numeric contract of the transcendental ops (formats/README.md): every 4,099th float against the C library in f64, and the values where
// C99 says exactly what comes out. The tool `ulp` runs the same over all floats.
#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "codegen/transcendental.h"
#include "compiled.h"
#include "contract.h"
#include "reference.h"

using namespace tg;
using namespace tg::test;

namespace {
constexpr f64 kInf = INFINITY, kNaN = NAN;
constexpr f64 kPi = 3.14159265358979323846;

struct Exact {
  Op op;
  f64 x, y, want;
};
// IEEE 754 and C99 annex F: the edges of each function.
const Exact kExact[] = {
    {Op::Exp, 0, 0, 1}, {Op::Exp, -0.0, 0, 1}, {Op::Exp, -kInf, 0, 0}, {Op::Exp, kInf, 0, kInf}, {Op::Exp, kNaN, 0, kNaN}, {Op::Exp, 1000, 0, kInf},
    {Op::Exp, -1000, 0, 0}, {Op::Exp2, 0, 0, 1}, {Op::Exp2, 10, 0, 1024}, {Op::Exp2, -149, 0, 0x1p-149}, {Op::Exp2, -kInf, 0, 0}, {Op::Exp2, kInf, 0, kInf},
    {Op::Log, 1, 0, 0}, {Op::Log, 0, 0, -kInf}, {Op::Log, -0.0, 0, -kInf}, {Op::Log, kInf, 0, kInf}, {Op::Log, -1, 0, kNaN}, {Op::Log, -kInf, 0, kNaN},
    {Op::Log2, 1, 0, 0}, {Op::Log2, 8, 0, 3}, {Op::Log2, 0x1p-149, 0, -149}, {Op::Log2, 0, 0, -kInf}, {Op::Log2, -2, 0, kNaN}, {Op::Log2, kInf, 0, kInf},
    {Op::Sin, 0, 0, 0}, {Op::Sin, -0.0, 0, -0.0}, {Op::Sin, kInf, 0, kNaN}, {Op::Sin, kNaN, 0, kNaN}, {Op::Cos, 0, 0, 1}, {Op::Cos, -0.0, 0, 1},
    {Op::Cos, -kInf, 0, kNaN}, {Op::Tan, -0.0, 0, -0.0}, {Op::Tan, kInf, 0, kNaN}, {Op::Asin, -0.0, 0, -0.0}, {Op::Asin, 2, 0, kNaN}, {Op::Acos, 1, 0, 0},
    {Op::Acos, 1.5, 0, kNaN}, {Op::Acos, -1.5, 0, kNaN}, {Op::Atan, -0.0, 0, -0.0}, {Op::Sinh, -0.0, 0, -0.0}, {Op::Sinh, -kInf, 0, -kInf}, {Op::Cosh, 0, 0, 1},
    {Op::Cosh, -kInf, 0, kInf}, {Op::Tanh, -0.0, 0, -0.0}, {Op::Tanh, kInf, 0, 1}, {Op::Tanh, -kInf, 0, -1}, {Op::Asinh, -0.0, 0, -0.0},
    {Op::Asinh, -kInf, 0, -kInf}, {Op::Acosh, 1, 0, 0}, {Op::Acosh, 0.5, 0, kNaN}, {Op::Acosh, -kInf, 0, kNaN}, {Op::Acosh, kInf, 0, kInf},
    {Op::Atanh, -0.0, 0, -0.0}, {Op::Atanh, 1, 0, kInf}, {Op::Atanh, -1, 0, -kInf}, {Op::Atanh, 2, 0, kNaN}, {Op::Erf, -0.0, 0, -0.0}, {Op::Erf, kInf, 0, 1},
    {Op::Erf, -kInf, 0, -1}, {Op::Erf, kNaN, 0, kNaN},
    {Op::Pow, kNaN, 0, 1}, {Op::Pow, 1, kNaN, 1}, {Op::Pow, -1, kInf, 1}, {Op::Pow, -1, -kInf, 1}, {Op::Pow, -1, kNaN, kNaN}, {Op::Pow, kNaN, 1, kNaN},
    {Op::Pow, 0, -1, kInf}, {Op::Pow, -0.0, -1, -kInf}, {Op::Pow, -0.0, -2, kInf}, {Op::Pow, -0.0, -0.5, kInf}, {Op::Pow, -0.0, 3, -0.0}, {Op::Pow, -0.0, 2, 0},
    {Op::Pow, 0, -kInf, kInf}, {Op::Pow, 0, kInf, 0}, {Op::Pow, 2, kInf, kInf}, {Op::Pow, 0.5, kInf, 0}, {Op::Pow, 2, -kInf, 0}, {Op::Pow, 0.5, -kInf, kInf},
    {Op::Pow, -kInf, 3, -kInf}, {Op::Pow, -kInf, 2, kInf}, {Op::Pow, -kInf, -3, -0.0}, {Op::Pow, -kInf, -2, 0}, {Op::Pow, kInf, -1, 0}, {Op::Pow, kInf, 1, kInf},
    {Op::Pow, -2, 3, -8}, {Op::Pow, -2, 2, 4}, {Op::Pow, -2, 0.5, kNaN}, {Op::Pow, 3, 2, 9}, {Op::Pow, -kInf, 0.5, kInf}, {Op::Pow, 2, -149, 0x1p-149},
    {Op::Pow, 10, 300, kInf}, {Op::Pow, 0.1, 300, 0},
};

std::vector<Op> all_ops() {
  std::vector<Op> ops;
  for (int i = 0; i < kOps; i++)
    if (kTranscendental.has(Op(i))) ops.push_back(Op(i));
  return ops;
}

template <class T, class W>
class Ops {
 public:
  explicit Ops(int lanes = 1, bool tables = false) {
    Kind k = sizeof(T) == 4 ? Kind::F32 : Kind::F64;
    for (Op op : all_ops())
      at_[int(op)] = library_.add(std::vector<Kind>(op == Op::Pow ? 2 : 1, k), [&](std::span<const UOp> v) { return lower_transcendental(alu(op, v), tables); }, {}, lanes);
    library_.build();
  }
  std::vector<T> operator()(Op op, const std::vector<T>& x, const std::vector<T>& y) const {
    std::vector<T> out(x.size());
    library_.call(at_[int(op)], {out.data(), x.data(), y.data()}, i64(x.size()));
    return out;
  }
  // No further from the reference than the contract allows.
  void within(Op op, const std::vector<T>& x, const std::vector<T>& y) const {
    static const std::map<std::string, f64> contract = contract_ulps(sizeof(T) == 4 ? 1 : 2);
    f64 most = contract.at(std::string(info(op).name));
    std::vector<T> got = (*this)(op, x, y);
    f64 worst = -1;
    size_t at = 0;
    for (size_t i = 0; i < x.size(); i++) {
      f64 u = ulps<T, W>(got[i], reference<W>(op, W(x[i]), W(y[i])));
      if (u > worst) worst = u, at = i;
    }
    EXPECT_LE(worst, most) << info(op).name << "(" << x[at] << ", " << y[at] << ") = " << got[at];
  }

 private:
  Arena arena_;
  Arena::Scope scope_{arena_};
  Library library_;
  int at_[kOps] = {};
};
const Ops<f32, f64>& singles() {
  static Ops<f32, f64> o;
  return o;
}
const Ops<f32, f64>& by_tables() {
  static Ops<f32, f64> o(1, true);
  return o;
}
const Ops<f64, long double>& doubles() {
  static Ops<f64, long double> o;
  return o;
}

template <class T>
void same(T got, T want, const std::string& what) {
  if (std::isnan(want)) EXPECT_TRUE(std::isnan(got)) << what << ": got " << got;
  else EXPECT_TRUE(got == want && std::signbit(got) == std::signbit(want)) << what << ": got " << got << ", want " << want;
}
}  // namespace

TEST(Transcendental, EdgesAreThoseOfC99InF32) {
  for (const Exact& e : kExact)
    for (const Ops<f32, f64>* ops : {&singles(), &by_tables()})
      same<f32>((*ops)(e.op, {f32(e.x)}, {f32(e.y)})[0], f32(e.want), str(info(e.op).name, "(", e.x, ", ", e.y, ")", ops == &by_tables() ? " by tables" : ""));
}
TEST(Transcendental, EdgesAreThoseOfC99InF64) {
  for (const Exact& e : kExact) {
    f64 want = e.op == Op::Pow && e.x == 10 ? 1e300 : e.op == Op::Pow && e.x == 0.1 ? 1e-300 : e.want;
    f64 got = doubles()(e.op, {e.x}, {e.y})[0];
    if (want == 1e300 || want == 1e-300) EXPECT_LE((ulps<f64, long double>(got, std::pow((long double)e.x, (long double)e.y))), 4);
    else same<f64>(got, want, str(info(e.op).name, "(", e.x, ", ", e.y, ")"));
  }
}

TEST(Transcendental, F32KeepsTheContractOnEvery4099thFloat) {
  std::vector<f32> x;
  for (u64 b = 0; b < u64(1) << 32; b += 4099) x.push_back(std::bit_cast<f32>(u32(b)));
  std::vector<f32> y(x.size());
  for (Op op : all_ops())
    if (op != Op::Pow) singles().within(op, x, y);
  for (Op op : {Op::Exp, Op::Tanh, Op::Erf}) by_tables().within(op, x, y);
}
// Where results leave the normal numbers at both ends, each float.
TEST(Transcendental, ExpByTablesKeepsTheContractAtTheEndsOfTheRange) {
  for (auto [from, to] : {std::pair(-104.1f, -87.f), std::pair(87.f, 88.8f)}) {
    u32 a = std::bit_cast<u32>(from), b = std::bit_cast<u32>(to);
    std::vector<f32> x;
    for (u32 i = std::min(a, b); i <= std::max(a, b); i++) x.push_back(std::bit_cast<f32>(i));
    by_tables().within(Op::Exp, x, x);
  }
}
TEST(Transcendental, F32PowKeepsTheContract) {
  std::mt19937_64 g(1);
  std::vector<f32> x, y;
  for (int i = 0; i < 400'000; i++) {
    f64 u = f64(g() >> 11) * 0x1p-53, v = f64(g() >> 11) * 0x1p-53;
    switch (i % 4) {
      case 0: x.push_back(std::bit_cast<f32>(u32(g()))), y.push_back(std::bit_cast<f32>(u32(g()))); break;
      case 1: x.push_back(f32(u * 30)), y.push_back(f32(v * 60 - 30)); break;
      case 2: x.push_back(f32(1 + (u - 0.5) * 0x1p-8)), y.push_back(f32((v - 0.5) * 65536)); break;  // near 1, large exponents
      default: x.push_back(f32(std::exp(u * 170 - 85))), y.push_back(f32(v * 4 - 2)); break;
    }
    if (i % 8 > 4) x.back() = -x.back(), y.back() = std::round(y.back());
  }
  singles().within(Op::Pow, x, y);
}
TEST(Transcendental, F64KeepsTheContract) {
  std::mt19937_64 g(2);
  for (Op op : all_ops()) {
    std::vector<f64> x, y;
    f64 reach = op == Op::Exp || op == Op::Sinh || op == Op::Cosh ? 700 : op == Op::Exp2 || op == Op::Pow ? 1000 : op == Op::Asin || op == Op::Acos || op == Op::Atanh ? 1 : 8;
    for (int i = 0; i < 40'000; i++) {
      f64 u = f64(g() >> 11) * 0x1p-53, v = f64(g() >> 11) * 0x1p-53;
      x.push_back(i % 2 ? std::bit_cast<f64>(g()) : op == Op::Pow ? u * 30 : (2 * u - 1) * reach);
      y.push_back(i % 4 == 3 ? std::bit_cast<f64>(g()) : (2 * v - 1) * 100);
    }
    doubles().within(op, x, y);
  }
}
// Reduction of the argument fails first next to multiples of pi/2 and for huge arguments.
TEST(Transcendental, SinCosTanNearMultiplesOfHalfPi) {
  std::vector<f32> x;
  std::vector<f64> d;
  for (int e = 0; e < 127; e++)
    for (int k = 1; k < 60; k++) {
      f64 m = std::ldexp(std::round(std::ldexp(1.0, e) * k / (kPi / 2)) * (kPi / 2), 0);
      if (std::abs(m) < 3e38) x.push_back(f32(m)), x.push_back(std::nextafter(f32(m), 0.f));
    }
  for (int e = 0; e < 1000; e++)
    for (int k = 1; k < 20; k++) d.push_back(std::ldexp(k * kPi / 16, e));
  d.push_back(6381956970095103.0 * std::ldexp(1.0, 797));  // the f64 nearest to a multiple of pi/2, Muller et al., Handbook of Floating-Point Arithmetic, 11.2
  std::vector<f32> y(x.size());
  std::vector<f64> z(d.size());
  for (Op op : {Op::Sin, Op::Cos, Op::Tan}) singles().within(op, x, y), doubles().within(op, d, z);
}
TEST(Transcendental, LanesGiveTheBitsOfScalars) {
  Ops<f32, f64> wide(8), wide_tables(16, true);
  std::mt19937 g(3);
  std::vector<f32> x(4096), y(4096);
  for (f32& v : x) v = std::bit_cast<f32>(u32(g()));
  for (f32& v : y) v = f32(g() % 64) - 32;
  for (Op op : all_ops())
    for (bool tables : {false, true}) {
      std::vector<f32> a = tables ? by_tables()(op, x, y) : singles()(op, x, y), b = tables ? wide_tables(op, x, y) : wide(op, x, y);
      for (size_t i = 0; i < x.size(); i++)
        ASSERT_TRUE(std::bit_cast<u32>(a[i]) == std::bit_cast<u32>(b[i]) || (std::isnan(a[i]) && std::isnan(b[i]))) << info(op).name << "(" << x[i] << ", " << y[i] << ")";
    }
}

namespace {
std::vector<f32> pattern(const std::function<UOp(UOp)>& f, const std::vector<f32>& x) {
  Arena arena;
  Arena::Scope scope(arena);
  Library l;
  l.add({Kind::F32}, [&](std::span<const UOp> v) { return f(v[0]); }, {});
  l.build();
  std::vector<f32> out(x.size());
  l.call(0, {out.data(), x.data()}, i64(x.size()));
  return out;
}
}  // namespace

namespace {
// The number at the start of a pattern's bound.
f64 pattern_bound(const std::string& start) {
  for (const std::vector<std::string>& row : contract_table("### Patterns"))
    if (row[0].starts_with(start)) return std::stod(row[1]);
  ADD_FAILURE() << "no pattern " << start << " in the contract";
  return 0;
}
}  // namespace

TEST(Patterns, ExpFastKeepsTheContractAndIsZeroBelowTheNormalNumbers) {
  std::vector<f32> x{0.f, -f32(kInf), f32(kNaN), -100.f, -87.3f};
  for (u64 b = 0x80000000; b < 0x100000000; b += 1021) x.push_back(std::bit_cast<f32>(u32(b)));
  for (bool tables : {false, true}) {
    std::vector<f32> got = pattern([&](UOp v) { return exp_fast(v, tables); }, x);
    EXPECT_EQ(got[0], 1.f);
    EXPECT_EQ(got[1], 0.f);
    EXPECT_TRUE(std::isnan(got[2]));
    f64 worst = 0;
    for (size_t i = 0; i < x.size(); i++) {
      if (std::isnan(x[i])) {
        EXPECT_TRUE(std::isnan(got[i]));
        continue;
      }
      f64 want = std::exp(f64(x[i]));
      if (want >= 0x1.001p-126) worst = std::max(worst, ulps<f32, f64>(got[i], want));
      else EXPECT_TRUE(got[i] == 0 || ulps<f32>(got[i], want) <= 4) << x[i];
    }
    EXPECT_LE(worst, pattern_bound("exp(x - max)")) << (tables ? "by tables" : "");
  }
}
TEST(Patterns, SigmoidKeepsTheContract) {
  std::vector<f32> x{0.f, f32(kInf), -f32(kInf), f32(kNaN)};
  for (u64 b = 0; b < 0x100000000; b += 1021) x.push_back(std::bit_cast<f32>(u32(b)));
  for (bool tables : {false, true}) {
    std::vector<f32> got = pattern([&](UOp v) { return sigmoid_fast(v, tables); }, x);
    EXPECT_EQ(got[0], 0.5f);
    EXPECT_EQ(got[1], 1.f);
    EXPECT_TRUE(got[2] >= 0 && got[2] <= 0x1p-126f);
    f64 worst = 0;
    for (size_t i = 0; i < x.size(); i++) {
      if (std::isnan(x[i])) {
        EXPECT_TRUE(std::isnan(got[i]));
        continue;
      }
      f64 want = 1 / (1 + std::exp(-f64(x[i])));
      if (want >= 0x1.001p-126) worst = std::max(worst, ulps<f32, f64>(got[i], want));
      else EXPECT_TRUE(got[i] >= 0 && got[i] <= 0x1.002p-126f) << x[i];
    }
    EXPECT_LE(worst, pattern_bound("1 / (1 + exp")) << (tables ? "by tables" : "");
  }
}
TEST(Patterns, GeluErfKeepsTheContract) {
  std::vector<f32> x;
  for (u64 b = 0; b < 0x100000000; b += 1021) {
    f32 v = std::bit_cast<f32>(u32(b));
    if (std::isfinite(v)) x.push_back(v);
  }
  std::vector<f32> got = pattern(gelu_erf, x);
  f64 worst = 0;
  for (size_t i = 0; i < x.size(); i++) {
    f64 v = x[i], want = v * 0.5 * std::erfc(-v / std::sqrt(2.0));
    worst = std::max(worst, std::abs(f64(got[i]) - want) / std::max(1.0, std::abs(v)));
  }
  EXPECT_LE(worst, pattern_bound("gelu"));
  EXPECT_TRUE(std::isnan(pattern(gelu_erf, {f32(kNaN)})[0]));
}
