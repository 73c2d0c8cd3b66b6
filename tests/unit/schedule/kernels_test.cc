// How many kernels small graphs become: the table of what is fused.
#include <cmath>
#include <cstring>

#include "small_graph.h"

using namespace tg;

namespace {

class Kernels : public SmallGraph {};
using Names = std::vector<std::string>;

// --- contractions and what follows them -------------------------------------------------------------------------------------------------
TEST_F(Kernels, ConvBiasScaleReluResidualReluIsOne) {
  UOp x = input({1, 8, 10, 10}), residual = input({1, 16, 10, 10});
  UOp c = conv(x, weight({16, 8, 3, 3}), 1);
  UOp y = c + per_channel(weight({16}), c);
  y = y * per_channel(weight({16}), y) + per_channel(weight({16}), y);  // a batch norm
  EXPECT_EQ(kernels(relu(relu(y) + residual)), 1);
  EXPECT_EQ(names(), (Names{"conv_1_16_10_10"}));
  EXPECT_EQ(scratch(), 0);
}
TEST_F(Kernels, TwoConvsAreTwo) {
  UOp x = input({1, 8, 10, 10});
  UOp y = relu(conv(x, weight({16, 8, 3, 3}), 1));
  EXPECT_EQ(kernels(relu(conv(y, weight({16, 16, 1, 1})))), 2);
  EXPECT_EQ(scratch(), 1);
}
TEST_F(Kernels, ABlockOfAResidualNetworkIsOneAConv) {
  UOp x = input({1, 8, 8, 8});
  UOp y = relu(conv(x, weight({8, 8, 3, 3}), 1));
  y = conv(y, weight({8, 8, 3, 3}), 1);
  EXPECT_EQ(kernels(relu(y + x)), 2);
}
TEST_F(Kernels, WeightsOfAByteAreWidenedInTheProduct) {
  UOp w = cast(weight({64, 48}, Kind::U8), Kind::F32), x = input({32, 64});
  w = (w - to(weight({48}), w)) * to(weight({48}), w);
  EXPECT_EQ(kernels(matmul(x, w)), 1);
  EXPECT_EQ(scratch(), 0);
  // What is made of an input is made once.
  EXPECT_EQ(kernels(matmul(weight({32, 64}), (cast(input({64, 48}, Kind::U8), Kind::F32) - to(weight({48}), w)) * to(weight({48}), w))), 2);
}
TEST_F(Kernels, MatmulBiasGeluIsOne) {
  UOp y = matmul(input({32, 24}), weight({24, 48}));
  EXPECT_EQ(kernels(gelu(y + to(weight({48}), y))), 1);
  EXPECT_EQ(names(), (Names{"matmul_32_48"}));
}
TEST_F(Kernels, WhatFeedsAMatmulElementByElementIsStoredOnce) {
  // gelu inside the product would run 48 times an element.
  EXPECT_EQ(kernels(matmul(gelu(input({32, 24})), weight({24, 48}))), 2);
}
TEST_F(Kernels, ATranscendentalUnderOverlappingWindowsIsStoredOnce) {
  // Each element stands in nine windows of the depthwise convolution: its exp belongs into the kernel before.
  UOp y = conv(input({1, 8, 10, 10}), weight({16, 8, 1, 1}));
  UOp padded = tensor::pad(alu(Op::Exp, {y}) * y, dims({0, 0, 1, 1}), dims({0, 0, 1, 1}), number(0));
  UOp v = tensor::window(padded, {{2, 3}, {3, 3}, {1, 1}, {1, 1}});
  UOp w = to(tensor::reshape(weight({16, 3, 3}), dims({1, 16, 1, 1, 3, 3})), v);
  EXPECT_EQ(kernels(tensor::reduce(v * w, ReduceKind::Add, {4, 5})), 2);
  EXPECT_EQ(holds(1, Op::Exp), 0);
}
TEST_F(Kernels, APaddedInputOfAConvIsCopiedWithItsBorder) {
  UOp x = input({1, 3, 32, 32});
  ASSERT_EQ(kernels(relu(conv(x, weight({16, 3, 3, 3}), 1))), 2);
  const Buffer& copy = s.buffers[s.calls[0].buffers[0]];
  EXPECT_EQ(copy.dims, (std::vector<i64>{1, 3, 34, 34}));
  EXPECT_TRUE(copy.layout.is_row_major(copy.dims)) << "three channels are no vector";
  for (UOp u : toposort(s.calls[1].ast))
    if (u.is(Op::Load)) {
      EXPECT_EQ(u.nsrc(), 1u) << "no tap is tested";
    }
}
TEST_F(Kernels, APaddedPartOfABufferIsCopiedWithItsBorder) {
  // Columns 8 to 39 of 48: beside them lie others, so no border can.
  UOp y = relu(conv(input({1, 8, 32, 48}), weight({8, 8, 1, 1})));
  UOp part = tensor::shrink(y, dims({0, 0, 0, 8}), dims({1, 8, 32, 40}), dims({1, 1, 1, 1}));
  ASSERT_EQ(kernels({relu(conv(part, weight({16, 8, 3, 3}), 1)), y}), 3);
  for (UOp u : toposort(s.calls.back().ast))
    if (u.is(Op::Load)) {
      EXPECT_EQ(u.nsrc(), 1u) << "no tap is tested";
    }
}
TEST_F(Kernels, APaddedInputThatIsReadOnceOrTwiceIsNotCopied) {
  EXPECT_EQ(kernels(max_pool(tensor::pad(input({1, 3, 32, 32}), dims({0, 0, 1, 1}), dims({0, 0, 1, 1}), number(0)), 3, 2)), 1);
}
TEST_F(Kernels, ACastThatFeedsAMatmulIsFree) {
  // A cast of a weight is no arithmetic: it is made where it is read.
  EXPECT_EQ(kernels(matmul(input({32, 24}), cast(weight({24, 48}, Kind::F16), Kind::F32))), 1);
}
TEST_F(Kernels, QkvIsAtMostThree) {
  UOp x = input({32, 24});
  std::vector<UOp> qkv;
  for (int i = 0; i < 3; i++) {
    UOp y = matmul(x, weight({24, 24}));
    qkv.push_back(y + to(weight({24}), y));
  }
  EXPECT_LE(kernels(qkv), 3);
  EXPECT_EQ(scratch(), 0) << "x is read where it lies";
}
TEST_F(Kernels, ScaleOfAMatmulInFrontOfAMatmulIsInTheFirst) {
  UOp a = matmul(input({16, 24}), weight({24, 20})) * number(0.125);
  EXPECT_EQ(kernels(matmul(a, weight({20, 8}))), 2);
}

// --- one-hots ---------------------------------------------------------------------------------------------------------------------------
class OneHots : public SmallGraph {
 protected:
  // sum over k of (i == first + k) * w[k], with the table's values given.
  UOp product(i64 first, f32 each, DType ints = Kind::I32) {
    UOp i = input({20}, ints), w = weight({5, 8});
    for (size_t at = 0; at < 5 * 8; at++) std::memcpy(bytes.back().data() + 4 * at, &each, 4);
    UOp counts = weight({5}, Kind::I32);
    for (i32 k = 0; k < 5; k++) {
      i32 v = i32(first) + k;
      std::memcpy(bytes.back().data() + 4 * k, &v, 4);
    }
    UOp all = cast(tensor::broadcast_to(counts, dims({20, 5})), ints);
    return matmul(cast(eq(to(tensor::reshape(i, dims({20, 1})), all), all), Kind::F32), w);
  }
};
TEST_F(OneHots, AProductWithAOneHotReadsOneRow) {
  for (i64 first : {0, -2, 7}) {
    ASSERT_EQ(kernels(product(first, 1.5f)), 1);
    EXPECT_EQ(holds(0, Op::Reduce), 0);
  }
}
TEST_F(OneHots, InfinityNanAndMinusZeroInTheTableKeepTheSum) {
  for (f32 each : {INFINITY, NAN, -0.0f}) {
    ASSERT_EQ(kernels(product(0, each)), 1);
    EXPECT_EQ(holds(0, Op::Reduce), 1);
  }
}
TEST_F(OneHots, OneHotsOfFloatsAreNone) {
  ASSERT_EQ(kernels(product(0, 1.5f, Kind::F32)), 1);
  EXPECT_EQ(holds(0, Op::Reduce), 1);
}

// --- rows -------------------------------------------------------------------------------------------------------------------------------
TEST_F(Kernels, SoftmaxIsOne) {
  EXPECT_EQ(kernels(softmax(input({64, 100}))), 1);
  EXPECT_EQ(names(), (Names{"softmax_64_100"}));
  EXPECT_EQ(scratch(), 0);
}
TEST_F(Kernels, TheLoopsOfSoftmaxShareOneAxis) {
  kernels(softmax(input({64, 100})));
  std::vector<i64> ids;
  for (UOp u : toposort(s.calls[0].ast))
    if (u.is(Op::Range) && u.src(0).is_const(100)) ids.push_back(u.arg<RangeArg>().id);
  ASSERT_EQ(ids.size(), 3u) << "max, sum, and the output";
  EXPECT_TRUE(ids[0] == ids[1] && ids[1] == ids[2]);
}
TEST_F(Kernels, LayerNormIsOne) { EXPECT_EQ(kernels(layer_norm(input({2, 16, 48}))), 1); }
TEST_F(Kernels, ResidualThenLayerNormIsOne) {
  EXPECT_EQ(kernels(layer_norm(input({2, 16, 48}) + input({2, 16, 48}))), 1);
}
TEST_F(Kernels, MaskScaleSoftmaxIsOne) {
  UOp x = input({2, 4, 16, 16}), mask = input({2, 1, 1, 16});
  EXPECT_EQ(kernels(softmax(x * number(0.125) + to(mask, x))), 1);
}
TEST_F(Kernels, AReduceAloneIsOne) { EXPECT_EQ(kernels(relu(row_sum(input({64, 100})))), 1); }
TEST_F(Kernels, AMeanOfSquaresIsOne) {
  UOp x = input({64, 100});
  EXPECT_EQ(kernels(row_sum(x * x) * number(0.01)), 1);
}
TEST_F(Kernels, ABertLayerIsAtMostTwelve) {
  i64 seq = 16, heads = 4, depth = 8, hidden = heads * depth;
  UOp x = input({1, seq, hidden}), mask = input({1, 1, 1, seq});
  auto linear = [&](UOp a, i64 from, i64 n) {
    UOp y = matmul(a, weight({from, n}));
    return y + to(weight({n}), y);
  };
  auto split = [&](UOp a) { return tensor::permute(tensor::reshape(a, dims({1, seq, heads, depth})), Ints{0, 2, 1, 3}); };
  UOp q = split(linear(x, hidden, hidden)), k = split(linear(x, hidden, hidden)), v = split(linear(x, hidden, hidden));
  UOp scores = matmul(q, tensor::permute(k, Ints{0, 1, 3, 2})) * number(0.35);
  UOp p = softmax(scores + to(mask, scores));
  UOp a = tensor::reshape(tensor::permute(matmul(p, v), Ints{0, 2, 1, 3}), dims({1, seq, hidden}));
  UOp h = layer_norm(x + linear(a, hidden, hidden));
  UOp f = linear(gelu(linear(h, hidden, 4 * hidden)), 4 * hidden, hidden);
  EXPECT_LE(kernels(layer_norm(h + f)), 12) << join(names(), " ");
}

// --- movement ---------------------------------------------------------------------------------------------------------------------------
TEST_F(Kernels, MovementInFrontOfArithmeticIsFree) {
  UOp x = input({4, 6, 8});
  UOp y = tensor::reshape(tensor::permute(x, Ints{2, 0, 1}), dims({8, 24}));
  y = tensor::flip(tensor::slice(y, 0, idx(1), idx(7)), Ints{1});
  EXPECT_EQ(kernels(relu(tensor::broadcast_to(y, dims({3, 6, 24})))), 1);
}
TEST_F(Kernels, MovementBetweenArithmeticIsFree) {
  UOp y = relu(input({4, 6, 8}));
  EXPECT_EQ(kernels(tensor::permute(y, Ints{2, 0, 1}) + number(1)), 1);
}
TEST_F(Kernels, MovementBehindAMatmulIsFree) {
  UOp y = matmul(input({12, 16}), weight({16, 20}));
  EXPECT_EQ(kernels(tensor::permute(tensor::reshape(y, dims({3, 4, 5, 4})), Ints{2, 0, 3, 1})), 1);
}
TEST_F(Kernels, AGatherOfAConstantIndexIsFree) {
  UOp x = relu(input({10, 6}));
  // rows 9, 8, .. 0 by index arithmetic
  UOp rows = tensor::expand(tensor::reshape(konst(Kind::I64, 9) - tensor::iota(idx(10), Kind::I64), dims({10, 1})), dims({10, 6}));
  UOp columns = tensor::broadcast_to(tensor::iota(idx(6), Kind::I64), dims({10, 6}));
  EXPECT_EQ(kernels(tensor::gather(x, std::vector<UOp>{rows, columns}) + number(1)), 1);
}
TEST_F(Kernels, AnEmbeddingIsOneAndHasNoLoopOverTheTable) {
  UOp table = weight({100, 16}), ids = input({5}, Kind::I64);
  UOp rows = tensor::expand(tensor::reshape(ids, dims({5, 1})), dims({5, 16}));
  UOp columns = tensor::broadcast_to(tensor::iota(idx(16), Kind::I64), dims({5, 16}));
  EXPECT_EQ(kernels(tensor::gather(table, std::vector<UOp>{rows, columns})), 1);
  for (UOp u : toposort(s.calls[0].ast))
    EXPECT_FALSE(u.is(Op::Range) && u.src(0).is_const(100));
}
TEST_F(Kernels, SplitOfAMatmulIsOneEach) {
  UOp y = matmul(input({12, 16}), weight({16, 24}));
  UOp a = tensor::slice(y, 1, idx(0), idx(8)), b = tensor::slice(y, 1, idx(8), idx(24));
  EXPECT_EQ(kernels({relu(a), relu(b)}), 3) << "the matmul once, and what is made of its parts";
}

// --- concat and pad ---------------------------------------------------------------------------------------------------------------------
TEST_F(Kernels, ConcatOfTwoConvsIsTwo) {
  UOp x = input({1, 8, 10, 10});
  UOp a = relu(conv(x, weight({16, 8, 3, 3}), 1)), b = relu(conv(x, weight({24, 8, 1, 1})));
  EXPECT_EQ(kernels(tensor::concat(std::vector<UOp>{a, b}, 1)), 2);
  EXPECT_EQ(scratch(), 0) << "each stores into its slice of the output";
  EXPECT_EQ(s.calls[0].buffers[0], s.calls[1].buffers[0]);
}
TEST_F(Kernels, ConcatOfConcatsIsOneABranch) {
  UOp x = input({1, 8, 6, 6});
  auto branch = [&](i64 m) { return relu(conv(x, weight({m, 8, 1, 1}))); };
  UOp a = tensor::concat(std::vector<UOp>{branch(4), branch(8)}, 1);
  EXPECT_EQ(kernels(tensor::concat(std::vector<UOp>{a, branch(4)}, 1)), 3);
  EXPECT_EQ(scratch(), 0);
}
TEST_F(Kernels, ConcatOfOneValueTwiceCopiesTheSecond) {
  UOp a = relu(conv(input({1, 8, 6, 6}), weight({4, 8, 1, 1})));
  EXPECT_EQ(kernels(tensor::concat(std::vector<UOp>{a, a}, 1)), 2);
}
TEST_F(Kernels, ConcatOfInputsIsACopyEach) {
  EXPECT_EQ(kernels(tensor::concat(std::vector<UOp>{input({2, 3}), input({2, 4})}, 1)), 2);
}
TEST_F(Kernels, PadBetweenConvsIsABorderOfTheFirst) {
  UOp y = relu(conv(input({1, 8, 6, 6}), weight({4, 8, 3, 3}), 1));
  EXPECT_EQ(kernels(conv(y, weight({4, 4, 3, 3}), 1)), 2);
  EXPECT_TRUE(s.calls[0].border);
  const Buffer& b = s.buffers[s.calls[0].buffers[0]];
  EXPECT_EQ(b.dims, (std::vector<i64>{1, 4, 8, 8}));
  EXPECT_EQ(b.before, (std::vector<i64>{0, 0, 1, 1}));
  EXPECT_EQ(b.after, (std::vector<i64>{0, 0, 1, 1}));
  EXPECT_EQ(b.fill, 0u);
  // The second kernel tests nothing: whatever it reads of y is there.
  for (UOp u : toposort(s.calls[1].ast))
    EXPECT_FALSE(u.is(Op::Load) && u.nsrc() > 1);
}
TEST_F(Kernels, AnUnevenPadIsAnUnevenBorder) {
  // Windows of 2 x 2 at every second place of 7 x 7: the last ones reach one further.
  UOp y = relu(conv(input({1, 8, 7, 7}), weight({4, 8, 1, 1})));
  UOp p = tensor::pad(y, dims({0, 0, 0, 0}), dims({0, 0, 1, 1}), number(0));
  EXPECT_EQ(kernels(conv(p, weight({4, 4, 2, 2}), 0, 2)), 2);
  const Buffer& b = s.buffers[s.calls[0].buffers[0]];
  EXPECT_EQ(b.before, (std::vector<i64>{0, 0, 0, 0}));
  EXPECT_EQ(b.after, (std::vector<i64>{0, 0, 1, 1}));
}
TEST_F(Kernels, TwoFillValuesGiveNoBorder) {
  UOp y = relu(conv(input({1, 4, 6, 6}), weight({4, 4, 1, 1})));
  UOp low = tensor::pad(y, dims({0, 0, 1, 1}), dims({0, 0, 1, 1}), number(-1));
  EXPECT_EQ(kernels({conv(y, weight({4, 4, 3, 3}), 1), max_pool(low, 3, 1)}), 3);
  for (const Call& c : s.calls) EXPECT_FALSE(c.border);
}
TEST_F(Kernels, APaddedInputIsReadWithATest) {
  EXPECT_EQ(kernels(conv(input({1, 8, 6, 6}), weight({4, 8, 3, 3}), 1)), 1);
  EXPECT_FALSE(s.calls[0].border);
}

// --- reduces in front of reduces --------------------------------------------------------------------------------------------------------
TEST_F(Kernels, GlobalPoolAfterConvIsTwo) {
  UOp y = relu(conv(input({1, 8, 10, 10}), weight({16, 8, 3, 3}), 1));
  EXPECT_EQ(kernels(global_pool(y)), 2);
}
TEST_F(Kernels, ReducesOfDifferentAxesAreOneEach) {
  UOp x = input({8, 12, 16});
  UOp a = tensor::reduce(x * x, ReduceKind::Add, {2});
  EXPECT_EQ(kernels(tensor::reduce(a, ReduceKind::Max, {1})), 2);
}
TEST_F(Kernels, MaxPoolAfterConvIsTwo) {
  UOp y = relu(conv(input({1, 8, 10, 10}), weight({16, 8, 3, 3}), 1));
  EXPECT_EQ(kernels(max_pool(y, 2, 2)), 2);
}

// --- several readers --------------------------------------------------------------------------------------------------------------------
TEST_F(Kernels, AMatmulWithTwoReadersIsStored) {
  UOp y = matmul(input({12, 16}), weight({16, 24}));
  EXPECT_EQ(kernels({relu(y), y * y}), 3);
}
TEST_F(Kernels, AnActivationBehindATwiceReadConvIsInItsKernel) {
  UOp y = relu(conv(input({1, 8, 6, 6}), weight({8, 8, 3, 3}), 1));
  EXPECT_EQ(kernels(conv(y, weight({8, 8, 1, 1})) + y), 2);
}
TEST_F(Kernels, CheapArithmeticWithTwoReadersIsDoneTwice) {
  UOp y = relu(input({64, 64}));
  EXPECT_EQ(kernels({y + number(1), y * number(2)}), 2);
  EXPECT_EQ(scratch(), 0);
}
TEST_F(Kernels, ATranscendentalWithTwoReadersIsStored) {
  UOp y = alu(Op::Exp, {input({64, 64})});
  EXPECT_EQ(kernels({y + number(1), y * number(2)}), 3);
}
TEST_F(Kernels, ATranscendentalThatIsRepeatedIsStored) {
  UOp y = alu(Op::Exp, {input({64})});
  EXPECT_EQ(kernels(to(y, input({32, 64})) + input({32, 64})), 2);
}

TEST_F(Kernels, AChainOfStencilsStaysSmall) {
  // Each level reads the one before at two places: computed where it is read, 2^20 times the first.
  UOp y = input({64});
  for (int level = 0; level < 20; level++) {
    UOp moved = tensor::slice(tensor::pad(y, dims({1}), dims({0}), number(0)), 0, idx(0), idx(64));
    y = y + moved * number(0.5);
  }
  EXPECT_LE(kernels(y), 20);
  size_t nodes = 0;
  for (const Call& c : s.calls) nodes += toposort(c.ast).size();
  EXPECT_LE(nodes, 2000u);
}
TEST_F(Kernels, ALongChainOfArithmeticIsFew) {
  UOp x = input({64}), y = x;
  for (int i = 0; i < 300; i++) y = max(y * number(0.5), number(-i)) + x;
  EXPECT_LE(kernels(y), 6);
}

// --- outputs ----------------------------------------------------------------------------------------------------------------------------
TEST_F(Kernels, AnOutputThatIsAlsoReadIsReadInPlace) {
  UOp y = matmul(input({12, 16}), weight({16, 24}));
  EXPECT_EQ(kernels({y, relu(y)}), 2);
  EXPECT_EQ(scratch(), 0);
}
TEST_F(Kernels, TheSameOutputTwiceIsCopied) {
  UOp y = relu(input({12, 16}));
  EXPECT_EQ(kernels({y, y}), 2);
}
TEST_F(Kernels, AnInputAsOutputIsCopied) {
  EXPECT_EQ(kernels(input({12, 16})), 1);
  EXPECT_EQ(names(), (Names{"copy_12_16"}));
}
TEST_F(Kernels, AConstantOutputIsStored) { EXPECT_EQ(kernels(tensor::broadcast_to(number(3), dims({4, 5}))), 1); }
TEST_F(Kernels, AnEmptyOutputNeedsNone) { EXPECT_EQ(kernels(relu(input({0, 5}))), 0); }

// --- ordered kernels --------------------------------------------------------------------------------------------------------------------
TEST_F(Kernels, ScatterIsACopyAndTheUpdatesInTheirOrder) {
  UOp x = input({10}), u = input({4}), at = input({4}, Kind::I64);
  EXPECT_EQ(kernels(tensor::scatter(x, u, std::vector<UOp>{at}, ScatterKind::Set)), 2);
  EXPECT_EQ(names(), (Names{"copy_10", "scatter_4"}));
  EXPECT_TRUE(s.calls[0].ordered.empty());
  EXPECT_EQ(s.calls[1].ordered.size(), 1u) << "of two updates to one place the later one stays";
}
TEST_F(Kernels, CumsumIsOneStepAnElement) {
  EXPECT_EQ(kernels(tensor::scan(input({8, 100}), {ReduceKind::Add, 1, false, false})), 1);
  EXPECT_EQ(holds(0, Op::Reduce), 0);
  EXPECT_EQ(holds(0, Op::Range), 2);
  EXPECT_EQ(s.calls[0].ordered.size(), 1u);
}
TEST_F(Kernels, SortIsOne) {
  EXPECT_EQ(kernels(tensor::sort(input({4, 100}), {1, false})), 1);
  EXPECT_EQ(s.calls[0].outputs, 3u) << "the order, and keys and positions in scratch";
}

}  // namespace
