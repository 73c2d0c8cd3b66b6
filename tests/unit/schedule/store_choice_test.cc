// Values with several readers as choices: which are asked about, and that picks are followed.
#include "schedule/store_choice.h"

#include "ir/eval.h"
#include "ir/eval_kernel.h"
#include "schedule/choice.h"
#include "small_graph.h"

using namespace tg;

namespace {

class StoreChoiceTest : public SmallGraph {
 protected:
  void finish(std::vector<UOp> outs) {
    g.arena = arena;
    for (UOp o : outs) g.outputs.push_back({"y", o.dtype(), shape(o)});
    g.sink = node(Op::Sink, Kind::Void, std::span<const UOp>(outs));
  }
  std::vector<Choice> stores() {
    std::vector<Choice> c = find_choices(g, Target{});
    std::erase_if(c, [](const Choice& x) { return x.kind != Choice::Store; });
    return c;
  }
  size_t kernel_count(const std::vector<Choice>& c) { return schedule(with_choices(g, Target{}, c), Target{}).calls.size(); }
};

TEST_F(StoreChoiceTest, ASumOfTwoForTwoKernelsIsAskedAbout) {
  UOp x = input({64, 256}), y = input({64, 256});
  UOp s = x + y;
  finish({row_sum(s), tensor::reduce(s, ReduceKind::Max, {0})});
  std::vector<Choice> c = stores();
  ASSERT_EQ(c.size(), 1u);
  EXPECT_EQ(c[0].label, "Add (64, 256) for 2 kernels");
  EXPECT_EQ(c[0].alternatives[0].name, "stored");  // it reads two buffers
  EXPECT_EQ(c[0].picked, 0u);
  EXPECT_EQ(kernel_count(c), 3u);
  c[0].picked = 1;
  EXPECT_EQ(kernel_count(c), 2u);
}

TEST_F(StoreChoiceTest, WhatIsCheapMayBeStored) {
  UOp x = input({64, 256});
  UOp s = relu(x * number(2) + number(1));
  finish({row_sum(s), tensor::reduce(s, ReduceKind::Max, {0})});
  std::vector<Choice> c = stores();
  ASSERT_EQ(c.size(), 1u);
  EXPECT_EQ(c[0].alternatives[0].name, "computed again");
  EXPECT_EQ(kernel_count(c), 2u);
  c[0].picked = 1;
  EXPECT_EQ(kernel_count(c), 3u);
}

TEST_F(StoreChoiceTest, SmallValuesAreNotWorthAQuestion) {
  UOp x = input({4, 8}), y = input({4, 8});
  UOp s = x + y;
  finish({row_sum(s), tensor::reduce(s, ReduceKind::Max, {0})});
  EXPECT_TRUE(stores().empty());
}

TEST_F(StoreChoiceTest, ReducesAreStoredAnyway) {
  UOp x = input({256, 512});
  UOp s = row_sum(x);
  finish({row_max(x) + s, relu(s)});
  EXPECT_TRUE(stores().empty());
}

TEST_F(StoreChoiceTest, AnotherPickComputesTheSame) {
  UOp x = input({64, 256}), y = input({64, 256});
  UOp s = x + y;
  finish({row_sum(s)});
  g.outputs.push_back({"z", Kind::F32, shape(row_max(s))});
  UOp m = tensor::reduce(s, ReduceKind::Max, {1});
  g.sink = node(Op::Sink, Kind::Void, {g.sink.src(0), m});
  std::vector<Choice> c = stores();
  std::vector<f64> a, b;
  for (i64 i = 0; i < 64 * 256; i++) a.push_back(f64(i % 13)), b.push_back(f64(i % 7));
  for (u32 pick = 0; pick < 2 && !c.empty(); pick++) {
    c[0].picked = pick;
    Schedule sched = schedule(with_choices(g, Target{}, c), Target{});
    std::vector<Values> mem;
    for (const Buffer& buf : sched.buffers)
      mem.push_back(buf.kind == Buffer::Input ? values(Kind::F32, {64, 256}, buf.index ? b : a)
                                              : Values{buf.dtype, buf.dims, std::vector<u64>(size_t(tg::count(buf.dims)), 0)});
    for (const Call& k : sched.calls) {
      std::vector<Values> bufs;
      for (u32 i : k.buffers) bufs.push_back(mem[i]);
      eval_kernel(k.ast, bufs);
      for (u32 i = 0; i < k.outputs; i++) mem[k.buffers[i]] = bufs[i];
    }
    for (size_t i = 0; i < sched.buffers.size(); i++) {
      if (sched.buffers[i].kind != Buffer::Output) continue;
      for (i64 row = 0; row < 64; row++) {
        f64 sum = 0, most = -1;
        for (i64 k = 0; k < 256; k++) {
          f64 v = a[size_t(row * 256 + k)] + b[size_t(row * 256 + k)];
          sum += v, most = std::max(most, v);
        }
        EXPECT_EQ(mem[i].number(row), sched.buffers[i].index ? most : sum);
      }
    }
  }
  EXPECT_FALSE(c.empty());
}

}  // namespace
