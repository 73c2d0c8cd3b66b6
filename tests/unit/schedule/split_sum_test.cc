// Which sums are cut into parts, what is picked, what kernels they become, and that these compute the same.
#include "schedule/split_sum.h"

#include "base/settings.h"
#include "ir/eval.h"
#include "ir/eval_kernel.h"
#include "schedule/choice.h"
#include "small_graph.h"

using namespace tg;

namespace {

using Names = std::vector<std::string>;

class SplitSumTest : public SmallGraph {
 protected:
  Target target = [] {
    Target t;
    t.vector_bytes = 64, t.fma_per_cycle_bytes = 128, t.l2_bytes = 1 << 20;
    return t;
  }();

  void finish(UOp y) {
    g.arena = arena;
    g.outputs = {{"y", y.dtype(), shape(y)}};
    g.sink = node(Op::Sink, Kind::Void, {y});
  }
  std::vector<Choice> choices(i64 wish = -1) {
    Context c{{settings::SPLIT, wish}, {settings::WINO, 0}};
    return find_choices(g, target);
  }
  Graph chosen(i64 wish = -1) {
    std::vector<Choice> c = choices(wish);
    Context same{{settings::SPLIT, wish}};
    return with_choices(g, target, c);
  }
  Names kernel_names(i64 wish = -1) {
    Names n;
    for (const Call& c : schedule(chosen(wish), target).calls) n.push_back(c.name);
    return n;
  }
  // The kernels of the graph with sums in parts, each by the interpreter.
  Values run(const std::vector<Values>& in) {
    Graph c = chosen(1);
    return computed(c, schedule(c, target), in).at(0);
  }
};

TEST_F(SplitSumTest, ASumOfAllIsTwoKernels) {
  finish(tensor::reduce(input({1 << 20}), ReduceKind::Add, {0}));
  std::vector<Choice> c = choices();
  ASSERT_EQ(c.size(), 1u);
  EXPECT_EQ(c[0].label, "sum of 1048576 for 1 output");
  EXPECT_EQ(c[0].picked, 1u);
  EXPECT_EQ(kernel_names().size(), 2u);
  EXPECT_EQ(kernel_names(0).size(), 1u);
}

TEST_F(SplitSumTest, WhatFollowsIsInTheSecondKernel) {
  UOp x = input({2, 1 << 18});
  finish(relu(row_sum(x * x)));
  EXPECT_EQ(kernel_names().size(), 2u);
}

TEST_F(SplitSumTest, PicksProductsOfFewOutputsAlone) {
  UOp x = input({4, 16384});
  finish(matmul(x, weight({16384, 64})));
  ASSERT_EQ(choices().size(), 1u);
  EXPECT_EQ(choices()[0].picked, 1u);
  EXPECT_EQ(choices()[0].alternatives[0].name, "whole");
}

TEST_F(SplitSumTest, LeavesWhatHasTasksOfItsOwn) {
  finish(matmul(input({8, 16384}), weight({16384, 1024})));
  EXPECT_TRUE(choices().empty());
}

TEST_F(SplitSumTest, LeavesWhatIsDoneInNoTime) {
  finish(tensor::reduce(input({1, 8192}), ReduceKind::Add, {1}));
  EXPECT_TRUE(choices().empty());
}

TEST_F(SplitSumTest, LeavesOneTaskToTargetsWithOne) {
  target.max_tasks = 1;
  finish(tensor::reduce(input({1 << 20}), ReduceKind::Add, {0}));
  EXPECT_TRUE(choices(1).empty());
}

TEST_F(SplitSumTest, CutsTheOutermostAxisIntoDivisorsOfIt) {
  std::optional<SplitSum> s = match_split_sum(tensor::reduce(input({3, 22, 4096}), ReduceKind::Add, {0, 1, 2}), target, true);
  ASSERT_TRUE(s);
  EXPECT_EQ(s->parts, (std::vector<i64>{3, 2, 1}));  // 16 at most: 3, and of 22 the largest divisor up to 5
  EXPECT_EQ(s->count, 6);
  s = match_split_sum(tensor::reduce(input({2, 4096, 5}), ReduceKind::Max, {1}), target, true);
  ASSERT_TRUE(s);
  EXPECT_EQ(s->parts, (std::vector<i64>{1, 16, 1}));
  EXPECT_FALSE(match_split_sum(tensor::reduce(input({65537}), ReduceKind::Add, {0}), target, true));  // a prime
}

TEST_F(SplitSumTest, SumsAsTheWholeDoes) {
  UOp x = input({2, 3, 10});
  finish(tensor::reduce(x * number(2), ReduceKind::Add, {0, 2}));
  std::vector<f64> v = counting(60, 17);
  Values got = run({values(Kind::F32, {2, 3, 10}, v)});
  ASSERT_EQ(got.elems(), 3);
  for (i64 j = 0; j < 3; j++) {
    f64 want = 0;
    for (i64 i = 0; i < 2; i++)
      for (i64 k = 0; k < 10; k++) want += 2 * v[size_t((i * 3 + j) * 10 + k)];
    EXPECT_EQ(got.number(j), want);
  }
}

TEST_F(SplitSumTest, MultipliesMatricesAsTheWholeDoes) {
  UOp x = input({3, 24}), y = input({24, 5});
  finish(relu(matmul(x, y)));
  std::vector<f64> a = counting(72, 11), b = counting(120, 7);
  Values got = run({values(Kind::F32, {3, 24}, a), values(Kind::F32, {24, 5}, b)});
  for (i64 i = 0; i < 3; i++)
    for (i64 j = 0; j < 5; j++) {
      f64 want = 0;
      for (i64 k = 0; k < 24; k++) want += a[size_t(i * 24 + k)] * b[size_t(k * 5 + j)];
      EXPECT_EQ(got.number(i * 5 + j), std::max(want, 0.0));
    }
}

TEST_F(SplitSumTest, FindsTheLargestAsTheWholeDoes) {
  finish(row_max(input({2, 36})));
  std::vector<f64> v = counting(72, 31);
  Values got = run({values(Kind::F32, {2, 36}, v)});
  for (i64 i = 0; i < 2; i++) EXPECT_EQ(got.number(i), *std::max_element(v.begin() + i * 36, v.begin() + (i + 1) * 36));
}

}  // namespace
