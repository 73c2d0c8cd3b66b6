// Which sums of products by bytes may be made with two bytes an activation, by how much they err, and what kernels they become.
#include <cmath>
#include <limits>
#include <random>

#include "base/settings.h"
#include "ir/eval.h"
#include "ir/eval_kernel.h"
#include "schedule/byte_product.h"
#include "schedule/choice.h"
#include "schedule/cost.h"
#include "small_graph.h"
#include "target/dots.h"

using namespace tg;

namespace {

constexpr f64 kBound = 64000;  // formats/README.md: the largest of a row times the sum of the weights' magnitudes, divided by this

Target vnni() {
  Target t;
  t.renderer = "LLVM", t.triple = "x86_64-unknown-none-elf";
  t.vector_bytes = 64, t.vector_registers = 32, t.fma_per_cycle_bytes = 64, t.has_fma = t.has_vnni = true;
  return t;
}

class ByteProducts : public SmallGraph {
 protected:
  std::mt19937_64 rng{11};
  Target target = vnni();
  Context wish{{settings::A16W8, 1}};

  std::vector<f64> normal(i64 n) {
    std::normal_distribution<f32> d(0, 1);
    std::vector<f64> v;
    for (i64 i = 0; i < n; i++) v.push_back(f64(d(rng)));
    return v;
  }
  std::vector<f64> whole(i64 n, i64 lo, i64 hi) {
    std::vector<f64> v;
    for (i64 i = 0; i < n; i++) v.push_back(f64(lo + i64(rng() % u64(hi - lo + 1))));
    return v;
  }
  UOp constant(std::vector<i64> d, Kind k, const std::vector<f64>& v) {
    UOp u = weight(d, k);
    bytes.back() = encode(values(k, d, v));
    g.constants.back().bytes = bytes.back();
    return u;
  }
  // x (.., M, K) by w (K, N), f32, or the other way round.
  static UOp matmul(UOp x, UOp w, bool left = false) {
    Shape full = shape(x), a = full, b(full.size(), idx(1));
    UOp n = shape(w)[1];
    full.insert(full.end() - 1, n), a.insert(a.end() - 1, idx(1)), b.push_back(idx(1));
    b[b.size() - 2] = n, b.back() = shape(w)[0];
    UOp p = tensor::expand(tensor::reshape(x, a), full), q = tensor::expand(tensor::reshape(tensor::permute(w, Ints{1, 0}), b), full);
    return tensor::reduce(left ? q * p : p * q, ReduceKind::Add, {i64(full.size()) - 1});
  }
  void finish(std::vector<UOp> y) {
    g.arena = arena;
    g.outputs.clear();
    for (UOp u : y) g.outputs.push_back({"y", u.dtype(), shape(u)});
    g.sink = node(Op::Sink, Kind::Void, std::span<const UOp>(y));
  }
  size_t choices(UOp y) {
    finish({y});
    return find_choices(g, target).size();
  }
  Graph chosen() { return with_choices(g, target, find_choices(g, target)); }
  // The kernels of the chosen graph, each by the interpreter.
  Values run(const std::vector<Values>& inputs) {
    Graph c = chosen();
    s = schedule(c, target);
    return computed(c, s, inputs).at(0);
  }
  // The schedule's sums of x (M, K) by w (K, N) against f64; w(k, n) is what is multiplied. The largest error over the largest result.
  template <class W>
  f64 check(const Values& got, const Values& x, i64 m, i64 k, i64 n, W w) {
    f64 error = 0, most = 0;
    for (i64 i = 0; i < m; i++) {
      f64 largest = 0;
      for (i64 p = 0; p < k; p++) largest = std::max(largest, std::abs(x.number(i * k + p)));
      for (i64 j = 0; j < n; j++) {
        f64 want = 0, magnitudes = 0;
        for (i64 p = 0; p < k; p++) want += x.number(i * k + p) * w(p, j), magnitudes += std::abs(w(p, j));
        f64 off = std::abs(got.number(i * n + j) - want);
        f64 share = largest < 0x1p-111 ? 1 : 1 / kBound;  // such a row counts as 0
        EXPECT_LE(off, largest * magnitudes * share) << i << ", " << j;
        error = std::max(error, off), most = std::max(most, std::abs(want));
      }
    }
    return error / most;
  }
};

// --- values -----------------------------------------------------------------------------------------------------------------------------
TEST_F(ByteProducts, AreCloseToTheSumsInF64) {
  const i64 m = 24, k = 384, n = 40;
  std::vector<f64> w = whole(k * n, -127, 127);
  finish({matmul(input({m, k}), cast(constant({k, n}, Kind::I8, w), Kind::F32))});
  Values x = values(Kind::F32, {m, k}, normal(m * k));
  f64 error = check(run({x}), x, m, k, n, [&](i64 p, i64 j) { return w[size_t(p * n + j)]; });
  EXPECT_LT(error, kByteProductError);
  EXPECT_GT(error, 1e-6) << "the sums are those of f32";
}

TEST_F(ByteProducts, OfRowsWithAnOutlierOfZerosAndOfTinyNumbers) {
  const i64 m = 6, k = 100, n = 16;
  std::vector<f64> w = whole(k * n, -128, 127), v = normal(m * k);
  for (i64 p = 0; p < k; p++) {
    v[size_t(k + p)] = 0;
    v[size_t(2 * k + p)] *= 1e-20;
    v[size_t(3 * k + p)] *= 1e30;
    v[size_t(4 * k + p)] = p % 2 ? -0.0 : 1e-40;  // below 2^-111: 0
  }
  v[17] *= 1000;
  finish({matmul(input({m, k}), cast(constant({k, n}, Kind::I8, w), Kind::F32))});
  Values x = values(Kind::F32, {m, k}, v), got = run({x});
  check(got, x, m, k, n, [&](i64 p, i64 j) { return w[size_t(p * n + j)]; });
  for (i64 j = 0; j < n; j++) {
    EXPECT_EQ(got.number(n + j), 0);
    EXPECT_EQ(got.number(4 * n + j), 0);
  }
}

TEST_F(ByteProducts, OfARowWithNaNOrAnInfinityAreNaNThere) {
  const i64 m = 4, k = 8, n = 3;
  std::vector<f64> w = whole(k * n, 1, 5), v(size_t(m * k), 1);
  v[3] = std::numeric_limits<f64>::quiet_NaN(), v[size_t(k + 5)] = -std::numeric_limits<f64>::infinity();
  finish({matmul(input({m, k}), cast(constant({k, n}, Kind::I8, w), Kind::F32))});
  Values got = run({values(Kind::F32, {m, k}, v)});
  for (i64 j = 0; j < n; j++) {
    EXPECT_TRUE(std::isnan(got.number(j)) && std::isnan(got.number(n + j)));
    f64 want = 0;
    for (i64 p = 0; p < k; p++) want += w[size_t(p * n + j)];
    EXPECT_NEAR(got.number(2 * n + j), want, 1e-3);
    EXPECT_NEAR(got.number(3 * n + j), want, 1e-3);
  }
}

TEST_F(ByteProducts, ZeroPointsAreTakenOffTheWeights) {
  const i64 m = 5, k = 30, n = 6;
  for (bool by_column : {false, true}) {
    g = {}, bytes.clear();
    std::vector<f64> w = whole(k * n, 10, 230), z = by_column ? whole(n, 110, 130) : std::vector<f64>{120};
    UOp wide = cast(constant({k, n}, Kind::U8, w), Kind::I32);
    UOp zero = by_column ? tensor::expand(tensor::reshape(cast(constant({n}, Kind::U8, z), Kind::I32), dims({1, n})), dims({k, n})) : konst(Kind::I32, 120);
    finish({matmul(input({m, k}), cast(wide - zero, Kind::F32))});
    ASSERT_EQ(find_choices(g, target).size(), 1u);
    Values x = values(Kind::F32, {m, k}, normal(m * k));
    check(run({x}), x, m, k, n, [&](i64 p, i64 j) { return w[size_t(p * n + j)] - z[by_column ? size_t(j) : 0]; });
  }
}

TEST_F(ByteProducts, OnTheLeftOfTheProductAndOfWeightsThatLieByColumns) {
  const i64 m = 7, k = 20, n = 9;
  std::vector<f64> w = whole(k * n, -127, 127);
  finish({matmul(input({m, k}), cast(tensor::permute(constant({n, k}, Kind::I8, w), Ints{1, 0}), Kind::F32), true)});
  Values x = values(Kind::F32, {m, k}, normal(m * k));
  check(run({x}), x, m, k, n, [&](i64 p, i64 j) { return w[size_t(j * k + p)]; });
}

TEST_F(ByteProducts, OfConvolutionsOfOnePixelAndStride2) {
  const i64 c = 12, o = 5, h = 6;
  UOp x = input({2, c, h, h});
  std::vector<f64> w = whole(o * c, -127, 127);
  UOp cut = tensor::shrink(x, dims({0, 0, 0, 0}), shape(x), dims({1, 1, 2, 2}));
  Shape full = dims({2, o, c, 3, 3});
  UOp a = tensor::expand(tensor::reshape(cut, dims({2, 1, c, 3, 3})), full);
  UOp b = tensor::expand(tensor::reshape(cast(constant({o, c}, Kind::I8, w), Kind::F32), dims({1, o, c, 1, 1})), full);
  finish({tensor::reduce(a * b, ReduceKind::Add, {2})});
  ASSERT_EQ(find_choices(g, target).size(), 1u);
  Values v = values(Kind::F32, {2, c, h, h}, normal(2 * c * h * h)), got = run({v});
  for (i64 b2 = 0; b2 < 2; b2++)
    for (i64 oc = 0; oc < o; oc++)
      for (i64 i = 0; i < 9; i++) {
        f64 want = 0, magnitudes = 0;
        for (i64 ic = 0; ic < c; ic++) {
          want += v.number(((b2 * c + ic) * h + i / 3 * 2) * h + i % 3 * 2) * w[size_t(oc * c + ic)];
          magnitudes += 4 * std::abs(w[size_t(oc * c + ic)]);
        }
        EXPECT_NEAR(got.number((b2 * o + oc) * 9 + i), want, magnitudes / kBound);
      }
}

// --- what may be one ----------------------------------------------------------------------------------------------------------------------
TEST_F(ByteProducts, NeedConstantBytesAndF32) {
  auto bytes_of = [&](i64 k, i64 n, Kind kind = Kind::I8) { return cast(constant({k, n}, kind, whole(k * n, 0, 100)), Kind::F32); };
  EXPECT_EQ(choices(matmul(input({4, 8}), bytes_of(8, 4))), 1u);
  EXPECT_EQ(choices(matmul(input({4, 8}), cast(cast(constant({8, 4}, Kind::I8, whole(32, 0, 9)), Kind::I32), Kind::F32))), 1u);
  EXPECT_EQ(choices(matmul(input({4, 8}), bytes_of(8, 4, Kind::U8))), 1u) << "all within i8";
  EXPECT_EQ(choices(matmul(input({4, 8}), cast(constant({8, 4}, Kind::U8, whole(32, 0, 255)), Kind::F32))), 0u) << "not within i8";
  EXPECT_EQ(choices(matmul(input({4, 8}), bytes_of(8, 4, Kind::I16))), 0u);
  EXPECT_EQ(choices(matmul(input({4, 8}), cast(input({8, 4}, Kind::I8), Kind::F32))), 0u) << "weights of the run";
  EXPECT_EQ(choices(matmul(cast(input({4, 8}, Kind::BF16), Kind::F32), bytes_of(8, 4))), 0u) << "a row of a narrower float";
  EXPECT_EQ(choices(matmul(constant({4, 8}, Kind::F32, normal(32)), bytes_of(8, 4))), 0u);
  EXPECT_EQ(choices(matmul(input({2, 60001}), bytes_of(60001, 2))), 0u) << "sums that leave i32";
  UOp x = input({1, 3, 6, 6});  // windows that overlap have no rows of their own
  UOp v = tensor::window(x, {{2, 3}, {3, 3}, {1, 1}, {1, 1}});
  Shape full = dims({1, 4, 3, 4, 4, 3, 3});
  UOp a = tensor::expand(tensor::reshape(v, dims({1, 1, 3, 4, 4, 3, 3})), full);
  UOp b = tensor::expand(tensor::reshape(cast(constant({4, 3, 3, 3}, Kind::I8, whole(108, -9, 9)), Kind::F32), dims({1, 4, 3, 1, 1, 3, 3})), full);
  EXPECT_EQ(choices(tensor::reduce(a * b, ReduceKind::Add, {2, 5, 6})), 0u);
}

TEST_F(ByteProducts, NeedTheInstructionAndTheWish) {
  UOp y = matmul(input({64, 128}), cast(constant({128, 128}, Kind::I8, whole(128 * 128, -9, 9)), Kind::F32));
  EXPECT_EQ(choices(y), 1u);
  for (auto change : {+[](Target& t) { t.has_vnni = false; }, +[](Target& t) { t.renderer = "CLANG"; }}) {
    Target t = vnni();
    change(t);
    EXPECT_EQ(find_choices(g, t).size(), 0u);
  }
  Context never{{settings::A16W8, 0}};
  EXPECT_EQ(choices(y), 0u);
}

TEST_F(ByteProducts, ArePickedWhereTheyWin) {
  Context costs{{settings::A16W8, -1}};
  auto picked = [&](i64 m, i64 k, i64 n) {
    g = {}, bytes.clear();
    finish({matmul(input({m, k}), cast(weight({k, n}, Kind::I8), Kind::F32))});
    return find_choices(g, target).at(0).picked == 1;
  };
  EXPECT_TRUE(picked(128, 384, 384)) << "measured: 167 us against 323";
  EXPECT_TRUE(picked(128, 384, 1536));
  EXPECT_TRUE(picked(512, 64, 64)) << "24 against 36";
  EXPECT_TRUE(picked(1, 768, 768)) << "7 against 21";
  EXPECT_FALSE(picked(1, 16, 16)) << "less than the start of two kernels";
  EXPECT_FALSE(picked(4, 8, 3));
}

// --- kernels ----------------------------------------------------------------------------------------------------------------------------
TEST_F(ByteProducts, AreThreeKernelsWithWhatFollows) {
  UOp x = input({16, 32}), y = matmul(x, cast(weight({32, 24}, Kind::I8), Kind::F32));
  UOp row = tensor::expand(tensor::reshape(weight({24}), dims({1, 24})), dims({16, 24}));
  finish({max(y * row + input({16, 24}), konst_f(Kind::F32, 0))});
  s = schedule(chosen(), target);
  ASSERT_EQ(s.calls.size(), 3u) << "the largest of each row, the bytes, the product";
  i64 sums = 0, loops = 0;
  for (UOp u : toposort(s.calls[2].ast)) sums += u.is(Op::Reduce), loops += u.is(Op::Range) && is_reduce(u.arg<RangeArg>().kind);
  EXPECT_EQ(sums, 2);
  EXPECT_EQ(loops, 1) << "both sums in one loop";
}

TEST_F(ByteProducts, OfOneValueShareItsBytes) {
  UOp x = max(input({16, 32}), konst_f(Kind::F32, 0));
  std::vector<UOp> y;
  for (i64 n : {24, 8, 40}) y.push_back(matmul(x, cast(constant({32, n}, Kind::I8, whole(32 * n, -9, 9)), Kind::F32)));
  finish(y);
  EXPECT_EQ(schedule(chosen(), target).calls.size(), 6u) << "x, the largest of each row, the bytes, three products";
}

TEST_F(ByteProducts, TheSameWeightsAreOneConstant) {
  UOp w = cast(constant({32, 24}, Kind::U8, whole(32 * 24, 100, 150)), Kind::I32) - konst(Kind::I32, 128);
  finish({matmul(input({16, 32}), cast(w, Kind::F32)), matmul(input({8, 32}), cast(w, Kind::F32))});
  EXPECT_EQ(chosen().constants.size(), 1u + 1 + 2) << "the model's, as i8, and two times their sums";
}

TEST_F(ByteProducts, OfFreeRows) {
  UOp rows = var("n", 1, 64);
  UOp x = tensor::param(0, Kind::F32, {rows, idx(32)});
  g.inputs.push_back({"x", Kind::F32, shape(x)});
  finish({matmul(x, cast(constant({32, 24}, Kind::I8, whole(32 * 24, -9, 9)), Kind::F32))});
  ASSERT_EQ(find_choices(g, target).size(), 1u);
  EXPECT_EQ(schedule(chosen(), target).calls.size(), 3u);
}

}  // namespace
