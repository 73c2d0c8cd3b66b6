// What the search tries: enough to get from a plain matmul to a register tile, and nothing that changes what a kernel computes.
#include "search/moves.h"

#include "../opt/small_kernel.h"
#include "search/estimate.h"
#include "search/versions.h"

using namespace tg;

namespace {

class Moves : public SmallKernel {
 protected:
  Moves() {
    target.device = "CPU", target.renderer = "LLVM", target.arch = "x86_64,znver4";
    target.vector_bytes = 64, target.vector_registers = 32, target.fma_per_cycle_bytes = 128,
    target.has_fma = target.has_avx512 = target.masked_cheap = true;
  }
  // Every list's kernel that is legal, checked against the interpreter; how many there are.
  i64 all_same(const std::vector<std::vector<Opt>>& lists) {
    i64 legal = 0;
    for (const std::vector<Opt>& l : lists) {
      Result<Kernel> n = tg::finish(k, l);
      if (!n) continue;
      legal++;
      same(k, *n);
    }
    return legal;
  }
  f64 cost(std::string_view opts) {
    Result<std::vector<Opt>> l = parse_opts(opts);
    Result<Kernel> n = tg::finish(k, *l);
    EXPECT_TRUE(n) << opts << ": " << n.why();
    Lowered low = lower(*n);
    return estimate(low.linear, low.tasks, n->slots, target).ns;
  }
};

TEST_F(Moves, MatmulKeepsItsMeaning) {
  matmul(6, 10, 5);
  i64 legal = all_same(templates(k, {}));
  EXPECT_GT(legal, 10);
  legal = all_same(moves(k, *parse_opts("PADTO 1 16, VECTOR 1 16, UPCAST 0 3, PACK 2"), {}));
  EXPECT_GT(legal, 10);
}

TEST_F(Moves, RowsKeepTheirMeaning) {
  softmax(3, 8);
  EXPECT_GT(all_same(moves(k, {}, {})), 5);
  k.slots.clear(), params.clear();
  row_max(4, 6);
  EXPECT_GT(all_same(moves(k, {}, {})), 5);
}

// A product of free rows: versions for few of them come and go, and each list is one that is legal.
class FreeRows : public Moves {
 protected:
  FreeRows() {
    UOp n = var("n", 1, 40), o = buffer({40, 48}), a = buffer({40, 5}), w = buffer({5, 48}, true);
    UOp i = range(n, {0, 0, 0, AxisKind::Loop}), j = loop(1, 48), l = reduce_loop(2, 5);
    finish({store(at(o, {i, j}), reduce(ReduceKind::Add, load(a, {i, l}) * load(w, {l, j}), {l}), {i, j})});
  }
  std::vector<std::string> texts(std::string_view core) {
    std::vector<std::string> out;
    for (const std::vector<Opt>& l : versions(k, *parse_opts(core))) {
      out.push_back(opts_text(l));
      Result<Kernel> n = tg::finish(k, l);
      EXPECT_TRUE(n) << out.back() << ": " << n.why();
    }
    return out;
  }
};

TEST_F(FreeRows, OneVersionMore) {
  std::vector<std::string> t = texts("VECTOR 1 16, TILE 1 1, PEEL 0 12, UPCAST 0 12, UPCAST 100 2");
  EXPECT_EQ(t[0], "FEW 0 8, VECTOR 101 16, TILE 101 1, UPCAST 100 8, VECTOR 1 16, TILE 1 1, PEEL 0 12, UPCAST 0 12, UPCAST 200 2");
  EXPECT_EQ(t[1], "FEW 0 8, PADTO 101 32, VECTOR 101 16, UPCAST 101 2, TILE 101 1, UPCAST 100 8, VECTOR 1 16, TILE 1 1, PEEL 0 12, UPCAST 0 12, UPCAST 200 2");
  t = texts("FEW 0 4, VECTOR 101 16, TILE 101 1, UPCAST 100 4, VECTOR 1 16, TILE 1 1, PEEL 0 12, UPCAST 0 12, UPCAST 200 2");
  EXPECT_EQ(t[0], "VECTOR 1 16, TILE 1 1, PEEL 0 12, UPCAST 0 12, UPCAST 100 2");
  EXPECT_EQ(t[1], "FEW 0 4, FEW 100 2, VECTOR 201 16, TILE 201 1, UPCAST 200 2, VECTOR 101 16, TILE 101 1, UPCAST 100 4, VECTOR 1 16, TILE 1 1, PEEL 0 12, "
                  "UPCAST 0 12, UPCAST 300 2");
}

TEST_F(FreeRows, VersionsGoOneByOne) {
  std::vector<std::string> t = texts("FEW 0 2, FEW 100 1, VECTOR 101 16, TILE 101 1, UPCAST 100 2, VECTOR 201 16, TILE 201 1, VECTOR 1 16, TILE 1 1, UPCAST 0 4");
  ASSERT_EQ(t.size(), 2u);
  EXPECT_EQ(t[0], "FEW 0 2, VECTOR 101 16, TILE 101 1, UPCAST 100 2, VECTOR 1 16, TILE 1 1, UPCAST 0 4");
  EXPECT_EQ(t[1], "VECTOR 1 16, TILE 1 1, UPCAST 0 4");
}

TEST_F(Moves, NoVersionsWhereNothingIsFree) {
  matmul(12, 32, 7);
  EXPECT_TRUE(versions(k, *parse_opts("VECTOR 1 16")).empty());
}

TEST_F(Moves, FixedOrder) {
  matmul(12, 32, 7);
  auto text = [&] { return join(moves(k, *parse_opts("VECTOR 1 16"), {}), "\n", [](const std::vector<Opt>& l) { return opts_text(l); }); };
  EXPECT_EQ(text(), text());
  EXPECT_EQ(actions(k, {}), actions(k, {}));
}

TEST_F(Moves, PacksComeLast) {
  matmul(12, 32, 8);
  Result<Kernel> n = tg::finish(k, *parse_opts("PACK 2, VECTOR 1 16, THREAD 0 4, UPCAST 0 4"));
  ASSERT_TRUE(n) << n.why();
  EXPECT_EQ(opts_text(n->opts), "VECTOR 1 16, UPCAST 0 4, PACK 2");  // too little work for tasks
  EXPECT_FALSE(tg::finish(k, *parse_opts("VECTOR 1 7")));
}

TEST_F(Moves, Limits) {
  matmul(64, 64, 64);
  ActionLimits few;
  few.upcast_max = 4, few.padto = false;
  for (const Opt& o : actions(k, few)) {
    EXPECT_TRUE((o.kind != OptKind::Upcast && o.kind != OptKind::Unroll) || o.arg <= 4) << o.str();
    EXPECT_NE(o.kind, OptKind::PadTo);
    EXPECT_NE(o.kind, OptKind::Thread);
  }
  EXPECT_EQ(copies(*k.with({OptKind::Upcast, 0, 8})->with({OptKind::Unroll, 2, 2})), 16);
}

// What everybody knows of a matmul: lanes beat none, a tile beats lanes, one that spills is worse than one that does not.
TEST_F(Moves, EstimateRanks) {
  matmul(256, 256, 256);
  f64 plain = cost(""), lanes = cost("VECTOR 1 16"), tile = cost("VECTOR 1 16, UPCAST 1 2, TILE 1 1, UPCAST 0 8, PACK 2");
  EXPECT_LT(lanes, plain / 3);
  EXPECT_LT(tile, lanes / 1.5);
  EXPECT_LT(tile, cost("VECTOR 1 16, UPCAST 1 8, TILE 1 1, UPCAST 0 16, PACK 2"));
  EXPECT_LT(tile, cost("VECTOR 0 16, UPCAST 1 8"));  // lanes along what lies apart
  // At the peak: 2 * 256^3 operations at 64 a cycle would be 524288 cycles.
  Lowered low = lower(*tg::finish(k, *parse_opts("VECTOR 1 16, UPCAST 1 2, TILE 1 1, UPCAST 0 8, PACK 2")));
  Estimate e = estimate(low.linear, low.tasks, k.slots, target);
  EXPECT_NEAR(e.arithmetic, 524288, 60000);
  EXPECT_EQ(e.bound(), "arithmetic");
}

TEST_F(Moves, EstimateOfAStream) {
  stream(1000, 1024);
  EXPECT_LT(cost("VECTOR 1 16"), cost("") / 2);
  EXPECT_LT(cost("VECTOR 1 16"), cost("PADTO 0 16, VECTOR 0 16"));
}

// A border is stored once, by the first task, however many there are: 2052 of 264196 values.
TEST_F(Moves, EstimateOfABorder) {
  UOp o = buffer({514, 514}), x = buffer({512, 512}), i = loop(0, 512), j = loop(1, 512);
  finish({store(at(o, {i + idx(1), j + idx(1)}), load(x, {i, j}), {i, j})});
  f64 inside = cost("VECTOR 1 16");
  ASSERT_GT(lower(*tg::finish(k, *parse_opts("VECTOR 1 16"))).tasks, 4);
  k.slots[0].before = k.slots[0].after = {1, 1};
  f64 all = cost("VECTOR 1 16");
  EXPECT_GT(all, inside);
  EXPECT_LT(all, 1.3 * inside);
}

// Sums of 4 terms, each begun anew: those that follow one another are added up side by side. 64 * 4 additions in a chain would be 1024 cycles.
TEST_F(Moves, EstimateOfShortChains) {
  UOp o = buffer({64}), x = buffer({64, 4}), i = loop(0, 64), l = reduce_loop(1, 4);
  finish({store(at(o, {i}), reduce(ReduceKind::Add, load(x, {i, l}), {l}), {i})});
  Lowered low = lower(*tg::finish(k, {}));
  EXPECT_LT(estimate(low.linear, low.tasks, k.slots, target).latency, 400);
}

}  // namespace
