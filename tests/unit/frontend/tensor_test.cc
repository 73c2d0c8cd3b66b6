// Tensor against values of numpy, where ONNX's cases do not reach.
#include "frontend/tensor.h"

#include <gtest/gtest.h>

#include <cmath>

#include "frontend/pool.h"

using namespace tg;

namespace {

struct TensorTest : ::testing::Test {
  Arena arena;
  Arena::Scope scope{arena};
  Pool pool;
  Pool::Scope pool_scope{pool};

  static Tensor range(std::vector<i64> dims) {  // numpy.arange(n).reshape(dims), f32
    i64 n = count(dims);
    std::vector<f64> v;
    for (i64 i = 0; i < n; i++) v.push_back(f64(i));
    return Tensor::of(Kind::F32, dims, v);
  }
  std::vector<f64> numbers(const Tensor& t) {
    EvalEnv env;
    env.constants = &pool.constants();
    Values v = eval(t.uop(), env);
    EXPECT_EQ(v.dims, t.sizes());
    std::vector<f64> r;
    for (i64 i = 0; i < v.elems(); i++) r.push_back(v.number(i));
    return r;
  }
  template <class F>
  static std::string error(F f) {
    try {
      f();
    } catch (const Error& e) { return e.what(); }
    return "no error";
  }
};
using V = std::vector<f64>;

TEST_F(TensorTest, SliceClampsLikeNumpy) {
  Tensor x = range({6});
  EXPECT_EQ(numbers(x.slice(0, -100, 100)), (V{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(numbers(x.slice(0, 4, 2)), V{});
  EXPECT_EQ(numbers(x.slice(0, 1, 6, 2)), (V{1, 3, 5}));
  EXPECT_EQ(numbers(x.slice(0, -1, -100, -1)), (V{5, 4, 3, 2, 1, 0}));
  EXPECT_EQ(numbers(x.slice(0, 4, 0, -2)), (V{4, 2}));
  EXPECT_EQ(numbers(x.slice(0, 100, -100, -4)), (V{5, 1}));
  EXPECT_EQ(numbers(x.slice(0, 0, 6, i64(1) << 62)), (V{0}));
  EXPECT_EQ(numbers(x.slice(0, 5, std::numeric_limits<i64>::min(), std::numeric_limits<i64>::min())), (V{5}));
}
TEST_F(TensorTest, PadOfNegativeAmountsCuts) {
  EXPECT_EQ(numbers(range({4}).pad(Ints{-1}, Ints{2}, 9)), (V{1, 2, 3, 9, 9}));
  EXPECT_EQ(numbers(range({3}).pad(Ints{-5}, Ints{4}, 9)), (V{9, 9}));  // all of x is cut
}
TEST_F(TensorTest, PadModesRepeatBeyondOneLength) {
  Tensor x = range({3});
  UOp zero = konst(Kind::F32, 0);
  EXPECT_EQ(numbers(x.pad(Ints{5}, Ints{4}, PadMode::Reflect, zero)), (V{1, 0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2}));
  EXPECT_EQ(numbers(x.pad(Ints{2}, Ints{1}, PadMode::Edge, zero)), (V{0, 0, 0, 1, 2, 2}));
  EXPECT_EQ(numbers(x.pad(Ints{4}, Ints{4}, PadMode::Wrap, zero)), (V{2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0}));
}
TEST_F(TensorTest, MatmulTakesVectorsAndBatches) {
  EXPECT_EQ(numbers(range({3}).matmul(range({3}))), (V{5}));
  EXPECT_EQ(numbers(range({2, 3}).matmul(range({3}))), (V{5, 14}));
  EXPECT_EQ(numbers(range({3}).matmul(range({3, 2}))), (V{10, 13}));
  Tensor y = range({2, 1, 2, 2}).matmul(range({3, 2, 1}));
  EXPECT_EQ(y.sizes(), (Ints{2, 3, 2, 1}));
  EXPECT_EQ(numbers(y), (V{1, 3, 3, 13, 5, 23, 5, 7, 23, 33, 41, 59}));
}
TEST_F(TensorTest, ConvInGroups) {
  // x (1, 4, 3), w (4, 2, 2), groups 2: numpy by hand.
  Tensor y = range({1, 4, 3}).conv(range({4, 2, 2}), {}, {.pads = {1, 0}, .strides = {2}, .groups = 2});
  EXPECT_EQ(y.sizes(), (Ints{1, 4, 2}));
  // windows of channels 0,1: [0,0],[0,3] then [1,2],[4,5]
  EXPECT_EQ(numbers(y), (V{9, 0 * 1 + 1 * 2 + 2 * 4 + 3 * 5, 21, 4 * 1 + 5 * 2 + 6 * 4 + 7 * 5, 9 * 6 + 11 * 9,
                           8 * 7 + 9 * 8 + 10 * 10 + 11 * 11, 13 * 6 + 15 * 9, 12 * 7 + 13 * 8 + 14 * 10 + 15 * 11}));
}
TEST_F(TensorTest, IntegerDivisionTruncatesAndFloorDivFloors) {
  Tensor a = Tensor::ints(Ints{7, -7, 7, -7}), b = Tensor::ints(Ints{2, 2, -2, -2});
  EXPECT_EQ(numbers(a / b), (V{3, -3, -3, 3}));
  EXPECT_EQ(numbers(a.floor_div(b)), (V{3, -4, -4, 3}));
  EXPECT_EQ(numbers(a.floor_mod(b)), (V{1, 1, -1, -1}));
  EXPECT_EQ(numbers(a.rem(b)), (V{1, -1, 1, -1}));
}
TEST_F(TensorTest, FloatFloorModTakesTheDivisorsSign) {
  Tensor a = Tensor::of(Kind::F32, Ints{4}, V{5.5, -5.5, 5.5, -6}), b = Tensor::of(Kind::F32, Ints{4}, V{2, 2, -2, 2});
  EXPECT_EQ(numbers(a.floor_mod(b)), (V{1.5, 0.5, -0.5, 0}));
}
TEST_F(TensorTest, ArgmaxTakesTheFirstAndNanIsLargest) {
  f64 nan = std::nan("");
  Tensor x = Tensor::of(Kind::F32, Ints{3, 4}, V{1, 3, 3, 0, 2, nan, 5, nan, -INFINITY, -INFINITY, -INFINITY, -INFINITY});
  EXPECT_EQ(numbers(x.argmax(1).first), (V{1, 1, 0}));
  EXPECT_EQ(numbers(x.argmax(1, true).first), (V{2, 3, 3}));
  EXPECT_EQ(numbers(x.argmin(1).first), (V{3, 1, 0}));
}
TEST_F(TensorTest, GatherNormalizesNegativeIndicesAndClampsUnknownOnes) {
  EXPECT_EQ(numbers(range({4, 2}).take(0, Tensor::ints(Ints{-1, 0}))), (V{6, 7, 0, 1}));
  EXPECT_EQ(error([&] { range({4}).take(0, Tensor::ints(Ints{1, 4})); }), "index 4 is out of range for an axis of 4");
  Tensor unknown = tensor::param(0, Kind::I64, dims({3}));
  EvalEnv env;
  Tensor y = range({4}).take(0, unknown);
  env.constants = &pool.constants();
  env.params = {int_values(Kind::I64, {3}, std::vector<i64>{-9, 9, -1})};
  Values v = eval(y.uop(), env);
  EXPECT_EQ(v.number(0), 0);
  EXPECT_EQ(v.number(1), 3);
  EXPECT_EQ(v.number(2), 3);
}
TEST_F(TensorTest, SoftmaxOfHalvesIsSummedInF32) {
  Tensor x = Tensor::full(dims({4096}), Kind::F16, 1);
  EXPECT_EQ(numbers(x.sum(Ints{0})), (V{4096}));  // in f16 the sum would stop at 2048
  EXPECT_EQ(x.softmax(0).dtype(), DType(Kind::F16));
}
TEST_F(TensorTest, SplatsStaySplatsThroughMovement) {
  Tensor x = Tensor::full(dims({2, 3}), Kind::F32, 7);
  for (const Tensor& y : {x.reshape(Ints{3, 2}), x.permute(Ints{1, 0}), x.expand(Ints{5, 2, 3}), x.slice(1, 0, 2), x.flip(Ints{0}),
                          x.repeat(0, 2), (x * 2.0).cast(Kind::I32)})
    EXPECT_TRUE(splat(pool.fold(y.uop()))) << y.uop().str();
}
TEST_F(TensorTest, ShapesKeepWhenArithmeticFolds) {
  Tensor x = Tensor::full(dims({2, 3}), Kind::I64, 5);
  EXPECT_EQ((x * 0.0).sizes(), (Ints{2, 3}));
  EXPECT_EQ(where(Tensor::full(dims({2, 3}), Kind::Bool, 1), Tensor::integer(Kind::I64, 1), Tensor::integer(Kind::I64, 2)).sizes(),
            (Ints{2, 3}));
  Tensor p = tensor::param(0, Kind::I64, dims({2, 3}));
  EXPECT_EQ((p * 0.0).sizes(), (Ints{2, 3}));
}
TEST_F(TensorTest, MistakesAreErrorsNotCrashes) {
  Tensor x = range({2, 3});
  EXPECT_EQ(error([&] { x.axis(2); }), "axis 2 is out of range for f32(2, 3)");
  EXPECT_EQ(error([&] { x.permute(Ints{0, 0}); }), "(0, 0) is no permutation of the axes of f32(2, 3)");
  EXPECT_EQ(error([&] { x.reshape(Ints{4, -1}); }), "cannot reshape f32(2, 3) to (4, -1)");
  EXPECT_EQ(error([&] { x + range({2}); }), "shapes (2, 3) and (2) do not broadcast");
  EXPECT_EQ(error([&] { x + x.cast(Kind::I32); }), "dtypes f32 and i32 differ");
  EXPECT_EQ(error([&] { x.matmul(x); }), "matmul of f32(2, 3) and f32(2, 3): inner dimensions differ");
  EXPECT_EQ(error([&] { x.expand(Ints{3, 3}); }), "shapes (2, 3) and (3, 3) do not broadcast");
  EXPECT_EQ(error([&] { x.squeeze(0); }), "axis 0 of f32(2, 3) is not 1 and cannot be squeezed");
  EXPECT_EQ(error([&] { Tensor::concat({x, range({3, 2})}, 0); }), "cannot concatenate f32(2, 3) and f32(3, 2) along axis 0");
  EXPECT_EQ(error([&] { x.cast(Kind::I32) + 0.5; }), "0.5 is no i32");
}

}  // namespace
