// The hand-written choice: what must hold of it on every target, and that it keeps the meaning.
#include "small_kernel.h"

using namespace tg;

namespace {

struct Machine {
  const char* name;
  i64 vector_bytes, registers;
};

class Heuristics : public SmallKernel, public testing::WithParamInterface<Machine> {
 protected:
  Kernel chosen() {
    target.vector_bytes = GetParam().vector_bytes, target.vector_registers = GetParam().registers;
    target.masked_cheap = target.has_avx512 = GetParam().vector_bytes == 64;
    k.target = &target;
    Kernel prepared = prepare(k), q = heuristics(prepared);
    // The Opts it names make the same kernel.
    Kernel again = prepared;
    for (const Opt& o : q.opts) {
      Result<Kernel> r = again.with(o);
      EXPECT_TRUE(r) << o.str() << ": " << r.why();
      if (r) again = *r;
    }
    EXPECT_EQ(again.ast, q.ast) << opts_text(q.opts);
    return q;
  }
  i64 lanes(const Kernel& q) const {
    i64 most = 1;
    for (UOp u : toposort(q.ast))
      if (u.is(Op::Range) && u.arg<RangeArg>().kind == AxisKind::Vector) most = std::max(most, u.src(0).as_int());
    return most;
  }
  // Accumulators of the largest nest that closes a reduce: vectors of the register tile.
  i64 accumulators(const Kernel& q) const {
    i64 most = 0;
    for (const UOp& st : q.ast.src()) {
      i64 n = 1;
      for (UOp r : loops_of(st))
        if (r.arg<RangeArg>().kind == AxisKind::Upcast) n *= r.src(0).as_int();
      most = std::max(most, n);
    }
    return most;
  }
  bool has(const Kernel& q, OptKind kind) const {
    return std::any_of(q.opts.begin(), q.opts.end(), [&](const Opt& o) { return o.kind == kind; });
  }
};

TEST_P(Heuristics, AMatmulFillsTheVectorsAndFitsTheRegisters) {
  matmul(24, 64, 32);
  Kernel q = chosen();
  same(k, q);
  EXPECT_EQ(lanes(q), GetParam().vector_bytes / 4) << opts_text(q.opts);
  EXPECT_GE(accumulators(q), GetParam().registers / 2) << opts_text(q.opts);
  EXPECT_LT(accumulators(q), GetParam().registers) << opts_text(q.opts);
  EXPECT_TRUE(has(q, OptKind::Pack)) << "the weights lie as they are read";
}
TEST_P(Heuristics, ProductsOfFreeRowsHaveTilesForFewOfThem) {
  sizes = {0, 1, 2, 3, 5, 6, 7, 8, 9, 13, 16, 31, 40};
  UOp o = buffer({40, 256}), a = buffer({40, 32}), w = buffer({32, 256}, true), l = reduce_loop(2, 32), j = loop(1, 256);
  UOp i = range(var("n", 0, 40), {0, 0, 0, AxisKind::Loop});
  finish({store(at(o, {i, j}), reduce(ReduceKind::Add, load(a, {i, l}) * load(w, {l, j}), {l}), {i, j})});
  Kernel q = chosen();
  same(k, q);
  EXPECT_TRUE(has(q, OptKind::Few)) << opts_text(q.opts);
  EXPECT_TRUE(has(q, OptKind::Peel)) << opts_text(q.opts);
  EXPECT_TRUE(has(q, OptKind::Pack)) << opts_text(q.opts);
  // One version has a row at a time.
  EXPECT_TRUE(std::any_of(q.opts.begin(), q.opts.end(), [](const Opt& x) { return x.kind == OptKind::Few && x.arg == 1; })) << opts_text(q.opts);
}
TEST_P(Heuristics, OddSizesKeepTheirMeaning) {
  for (auto [n, m, d] : {std::tuple<i64, i64, i64>{1, 1, 1}, {1, 7, 5}, {13, 1, 9}, {5, 17, 3}, {3, 33, 31}, {7, 10, 1}}) {
    params.clear(), k = {};
    matmul(n, m, d);
    same(k, chosen());
  }
}
TEST_P(Heuristics, StreamsRunInFullVectors) {
  stream(32, 32);
  Kernel q = chosen();
  same(k, q);
  EXPECT_EQ(lanes(q), GetParam().vector_bytes / 4) << opts_text(q.opts);
}
TEST_P(Heuristics, PlacesThatAreToldApartByNameAreNodesOfTheirOwn) {
  // The places of a block of 3: a sum, a difference, a product.
  UOp o = buffer({3, 5, 64}), x = buffer({5, 64}), y = buffer({5, 64}), p = loop(0, 3), i = loop(1, 5), c = loop(2, 64);
  UOp a = load(x, {i, c}), b = load(y, {i, c});
  finish({store(at(o, {p, i, c}), where(eq(p, idx(0)), a + b, where(eq(p, idx(1)), a - b, a * b)), {p, i, c})});
  Kernel q = chosen();
  same(k, q);
  EXPECT_EQ(accumulators(q), 3) << opts_text(q.opts);
  EXPECT_EQ(lanes(q), GetParam().vector_bytes / 4) << opts_text(q.opts);
}
TEST_P(Heuristics, BytesRunInVectorsOfBytes) {
  UOp o = buffer({1024}, false, Kind::U8), x = buffer({1024}, false, Kind::U8), i = loop(0, 1024);
  finish({store(at(o, {i}), load(x, {i}) ^ konst(Kind::U8, 255), {i})});
  Kernel q = chosen();
  EXPECT_EQ(lanes(q), GetParam().vector_bytes) << opts_text(q.opts);
}
TEST_P(Heuristics, RowsTooShortForAVectorStillRun) {
  for (i64 m : {1, 2, 3, 5, 9, 15, 31}) {
    params.clear(), k = {};
    stream(3, m);
    same(k, chosen());
    params.clear(), k = {};
    row_max(3, m);
    same(k, chosen());
    params.clear(), k = {};
    softmax(3, m);
    same(k, chosen());
    params.clear(), k = {};
    arg_max(3, m);
    same(k, chosen());
  }
}
TEST_P(Heuristics, OnlyAResultThatNoCacheHoldsPassesThemBy) {
  target.bypass_bytes = GetParam().vector_bytes == 64 ? 64 : 0;
  stream(1024, 2048);  // 8 MB
  EXPECT_FALSE(has(chosen(), OptKind::Bypass));
  params.clear(), k = {};
  stream(4096, 2048);  // 32 MB
  EXPECT_EQ(has(chosen(), OptKind::Bypass), GetParam().vector_bytes == 64);
}
TEST_P(Heuristics, ASoftmaxKeepsItsExps) {
  softmax(8, 400);
  Kernel q = chosen();
  same(k, q);
  EXPECT_TRUE(has(q, OptKind::Keep)) << opts_text(q.opts);
  EXPECT_GT(lanes(q), 1) << opts_text(q.opts);
  softmax(8, 600);
  q = chosen();
  EXPECT_TRUE(has(q, OptKind::Keep)) << opts_text(q.opts);
}
TEST_P(Heuristics, AShortSoftmaxLiesInRegisters) {
  i64 lanes = GetParam().vector_bytes / 4;
  if (GetParam().registers < 32) return;  // too few
  for (i64 width : {lanes * 8, lanes * 7 + 3}) {
    softmax(6, width);
    Kernel q = chosen();
    same(k, q);
    EXPECT_FALSE(has(q, OptKind::Keep)) << opts_text(q.opts);
    i64 loads = 0, stores = 0;
    for (UOp u : lower(q).linear) {
      if (u.is(Op::Load) && u.src(0).is(Op::Index)) loads++;
      if (u.is(Op::Store) && u.src(0).is(Op::Index)) stores++;
    }
    EXPECT_EQ(loads, stores) << "each element of the two rows is loaded once, and nothing else: " << opts_text(q.opts);
    EXPECT_EQ(stores, 2 * ((width + lanes - 1) / lanes)) << opts_text(q.opts);
  }
}
// A depthwise convolution over rows of one channel: the window slides along the lanes, all of it is unrolled, and a tile of rows loads each row of
// its input once for each place in the window's own row.
TEST_P(Heuristics, AWindowThatSlidesAlongTheLanesIsUnrolled) {
  i64 lanes = GetParam().vector_bytes / 4;
  for (i64 width : {2 * lanes, 2 * lanes + 4, lanes + 3}) {
    params.clear(), k = {}, target.has_fma = true;
    i64 height = 24;
    UOp o = buffer({3, height, width}), x = buffer({3, height, width}), f = buffer({3, 3, 3}, true), c = loop(0, 3), h = loop(1, height), w = loop(2, width);
    UOp p = reduce_loop(3, 3), q = reduce_loop(4, 3), row = h + p - 1, column = w + q - 1;
    UOp inside = lt(idx(0), h + p) & lt(h + p, idx(height + 1)) & lt(idx(0), w + q) & lt(w + q, idx(width + 1));
    UOp tap = node(Op::Load, Kind::F32, {at(x, {c, row, column}), inside, konst_f(Kind::F32, 0)});
    finish({store(at(o, {c, h, w}), reduce(ReduceKind::Add, tap * load(f, {c, p, q}), {p, q}), {c, h, w})});
    Kernel chosen_kernel = chosen();
    same(k, chosen_kernel);
    i64 loads = 0, sums = 0, outputs = 0;
    for (UOp u : lower(chosen_kernel).linear) {
      loads += u.is(Op::Load) && u.dtype().lanes > 1 && u.src(0).is(Op::Index);
      sums += u.is(Op::MulAcc), outputs += u.is(Op::Store) && u.src(0).is(Op::Index);
      EXPECT_FALSE(u.is(Op::Range) && u.arg<RangeArg>().kind == AxisKind::Reduce) << opts_text(chosen_kernel.opts);
    }
    EXPECT_EQ(sums, 9 * outputs) << opts_text(chosen_kernel.opts);
    EXPECT_LE(loads, 6 * outputs) << opts_text(chosen_kernel.opts);
  }
}
// A convolution of few channels over a picture with lanes along its rows: masks follow the window, so channels are the innermost loop.
TEST_P(Heuristics, MasksAreWorkedOutOutsideOfTheInnermostLoop) {
  target.has_fma = true;
  i64 width = 3 * GetParam().vector_bytes / 4;
  UOp o = buffer({8, width}), x = buffer({4, width}), f = buffer({8, 4, 9}, true), n = loop(0, 8), w = loop(1, width);
  UOp c = reduce_loop(2, 4), q = reduce_loop(3, 9);
  UOp inside = lt(idx(3), w + q) & lt(w + q, idx(width + 4));
  UOp tap = node(Op::Load, Kind::F32, {at(x, {c, w + q - 4}), inside, konst_f(Kind::F32, 0)});
  finish({store(at(o, {n, w}), reduce(ReduceKind::Add, tap * load(f, {n, c, q}), {c, q}), {n, w})});
  Kernel chosen_kernel = chosen();
  same(k, chosen_kernel);
  i64 masks = 0, sums = 0, depth = 0, innermost = 0;
  std::vector<UOp> list = lower(chosen_kernel).linear;
  for (UOp u : list) {
    depth += u.is(Op::Range), depth -= u.is(Op::End);
    if (u.is(Op::MulAcc)) sums++, innermost = depth;
  }
  for (UOp u : list) {
    depth += u.is(Op::Range), depth -= u.is(Op::End);
    masks += depth == innermost && u.dtype().kind == Kind::Bool && u.dtype().lanes > 1;
  }
  EXPECT_GT(sums, 0);
  EXPECT_EQ(masks, 0) << opts_text(chosen_kernel.opts);
}
TEST_P(Heuristics, ATransposeIsTurnedInRegisters) {
  UOp o = buffer({64, 48}), x = buffer({48, 64}), i = loop(0, 64), j = loop(1, 48);
  finish({store(at(o, {i, j}), load(x, {j, i}), {i, j})});
  Kernel q = chosen();
  same(k, q);
  EXPECT_EQ(lanes(q), GetParam().vector_bytes / 4) << opts_text(q.opts);
  EXPECT_EQ(accumulators(q), lanes(q)) << opts_text(q.opts);
  for (UOp u : lower(q).linear)
    if (u.in(Op::Load | Op::Store) && u.src(0).is(Op::Index)) {
      EXPECT_EQ(u.src(0).src(1).dtype().lanes, 1) << "element by element";
    }
}
TEST_P(Heuristics, ASecondOperandThatLiesByRowsIsTurned) {
  // out[i, j] = sum of a[i, l] * b[j, l], neither of them a constant.
  UOp o = buffer({20, 32}), a = buffer({20, 32}), b = buffer({32, 32}), i = loop(0, 20), j = loop(1, 32), l = reduce_loop(2, 32);
  finish({store(at(o, {i, j}), reduce(ReduceKind::Add, load(a, {i, l}) * load(b, {j, l}), {l}), {i, j})});
  Kernel q = chosen();
  same(k, q);
  bool wide = GetParam().vector_bytes >= 32;
  i64 shuffles = 0;
  for (UOp u : lower(q).linear) shuffles += u.is(Op::Shuffle);
  EXPECT_EQ(shuffles > 0, wide) << opts_text(q.opts);
  EXPECT_EQ(has(q, OptKind::Stage), wide) << "turned once for all rows: " << opts_text(q.opts);
  EXPECT_GT(accumulators(q), 1) << opts_text(q.opts);
}
TEST_P(Heuristics, DotProductsInLanesShareWhatTheyRead) {
  // One output channel: out[i] = sum of a[i, l] * w[l].
  UOp o = buffer({24}), a = buffer({24, 64}), w = buffer({64}, true), i = loop(0, 24), l = reduce_loop(1, 64);
  finish({store(at(o, {i}), reduce(ReduceKind::Add, load(a, {i, l}) * load(w, {l}), {l}), {i})});
  Kernel q = chosen();
  same(k, q);
  EXPECT_GE(accumulators(q), 4) << opts_text(q.opts);
}
TEST_P(Heuristics, RowsWithSumsRunSideBySide) {
  softmax(16, 64);
  EXPECT_EQ(accumulators(chosen()) % 2, 0);
  params.clear(), k = {};
  // Nothing but a mean to subtract: four rows.
  UOp o = buffer({16, 64}), x = buffer({16, 64}), i = loop(0, 16), j = loop(1, 64), l = reduce_loop(1, 64);
  finish({store(at(o, {i, j}), load(x, {i, j}) - reduce(ReduceKind::Add, load(x, {i, l}), {l}), {i, j})});
  Kernel q = chosen();
  same(k, q);
  EXPECT_TRUE(std::any_of(q.opts.begin(), q.opts.end(), [](const Opt& t) { return t == Opt{OptKind::Upcast, 0, 4}; })) << opts_text(q.opts);
}
TEST_P(Heuristics, ADepthwiseTileIsOneVectorOfChannels) {
  UOp o = buffer({14, 64}), x = buffer({16, 64}), w = buffer({3, 64}, true), i = loop(0, 14), c = loop(1, 64), l = reduce_loop(2, 3);
  finish({store(at(o, {i, c}), reduce(ReduceKind::Add, load(x, {i + l, c}) * load(w, {l, c}), {l}), {i, c})});
  Kernel q = chosen();
  same(k, q);
  EXPECT_FALSE(std::any_of(q.opts.begin(), q.opts.end(), [](const Opt& t) { return t.kind == OptKind::Upcast && t.target == 1; })) << opts_text(q.opts);
  EXPECT_GE(accumulators(q), 7) << opts_text(q.opts);
}
// Of 14 rows, 5 taps high, 6 of 70 taps lie outside: rows go one by one. Of 56 rows it is 6 of 280: two rows share a tile.
TEST_P(Heuristics, RowsOfALowPictureLeaveOutTheTapsOutside) {
  for (i64 n : {14, 56}) {
    params.clear(), k = {};
    UOp o = buffer({n, 14, 32}), x = buffer({n + 4, 18, 32}), w = buffer({5, 5, 32}, true), h = loop(0, n), j = loop(1, 14), c = loop(2, 32);
    UOp p = reduce_loop(3, 5), q = reduce_loop(4, 5);
    k.slots[1].before = k.slots[1].after = {2, 2, 0};
    finish({store(at(o, {h, j, c}), reduce(ReduceKind::Add, load(x, {h + p, j + q, c}) * load(w, {p, q, c}), {p, q}), {h, j, c})});
    Kernel chosen_one = chosen();
    same(k, chosen_one);
    if (n == 14 || GetParam().registers >= 32) {
      EXPECT_EQ(has(chosen_one, OptKind::Trim), n == 14) << opts_text(chosen_one.opts);
    }
  }
}
TEST_P(Heuristics, RowsOfOneCacheSetMakeShortTiles) {
  // Rows of 4 KB: the same set of a first cache of 32 KB with 8 ways.
  matmul(48, 64, 1024);
  Kernel q = chosen();
  for (const Opt& t : q.opts)
    if (t.kind == OptKind::Upcast && t.target == 0) {
      EXPECT_LE(t.arg, 6) << opts_text(q.opts);
    }
}
TEST_P(Heuristics, SmallKernelsHaveOneTask) {
  stream(4, 8);
  EXPECT_FALSE(has(chosen(), OptKind::Thread));
}
TEST_P(Heuristics, LargeKernelsHaveTasks) {
  matmul(256, 256, 256);
  Kernel q = chosen();
  EXPECT_TRUE(has(q, OptKind::Thread)) << opts_text(q.opts);
  EXPECT_LE(lower(q).tasks, target.max_tasks);
}
TEST_P(Heuristics, OneTaskWhereOneIsTheMost) {
  target.max_tasks = 1;
  matmul(256, 256, 256);
  EXPECT_FALSE(has(chosen(), OptKind::Thread));
}
TEST_P(Heuristics, OrderedLoopsKeepTheirOrder) {
  stream(6, 8);
  k.ordered = {0, 1};
  Kernel q = chosen();
  EXPECT_EQ(loops(q), "0 LOOP 6, 1 LOOP 8");
}
TEST_P(Heuristics, TheChoiceIsTheSameEachTime) {
  matmul(24, 64, 32);
  EXPECT_EQ(opts_text(chosen().opts), opts_text(chosen().opts));
}

INSTANTIATE_TEST_SUITE_P(Machines, Heuristics, testing::Values(Machine{"sse", 16, 16}, Machine{"avx2", 32, 16}, Machine{"avx512", 64, 32}, Machine{"neon", 16, 32}),
                         [](const testing::TestParamInfo<Machine>& i) { return std::string(i.param.name); });

}  // namespace
