// Which convolutions may be Winograd's, what is picked, what kernels they become, and by how much they err.
#include <cmath>
#include <cstring>
#include <random>

#include "base/settings.h"
#include "ir/eval.h"
#include "ir/eval_kernel.h"
#include "schedule/choice.h"
#include "schedule/cost.h"
#include "schedule/winograd.h"
#include "small_graph.h"

using namespace tg;

namespace {

struct Shape4 {
  i64 n, in, out, h, w, pad;
};

class Winograd : public SmallGraph {
 protected:
  std::mt19937_64 rng{7};

  std::vector<f64> random(i64 n) {
    std::vector<f64> v;
    std::uniform_real_distribution<f32> d(-1, 1);
    for (i64 i = 0; i < n; i++) v.push_back(d(rng));
    return v;
  }
  UOp random_weight(std::vector<i64> d) {
    UOp u = weight(d);
    std::vector<f64> v = random(tg::count(d));
    bytes.back() = encode(values(Kind::F32, d, v));
    g.constants.back().bytes = bytes.back();
    return u;
  }
  void finish(UOp y) {
    g.arena = arena;
    g.outputs = {{"y", y.dtype(), shape(y)}};
    g.sink = node(Op::Sink, Kind::Void, {y});
  }
  Graph with(u32 alternative) {
    std::vector<Choice> c = find_choices(g, Target{});
    for (Choice& x : c) x.picked = alternative;
    return with_choices(g, Target{}, c);
  }
  // The number of the alternative with this tile; 0: the convolution has none such.
  u32 number_of(i64 tile, bool joined) {
    Context any{{settings::WINO, 1}};
    const std::vector<Choice> c = find_choices(g, Target{});
    for (u32 i = 1; i < c.at(0).alternatives.size(); i++)
      if (c[0].alternatives[i].tile == tile && c[0].alternatives[i].joined == joined) return i;
    return 0;
  }
  size_t choices(UOp y) {
    finish(y);
    Context any{{settings::WINO, 1}};
    return find_choices(g, Target{}).size();
  }
  // The kernels of a graph, each by the interpreter.
  Values run(const Graph& graph, const std::vector<Values>& inputs) { return computed(graph, schedule(graph, Target{}), inputs).at(0); }
};

// --- values -----------------------------------------------------------------------------------------------------------------------------
// Lavin and Gray's matrices as they stand in the paper.
const f64 kB2[4][4] = {{1, 0, -1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, 1, 0, -1}};
const f64 kB4[6][6] = {{4, 0, -5, 0, 1, 0}, {0, -4, -4, 1, 1, 0}, {0, 4, -4, -1, 1, 0}, {0, -2, -1, 2, 1, 0}, {0, 2, -1, -2, 1, 0}, {0, 4, 0, -5, 0, 1}};
const f64 kA2[2][4] = {{1, 1, 1, 0}, {0, 1, -1, -1}};
const f64 kA4[4][6] = {{1, 1, 1, 1, 1, 0}, {0, 1, -1, 2, -2, 0}, {0, 1, 1, 4, 4, 0}, {0, 1, -1, 8, -8, 1}};

TEST_F(Winograd, ErrsByNoMoreThanItsRoundings) {
  // Each value is rounded at most 3 times in a pass over the input, once in a weight, C times in the sum and 5 times in a pass over the output; a
  // rounding errs by eps of what it rounds, and the later passes add up the magnitudes.
  const Shape4 shapes[] = {{1, 3, 5, 8, 8, 1}, {1, 8, 4, 7, 9, 1}, {2, 4, 6, 6, 5, 1}, {1, 5, 3, 11, 6, 0}, {3, 2, 2, 3, 3, 0}, {1, 16, 8, 14, 14, 1}, {1, 4, 4, 5, 4, 2}};
  int joined = 0;
  for (const Shape4& sh : shapes) {
    for (u32 alternative : {1u, 2u, 3u, 4u}) {
      SCOPED_TRACE(str(sh.n, "x", sh.in, "->", sh.out, " at ", sh.h, "x", sh.w, " pad ", sh.pad, " alternative ", alternative));
      g = {};
      bytes.clear();
      UOp x = input({sh.n, sh.in, sh.h, sh.w}), w = random_weight({sh.out, sh.in, 3, 3});
      finish(conv(x, w, sh.pad));
      Values vx = values(Kind::F32, {sh.n, sh.in, sh.h, sh.w}, random(sh.n * sh.in * sh.h * sh.w));
      Values vw = decode(Kind::F32, g.constants[0].dims, g.constants[0].bytes);
      const i64 f = alternative % 2 ? 2 : 4, k = f + 2, oh = sh.h + 2 * sh.pad - 2, ow = sh.w + 2 * sh.pad - 2;
      const u32 number = number_of(f, alternative > 2);
      if (alternative > 2 && !number) continue;  // fewer than four pieces, or channels out that are no panels
      joined += alternative > 2;
      Graph chosen;
      {
        Context any{{settings::WINO, 1}};
        chosen = with(number);
      }
      ASSERT_EQ(chosen.constants.size(), 2u) << "the weights, and their transform";
      ASSERT_EQ(schedule(chosen, Target{}).calls.size(), (alternative > 2 ? 1u : 3u) + (sh.in >= 16)) << "an input of many channels is copied";
      Values got = run(chosen, {vx});
      ASSERT_EQ(got.dims, (std::vector<i64>{sh.n, sh.out, oh, ow}));
      const std::vector<f32> u = [&] {
        std::vector<f32> v(chosen.constants[1].bytes.size() / 4);
        std::memcpy(v.data(), chosen.constants[1].bytes.data(), v.size() * 4);
        return v;
      }();
      auto at = [&](i64 n, i64 c, i64 i, i64 j) {
        i -= sh.pad, j -= sh.pad;
        if (i < 0 || j < 0 || i >= sh.h || j >= sh.w) return 0.0;
        return vx.number(((n * sh.in + c) * sh.h + i) * sh.w + j);
      };
      const f64* bt = f == 2 ? &kB2[0][0] : &kB4[0][0];
      const f64* a = f == 2 ? &kA2[0][0] : &kA4[0][0];
      for (i64 n = 0; n < sh.n; n++)
        for (i64 o = 0; o < sh.out; o++)
          for (i64 i = 0; i < oh; i++)
            for (i64 j = 0; j < ow; j++) {
              f64 want = 0;
              for (i64 c = 0; c < sh.in; c++)
                for (i64 p = 0; p < 3; p++)
                  for (i64 q = 0; q < 3; q++) want += at(n, c, i + p, j + q) * vw.number((o * sh.in + c) * 9 + p * 3 + q);
              // |A|' (sum |U| . |B|' |d| |B|) |A|
              f64 magnitude = 0;
              for (i64 s = 0; s < k; s++)
                for (i64 t = 0; t < k; t++) {
                  f64 m = 0;
                  for (i64 c = 0; c < sh.in; c++) {
                    f64 v = 0;
                    for (i64 p = 0; p < k; p++)
                      for (i64 q = 0; q < k; q++) v += std::abs(bt[s * k + p] * bt[t * k + q] * at(n, c, i / f * f + p, j / f * f + q));
                    m += v * std::abs(u[size_t(((s * k + t) * sh.in + c) * sh.out + o)]);
                  }
                  magnitude += m * std::abs(a[i % f * k + s] * a[j % f * k + t]);
                }
              f64 most = (f64(sh.in) + 2 * 3 + 1 + 2 * 5) * 0x1p-24 * magnitude;
              ASSERT_NEAR(got.number(((n * sh.out + o) * oh + i) * ow + j), want, most) << n << " " << o << " " << i << " " << j;
            }
    }
  }
  EXPECT_GE(joined, 5);
}

TEST_F(Winograd, OfManyChannelsStaysBelowTheStatedError) {
  for (u32 alternative : {1u, 2u}) {
    g = {};
    bytes.clear();
    UOp x = input({1, 96, 8, 8}), w = random_weight({8, 96, 3, 3});
    finish(conv(x, w, 1));
    Values vx = values(Kind::F32, {1, 96, 8, 8}, random(96 * 64));
    Values vw = decode(Kind::F32, g.constants[0].dims, g.constants[0].bytes);
    Context any{{settings::WINO, 1}};
    Values got = run(with(alternative), {vx});
    f64 error = 0, largest = 0;
    for (i64 o = 0; o < 8; o++)
      for (i64 i = 0; i < 8; i++)
        for (i64 j = 0; j < 8; j++) {
          f64 want = 0;
          for (i64 c = 0; c < 96; c++)
            for (i64 p = 0; p < 3; p++)
              for (i64 q = 0; q < 3; q++) {
                i64 r = i + p - 1, s = j + q - 1;
                if (r >= 0 && s >= 0 && r < 8 && s < 8) want += vx.number((c * 8 + r) * 8 + s) * vw.number((o * 96 + c) * 9 + p * 3 + q);
              }
          error = std::max(error, std::abs(got.number((o * 8 + i) * 8 + j) - want)), largest = std::max(largest, std::abs(want));
        }
    EXPECT_LT(error, winograd_error(alternative == 1 ? 2 : 4) * largest);
    EXPECT_GT(error, 0) << "the sums are not the plain ones";
  }
}

TEST_F(Winograd, WeightsThatLieInAnotherOrder) {
  // (3, 3, C, M), as exporters that keep channels last have them.
  UOp x = input({1, 4, 6, 6}), w = random_weight({3, 3, 4, 5});
  finish(conv(x, tensor::permute(w, Ints{3, 2, 0, 1}), 1));
  Values vx = values(Kind::F32, {1, 4, 6, 6}, random(144));
  Values want = eval_graph(g, std::vector<Values>{vx})[0];
  Context any{{settings::WINO, 1}};
  Values got = run(with(2), {vx});
  for (i64 i = 0; i < want.elems(); i++) ASSERT_NEAR(got.number(i), want.number(i), 1e-5);
}

TEST_F(Winograd, OfNarrowFloatsIsSummedInF32) {
  for (DType d : {DType(Kind::F16), DType(Kind::BF16)}) {
    g = {};
    bytes.clear();
    UOp x = input({1, 4, 6, 6}, d), w = weight({5, 4, 3, 3}, d);
    bytes.back() = encode(values(d.kind, {5, 4, 3, 3}, random(180)));
    g.constants.back().bytes = bytes.back();
    finish(conv(cast(x, Kind::F32), cast(w, Kind::F32), 1));
    Values vx = values(d.kind, {1, 4, 6, 6}, random(144));
    Values want = eval_graph(g, std::vector<Values>{vx})[0];
    for (u32 alternative : {1u, 2u}) {
      Context any{{settings::WINO, 1}};
      Graph chosen = with(alternative);
      ASSERT_EQ(chosen.constants.size(), 2u);
      EXPECT_EQ(chosen.constants[1].dtype, DType(Kind::F32));
      Values got = run(chosen, {vx});
      for (i64 i = 0; i < want.elems(); i++) ASSERT_NEAR(got.number(i), want.number(i), 1e-5) << (d.kind == Kind::F16 ? "f16 " : "bf16 ") << i;
    }
  }
}

// x (N, C, ..), w (M, C, k..) with a window of any rank and padding of one at each side of an axis of 3 taps.
UOp conv_of(UOp x, UOp w) {
  std::vector<i64> k = const_shape(w), d = const_shape(x), pads(d.size());
  WindowArg a;
  for (size_t i = 2; i < d.size(); i++) {
    pads[i] = k[i] == 3;
    a.axes.push_back(i64(i)), a.k.push_back(k[i]), a.stride.push_back(1), a.dilation.push_back(1);
  }
  UOp v = tensor::window(tensor::pad(x, dims(std::span<const i64>(pads)), dims(std::span<const i64>(pads)), konst_f(Kind::F32, 0)), a);
  std::vector<i64> out = const_shape(v), vs{d[0], 1}, ws{1, k[0], k[1]}, full{d[0], k[0]};
  for (size_t i = 1; i < out.size(); i++) vs.push_back(out[i]), full.push_back(out[i]);
  for (size_t i = 2; i < d.size(); i++) ws.push_back(1);
  Ints axes{2};
  for (size_t i = 2; i < d.size(); i++) ws.push_back(k[i]), axes.push_back(i64(d.size() + i - 1));
  UOp p = tensor::expand(tensor::reshape(v, dims(std::span<const i64>(vs))), dims(std::span<const i64>(full))) *
          tensor::expand(tensor::reshape(w, dims(std::span<const i64>(ws))), dims(std::span<const i64>(full)));
  return tensor::reduce(p, ReduceKind::Add, axes);
}
TEST_F(Winograd, AlongOneAxis) {
  struct Line {
    std::vector<i64> x, w;
  };
  const Line lines[] = {{{1, 4, 6, 9}, {5, 4, 1, 3}}, {{2, 3, 7, 5}, {4, 3, 3, 1}}, {{1, 6, 13}, {3, 6, 3}}, {{2, 2, 8}, {2, 2, 3}}, {{1, 3, 1, 10}, {2, 3, 3, 3}}};
  for (const Line& l : lines)
    for (u32 alternative : {1u, 2u}) {
      SCOPED_TRACE(str(join(l.x, "x"), " by ", join(l.w, "x"), " alternative ", alternative));
      g = {};
      bytes.clear();
      UOp x = input(l.x), w = random_weight(l.w);
      finish(conv_of(x, w));
      Values vx = values(Kind::F32, l.x, random(tg::count(l.x)));
      Values want = eval_graph(g, std::vector<Values>{vx})[0];
      Context any{{settings::WINO, 1}};
      Graph chosen = with(alternative);
      ASSERT_EQ(chosen.constants.size(), 2u);
      EXPECT_EQ(schedule(chosen, Target{}).calls.size(), 3u);
      Values got = run(chosen, {vx});
      for (i64 i = 0; i < want.elems(); i++) ASSERT_NEAR(got.number(i), want.number(i), 2e-5) << i;
    }
}

// --- legality ---------------------------------------------------------------------------------------------------------------------------
TEST_F(Winograd, IsForWindowsOf3x3OneByOne) {
  UOp x = input({1, 8, 9, 9});
  EXPECT_EQ(choices(conv(x, weight({4, 8, 3, 3}), 1)), 1u);
  EXPECT_EQ(choices(conv(x, weight({4, 8, 3, 3}), 0)), 1u);
  EXPECT_EQ(choices(conv(x, weight({4, 8, 3, 3}), 1, 2)), 0u) << "stride 2";
  EXPECT_EQ(choices(conv(x, weight({4, 8, 5, 5}), 1)), 0u) << "5x5";
  EXPECT_EQ(choices(conv(x, weight({4, 8, 1, 1}))), 0u) << "1x1";
  EXPECT_EQ(choices(conv_of(x, weight({4, 8, 1, 1}))), 0u) << "1x1 with a window";
  EXPECT_EQ(choices(conv_of(x, weight({4, 8, 3, 1}))), 1u);
  EXPECT_EQ(choices(conv_of(x, weight({4, 8, 1, 5}))), 0u) << "1x5";
}
TEST_F(Winograd, IsNotForDilatedOrGroupedOnes) {
  UOp x = input({1, 8, 9, 9}), w = weight({4, 8, 3, 3});
  UOp v = tensor::window(x, {{2, 3}, {3, 3}, {1, 1}, {2, 2}});  // 1 8 5 5 3 3
  UOp a = tensor::expand(tensor::reshape(v, dims({1, 1, 8, 5, 5, 3, 3})), dims({1, 4, 8, 5, 5, 3, 3}));
  EXPECT_EQ(choices(tensor::reduce(a * tensor::expand(tensor::reshape(w, dims({1, 4, 8, 1, 1, 3, 3})), shape(a)), ReduceKind::Add, {2, 5, 6})), 0u);
  v = tensor::window(x, {{2, 3}, {3, 3}, {1, 1}, {1, 1}});  // 1 8 7 7 3 3
  a = tensor::expand(tensor::reshape(v, dims({1, 2, 1, 4, 7, 7, 3, 3})), dims({1, 2, 2, 4, 7, 7, 3, 3}));
  UOp b = tensor::expand(tensor::reshape(weight({4, 4, 3, 3}), dims({1, 2, 2, 4, 1, 1, 3, 3})), shape(a));
  EXPECT_EQ(choices(tensor::reduce(a * b, ReduceKind::Add, {3, 6, 7})), 0u) << "two groups";
  a = tensor::window(x, {{2, 3}, {3, 3}, {1, 1}, {1, 1}});
  b = tensor::expand(tensor::reshape(weight({8, 3, 3}), dims({1, 8, 1, 1, 3, 3})), shape(a));
  EXPECT_EQ(choices(tensor::reduce(a * b, ReduceKind::Add, {4, 5})), 0u) << "depthwise";
}
TEST_F(Winograd, IsNotForWeightsThatAreComputed) {
  UOp x = input({1, 8, 9, 9}), w = input({4, 8, 3, 3});
  EXPECT_EQ(choices(conv(x, w, 1)), 0u);
  EXPECT_EQ(choices(conv(x, relu(weight({4, 8, 3, 3})), 1)), 0u);
}
TEST_F(Winograd, IsNotForOtherNumbersThanF32) {
  EXPECT_EQ(choices(conv(input({1, 8, 9, 9}, Kind::F64), weight({4, 8, 3, 3}, Kind::F64))), 0u);
  EXPECT_EQ(choices(conv(input({1, 8, 9, 9}, Kind::I32), weight({4, 8, 3, 3}, Kind::I32))), 0u);
}
TEST_F(Winograd, IsNotForPaddingByAnotherNumberInItsOwnHands) {
  // A border of ones is a value like any other: it is read as part of x.
  UOp x = tensor::pad(input({1, 8, 9, 9}), dims({0, 0, 1, 1}), dims({0, 0, 1, 1}), number(1));
  UOp w = random_weight({4, 8, 3, 3});
  finish(conv(x, w, 0));
  Values vx = values(Kind::F32, {1, 8, 9, 9}, random(8 * 81));
  Values want = eval_graph(g, std::vector<Values>{vx})[0];
  Context any{{settings::WINO, 1}};
  Values got = run(with(2), {vx});
  for (i64 i = 0; i < want.elems(); i++) ASSERT_NEAR(got.number(i), want.number(i), 1e-4);
}

// --- what is picked ---------------------------------------------------------------------------------------------------------------------
TEST_F(Winograd, IsPickedWhereItWins) {
  Target t;
  t.vector_bytes = 64, t.vector_registers = 32, t.fma_per_cycle_bytes = 64, t.has_fma = true;
  auto picked = [&](i64 in, i64 out, i64 size) {
    g = {};
    bytes.clear();
    finish(conv(input({1, in, size, size}), weight({out, in, 3, 3}), 1));
    std::vector<Choice> c = find_choices(g, t);
    return c.empty() ? std::string("none") : c[0].alternatives[c[0].picked].name;
  };
  EXPECT_EQ(picked(64, 64, 56), "F(4,3) in one kernel") << "565 us against 595";
  EXPECT_EQ(picked(128, 128, 28), "F(4,3) in one kernel") << "535 us against 550";
  EXPECT_EQ(picked(256, 256, 14), "F(4,3)") << "the weights would come in anew for each piece";
  EXPECT_EQ(picked(3, 32, 112), "direct");
  EXPECT_EQ(picked(4, 4, 8), "direct");
  EXPECT_EQ(picked(8, 8, 100), "direct") << "measured: 112 us against 132";
  EXPECT_EQ(picked(16, 16, 80), "F(4,3) in one kernel") << "250 us directly, 104 by three kernels";
  EXPECT_EQ(picked(512, 512, 14), "F(4,3)");
  {
    Context never{{settings::WINO, 0}};
    EXPECT_EQ(picked(64, 64, 56), "none");
  }
  Context any{{settings::WINO, 1}};
  EXPECT_NE(picked(4, 4, 8), "direct");
}

// --- kernels ----------------------------------------------------------------------------------------------------------------------------
TEST_F(Winograd, IsThreeKernelsWithItsEpilogue) {
  UOp x = relu(input({1, 8, 8, 8})), residual = input({1, 16, 8, 8});
  UOp c = conv(x, weight({16, 8, 3, 3}), 1);
  finish(relu(c + per_channel(weight({16}), c) + residual));
  Context any{{settings::WINO, 1}};
  s = schedule(with(2), Target{});
  EXPECT_EQ(s.calls.size(), 4u) << "x, and three";
  i64 scratch_buffers = 0;
  for (const Buffer& b : s.buffers) scratch_buffers += b.kind == Buffer::Scratch && b.offset >= 0;
  EXPECT_EQ(scratch_buffers, 3);
}
TEST_F(Winograd, InPiecesIsOneKernelWithItsEpilogue) {
  UOp x = relu(input({1, 8, 16, 16})), residual = input({1, 16, 16, 16});
  UOp c = conv(x, weight({16, 8, 3, 3}), 1);
  finish(relu(c + per_channel(weight({16}), c) + residual));
  const u32 number = number_of(4, true);
  ASSERT_GT(number, 0u);
  Context any{{settings::WINO, 1}};
  s = schedule(with(number), Target{});
  EXPECT_EQ(names(), (std::vector<std::string>{"elementwise_1_8_16_16", "winograd_1_16_16_16"}));
  i64 rows = 0;
  for (UOp u : toposort(s.calls[1].ast)) rows += u.is(Op::Row);
  EXPECT_EQ(rows, 2) << "V and M";
}
TEST_F(Winograd, InPiecesIsStoredForAPoolAndForWhatTurnsIt) {
  finish(max_pool(relu(conv(input({1, 8, 16, 16}), weight({8, 8, 3, 3}), 1)), 2, 2));
  Context any{{settings::WINO, 1}};
  EXPECT_EQ(schedule(with(number_of(4, true)), Target{}).calls.size(), 2u);
  g = {};
  bytes.clear();
  UOp y = conv(input({1, 8, 16, 16}), weight({8, 8, 3, 3}), 1);
  finish(relu(tensor::reshape(y, dims({1, 2, 4, 256}))));
  EXPECT_EQ(schedule(with(number_of(4, true)), Target{}).calls.size(), 2u) << "a piece of rows is none of a flat axis";
}
TEST_F(Winograd, ReadsAnInputOfTheModelInPlace) {
  finish(conv(input({1, 8, 8, 8}), weight({16, 8, 3, 3}), 1));
  Context any{{settings::WINO, 1}};
  EXPECT_EQ(schedule(with(2), Target{}).calls.size(), 3u);
}
TEST_F(Winograd, CopiesAnInputOfManyChannelsAndSpreadsTheirPlaces) {
  finish(conv(input({1, 256, 14, 14}), weight({256, 256, 3, 3}), 1));
  Context any{{settings::WINO, 1}};
  s = schedule(with(2), Target{});
  EXPECT_EQ(names(), (std::vector<std::string>{"elementwise_1_256_14_14", "transform_6_6_16_256", "matmul_36_16_256", "transform_1_256_14_14"}));
  EXPECT_EQ(s.buffers[s.calls[0].buffers[0]].layout.pieces.back().axis, 1) << "channels innermost";
  // 17 blocks of 272 channels: 289 lines from place to place, an odd number, so each is in a set of its own.
  EXPECT_EQ(s.buffers[s.calls[1].buffers[0]].layout.str(), "0/6 1/6 2/17 3/272");
  EXPECT_EQ(s.buffers[s.calls[1].buffers[0]].bytes, 36 * 17 * 272 * 4);
}
TEST_F(Winograd, IsStoredBetweenTwoOfThem) {
  UOp y = conv(conv(input({1, 8, 8, 8}), weight({8, 8, 3, 3}), 1), weight({8, 8, 3, 3}), 1);
  finish(y);
  Context any{{settings::WINO, 1}};
  EXPECT_EQ(schedule(with(2), Target{}).calls.size(), 6u);
}
TEST_F(Winograd, IsStoredForSeveralReadersAndForAPool) {
  UOp x = input({1, 8, 8, 8});
  UOp y = conv(x, weight({8, 8, 3, 3}), 1);
  finish(max_pool(relu(y), 2, 2));
  Context any{{settings::WINO, 1}};
  EXPECT_EQ(schedule(with(2), Target{}).calls.size(), 4u) << "the transform back does not run inside the pool";
}
TEST_F(Winograd, IsThreeKernelsBehindAnInputThatIsCopied) {
  // The first convolution's padded input is copied, which makes the nodes above it anew.
  UOp x = relu(conv(input({1, 32, 24, 24}), weight({16, 32, 5, 5}), 2));
  UOp y = relu(conv(x, weight({16, 16, 3, 3})));
  finish(max_pool(y, 2, 2));
  i64 direct = i64(schedule(g, Target{}).calls.size());
  Context any{{settings::WINO, 1}};
  s = schedule(with(2), Target{});
  EXPECT_EQ(names(), (std::vector<std::string>{"elementwise_1_32_24_24", "conv_1_16_24_24", "transform_6_6_36_16", "matmul_36_36_16",
                                               "transform_1_16_22_22", "reduce_1_16_11_11"}));
  EXPECT_EQ(i64(s.calls.size()), direct + 2);
}
TEST_F(Winograd, LeavesTheGraphAsItWas) {
  finish(conv(input({1, 8, 8, 8}), weight({8, 8, 3, 3}), 1));
  UOp before = g.sink;
  Context any{{settings::WINO, 1}};
  Graph chosen = with(1);
  EXPECT_EQ(g.sink, before);
  EXPECT_EQ(g.constants.size(), 1u);
  EXPECT_NE(chosen.sink, before);
  EXPECT_EQ(with(0).sink, before) << "direct is the graph as it stands";
}
TEST_F(Winograd, TransformsTheWeightsOfTwoConvolutionsOnce) {
  UOp w = weight({8, 8, 3, 3}), x = input({1, 8, 8, 8}), z = input({1, 8, 6, 6});
  g.arena = arena;
  UOp a = conv(x, w, 1), b = conv(z, w, 1);
  g.outputs = {{"a", a.dtype(), shape(a)}, {"b", b.dtype(), shape(b)}};
  g.sink = node(Op::Sink, Kind::Void, {a, b});
  Context any{{settings::WINO, 1}};
  EXPECT_EQ(with(2).constants.size(), 2u);
}
TEST_F(Winograd, WeightsMadeAtOpenAreThoseMadeHere) {
  struct {
    std::vector<i64> dims, window;
  } cases[] = {{{5, 3, 3, 3}, {3, 3}}, {{4, 6, 3, 1}, {3, 1}}, {{1, 6, 1, 3}, {1, 3}}};
  for (const auto& c : cases)
    for (u32 alternative : {1u, 2u}) {
      SCOPED_TRACE(str(join(c.dims, "x"), " alternative ", alternative));
      g = {};
      bytes.clear();
      UOp x = input({1, c.dims[1], 9, 9}), w = random_weight(c.dims);
      UOp cut = tensor::window(x, {{2, 3}, {c.window[0], c.window[1]}, {1, 1}, {1, 1}});  // n in h w p q
      const i64 h = 10 - c.window[0], v = 10 - c.window[1];
      Shape all = dims({1, c.dims[0], c.dims[1], h, v, c.window[0], c.window[1]});
      UOp a = tensor::expand(tensor::reshape(cut, dims({1, 1, c.dims[1], h, v, c.window[0], c.window[1]})), all);
      UOp b = tensor::expand(tensor::reshape(w, dims({1, c.dims[0], c.dims[1], 1, 1, c.window[0], c.window[1]})), all);
      finish(tensor::reduce(a * b, ReduceKind::Add, {2, 5, 6}));
      Context any{{settings::WINO, 1}};
      std::vector<Choice> choices = find_choices(g, Target{});
      ASSERT_EQ(choices.size(), 1u);
      choices[0].picked = alternative;
      Graph stored = with_choices(g, Target{}, choices), made = with_choices(g, Target{}, choices, true);
      ASSERT_EQ(made.constants.size(), 2u);
      ASSERT_TRUE(made.constants[1].made_of);
      EXPECT_TRUE(made.constants[1].bytes.empty());
      UOp root = made.constants[1].made_of;
      Values got = eval(std::vector<UOp>{root}, {{}, &g.constants, {}})[0];
      Values want = decode(Kind::F32, stored.constants[1].dims, stored.constants[1].bytes);
      ASSERT_EQ(got.dims, want.dims);
      for (size_t i = 0; i < want.v.size(); i++) {
        f64 v = want.number(i64(i));
        EXPECT_NEAR(got.number(i64(i)), v, 1.2e-7 * std::abs(v)) << i;  // where this test is compiled with fused products a tie may round apart
      }
    }
}

}  // namespace
