// Each Opt on a small kernel: the loops it leaves, that the numbers stay, and what it refuses.
#include "small_kernel.h"

using namespace tg;

namespace {

class Opts : public SmallKernel {};

// --- text -------------------------------------------------------------------------------------------------------------------------------
TEST_F(Opts, TextReadsBack) {
  std::vector<Opt> all{{OptKind::Upcast, 2, 6},   {OptKind::Vector, 0, 16, 0, 3}, {OptKind::Unroll, 4, 4}, {OptKind::Thread, 0, 8}, {OptKind::Swap, 1, 3, 2, 1},
                       {OptKind::PadTo, 1, 16},   {OptKind::Tile, 5, 1},          {OptKind::Pack, 2},      {OptKind::Peel, 100, 14}, {OptKind::Keep, 0, 3},
                       {OptKind::Stage, 2},       {OptKind::Few, 0, 8},           {OptKind::Prefetch, 3},    {OptKind::Trim, 2},
                       {OptKind::Bypass, 0}};
  EXPECT_EQ(opts_text(all), "UPCAST 2 6, VECTOR 0/3 16, UNROLL 4 4, THREAD 0 8, SWAP 1/1 3 2, PADTO 1 16, TILE 5 1, PACK 2, PEEL 100 14, KEEP 0 3, STAGE 2, FEW 0 8, PREFETCH 3, TRIM 2, BYPASS 0");
  auto back = parse_opts(opts_text(all));
  ASSERT_TRUE(back) << back.why();
  EXPECT_EQ(*back, all);
  EXPECT_EQ(opts_text({}), "");
  EXPECT_TRUE(parse_opts("")->empty());
}
TEST_F(Opts, TextOfEveryKindReadsBack) {
  for (size_t kind = 0; kind < std::size(kOptNames); kind++)
    for (i64 arg2 : {0, 2})
      for (u8 part : {0, 1, 200}) {
        bool arg = has_arg(OptKind(kind));
        Opt o{OptKind(kind), 7, arg ? 5 : 0, arg ? arg2 : 0, part};
        auto back = parse_opts(o.str());
        ASSERT_TRUE(back) << o.str();
        EXPECT_EQ((*back)[0], o) << o.str();
      }
}
TEST_F(Opts, WhatIsNoOptIsRefused) {
  EXPECT_EQ(parse_opts("UNTWIST 1 2").why(), "no Opt is called UNTWIST");
  EXPECT_EQ(parse_opts("UPCAST").why(), "not an Opt: UPCAST");
  EXPECT_FALSE(parse_opts("UPCAST 1 4, , VECTOR 0 4"));
  EXPECT_FALSE(parse_opts("UPCAST 1"));
  EXPECT_FALSE(parse_opts("UPCAST 1 4 x"));
  EXPECT_FALSE(parse_opts("UPCAST 1/2/3 4"));
  EXPECT_FALSE(parse_opts("UPCAST 1/256 4")) << "parts are below 256";
}

// --- BYPASS -----------------------------------------------------------------------------------------------------------------------------
TEST_F(Opts, BypassEndsInAFence) {
  target.bypass_bytes = 64;
  stream(6, 32);
  Kernel q = with(k, "VECTOR 1 16, BYPASS 0");
  std::vector<UOp> list = lower(q).linear;
  ASSERT_TRUE(list.back().is(Op::Fence));
  ASSERT_EQ(list.back().nsrc(), 1u);
  EXPECT_EQ(list.back().src(0).arg_int(), 0);
}
TEST_F(Opts, BypassIsForWholeLinesThatNobodyReads) {
  stream(6, 32);
  EXPECT_EQ(refusal(with(k, "VECTOR 1 16"), "BYPASS 0"), "the target has no stores past its caches");
  target.bypass_bytes = 64;
  EXPECT_EQ(refusal(with(k, "VECTOR 1 8"), "BYPASS 0"), "slot 0 is not stored by 64 bytes at once");
  EXPECT_EQ(refusal(with(k, "VECTOR 1 16"), "BYPASS 1"), "slot 1 is read here");
  EXPECT_EQ(refusal(with(k, "VECTOR 1 16, BYPASS 0"), "BYPASS 0"), "slot 0 is stored so already");
}

// --- axes -------------------------------------------------------------------------------------------------------------------------------
TEST_F(Opts, OutputLoopsComeFirst) {
  matmul(6, 8, 5);
  EXPECT_EQ(loops(k), "0 LOOP 6, 1 LOOP 8, 2 REDUCE 5");
}
TEST_F(Opts, TheLoopsOfOneIdAreOneAxis) {
  row_max(3, 4);
  std::vector<Axis> a = axes(k.ast);
  ASSERT_EQ(a.size(), 2u);
  EXPECT_EQ(a[1].ranges.size(), 2u);
  EXPECT_TRUE(a[1].output);
  EXPECT_FALSE(a[1].reduce);
}

// --- UPCAST VECTOR UNROLL ---------------------------------------------------------------------------------------------------------------
TEST_F(Opts, UpcastSplitsOffTheInnermost) {
  stream(6, 8);
  EXPECT_EQ(loops(with(k, "UPCAST 0 3")), "0 LOOP 2, 0/1 UPCAST 3, 1 LOOP 8");
}
TEST_F(Opts, UpcastOfAWholeAxisLeavesNoLoop) {
  stream(6, 8);
  EXPECT_EQ(loops(with(k, "UPCAST 0 6")), "0/1 UPCAST 6, 1 LOOP 8");
}
TEST_F(Opts, UpcastTwiceSplitsWhatRemains) {
  stream(12, 8);
  EXPECT_EQ(loops(with(k, "UPCAST 0 3, UPCAST 0 2")), "0 LOOP 2, 0/2 UPCAST 2, 0/1 UPCAST 3, 1 LOOP 8");
}
TEST_F(Opts, VectorSplitsOffLanes) {
  stream(6, 8);
  EXPECT_EQ(loops(with(k, "VECTOR 1 4")), "0 LOOP 6, 1 LOOP 2, 1/1 VECTOR 4");
}
TEST_F(Opts, LanesMayRunAcrossMemory) {
  stream(6, 8);
  with(k, "VECTOR 0 2");  // gathers and scatters
}
TEST_F(Opts, VectorOfAReduceAxis) {
  matmul(3, 4, 8);
  EXPECT_EQ(loops(with(k, "VECTOR 2 4")), "0 LOOP 3, 1 LOOP 4, 2 REDUCE 2, 2/1 VECTOR 4");
}
TEST_F(Opts, UnrollSplitsOffTermsOfASum) {
  matmul(3, 4, 8);
  EXPECT_EQ(loops(with(k, "UNROLL 2 2")), "0 LOOP 3, 1 LOOP 4, 2 REDUCE 4, 2/1 UNROLL 2");
  EXPECT_EQ(loops(with(k, "UNROLL 2 8")), "0 LOOP 3, 1 LOOP 4, 2/1 UNROLL 8");
}
TEST_F(Opts, ARegisterTile) {
  matmul(6, 16, 8);
  EXPECT_EQ(loops(with(k, "VECTOR 1 4, UPCAST 1 2, UPCAST 0 3, UNROLL 2 2")),
            "0 LOOP 2, 0/1 UPCAST 3, 1 LOOP 2, 1/2 UPCAST 2, 1/1 VECTOR 4, 2 REDUCE 4, 2/1 UNROLL 2");
}
TEST_F(Opts, TheLoopsOfARowSplitAsOne) {
  row_max(3, 8);
  Kernel q = with(k, "VECTOR 1 4");
  EXPECT_EQ(loops(q), "0 LOOP 3, 1 LOOP 2, 1/1 VECTOR 4");
  int lanes = 0;
  for (UOp u : toposort(q.ast)) lanes += u.is(Op::Range) && u.arg<RangeArg>().kind == AxisKind::Vector;
  EXPECT_EQ(lanes, 2);
}
TEST_F(Opts, UpcastOfARowUnrollsItsReduce) {
  row_max(3, 8);
  Kernel q = with(k, "UPCAST 1 2");
  int upcast = 0, unroll = 0;
  for (UOp u : toposort(q.ast))
    if (u.is(Op::Range)) upcast += u.arg<RangeArg>().kind == AxisKind::Upcast, unroll += u.arg<RangeArg>().kind == AxisKind::Unroll;
  EXPECT_EQ(upcast, 1);
  EXPECT_EQ(unroll, 1);
}
TEST_F(Opts, AFoldTakesUnrollAndLanes) {
  arg_max(3, 12);
  with(k, "UNROLL 1 3");
  with(k, "UNROLL 1 12");
  with(k, "VECTOR 1 4");
  with(k, "VECTOR 1 4, UNROLL 1 3");
  with(k, "UPCAST 0 3");
  with(k, "VECTOR 0 3");
}
// A reason, before codegen is asked for more copies than it can number.
TEST_F(Opts, ManyUnrolledLoopsAreRefused) {
  std::vector<i64> dims(25, 2);
  std::vector<UOp> at_all;
  UOp o = buffer(dims), x = buffer(dims);
  for (int i = 0; i < 25; i++) at_all.push_back(loop(i, 2));
  finish({store(at(o, at_all), load(x, at_all) + konst_f(Kind::F32, 1), at_all)});
  Kernel q = k;
  for (int i = 0; i < 24; i++) {
    Result<Kernel> n = q.with({OptKind::Upcast, i, 2});
    ASSERT_TRUE(n) << n.why();
    q = std::move(*n);
  }
  EXPECT_EQ(refusal(q, "UPCAST 24 2"), "it would have 25 unrolled loops; at most 24 are taken");
}
TEST_F(Opts, SplitRefusals) {
  row_max(6, 8);
  EXPECT_EQ(refusal("UPCAST 0 4"), "axis 0 of size 6 is no multiple of 4");
  EXPECT_EQ(refusal("UPCAST 7 2"), "no axis 7/0");
  EXPECT_EQ(refusal("UPCAST 0/1 2"), "no axis 0/1");
  EXPECT_EQ(refusal("UNROLL 0 2"), "UNROLL is for reduce axes");
  EXPECT_EQ(refusal("UNROLL 1 2"), "UNROLL is for reduce axes") << "an output loop shares the axis";
  EXPECT_EQ(refusal("VECTOR 1 1"), "VECTOR of 1");
  EXPECT_EQ(refusal("VECTOR 1 128"), "VECTOR of 128");
  EXPECT_EQ(refusal("UPCAST 0 0"), "axis 0 of size 6 is no multiple of 0");
  EXPECT_EQ(refusal("UPCAST 0 -2"), "axis 0 of size 6 is no multiple of -2");
  EXPECT_EQ(refusal("UPCAST 0 -9223372036854775808"), "axis 0 of size 6 is no multiple of -9223372036854775808");
}
TEST_F(Opts, ReduceAxesTakeNoUpcast) {
  matmul(4, 4, 4);
  EXPECT_EQ(refusal("UPCAST 2 2"), "UPCAST is for output axes");
}
TEST_F(Opts, WhatIsSplitOffIsNotSplitAgain) {
  stream(8, 8);
  EXPECT_EQ(refusal(with(k, "UPCAST 0 4"), "UPCAST 0/1 2"), "axis 0 is split already");
  EXPECT_EQ(refusal(with(k, "VECTOR 1 8"), "UPCAST 1/1 2"), "axis 1 is split already");
}
TEST_F(Opts, OneValueHasOneSetOfLanes) {
  matmul(4, 4, 4);
  EXPECT_NE(refusal(with(k, "VECTOR 0 4"), "VECTOR 1 4"), "accepted");
  EXPECT_NE(refusal(with(k, "VECTOR 0 4"), "VECTOR 2 4"), "accepted");
}
TEST_F(Opts, PackedElementsHaveNoLanes) {
  UOp o = buffer({8}, false, Kind::I32), x = buffer({8}, false, Kind::I4), i = loop(0, 8);
  finish({store(at(o, {i}), cast(load(x, {i}), Kind::I32), {i})});
  EXPECT_EQ(refusal("VECTOR 0 4"), "elements under 8 bits have no lanes");
}
TEST_F(Opts, OrderedAxesAreLeftAlone) {
  stream(6, 8);
  k.ordered = {1};
  for (const char* o : {"UPCAST 1 2", "VECTOR 1 4", "UNROLL 1 2", "THREAD 1 2", "SWAP 0 1", "SWAP 1 0", "PADTO 1 3", "TILE 1 2", "PEEL 1 3"})
    EXPECT_EQ(refusal(o), "axis 1 runs in its order") << o;
  EXPECT_EQ(loops(with(k, "UPCAST 0 2")), "0 LOOP 3, 0/1 UPCAST 2, 1 LOOP 8");
}

// --- free sizes -------------------------------------------------------------------------------------------------------------------------
class FreeOpts : public SmallKernel {
 protected:
  void SetUp() override { sizes = {0, 1, 2, 7, 16, 33, 64}; }
  UOp n = var("n", 0, 64);
  static UOp free_loop(i64 id, UOp size, AxisKind kind = AxisKind::Loop) { return range(size, {id, 0, kind == AxisKind::Reduce, kind}); }
  // out[i, j] = x[i, j] * 3 for i < n
  void free_stream() {
    UOp o = buffer({64, 5}), x = buffer({64, 5}), i = free_loop(0, n), j = loop(1, 5);
    finish({store(at(o, {i, j}), load(x, {i, j}) * konst_f(Kind::F32, 3), {i, j})});
  }
  // out[i] = sum of x[i, l] for l < n
  void free_sum() {
    UOp o = buffer({6}), x = buffer({6, 64}), i = loop(0, 6), l = free_loop(1, n, AxisKind::Reduce);
    finish({store(at(o, {i}), reduce(ReduceKind::Add, load(x, {i, l}), {l}), {i})});
  }
};
TEST_F(FreeOpts, TheLastTileOfUpcastRepeatsTheLastRow) {
  free_stream();
  EXPECT_EQ(loops(k), "0 LOOP 64, 1 LOOP 5");
  EXPECT_EQ(loops(with(k, "UPCAST 0 6")), "0 LOOP 11, 0/1 UPCAST 6, 1 LOOP 5");
}
TEST_F(FreeOpts, NotWhereRowsAreWrittenOverWhatTheyAreMadeOf) {
  UOp o = buffer({64}), i = free_loop(0, n);
  finish({store(at(o, {i}), load(o, {i}) * konst_f(Kind::F32, 3), {i})});
  EXPECT_EQ(refusal("UPCAST 0 2"), "the last rows of free axis 0 would be made twice, from what is written over");
}
TEST_F(FreeOpts, LanesWantAMultiple) {
  free_stream();
  EXPECT_EQ(refusal("VECTOR 0 4"), "axis 0 of size n is no multiple of 4");
  EXPECT_EQ(loops(with(k, "PADTO 0 4, VECTOR 0 4")), "0 LOOP 16, 0/1 VECTOR 4, 1 LOOP 5");
  EXPECT_EQ(loops(with(k, "PADTO 0 8, VECTOR 0 4, UPCAST 0 2")), "0 LOOP 8, 0/2 UPCAST 2, 0/1 VECTOR 4, 1 LOOP 5");
}
TEST_F(FreeOpts, AKnownMultipleIsEnough) {
  sizes = {8, 24, 64};
  n = var("n", 8, 64, 8);
  free_stream();
  EXPECT_EQ(loops(with(k, "VECTOR 0 4")), "0 LOOP 16, 0/1 VECTOR 4, 1 LOOP 5");
  EXPECT_EQ(refusal("PADTO 0 8"), "axis 0 of size 64 is a multiple of 8");
}
TEST_F(FreeOpts, PeelLeavesAMultipleAndARemainder) {
  free_stream();
  EXPECT_EQ(loops(with(k, "PEEL 0 4, VECTOR 0 4, PADTO 100 4, VECTOR 100 4")),
            "0 LOOP 16, 0/1 VECTOR 4, 1 LOOP 5, 100 LOOP 1, 100/1 VECTOR 4");
}
TEST_F(FreeOpts, FewGivesSmallSizesANestOfTheirOwn) {
  sizes = {0, 1, 2, 3, 4, 5, 7, 16, 33, 64};
  free_stream();
  EXPECT_EQ(loops(with(k, "FEW 0 4")), "0 LOOP 64, 1 LOOP 5, 100 LOOP 4, 101 LOOP 5");
  EXPECT_EQ(loops(with(k, "FEW 0 4, FEW 100 2, UPCAST 100 4, UPCAST 200 2, UPCAST 201 5, PEEL 0 3, UPCAST 0 3")),
            "0 LOOP 21, 0/1 UPCAST 3, 1 LOOP 5, 100 LOOP 1, 100/1 UPCAST 4, 101 LOOP 5, 200 LOOP 1, 200/1 UPCAST 2, 201/1 UPCAST 5, 300 LOOP 2");
}
TEST_F(FreeOpts, FewCopiesReduces) {
  UOp o = buffer({64, 6}), a = buffer({64, 4}), w = buffer({4, 6}, true), i = free_loop(0, n), j = loop(1, 6), l = reduce_loop(2, 4);
  finish({store(at(o, {i, j}), reduce(ReduceKind::Add, load(a, {i, l}) * load(w, {l, j}), {l}), {i, j})});
  EXPECT_EQ(loops(with(k, "FEW 0 2, UNROLL 102 4, VECTOR 101 2, TILE 101 1, UPCAST 100 2, VECTOR 1 2, TILE 1 1, PACK 2")),
            "1 LOOP 3, 0 LOOP 64, 1/1 VECTOR 2, 101 LOOP 3, 100 LOOP 1, 100/1 UPCAST 2, 101/1 VECTOR 2, 2 REDUCE 4, 102/1 UNROLL 4");
}
TEST_F(FreeOpts, TasksOfFewAreThoseOfTheNest) {
  free_stream();
  EXPECT_EQ(loops(with(k, "FEW 0 4, THREAD 0 3")), "0/1 TASK 3, 0 LOOP ?, 1 LOOP 5, 100 LOOP ?, 101 LOOP 5");
  EXPECT_EQ(refusal(with(k, "FEW 0 4, TILE 1 1"), "THREAD 0 3"), "the loop r0.1 would be in two places");
  EXPECT_EQ(refusal(with(k, "FEW 0 4, UPCAST 101 5"), "THREAD 1 3"), "axis 1 does not surround the whole kernel");
}
TEST_F(FreeOpts, FewBehindPeelHasAxesOfItsOwn) {
  // The remainder's axes are of two hundreds; the copy shares none of them with any other nest.
  UOp o = buffer({64, 64}), a = buffer({64, 4}), w = buffer({4, 64}, true), i = free_loop(0, n), j = free_loop(1, n), l = reduce_loop(2, 4);
  finish({store(at(o, {i, j}), reduce(ReduceKind::Add, load(a, {i, l}) * load(w, {l, j}), {l}), {i, j})});
  with(k, "FEW 1 4, FEW 0 7, PEEL 200 7, FEW 300 5");
  with(k, "FEW 0 7, PEEL 100 5, FEW 200 2, UPCAST 0 4");
}
TEST_F(FreeOpts, CopiesThatMayBothBeEmptyShareNoRead) {
  // y[i] = x[i] + x[0]: of no values x[0] is outside, so it may not stand before the loops of both copies.
  for (i64 slot : {0, 1}) params.push_back(tensor::param(slot, Kind::F32, {n})), k.slots.push_back({Layout::row_major(std::vector<i64>{64}), {64}, {}, {}, 0, false});
  UOp i = free_loop(0, n);
  finish({store(at(params[0], {i}), load(params[1], {i}) + load(params[1], {idx(0)}), {i})});
  EXPECT_EQ(refusal("PEEL 0 4"), "two copies of the loops would share what they read");
  EXPECT_EQ(refusal("FEW 0 4"), "two copies of the loops would share what they read");
  for (const char* opts : {"", "UPCAST 0 4", "PADTO 0 4, VECTOR 0 4"}) {
    Result<Kernel> q = with_opts(k, opts);
    ASSERT_TRUE(q) << q.why();
    std::vector<Values> none{values(Kind::F32, {0}, std::vector<f64>{}), values(Kind::F32, {0}, std::vector<f64>{})};
    EXPECT_NO_THROW(eval_linear(lower(*q).linear, none, {{"n", 0}})) << opts;
  }
}
TEST_F(FreeOpts, CopiesShareReadsOfWhatTheirSizeSaysNothingOf) {
  // y[m, i] = x[m, i] + z[m]: z has a value wherever there is a loop over m, whatever n is.
  UOp m = var("m", 0, 8), r = free_loop(0, m), i = free_loop(1, n);
  for (auto [slot, dims] : {std::pair{0, Shape{m, n}}, std::pair{1, Shape{m, n}}, std::pair{2, Shape{m}}}) {
    params.push_back(tensor::param(slot, Kind::F32, dims));
    std::vector<i64> most = dims.size() == 2 ? std::vector<i64>{8, 64} : std::vector<i64>{8};
    k.slots.push_back({Layout::row_major(most), most, {}, {}, 0, false});
  }
  finish({store(at(params[0], {r, i}), load(params[1], {r, i}) + load(params[2], {r}), {r, i})});
  Result<Kernel> q = with_opts(k, "PEEL 1 4, UPCAST 1 4");
  ASSERT_TRUE(q) << q.why();
  for (auto [rows, columns] : {std::pair{0, 0}, std::pair{0, 5}, std::pair{3, 0}, std::pair{2, 7}}) {
    std::vector<f64> x(size_t(rows * columns), 1), z(size_t(rows), 2);
    std::vector<Values> bufs{values(Kind::F32, {rows * columns}, x), values(Kind::F32, {rows * columns}, x), values(Kind::F32, {rows}, z)};
    eval_linear(lower(*q).linear, bufs, {{"n", columns}, {"m", rows}});
    for (i64 e = 0; e < rows * columns; e++) EXPECT_EQ(bufs[0].number(e), 3) << rows << " rows, element " << e;
  }
}
TEST_F(FreeOpts, FewRefusals) {
  n = var("n", 3, 64);
  sizes = {3, 64};
  free_stream();
  EXPECT_EQ(refusal("FEW 1 2"), "axis 1 has the same size in every run");
  EXPECT_EQ(refusal("FEW 0 2"), "axis 0 has never, or always, at most 2 values");
  EXPECT_EQ(refusal("FEW 0 64"), "axis 0 has never, or always, at most 64 values");
  EXPECT_EQ(refusal("FEW 2 2"), "no axis 2/0");
  EXPECT_EQ(refusal(with(k, "UPCAST 0 2"), "FEW 0/1 2"), "FEW is for an output axis of one loop");
  k.ordered = {0};
  EXPECT_EQ(refusal("FEW 0 4"), "axis 0 runs in its order");
}
TEST_F(FreeOpts, TasksHaveEvenShares) {
  free_stream();
  EXPECT_EQ(loops(with(k, "THREAD 0 4")), "0/1 TASK 4, 0 LOOP ?, 1 LOOP 5");
  EXPECT_EQ(loops(with(k, "UPCAST 0 6, THREAD 0 3")), "0/2 TASK 3, 0 LOOP ?, 0/1 UPCAST 6, 1 LOOP 5");
}
TEST_F(FreeOpts, LanesOfASumTakeTheIdentityBeyondTheEnd) {
  free_sum();
  EXPECT_EQ(loops(with(k, "PADTO 1 8, VECTOR 1 4, UNROLL 1 2, UPCAST 0 3")), "0 LOOP 2, 0/1 UPCAST 3, 1 REDUCE 8, 1/2 UNROLL 2, 1/1 VECTOR 4");
}

// --- THREAD -----------------------------------------------------------------------------------------------------------------------------
TEST_F(Opts, ThreadCutsALoopIntoTasks) {
  stream(12, 8);
  EXPECT_EQ(loops(with(k, "THREAD 0 4")), "0/1 TASK 4, 0 LOOP 3, 1 LOOP 8");
  EXPECT_EQ(loops(with(k, "THREAD 0 12")), "0/1 TASK 12, 1 LOOP 8");
  EXPECT_EQ(lower(with(k, "THREAD 0 4")).tasks, 4);
  EXPECT_EQ(lower(k).tasks, 1);
}
TEST_F(Opts, UnevenTasksHaveEvenShares) {
  stream(11, 8);
  EXPECT_EQ(loops(with(k, "THREAD 0 4")), "0/1 TASK 4, 0 LOOP ?, 1 LOOP 8");  // 2, 3, 3, 3
}
TEST_F(Opts, ThreadOfAnInnerLoop) {
  stream(3, 8);
  EXPECT_EQ(loops(with(k, "THREAD 1 2")), "0 LOOP 3, 1/1 TASK 2, 1 LOOP 4");
}
TEST_F(Opts, ThreadRefusals) {
  matmul(6, 8, 4);
  target.max_tasks = 16;
  EXPECT_EQ(refusal("THREAD 0 1"), "THREAD of 1 over 6; at most 16");
  EXPECT_EQ(refusal("THREAD 0 7"), "THREAD of 7 over 6; at most 16");
  EXPECT_EQ(refusal("THREAD 1 32"), "THREAD of 32 over 8; at most 16");
  EXPECT_EQ(refusal("THREAD 2 2"), "THREAD is for an output axis of one loop");
  EXPECT_EQ(refusal(with(k, "THREAD 0 2"), "THREAD 1 2"), "the kernel has tasks already");
  EXPECT_EQ(refusal(with(k, "VECTOR 1 4"), "THREAD 1/1 2"), "axis 1 is no loop");
}
TEST_F(Opts, TasksDoNotShareBytes) {
  UOp o = buffer({4, 3}, false, Kind::U4), x = buffer({4, 3}, false, Kind::I32), i = loop(0, 4), j = loop(1, 3);
  finish({store(at(o, {i, j}), cast(load(x, {i, j}) & konst(Kind::I32, 7), Kind::U4), {i, j})});
  EXPECT_EQ(refusal("THREAD 0 4"), "tasks would store into one byte");
}
TEST_F(Opts, RowsAreThreadedButNotWithin) {
  row_max(4, 8);
  EXPECT_EQ(refusal("THREAD 1 2"), "THREAD is for an output axis of one loop");
  with(k, "THREAD 0 2");
}

// --- SWAP TILE --------------------------------------------------------------------------------------------------------------------------
TEST_F(Opts, SwapChangesPlaces) {
  stream(6, 8);
  EXPECT_EQ(loops(with(k, "SWAP 0 1")), "1 LOOP 8, 0 LOOP 6");
  EXPECT_EQ(loops(with(k, "SWAP 0 1, SWAP 1 0")), "0 LOOP 6, 1 LOOP 8");
}
TEST_F(Opts, SwapOfParts) {
  stream(6, 8);
  EXPECT_EQ(loops(with(k, "UPCAST 1 2, SWAP 0 1")), "1 LOOP 4, 0 LOOP 6, 1/1 UPCAST 2");
}
TEST_F(Opts, SwapRefusals) {
  matmul(6, 8, 4);
  EXPECT_EQ(refusal("SWAP 0 2"), "axes 0 and 2 are loops of one list nowhere");
  EXPECT_EQ(refusal("SWAP 0 5"), "no axis 5/0");
  EXPECT_EQ(refusal("SWAP 0 0"), "an axis does not change places with itself");
}
TEST_F(Opts, TileMovesTheOuterPartOutermost) {
  stream(6, 8);
  EXPECT_EQ(loops(with(k, "TILE 1 4")), "1/1 LOOP 2, 0 LOOP 6, 1 LOOP 4");
}
TEST_F(Opts, TileOfOneMovesTheWholeLoop) {
  stream(6, 8);
  EXPECT_EQ(loops(with(k, "TILE 1 1")), "1 LOOP 8, 0 LOOP 6");
}
TEST_F(Opts, ReduceLoopsAreTiledInTheirOwnList) {
  UOp o = buffer({3}), x = buffer({3, 4, 6}), i = loop(0, 3), a = reduce_loop(1, 4), b = reduce_loop(2, 6);
  finish({store(at(o, {i}), reduce(ReduceKind::Add, load(x, {i, a, b}), {a, b}), {i})});
  EXPECT_EQ(loops(with(k, "TILE 2 3")), "0 LOOP 3, 2/1 REDUCE 2, 1 REDUCE 4, 2 REDUCE 3");
}
TEST_F(Opts, TileRefusals) {
  stream(6, 8);
  EXPECT_EQ(refusal("TILE 1 3"), "axis 1 of size 8 has no tiles of 3");
  EXPECT_EQ(refusal("TILE 1 8"), "axis 1 of size 8 has no tiles of 8");
  EXPECT_EQ(refusal("TILE 1 0"), "axis 1 of size 8 has no tiles of 0");
  EXPECT_EQ(refusal(with(k, "VECTOR 1 4"), "TILE 1/1 2"), "axis 1 is no loop");
}

// --- PADTO PEEL -------------------------------------------------------------------------------------------------------------------------
TEST_F(Opts, PadtoRunsToTheNextMultiple) {
  stream(5, 7);
  Kernel q = with(k, "PADTO 1 4");
  EXPECT_EQ(loops(q), "0 LOOP 5, 1 LOOP 8");
  // What is outside is neither loaded nor stored.
  for (UOp u : toposort(q.ast)) {
    EXPECT_FALSE(u.is(Op::Load) && u.nsrc() != 3) << u.str();
    EXPECT_FALSE(u.is(Op::Store) && u.src(2).dtype().kind != Kind::Bool) << u.str();
  }
  with(k, "PADTO 1 4, VECTOR 1 4");
  with(k, "PADTO 1 4, UPCAST 1 8");
  with(k, "PADTO 0 3, UPCAST 0 3, PADTO 1 4, VECTOR 1 4");
}
TEST_F(Opts, PadtoOfAReduceAddsNothing) {
  matmul(3, 4, 5);
  with(k, "PADTO 2 4");
  with(k, "PADTO 2 4, VECTOR 2 4");
  with(k, "PADTO 2 4, UNROLL 2 4");
  for (ReduceKind kind : {ReduceKind::Mul, ReduceKind::Max, ReduceKind::Min}) {
    // 100 + x: the zero that a padded load gives would show.
    params.clear(), k = {};
    UOp o = buffer({3}), x = buffer({3, 5}), i = loop(0, 3), l = reduce_loop(1, 5);
    UOp big = load(x, {i, l}) + konst_f(Kind::F32, kind == ReduceKind::Max ? -100 : 100);
    finish({store(at(o, {i}), reduce(kind, kind == ReduceKind::Mul ? load(x, {i, l}) : big, {l}), {i})});
    with(k, "PADTO 1 8, VECTOR 1 8");
  }
}
TEST_F(Opts, PadtoOfARowPadsItsReduce) {
  row_max(3, 7);
  with(k, "PADTO 1 4, VECTOR 1 4");
}
TEST_F(Opts, PadtoRefusals) {
  stream(6, 8);
  EXPECT_EQ(refusal("PADTO 1 4"), "axis 1 of size 8 is a multiple of 4");
  EXPECT_EQ(refusal("PADTO 1 0"), "axis 1 of size 8 is a multiple of 0");
  EXPECT_EQ(refusal(with(k, "UPCAST 0 3"), "PADTO 0/1 2"), "axis 0 is no loop");
}
TEST_F(Opts, AFoldIsNotPadded) {
  arg_max(3, 5);
  EXPECT_EQ(refusal("PADTO 1 4"), "a FOLD runs over axis 1");
  with(k, "PADTO 0 2, UPCAST 0 2");
}
TEST_F(Opts, PeelGivesTheRemainderANestOfItsOwn) {
  stream(7, 8);
  EXPECT_EQ(loops(with(k, "PEEL 0 3")), "0 LOOP 6, 1 LOOP 8") << "one value is left: no loop, and its copy of axis 1 is the same axis";
  EXPECT_EQ(loops(with(k, "PEEL 0 5")), "0 LOOP 5, 1 LOOP 8, 100 LOOP 2");
  EXPECT_EQ(loops(with(k, "PEEL 0 5, UPCAST 0 5, UPCAST 100 2")), "0/1 UPCAST 5, 1 LOOP 8, 100/1 UPCAST 2");
}
TEST_F(Opts, PeelOfTheInnerLoopSharesTheOuterOne) {
  stream(4, 7);
  Kernel q = with(k, "PEEL 1 4");
  EXPECT_EQ(loops(q), "0 LOOP 4, 1 LOOP 4, 101 LOOP 3");
  with(k, "PEEL 1 4, VECTOR 1 4, PADTO 101 4, VECTOR 101 4");
  with(k, "PEEL 1 4, VECTOR 1 4, PADTO 101 4, VECTOR 101 4, THREAD 0 2");
}
TEST_F(Opts, PeelCopiesReduces) {
  matmul(7, 5, 4);
  with(k, "PEEL 0 4");
  with(k, "PEEL 0 4, UPCAST 0 4, UPCAST 100 3, UNROLL 2 2");
  with(k, "PEEL 1 4, VECTOR 1 4, PEEL 0 3, UPCAST 0 3");
}
TEST_F(Opts, PeelRefusals) {
  row_max(7, 9);
  EXPECT_EQ(refusal("PEEL 0 7"), "axis 0 of size 7 leaves no remainder of 7");
  EXPECT_EQ(refusal("PEEL 0 8"), "axis 0 of size 7 leaves no remainder of 8");
  EXPECT_EQ(refusal("PEEL 0 1"), "axis 0 of size 7 leaves no remainder of 1");
  EXPECT_EQ(refusal("PEEL 1 4"), "PEEL is for an output axis of one loop");
}

// --- PACK -------------------------------------------------------------------------------------------------------------------------------
TEST_F(Opts, PackLaysAWeightInReadingOrder) {
  matmul(4, 8, 6);
  // The loops are i, j, l; w has axes (l, j).
  EXPECT_EQ(with(k, "PACK 2").slots[2].layout.str(), "1/8 0/6");
}
TEST_F(Opts, PackPutsLanesInnermostAndTilesBeforeThem) {
  matmul(4, 16, 6);
  Kernel q = with(k, "VECTOR 1 4, UPCAST 1 2, UNROLL 2 2, PACK 2");
  // j/8 and l/2 are loops, then l%2 of the unrolled sum, then (j/4)%2 of the tile, then j%4 in lanes.
  EXPECT_EQ(q.slots[2].layout.str(), "1/2 0/3 0/2 1/2 1/4");
}
TEST_F(Opts, PackOfAPaddedAxisKeepsThePadding) {
  matmul(4, 6, 5);
  Kernel q = with(k, "PADTO 1 4, VECTOR 1 4, PACK 2");
  EXPECT_EQ(q.slots[2].layout.str(), "1/2 0/5 1/4");
  EXPECT_EQ(q.slots[2].layout.elems(), 40);
  // The zeros of the padding may be read: no test is left on w, but a and out keep theirs.
  for (UOp u : toposort(q.ast))
    EXPECT_FALSE(u.is(Op::Load) && u.src(0).src(0) == params[2] && u.nsrc() > 1) << u.str();
}
// out[i, j] = sum of a[i, l] * b[j, l]: of b, what 4 or 8 columns need lies on the stack by l, and all rows read it there.
TEST_F(Opts, StageCopiesWhatATileReadsOnce) {
  for (const char* opts : {"VECTOR 1 4, TILE 1 1, UPCAST 0 3, STAGE 2", "VECTOR 1 4, UPCAST 1 2, TILE 1 1, STAGE 2", "PADTO 1 16, VECTOR 1 4, UPCAST 1 2, TILE 1 1, PEEL 0 4, UPCAST 0 4, STAGE 2",
                           "VECTOR 1 4, TILE 1 1, UNROLL 2 4, STAGE 2, THREAD 0 2", "VECTOR 1 4, TILE 1 1, STAGE 2, UPCAST 0 2"}) {
    params.clear(), k = {};
    UOp o = buffer({6, 24}), a = buffer({6, 8}), b = buffer({24, 8}), i = loop(0, 6), j = loop(1, 24), l = reduce_loop(2, 8);
    finish({store(at(o, {i, j}), reduce(ReduceKind::Add, load(a, {i, l}) * load(b, {j, l}), {l}), {i, j})});
    Kernel q = with(k, opts);
    same(k, q);
    i64 rows = 0;
    for (UOp u : toposort(q.ast)) {
      rows += u.is(Op::Row);
      // The sum itself reads b on the stack.
      if (u.is(Op::Mul) && u.src(0).is(Op::Load)) {
        EXPECT_TRUE(memory_of(u.src(0).src(0)).is(Op::Row) != memory_of(u.src(1).src(0)).is(Op::Row)) << opts;
      }
    }
    EXPECT_EQ(rows, std::string_view(opts).find("PEEL") == std::string_view::npos ? 1 : 2) << opts;
    for (UOp u : lower(q).linear) EXPECT_FALSE(u.is(Op::Load) && u.src(0).is(Op::Index) && u.src(0).src(1).dtype().lanes > 1) << "element by element: " << opts;
  }
}
// out[n, i, j] = sum of a[n, i, l] * a[n, j, l], lanes along n: what is copied for a column is read by all rows, so columns stand outside.
TEST_F(Opts, StageOfBothOperands) {
  auto outer = [&](bool rows) {
    params.clear(), k = {};
    UOp o = buffer({2, 16, 12}), a = buffer({2, 16, 8}), n = loop(0, 2), i = loop(1, 16), j = loop(2, 12), l = reduce_loop(3, 8);
    std::vector<UOp> loops = rows ? std::vector<UOp>{n, i, j} : std::vector<UOp>{j, n, i};
    finish({store(at(o, {n, i, j}), reduce(ReduceKind::Add, load(a, {n, i, l}) * load(a, {n, j, l}), {l}), loops)});
  };
  for (const char* opts : {"VECTOR 0 2, UPCAST 1 16, STAGE 1", "PADTO 2 7, VECTOR 0 2, UPCAST 1 16, STAGE 1"}) {
    SCOPED_TRACE(opts);
    outer(false);
    same(k, with(k, opts));
  }
  outer(true);
  EXPECT_EQ(refusal(with(k, "VECTOR 0 2, UPCAST 1 16"), "STAGE 1"), "the loop r0.1, for all of which a row is one, would stand outside r2");
}
TEST_F(Opts, StageRefusals) {
  matmul(4, 8, 6);
  EXPECT_EQ(refusal("STAGE 2"), "slot 2 is no operand that is made at run time");
  EXPECT_EQ(refusal("STAGE 7"), "slot 7 is no operand that is made at run time");
  EXPECT_EQ(refusal("STAGE 0"), "slot 0 is written here");
  EXPECT_EQ(refusal(with(k, "VECTOR 1 4"), "STAGE 1"), "slot 1 is not read in lanes of a sum");
  params.clear(), k = {};
  UOp o = buffer({8}), x = buffer({8, 4}), y = buffer({4}), i = loop(0, 8), l = reduce_loop(1, 4);
  finish({store(at(o, {i}), reduce(ReduceKind::Add, load(x, {i, l}) * load(y, {l}), {l}), {i})});
  EXPECT_EQ(refusal(with(k, "VECTOR 0 4"), "STAGE 1"), "every loop reads other elements of slot 1");
}
TEST_F(Opts, PackRefusals) {
  matmul(4, 8, 6);
  EXPECT_EQ(refusal("PACK 1"), "slot 1 is no constant");
  EXPECT_EQ(refusal("PACK 3"), "slot 3 is no constant");
  EXPECT_EQ(refusal("PREFETCH 1"), "slot 1 is no constant");
  EXPECT_EQ(refusal(with(k, "PREFETCH 2"), "PREFETCH 2"), "slot 2 is asked for already");
  EXPECT_EQ(refusal(k, {OptKind::Pack, -1}), "slot -1 is no constant");
}
TEST_F(Opts, PackRefusesWhatIsNotReadWhole) {
  UOp o = buffer({4}), w = buffer({8}, true), i = loop(0, 4);
  finish({store(at(o, {i}), load(w, {i}), {i})});
  EXPECT_EQ(refusal("PACK 1"), "axis 0 of slot 1 is not read whole");
}
TEST_F(Opts, PackRefusesOffsetsAndSteps) {
  {
    UOp o = buffer({4}), w = buffer({8}, true), i = loop(0, 4);
    finish({store(at(o, {i}), load(w, {i + 4}), {i})});
    EXPECT_EQ(refusal("PACK 1"), "slot 1 is read at an offset");
  }
  params.clear(), k = {};
  UOp o = buffer({4}), w = buffer({8}, true), i = loop(0, 4);
  finish({store(at(o, {i}), load(w, {i * 2}), {i})});
  EXPECT_EQ(refusal("PACK 1"), "axis 0 of slot 1 is read in overlapping pieces");
}
TEST_F(Opts, PackOfALoopThatIsCutIntoNests) {
  // 11 padded to 16 and packed so; then cut 15 + 1: the second nest reads padding that the first one's loops do not cover.
  matmul(3, 11, 4);
  Kernel q = with(k, "PADTO 1 16, PACK 2, PEEL 1 3");
  EXPECT_EQ(q.slots[2].layout.elems(), 64);
  EXPECT_EQ(refusal(q, "PACK 2"), "axis 1 of slot 2 is read beyond its first loops");
}
// Two reads of one constant in different orders: one layout serves both.
TEST_F(Opts, PackOfAConstantThatIsReadTwice) {
  UOp o = buffer({6, 6}), w = buffer({6, 6}, true), i = loop(0, 6), j = loop(1, 6);
  finish({store(at(o, {i, j}), load(w, {i, j}) - load(w, {j, i}), {i, j})});
  with(k, "PACK 1");
}

// --- KEEP -------------------------------------------------------------------------------------------------------------------------------
TEST_F(Opts, KeepComputesARowValueOnce) {
  softmax(3, 8);
  auto exps = [](const Kernel& q) {
    int n = 0;
    for (UOp u : toposort(q.ast)) n += u.is(Op::Exp);
    return n;
  };
  EXPECT_EQ(exps(k), 2);
  for (const char* place : {"KEEP 0 0", "KEEP 0 3"}) {
    EXPECT_EQ(exps(with(k, place)), 1) << place;
    std::string p = str(place, ", ");
    with(k, p + "VECTOR 1 4");
    with(k, p + "UPCAST 1 2");
    with(k, p + "THREAD 0 3");
    with(k, p + "UPCAST 0 3, VECTOR 1 4");
    with(k, p + "VECTOR 0 3");
    with(k, p + "PEEL 0 2, UPCAST 0 2, VECTOR 1 4");
  }
}
TEST_F(Opts, CopiesAndLanesHaveRowsOfTheirOwn) {
  softmax(6, 8);
  auto row = [](const Kernel& q) {
    for (UOp u : toposort(q.ast))
      if (u.is(Op::Row)) return u.src(0).as_int();
    return i64(0);
  };
  i64 one = row(with(k, "KEEP 0 0"));
  EXPECT_GE(one, 8);
  EXPECT_EQ(row(with(k, "KEEP 0 0, UPCAST 0 3")), 3 * one);
  EXPECT_EQ(row(with(k, "KEEP 0 0, UPCAST 0 3, VECTOR 0 2")), 6 * one);
  EXPECT_EQ(row(with(k, "UPCAST 0 3, KEEP 0 0")), 3 * one);
  EXPECT_EQ(row(with(k, "VECTOR 0 2, UPCAST 0 3, KEEP 0 0")), 6 * one);
  with(k, "VECTOR 0 2, KEEP 0 3");
  EXPECT_EQ(row(with(k, "KEEP 0 0, VECTOR 1 4")), one) << "the row itself is cut, not copied";
}
TEST_F(Opts, AKeptRowMayBePadded) {
  softmax(3, 7);
  for (const char* place : {"KEEP 0 0", "KEEP 0 3"}) {
    with(k, str(place, ", PADTO 1 4, VECTOR 1 4"));
    with(k, str(place, ", PADTO 0 2, UPCAST 0 2"));
    with(k, str(place, ", PADTO 0 2, VECTOR 0 2"));
  }
}
TEST_F(Opts, AKeptRowIsWholeWhereItIsRead) {
  softmax(3, 8);
  for (const char* place : {"KEEP 0 0", "KEEP 0 3"}) {
    Kernel q = with(k, place);
    for (const char* o : {"SWAP 0 1", "TILE 1 4", "TILE 1 1"}) EXPECT_NE(refusal(q, o).find("over a kept row would stand outside"), std::string::npos) << o << ": " << refusal(q, o);
  }
}
TEST_F(Opts, KeepRefusals) {
  softmax(3, 8);
  EXPECT_EQ(refusal("KEEP 1 0"), "no row value 1; there are 1");
  EXPECT_EQ(refusal("KEEP 0 1"), "KEEP knows the places STACK (0) and OUT (3)");
  EXPECT_EQ(refusal(with(k, "KEEP 0 0"), "KEEP 0 0"), "no row value 0; there are 0");
}
TEST_F(Opts, NothingToKeep) {
  stream(3, 8);
  EXPECT_EQ(refusal("KEEP 0 3"), "no row value 0; there are 0");
}

// A branch of a CONCAT reads another part of the buffer that it stores into.
TEST_F(Opts, AKernelThatReadsItsOwnOutput) {
  UOp o = buffer({2, 6, 10}), w = buffer({10, 10}), i = loop(0, 2), m = loop(1, 3), j = loop(2, 10), l = reduce_loop(3, 10);
  finish({store(at(o, {i, m + 3, j}), reduce(ReduceKind::Add, load(o, {i, m, l}) * load(w, {l, j}), {l}), {i, m, j})});
  with(k, "PEEL 2 4");
  with(k, "UNROLL 3 10, PEEL 2 4");
  with(k, "VECTOR 3 10, PEEL 2 4");
  with(k, "UNROLL 3 10, PEEL 2 4, UPCAST 2 4, UPCAST 102 2, THREAD 0 2");
}

// --- combinations -----------------------------------------------------------------------------------------------------------------------
TEST_F(Opts, AWholePlan) {
  matmul(14, 40, 12);
  with(k, "PADTO 1 16, VECTOR 1 8, UPCAST 1 2, TILE 1 1, PEEL 0 4, UPCAST 0 4, UPCAST 100 2, UNROLL 2 4, PACK 2, THREAD 1 3");
}
TEST_F(Opts, AnOptDoesNotChangeTheKernelItIsAppliedTo) {
  stream(6, 8);
  UOp before = k.ast;
  (void)k.with({OptKind::Upcast, 0, 3});
  EXPECT_EQ(k.ast, before);
  EXPECT_TRUE(k.opts.empty());
}

// A gather's index that is a reduce over the same row as the gather: both have the lanes.
TEST_F(Opts, AnAddressThatHoldsAReduceOfTheSameAxis) {
  UOp o = buffer({3, 8}), x = buffer({3, 8}), table = buffer({16, 8}), i = loop(0, 3), j = loop(1, 8), l = reduce_loop(1, 8);
  UOp best = reduce(ReduceKind::Max, load(x, {i, l}), {l});
  finish({store(at(o, {i, j}), load(table, {cast(best, Kind::Index) + 7, j}), {i, j})});
  with(k, "VECTOR 1 4");
  with(k, "UPCAST 1 4");
}

}  // namespace
