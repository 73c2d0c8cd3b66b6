// Which products of a softmax may be one kernel, what is picked, what kernels they become, and that these compute the same.
#include <cmath>
#include <random>

#include "base/settings.h"
#include "ir/eval.h"
#include "ir/eval_kernel.h"
#include "schedule/choice.h"
#include "small_graph.h"

using namespace tg;

namespace {

class AttentionTest : public SmallGraph {
 protected:
  Target target = [] {
    Target t;
    t.vector_bytes = 64, t.l2_bytes = 1 << 20;
    return t;
  }();

  static UOp transposed(UOp x) { return tensor::permute(x, Ints{0, 1, 3, 2}); }
  void finish(std::vector<UOp> outs) {
    g.arena = arena;
    for (UOp o : outs) g.outputs.push_back({"y", o.dtype(), shape(o)});
    g.sink = node(Op::Sink, Kind::Void, std::span<const UOp>(outs));
  }
  std::vector<Choice> choices(i64 wish = 1) {
    Context c{{settings::ATTENTION, wish}};
    return find_choices(g, target);
  }
  Schedule scheduled(i64 wish = 1) { return schedule(with_choices(g, target, choices(wish)), target); }
  std::vector<std::string> kernel_names(i64 wish = 1) {
    std::vector<std::string> n;
    for (const Call& c : scheduled(wish).calls) n.push_back(c.name);
    return n;
  }
  // q (1, h, s, d), k and v (1, h, t, d).
  struct Qkv {
    UOp q, k, v;
  };
  Qkv inputs(i64 h, i64 s, i64 t, i64 d) { return {input({1, h, s, d}), input({1, h, t, d}), input({1, h, t, d})}; }
  static UOp scores(const Qkv& x) { return matmul(x.q, transposed(x.k)) * number(0.25); }

  Values run(const std::vector<Values>& in) { return computed(g, scheduled(), in).at(0); }
};

using Names = std::vector<std::string>;

TEST_F(AttentionTest, ComputesSoftmaxOfTheScoresTimesTheValues) {
  const i64 h = 2, s = 3, t = 5, d = 4;
  Qkv x = inputs(h, s, t, d);
  finish({matmul(softmax(scores(x)), x.v)});
  ASSERT_EQ(choices().size(), 1u);
  std::mt19937 rng(3);
  std::uniform_real_distribution<f32> u(-2, 2);
  auto random = [&](i64 rows) {
    std::vector<f64> v;
    for (i64 i = 0; i < h * rows * d; i++) v.push_back(u(rng));
    return v;
  };
  std::vector<f64> q = random(s), k = random(t), v = random(t);
  Values got = run({values(Kind::F32, {1, h, s, d}, q), values(Kind::F32, {1, h, t, d}, k), values(Kind::F32, {1, h, t, d}, v)});
  for (i64 b = 0; b < h; b++)
    for (i64 i = 0; i < s; i++) {
      std::vector<f64> p;
      f64 most = -1e30, total = 0;
      for (i64 j = 0; j < t; j++) {
        f64 sum = 0;
        for (i64 e = 0; e < d; e++) sum += q[size_t((b * s + i) * d + e)] * k[size_t((b * t + j) * d + e)];
        p.push_back(sum / 4), most = std::max(most, sum / 4);
      }
      for (f64& e : p) total += e = std::exp(e - most);
      for (i64 c = 0; c < d; c++) {
        f64 want = 0;
        for (i64 j = 0; j < t; j++) want += p[size_t(j)] / total * v[size_t((b * t + j) * d + c)];
        EXPECT_NEAR(got.number((b * s + i) * d + c), want, 2e-6);
      }
    }
}

TEST_F(AttentionTest, IsOneKernelBesideTheCopyOfKeysThatAreAnInput) {
  Qkv x = inputs(4, 256, 256, 64);
  finish({matmul(softmax(scores(x)), x.v)});
  EXPECT_EQ(kernel_names(), (Names{"elementwise_1_4_256_64", "attention_1_4_256_64"}));
  EXPECT_EQ(kernel_names(0).size(), 3u);
}

TEST_F(AttentionTest, NeverHasTheScoresInMemory) {
  Qkv x = inputs(4, 256, 256, 64);
  finish({matmul(softmax(scores(x)), x.v)});
  i64 one = 4 * 4 * 256 * 64;  // bytes of q, and of each other
  EXPECT_LE(scheduled().arena_bytes, 5 * one);  // inputs, the copy of the keys, the output
  EXPECT_GE(scheduled(0).arena_bytes, 2 * one + 4 * 4 * 256 * 256);
}

TEST_F(AttentionTest, HasItsKeysInPanels) {
  Qkv x = inputs(4, 256, 256, 32);
  finish({matmul(softmax(scores(x)), x.v)});
  Schedule s = scheduled();
  EXPECT_EQ(s.buffers[s.calls[0].buffers[0]].layout.str(), "0/1 1/4 2/4 3/32 2/64");
}

TEST_F(AttentionTest, HasItsKeysInRowsIfThereAreFew) {
  Qkv x = inputs(4, 256, 100, 32);
  finish({matmul(softmax(scores(x)), x.v)});
  Schedule s = scheduled();
  EXPECT_EQ(s.buffers[s.calls[0].buffers[0]].layout.str(), "0/1 1/4 3/32 2/100");
}

TEST_F(AttentionTest, TakesMasks) {
  Qkv x = inputs(4, 64, 64, 32);
  UOp s = scores(x), mask = input({1, 1, 1, 64});
  UOp i = to(tensor::reshape(tensor::iota(idx(64)), dims({1, 1, 64, 1})), s), j = to(tensor::reshape(tensor::iota(idx(64)), dims({1, 1, 1, 64})), s);
  s = where(lt(i, j), number(-1e9), s + to(mask, s));
  finish({matmul(softmax(s), x.v)});
  ASSERT_EQ(choices().size(), 1u);
  EXPECT_EQ(kernel_names().back(), "attention_1_4_64_32");
}

TEST_F(AttentionTest, LeavesProbabilitiesThatAreReadElsewhere) {
  Qkv x = inputs(4, 64, 64, 32);
  UOp p = softmax(scores(x));
  finish({matmul(p, x.v), p});
  EXPECT_TRUE(choices().empty());
}

TEST_F(AttentionTest, LeavesASoftmaxOfWhatIsNoProduct) {
  UOp s = input({1, 4, 64, 64}), v = input({1, 4, 64, 32});
  finish({matmul(softmax(s), v)});
  EXPECT_TRUE(choices().empty());
}

TEST_F(AttentionTest, IsPickedWhereTheMatrixOfScoresIsLarge) {
  Qkv x = inputs(12, 512, 512, 64);
  finish({matmul(softmax(scores(x)), x.v)});
  EXPECT_EQ(choices(-1)[0].picked, 1u);
}

TEST_F(AttentionTest, IsNotPickedForAFewQueries) {
  Qkv x = inputs(12, 1, 512, 64);
  finish({matmul(softmax(scores(x)), x.v)});
  EXPECT_EQ(choices(-1)[0].picked, 0u);
}

TEST_F(AttentionTest, IsNeverTriedAtZero) {
  Qkv x = inputs(12, 512, 512, 64);
  finish({matmul(softmax(scores(x)), x.v)});
  EXPECT_TRUE(choices(0).empty());
}

}  // namespace
