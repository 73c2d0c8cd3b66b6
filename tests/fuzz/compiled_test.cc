// Lists whose machine code must agree with the interpreter bit for bit: what random kernels reach seldom.
#include "compiled.h"

#include <gtest/gtest.h>

#include <cmath>

#include "backend/backend.h"
#include "base/error.h"
#include "codegen/decompose.h"
#include "ir/eval_linear.h"
#include "ir/spec.h"
#include "ir/text.h"

using namespace tg;

namespace {

class Compiled : public testing::Test {
 protected:
  Arena arena;
  Arena::Scope scope{arena};
  std::vector<Values> bufs;

  void buffer(std::vector<f64> v, Kind k = Kind::F32) { bufs.push_back(values(k, {i64(v.size())}, v)); }
  void buffer(size_t n, Kind k = Kind::F32) { buffer(std::vector<f64>(n, 77), k); }
  // Numbers of buffer 0 after the list has run as machine code; the interpreter must say the same.
  std::vector<f64> run(std::string_view text, const Target& target = fuzz::host()) {
    std::vector<UOp> list = decompose(parse_list(text), decomp_flags(target));
    EXPECT_EQ(violation(list), "");
    std::vector<Values> want = bufs, got = bufs;
    eval_linear(list, want);
    fuzz::run_compiled(list, 1, target, got);
    std::vector<f64> r, w;
    for (i64 i = 0; i < got[0].elems(); i++) r.push_back(got[0].number(i)), w.push_back(want[0].number(i));
    for (size_t i = 0; i < r.size(); i++) EXPECT_TRUE(r[i] == w[i] || (std::isnan(r[i]) && std::isnan(w[i]))) << "element " << i << ": " << r[i] << ", interpreter " << w[i];
    return r;
  }
};
using V = std::vector<f64>;
constexpr f64 kInf = std::numeric_limits<f64>::infinity(), kNaN = std::numeric_limits<f64>::quiet_NaN();

// --- tables -------------------------------------------------------------------------------------------------------------------------------
// Indices of every size, and lanes that fill no register, one or several.
TEST_F(Compiled, ALookupTakesTheIndexModuloItsLength) {
  for (const char* renderer : {"LLVM", "CLANG"})
    for (i64 n : {2, 16, 32, 64})
      for (i64 lanes : {1, 2, 3, 8, 16, 32, 48}) {
        Result<Target> t = cpu_target("native", renderer);
        ASSERT_TRUE(t) << t.why();
        V x, want;
        std::string list;
        for (i64 i = 0; i < n; i++) list += str(i ? ", " : "", i * i * i * 4099 - 70000);
        for (i64 i = 0; i < lanes; i++) {
          i64 v = i % 3 == 0 ? i * 1234567 : i % 3 == 1 ? -i : i;
          x.push_back(f64(v));
          i64 at = v & (n - 1);
          want.push_back(f64(at * at * at * 4099 - 70000));
        }
        bufs.clear(), buffer(size_t(lanes), Kind::I32), buffer(x, Kind::I32);
        std::string d = lanes == 1 ? "i32" : str("i32x", lanes);
        EXPECT_EQ(run(str("%o = PARAM i32 #0\n%x = PARAM i32 #1\n%0 = CONST index 0\n%a = INDEX i32 %x %0\n%v = LOAD ", d, " %a\n%l = LOOKUP ", d, " [", list,
                          "] %v\n%b = INDEX i32 %o %0\n%s = STORE void %b %l\n"), *t), want) << renderer << ", " << n << " numbers, " << lanes << " lanes";
      }
}

// --- dot instructions ---------------------------------------------------------------------------------------------------------------------
// out[i] = c + the sums of a*b over groups, as one DOT. Targets whose instructions this machine lacks are passed over.
class DotTest : public Compiled {
 protected:
  bool runs_here(const Target& t) {
    for (const std::string& f : t.needs)
      if (std::find(fuzz::host().needs.begin(), fuzz::host().needs.end(), f) == fuzz::host().needs.end()) return false;
    return true;
  }
  Target on(const char* arch) {
    Result<Target> t = cpu_target(arch, "LLVM");
    EXPECT_TRUE(t) << t.why();
    return *t;
  }
  std::string list(const char* a, i64 na, const char* b, i64 nb, const char* c, i64 n, const char* first) {
    return str("%o = PARAM ", c, " #0\n%x = PARAM ", a, " #1\n%y = PARAM ", b, " #2\n%0 = CONST index 0\n%c = CONST ", c, "x", n, " ", first, "\n%xi = INDEX ", a,
               " %x %0\n%yi = INDEX ", b, " %y %0\n%xv = LOAD ", a, "x", na, " %xi\n%yv = LOAD ", b, "x", nb, " %yi\n%d = DOT ", c, "x", n, " %xv %yv %c\n%p = INDEX ", c,
               " %o %0\n%s = STORE void %p %d\n");
  }
};
TEST_F(DotTest, TheLargestBytesDoNotSaturate) {
  for (const char* arch : {"x86_64,znver4", "x86_64,haswell", "x86_64,skylake-avx512", "x86_64"}) {
    Target t = on(arch);
    if (!runs_here(t)) continue;
    i64 group = t.has_vnni ? 4 : 2;
    for (i64 n = 4; n <= t.vector_bytes / 4; n *= 2) {
      // Lane i: every product 255 * -128, but for lane 1, where they are 255 * 127, and 1000 to begin with.
      std::vector<f64> y(size_t(n * group), -128);
      for (i64 j = 0; j < group; j++) y[size_t(group + j)] = 127;
      bufs.clear(), buffer(size_t(n), Kind::I32), buffer(std::vector<f64>(size_t(n * group), 255), Kind::U8), buffer(y, Kind::I8);
      V want(size_t(n), 1000 - f64(group) * 32640);
      want[1] = 1000 + f64(group) * 32385;
      EXPECT_EQ(run(list("u8", n * group, "i8", n * group, "i32", n, "1000"), t), want) << arch << ", " << n << " lanes";
      bufs[1] = values(Kind::U8, {group}, std::vector<f64>(size_t(group), 255));
      EXPECT_EQ(run(list("u8", group, "i8", n * group, "i32", n, "1000"), t), want) << arch << ", one group for all lanes";
    }
  }
}
TEST_F(DotTest, ProductsMeetTheirNeighbours) {
  Target t = on("x86_64,znver4");
  if (!runs_here(t)) GTEST_SKIP() << "no vpdpbusd here";
  V x, y, want;
  for (int i = 0; i < 64; i++) x.push_back(i % 5), y.push_back(i % 7 - 3);
  for (int i = 0; i < 16; i++) {
    f64 s = -7;
    for (int j = 0; j < 4; j++) s += x[size_t(j)] * y[size_t(4 * i + j)];
    want.push_back(s);
  }
  buffer(size_t(16), Kind::I32), buffer(V(x.begin(), x.begin() + 4), Kind::U8), buffer(y, Kind::I8);
  EXPECT_EQ(run(list("u8", 4, "i8", 64, "i32", 16, "-7"), t), want);
}
TEST_F(DotTest, SignedAndUnsignedPairs) {
  Target t = on("x86_64,haswell");
  if (!runs_here(t)) GTEST_SKIP() << "no AVX2 here";
  V x{-128, 127, 3, -4, 5, -6, 7, -8}, y{-128, -128, 1, 2, 3, 4, 5, 6};
  V want{128.0 * 128 - 127.0 * 128, 3 - 8, 15 - 24, 35 - 48};
  buffer(size_t(4), Kind::I32), buffer(x, Kind::I8), buffer(y, Kind::I8);
  EXPECT_EQ(run(list("i8", 8, "i8", 8, "i32", 4, "0"), t), want);
  for (f64& v : x) v = v + 128;
  want = {0.0 * -128 - 255.0 * 128, 131 + 124 * 2.0, 133 * 3 + 122 * 4.0, 135 * 5 + 120 * 6.0};
  bufs[1] = values(Kind::U8, {8}, x);
  EXPECT_EQ(run(list("u8", 8, "i8", 8, "i32", 4, "0"), t), want);
}
TEST_F(DotTest, Bf16) {
  for (const char* arch : {"x86_64,znver4", "x86_64,haswell"})
    for (i64 n : {4, 8, 16}) {
      Target t = on(arch);
      if (!runs_here(t) || n > t.vector_bytes / 4) continue;
      V x, y, want;
      for (i64 i = 0; i < 2 * n; i++) x.push_back(f64(i) / 4 - 2), y.push_back(3 - f64(i % 9));
      for (i64 i = 0; i < n; i++) want.push_back(0.5 + x[size_t(2 * i)] * y[size_t(2 * i)] + x[size_t(2 * i + 1)] * y[size_t(2 * i + 1)]);
      bufs.clear(), buffer(size_t(n), Kind::F32), buffer(x, Kind::BF16), buffer(y, Kind::BF16);
      EXPECT_EQ(run(list("bf16", 2 * n, "bf16", 2 * n, "f32", n, "0.5"), t), want) << arch << ", " << n << " lanes";
    }
}

// --- horizontal reduces -----------------------------------------------------------------------------------------------------------------
TEST_F(Compiled, AHorizontalReduceOfAConstant) {
  for (const char* lanes : {"3", "8", "13"})
    for (const char* kind : {"2", "3"}) {
      bufs.clear(), buffer(size_t(1));
      EXPECT_EQ(run(str("%o = PARAM f32 #0\n%0 = CONST index 0\n%c = CONST f32x", lanes, " 2.5\n%h = HREDUCE f32 #", kind, " %c\n%p = INDEX f32 %o %0\n%s = STORE void %p %h\n")),
                V{2.5});
    }
}
TEST_F(Compiled, NaNPassesThroughMaxAndMin) {
  for (const char* kind : {"2", "3"})
    for (size_t at = 0; at < 8; at++) {
      std::vector<f64> x{3, -1, 2, kInf, -kInf, 0, 7, 1};
      x[at] = kNaN;
      bufs.clear(), buffer(size_t(1)), buffer(x);
      EXPECT_TRUE(std::isnan(run(str("%o = PARAM f32 #0\n%x = PARAM f32 #1\n%0 = CONST index 0\n%xi = INDEX f32 %x %0\n%v = LOAD f32x8 %xi\n%h = HREDUCE f32 #", kind,
                                     " %v\n%p = INDEX f32 %o %0\n%s = STORE void %p %h\n"))[0]))
          << "lane " << at;
    }
}
TEST_F(Compiled, MaxWithAConstant) {
  // An accumulator and a constant: a NaN on either side wins.
  for (const char* c : {"1.5", "nan"})
    for (const char* op : {"MAX", "MIN"}) {
      bufs.clear(), buffer(size_t(4)), buffer({1, 2, kNaN, -kInf});
      std::vector<f64> r = run(str("%o = PARAM f32 #0\n%x = PARAM f32 #1\n%n = CONST index 4\n%c = CONST f32 ", c,
                                   "\n%i = RANGE index [0,0,0,4] %n\n%acc = REG f32 #0\n%xi = INDEX f32 %x %i\n%v = LOAD f32 %xi\n%set = STORE void %acc %v\n%now = LOAD f32 %acc\n%m = ",
                                   op, " f32 %now %c\n%p = INDEX f32 %o %i\n%s = STORE void %p %m\n%e = END void %i\n"));
      EXPECT_TRUE(std::isnan(r[2]));
    }
}
TEST_F(Compiled, HorizontalSumsOfIntegersWrap) {
  buffer(size_t(1), Kind::I8), buffer({100, 100, 100, 1, 2, 3, 4}, Kind::I8);
  EXPECT_EQ(run("%o = PARAM i8 #0\n%x = PARAM i8 #1\n%0 = CONST index 0\n%xi = INDEX i8 %x %0\n%v = LOAD i8x7 %xi\n%h = HREDUCE i8 #0 %v\n%p = INDEX i8 %o %0\n%s = STORE void %p %h\n"),
            V{310 - 256});
}

// --- memory -----------------------------------------------------------------------------------------------------------------------------
TEST_F(Compiled, GatesKeepAwayFromMemory) {
  // Lanes 0, 2 of a load and a store; what is gated off is the alternative, or stays.
  buffer(V{9, 9, 9, 9}), buffer({1, 2, 3, 4});
  EXPECT_EQ(run(R"(
    %o = PARAM f32 #0
    %x = PARAM f32 #1
    %0 = CONST index 0
    %1 = CONST i32x4 1
    %l = LANES i32x4
    %bit = AND i32x4 %l %1
    %odd = NE boolx4 %bit %1
    %xi = INDEX f32 %x %0
    %alt = CONST f32x4 -5
    %v = LOAD f32x4 %xi %odd %alt
    %oi = INDEX f32 %o %0
    %s = STORE void %oi %v)"),
            (V{1, -5, 3, -5}));
  EXPECT_EQ(run(R"(
    %o = PARAM f32 #0
    %x = PARAM f32 #1
    %0 = CONST index 0
    %1 = CONST i32x4 1
    %l = LANES i32x4
    %bit = AND i32x4 %l %1
    %odd = NE boolx4 %bit %1
    %xi = INDEX f32 %x %0
    %v = LOAD f32x4 %xi
    %oi = INDEX f32 %o %0
    %s = STORE void %oi %v %odd)"),
            (V{1, 9, 3, 9}));
}
TEST_F(Compiled, AGatedLoadPastTheEndIsNotDone) {
  buffer(V{9, 9, 9, 9}), buffer({1, 2});
  // Far outside any mapped page: a read would be a fault.
  EXPECT_EQ(run(R"(
    %o = PARAM f32 #0
    %x = PARAM f32 #1
    %0 = CONST index 0
    %far = CONST index 1099511627776
    %two = CONST indexx4 2
    %all = CONST indexx4 1099511627776
    %l = LANES indexx4
    %in = LT boolx4 %l %two
    %at = WHERE indexx4 %in %l %all
    %xi = INDEX f32 %x %at
    %alt = CONST f32x4 -5
    %v = LOAD f32x4 %xi %in %alt
    %oi = INDEX f32 %o %0
    %s = STORE void %oi %v)"),
            (V{1, 2, -5, -5}));
}
TEST_F(Compiled, GatherAndScatter) {
  buffer(V{0, 0, 0, 0, 0, 0, 0, 0}), buffer({1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_EQ(run(R"(
    %o = PARAM f32 #0
    %x = PARAM f32 #1
    %l = LANES indexx4
    %two = CONST indexx4 2
    %one = CONST indexx4 1
    %three = CONST indexx4 3
    %even = MUL indexx4 %l %two
    %odd = ADD indexx4 %even %one
    %back = SUB indexx4 %three %l
    %xi = INDEX f32 %x %odd
    %v = LOAD f32x4 %xi
    %oi = INDEX f32 %o %back
    %s = STORE void %oi %v)"),
            (V{8, 6, 4, 2, 0, 0, 0, 0}));
}
TEST_F(Compiled, WhatIsAskedForMayBeAnywhere) {
  buffer(V{0}), buffer({6, 7});
  for (const char* renderer : {"LLVM", "CLANG"}) {
    Result<Target> t = cpu_target("native", renderer);
    ASSERT_TRUE(t) << t.why();
    EXPECT_EQ(run(R"(
      %o = PARAM f32 #0
      %x = PARAM f32 #1
      %0 = CONST index 0
      %1 = CONST index 1
      %far = CONST index 1099511627776
      %xf = INDEX f32 %x %far
      %ask = PREFETCH void %xf
      %xi = INDEX f32 %x %1
      %v = LOAD f32 %xi
      %oi = INDEX f32 %o %0
      %s = STORE void %oi %v)", *t),
              V{7})
        << renderer;
  }
}
TEST_F(Compiled, BoolsAreBytes) {
  buffer(V{0, 0, 0, 0, 0}, Kind::Bool), buffer({1, 5, 3, 0, 4});
  EXPECT_EQ(run(R"(
    %o = PARAM bool #0
    %x = PARAM f32 #1
    %0 = CONST index 0
    %1 = CONST index 4
    %xi = INDEX f32 %x %0
    %v = LOAD f32x4 %xi
    %c = CONST f32x4 2
    %b = LT boolx4 %c %v
    %oi = INDEX bool %o %0
    %s = STORE void %oi %b
    %ol = INDEX bool %o %1
    %t = CONST bool true
    %st = STORE void %ol %t)"),
            (V{0, 1, 1, 0, 1}));
}
TEST_F(Compiled, LoopsOfNoIterationDoNothing) {
  buffer(V{7});
  EXPECT_EQ(run(R"(
    %o = PARAM f32 #0
    %n = CONST index -3
    %c = CONST f32 1
    %i = RANGE index [0, 0, 0, 4] %n
    %p = INDEX f32 %o %i
    %s = STORE void %p %c
    %e = END void %i)"),
            V{7});
}

// --- arithmetic -------------------------------------------------------------------------------------------------------------------------
TEST_F(Compiled, DivisionOfIntegersNeverTraps) {
  buffer(size_t(6), Kind::I32), buffer({7, -7, 7, -2147483648.0, 5, -9}, Kind::I32), buffer({2, 2, 0, -1, 0, -4}, Kind::I32);
  auto list = [](const char* op) {
    return str("%o = PARAM i32 #0\n%x = PARAM i32 #1\n%y = PARAM i32 #2\n%n = CONST index 6\n%i = RANGE index [0,0,0,4] %n\n%xi = INDEX i32 %x %i\n%yi = INDEX i32 %y %i\n"
               "%v = LOAD i32 %xi\n%w = LOAD i32 %yi\n%d = ", op, " i32 %v %w\n%p = INDEX i32 %o %i\n%s = STORE void %p %d\n%e = END void %i\n");
  };
  EXPECT_EQ(run(list("DIV")), (V{3, -3, 0, -2147483648.0, 0, 2}));
  EXPECT_EQ(run(list("REM")), (V{1, -1, 7, 0, 5, -1}));
  EXPECT_EQ(run(list("FLOORDIV")), (V{3, -4, 0, -2147483648.0, 0, 2}));
}
TEST_F(Compiled, CastsSaturate) {
  buffer(size_t(6), Kind::I8), buffer({1.9, -1.9, 1e9, -1e9, kNaN, kInf});
  EXPECT_EQ(run(R"(
    %o = PARAM i8 #0
    %x = PARAM f32 #1
    %n = CONST index 6
    %i = RANGE index [0,0,0,4] %n
    %xi = INDEX f32 %x %i
    %v = LOAD f32 %xi
    %c = CAST i8 %v
    %p = INDEX i8 %o %i
    %s = STORE void %p %c
    %e = END void %i)"),
            (V{1, -1, 127, -128, 0, 127}));
}

// The same list for a CPU with less: vectors wider than its registers.
TEST_F(Compiled, WideVectorsOnTheBaseline) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "x86-64 only";
#else
  Result<Target> t = cpu_target("x86_64", "LLVM");
  ASSERT_TRUE(t);
  std::vector<f64> x(16), want;
  for (size_t i = 0; i < 16; i++) x[i] = f64(i) * 0.5 - 3.25, want.push_back(std::floor(x[i]) * x[i] + 1);
  buffer(size_t(16)), buffer(x);
  EXPECT_EQ(run(R"(
    %o = PARAM f32 #0
    %x = PARAM f32 #1
    %0 = CONST index 0
    %one = CONST f32x16 1
    %xi = INDEX f32 %x %0
    %v = LOAD f32x16 %xi
    %f = FLOOR f32x16 %v
    %r = MULACC f32x16 %f %v %one
    %oi = INDEX f32 %o %0
    %s = STORE void %oi %r)",
                *t),
            want);
#endif
}

}  // namespace
