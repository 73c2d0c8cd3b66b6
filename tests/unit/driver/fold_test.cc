#include "driver/fold.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "base/settings.h"
#include "driver/narrow.h"
#include "ir/eval.h"
#include "ir/text.h"

using namespace tg;
using namespace tg::driver;

namespace {

// A graph under construction; kernels are compiled in this process.
class FoldTest : public ::testing::Test {
 public:
  FoldTest() { g.arena = arena; }

  UOp input(std::vector<i64> d, DType t = Kind::F32) {
    Shape s = dims(d);
    g.inputs.push_back({"x", t, s});
    return tensor::param(i64(g.inputs.size()) - 1, t, s);
  }
  UOp weight(std::vector<i64> d, DType t = Kind::F32) {
    std::vector<f64> v(size_t(count(d)));
    for (f64& x : v) x = is_float(t) ? f64(i64(random() % 2001) - 1000) / 256 : f64(i64(random() % 200) - 100);
    return weight(values(t, d, v));
  }
  UOp weight(const Values& v) {
    auto bytes = std::make_shared<std::vector<u8>>(encode(v));
    g.constants.push_back({"w" + std::to_string(g.constants.size()), v.dtype, v.dims, *bytes, bytes});
    return tensor::constant(i64(g.constants.size()) - 1, v.dtype, dims(v.dims));
  }
  void output(UOp u) {
    g.outputs = {{"y", u.dtype(), shape(u)}};
    g.sink = node(Op::Sink, Kind::Void, {u});
  }
  std::vector<Values> run() {
    std::vector<Values> in;
    std::mt19937_64 r(7);
    for (const Value& v : g.inputs) {
      std::vector<i64> d;
      for (UOp n : v.dims) d.push_back(n.as_int());
      std::vector<f64> x(size_t(count(d)));
      for (f64& e : x) e = f64(i64(r() % 2001) - 1000) / 512;
      in.push_back(values(v.dtype, d, x));
    }
    return eval_graph(g, in);
  }
  int many(Op op) {
    int n = 0;
    for (UOp u : toposort(g.sink)) n += u.is(op);
    return n;
  }
  const Values constant(size_t i) { return decode(g.constants[i].dtype, g.constants[i].dims, g.constants[i].bytes); }

  Context settings{{settings::PARALLEL, 0}, {settings::CCACHE, 0}};
  std::shared_ptr<Arena> arena = std::make_shared<Arena>();
  Arena::Scope scope{*arena};
  std::mt19937_64 random{1};
  Graph g;
};

UOp add(UOp a, UOp b) { return alu(Op::Add, {a, b}); }
UOp mul(UOp a, UOp b) { return alu(Op::Mul, {a, b}); }
UOp per_channel(UOp v, const Shape& s) {  // axis 1 of s
  Shape ones(s.size(), idx(1));
  ones[1] = s[1];
  return tensor::expand(tensor::reshape(v, ones), s);
}

// x (1, C, H) by w (M, C): (1, M, H), then optionally a bias.
UOp conv(UOp x, UOp w) {
  Shape full{idx(1), shape(w)[0], shape(w)[1], shape(x)[2]};
  UOp xs = tensor::expand(tensor::reshape(x, {idx(1), idx(1), shape(w)[1], shape(x)[2]}), full);
  UOp ws = tensor::expand(tensor::reshape(w, {idx(1), shape(w)[0], shape(w)[1], idx(1)}), full);
  return tensor::reduce(mul(xs, ws), ReduceKind::Add, {2});
}

void expect_near(const Values& got, const Values& want, f64 of_largest) {
  ASSERT_EQ(got.dims, want.dims);
  f64 largest = 0;
  for (i64 i = 0; i < want.elems(); i++) largest = std::max(largest, std::abs(want.number(i)));
  for (i64 i = 0; i < want.elems(); i++) ASSERT_NEAR(got.number(i), want.number(i), of_largest * largest) << i;
}

}  // namespace

TEST_F(FoldTest, ArithmeticOnAConstantIsAConstant) {
  UOp w = weight({100, 60});
  output(add(input({100, 60}), add(mul(w, konst_f(Kind::F32, 0.1)), konst_f(Kind::F32, 3))));
  std::vector<Values> want = run();
  EXPECT_EQ(fold_constants(g), 1);
  EXPECT_EQ(many(Op::Mul), 0);
  ASSERT_EQ(g.constants.size(), 1u);
  EXPECT_EQ(run(), want) << "bit for bit: nothing is fused or reordered";
}

TEST_F(FoldTest, AProductAndASumAreRoundedApart) {
  // 0.1f * 3 + -0.3f: a fused multiply-add gives 1.49e-9 more than 0.
  UOp w = weight(values(Kind::F32, {5000}, std::vector<f64>(5000, 0.1)));
  UOp x = input({5000});
  output(add(x, add(mul(w, konst_f(Kind::F32, 3)), konst_f(Kind::F32, -0.3))));
  fold_constants(g);
  f32 product = 0.1f * 3.0f;
  EXPECT_EQ(constant(0).number(17), f64(f32(product + -0.3f)));
}

TEST_F(FoldTest, TheInterpreterAndKernelsGiveTheSameBits) {
  // One weight small enough for the interpreter, the same numbers ten times for a kernel.
  std::vector<f64> v(3000);
  for (f64& x : v) x = std::ldexp(f64(i64(random() % 2000001) - 1000000), int(random() % 80) - 60);
  std::vector<f64> many;
  for (int i = 0; i < 20; i++) many.insert(many.end(), v.begin(), v.end());
  auto f = [](UOp w) {
    return alu(Op::Sqrt, {alu(Op::Abs, {alu(Op::Div, {add(mul(w, w), konst_f(Kind::F32, 0.3)), add(w, konst_f(Kind::F32, 1.7))})})});
  };
  UOp a = weight(values(Kind::F32, {3000}, v)), b = weight(values(Kind::F32, {60000}, many));
  UOp sum = tensor::concat(std::vector<UOp>{add(input({3000}), f(a)), add(input({60000}), f(b))}, 0);
  output(sum);
  EXPECT_EQ(fold_constants(g), 2);
  ASSERT_EQ(g.constants.size(), 2u);
  size_t s = g.constants[0].dims[0] == 3000 ? 0 : 1;
  Values few = constant(s), all = constant(1 - s);
  for (size_t i = 0; i < 60000; i++) ASSERT_EQ(all.v[i], few.v[i % 3000]) << i;
}

TEST_F(FoldTest, ALoneMovementOpIsNotExecuted) {
  UOp w = weight({100, 60});
  output(add(input({60, 100}), tensor::permute(w, Ints{1, 0})));
  EXPECT_EQ(fold_constants(g), 0);
  EXPECT_EQ(many(Op::Permute), 1);
}

TEST_F(FoldTest, MovementAboveArithmeticStays) {
  UOp w = weight({100, 60});
  output(add(input({60, 100}), tensor::permute(alu(Op::Neg, {w}), Ints{1, 0})));
  std::vector<Values> want = run();
  EXPECT_EQ(fold_constants(g), 1);
  EXPECT_EQ(many(Op::Permute), 1);
  EXPECT_EQ(many(Op::Neg), 0);
  EXPECT_EQ(run(), want);
}

TEST_F(FoldTest, RepetitionsAreNotComputed) {
  UOp a = weight({1, 5000, 1}), b = weight({5000});
  Shape s = dims({2, 5000, 30});
  output(mul(input({2, 5000, 30}), add(tensor::expand(a, s), per_channel(b, s))));
  std::vector<Values> want = run();
  EXPECT_EQ(fold_constants(g), 1);
  ASSERT_EQ(g.constants.size(), 1u);
  EXPECT_EQ(g.constants[0].dims, (std::vector<i64>{1, 5000, 1}));
  EXPECT_EQ(run(), want);
}

TEST_F(FoldTest, AResultOverAMegabyteThatIsLargerThanItsInputsIsNotKept) {
  UOp a = weight({600, 1}), b = weight({1, 600});
  Shape s = dims({600, 600});
  output(mul(input({600, 600}), mul(tensor::expand(a, s), tensor::expand(b, s))));
  EXPECT_EQ(fold_constants(g), 0);
}

TEST_F(FoldTest, WideningIsLeftToTheReader) {
  UOp w = weight({100, 60}, Kind::I8);
  output(mul(input({100, 60}, Kind::I32), cast(w, Kind::I32)));
  EXPECT_EQ(fold_constants(g), 0);
}

TEST_F(FoldTest, SumsOfConstantsFold) {
  UOp w = weight({80, 90});
  output(add(input({80}), tensor::reduce(w, ReduceKind::Add, {1})));
  std::vector<Values> want = run();
  EXPECT_EQ(fold_constants(g), 1);
  EXPECT_EQ(many(Op::Reduce), 0);
  expect_near(run()[0], want[0], 1e-6);
}

TEST_F(FoldTest, AScaleGoesIntoTheWeightsOnce) {
  UOp x = input({1, 8, 10}), w = weight({16, 8}), a = weight({16}), b = weight({16});
  UOp y = conv(x, w);
  output(add(mul(y, per_channel(a, shape(y))), per_channel(b, shape(y))));
  std::vector<Values> want = run();
  Values wv = constant(0), av = constant(1);
  EXPECT_EQ(move_scales(g), 1);
  EXPECT_EQ(fold_constants(g), 2);
  EXPECT_EQ(many(Op::Mul), 1) << print(g.sink);
  ASSERT_EQ(g.constants.size(), 2u);
  for (size_t i = 0; i < 2; i++) {
    if (g.constants[i].dims.size() < 2 || count(g.constants[i].dims) != 128) continue;
    Values scaled = constant(i);
    for (i64 m = 0; m < 16; m++)
      for (i64 c = 0; c < 8; c++) EXPECT_EQ(scaled.number(m * 8 + c), f64(f32(wv.number(m * 8 + c) * av.number(m))));
  }
  expect_near(run()[0], want[0], 1e-6);
}

TEST_F(FoldTest, ABiasBeforeTheScaleIsScaledToo) {
  UOp x = input({1, 8, 10}), w = weight({16, 8}), p = weight({16}), a = weight({16}), b = weight({16});
  UOp y = conv(x, w);
  y = add(y, per_channel(p, shape(y)));
  output(add(mul(y, per_channel(a, shape(y))), per_channel(b, shape(y))));
  std::vector<Values> want = run();
  EXPECT_EQ(move_scales(g), 1);
  fold_constants(g);
  EXPECT_EQ(many(Op::Add), 1) << print(g.sink);
  EXPECT_EQ(many(Op::Mul), 1);
  expect_near(run()[0], want[0], 1e-6);
}

TEST_F(FoldTest, ScalesPassReshapesBetween) {
  // Two groups: the channels of the output are two axes of the sum.
  UOp x = input({2, 4, 10}), w = weight({2, 8, 4}), a = weight({16});
  Shape full = dims({2, 8, 4, 10});
  UOp xs = tensor::expand(tensor::reshape(x, dims({2, 1, 4, 10})), full), ws = tensor::expand(tensor::reshape(w, dims({2, 8, 4, 1})), full);
  UOp y = tensor::reshape(tensor::reduce(mul(xs, ws), ReduceKind::Add, {2}), dims({1, 16, 10}));
  output(mul(y, per_channel(a, shape(y))));
  std::vector<Values> want = run();
  EXPECT_EQ(move_scales(g), 1);
  fold_constants(g);
  EXPECT_EQ(many(Op::Mul), 1);
  expect_near(run()[0], want[0], 1e-6);
}

TEST_F(FoldTest, ScalarScalesGoIntoTheWeights) {
  UOp x = input({1, 8, 10}), w = weight({16, 8});
  UOp y = mul(conv(x, w), konst_f(Kind::F32, 0.125));
  output(tensor::permute(y, Ints{0, 2, 1}));
  std::vector<Values> want = run();
  EXPECT_EQ(move_scales(g), 1);
  fold_constants(g);
  EXPECT_EQ(many(Op::Mul), 1);
  EXPECT_EQ(run(), want) << "a power of two changes no rounding";
}

TEST_F(FoldTest, ASumWithTwoReadersKeepsItsScale) {
  UOp x = input({1, 8, 10}), w = weight({16, 8}), a = weight({16});
  UOp y = conv(x, w);
  output(add(mul(y, per_channel(a, shape(y))), y));
  EXPECT_EQ(move_scales(g), 0);
}

TEST_F(FoldTest, AScaleThatVariesAlongOtherAxesStays) {
  UOp x = input({1, 8, 10}), w = weight({16, 8}), a = weight({10});
  UOp y = conv(x, w);
  output(mul(y, tensor::expand(tensor::reshape(a, dims({1, 1, 10})), shape(y))));
  EXPECT_EQ(move_scales(g), 0);
}

TEST_F(FoldTest, OneConvolutionAfterAnother) {
  UOp x = input({1, 8, 10}), w1 = weight({16, 8}), w2 = weight({4, 16}), a1 = weight({16}), a2 = weight({4});
  UOp y = conv(x, w1);
  y = mul(y, per_channel(a1, shape(y)));
  UOp z = conv(alu(Op::Max, {y, konst_f(Kind::F32, 0)}), w2);
  output(mul(z, per_channel(a2, shape(z))));
  std::vector<Values> want = run();
  EXPECT_EQ(move_scales(g), 2);
  fold_constants(g);
  EXPECT_EQ(many(Op::Mul), 2);
  expect_near(run()[0], want[0], 1e-6);
}

TEST_F(FoldTest, ScalesThatAreNotFiniteStay) {
  std::vector<f64> v(16, 1);
  v[3] = std::numeric_limits<f64>::infinity();
  UOp x = input({1, 8, 10}), w = weight({16, 8}), a = weight(values(Kind::F32, {16}, v));
  UOp y = conv(x, w);
  output(mul(y, per_channel(a, shape(y))));
  EXPECT_EQ(move_scales(g), 0);
}

TEST_F(FoldTest, NarrowSeesRepetitionThroughReshapes) {
  UOp a = weight({4, 1});
  UOp u = tensor::reshape(tensor::expand(a, dims({4, 6})), dims({2, 2, 3, 2}));
  EXPECT_EQ(const_shape(narrow(u)), (std::vector<i64>{2, 2, 1, 1}));
  EXPECT_EQ(const_shape(narrow(tensor::reshape(tensor::expand(a, dims({4, 6})), dims({24})))), (std::vector<i64>{24}));
  output(add(input({2, 2, 3, 2}), widen(narrow(u), shape(u))));
  std::vector<Values> narrowed = run();
  output(add(tensor::param(0, Kind::F32, shape(u)), u));
  EXPECT_EQ(run(), narrowed);
}
