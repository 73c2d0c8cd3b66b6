// Which loop is cut into tasks, and into how many.
#include "small_kernel.h"

using namespace tg;

namespace {

class Threads : public SmallKernel {
 protected:
  // "0 8": the axis and the number of tasks; "none".
  std::string tasks(const Kernel& q) {
    Kernel r = with_tasks(q);
    for (const Opt& o : r.opts)
      if (o.kind == OptKind::Thread) return str(o.target, " ", o.arg);
    return "none";
  }
  i64 axis(const Kernel& q) {
    std::string t = tasks(q);
    return t == "none" ? -1 : t[0] - '0';
  }
  i64 count(const Kernel& q) {
    std::string t = tasks(q);
    return t == "none" ? 1 : std::stoll(t.substr(2));
  }
  // out[b, i, j] = sum of a[b, i, l] * w[b, l, j]; w is a constant
  void batched(i64 batch, i64 n, i64 m, i64 depth) {
    UOp o = buffer({batch, n, m}), a = buffer({batch, n, depth}), w = buffer({batch, depth, m}, true);
    UOp b = loop(0, batch), i = loop(1, n), j = loop(2, m), l = reduce_loop(3, depth);
    finish({store(at(o, {b, i, j}), reduce(ReduceKind::Add, load(a, {b, i, l}) * load(w, {b, l, j}), {l}), {b, i, j})});
  }
};

TEST_F(Threads, SmallKernelsStayWhole) {
  stream(16, 16);
  EXPECT_EQ(tasks(k), "none");
}
TEST_F(Threads, TasksKeepTheMeaning) {
  stream(150, 66);
  Kernel q = with_tasks(k);
  EXPECT_FALSE(q.opts.empty());
  same(k, q);
}
TEST_F(Threads, RowsAreCut) {
  matmul(64, 64, 128);
  EXPECT_EQ(axis(k), 0);
}
TEST_F(Threads, LargeWeightsAreReadOnce) {
  matmul(64, 2048, 1024);
  EXPECT_EQ(axis(k), 1) << "8 MiB, which each task would read for itself";
}
TEST_F(Threads, OneRowIsCutByColumns) {
  matmul(1, 512, 128);
  EXPECT_EQ(axis(k), 1);
}
TEST_F(Threads, WhatCountsIsMemory) {
  // out[j, i] = x[j, i]: the inner loop walks the outermost dimension
  UOp o = buffer({96, 96}), x = buffer({96, 96}), i = loop(0, 96), j = loop(1, 96);
  finish({store(at(o, {j, i}), load(x, {j, i}) * konst_f(Kind::F32, 3), {i, j})});
  EXPECT_EQ(axis(k), 1);
}
TEST_F(Threads, BatchesWithWeightsAreCutInside) {
  batched(16, 32, 16, 32);
  EXPECT_EQ(axis(k), 1);
}
TEST_F(Threads, BatchesOfOneRowAreCutThemselves) {
  batched(16, 1, 16, 512);
  EXPECT_EQ(axis(k), 0);
}
TEST_F(Threads, ThreePlanesAreCutByRows) {
  UOp o = buffer({3, 128, 128}), x = buffer({3, 128, 128}), c = loop(0, 3), i = loop(1, 128), j = loop(2, 128);
  finish({store(at(o, {c, i, j}), load(x, {c, i, j}) * konst_f(Kind::F32, 3), {c, i, j})});
  EXPECT_EQ(axis(k), 1);
}
TEST_F(Threads, TwoFourAndEightThreadsGetEqualShares) {
  for (i64 rows : {8, 16, 24, 32, 56, 64, 112}) {
    params.clear(), k = {};
    matmul(rows, 64, 512);
    EXPECT_EQ(count(k) % 8, 0) << rows << " rows, tasks " << tasks(k);
  }
}
TEST_F(Threads, AsManyTasksAsTheTargetTakes) {
  matmul(64, 64, 512);
  target.max_tasks = 4;
  EXPECT_EQ(count(k), 4);
  target.max_tasks = 1;
  EXPECT_EQ(tasks(k), "none");
}
TEST_F(Threads, LoopsWithAnOrderStay) {
  matmul(64, 64, 128);
  k.ordered = {0};
  EXPECT_EQ(axis(k), 1);
  k.ordered = {0, 1};
  EXPECT_EQ(tasks(k), "none");
}

}  // namespace
