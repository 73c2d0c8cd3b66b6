// TC: the groups that a dot instruction sums, on small kernels whose numbers the interpreter of each form must agree on.
#include "opt/tc.h"
#include "small_kernel.h"

using namespace tg;

namespace {

class Dots : public SmallKernel {
 protected:
  Dots() {
    target.renderer = "LLVM", target.triple = "x86_64-unknown-linux-gnu", target.has_vnni = target.has_bf16 = true,
    target.vector_bytes = 64, target.vector_registers = 32;
  }

  // out[i, j] = sum of a[i, l] * w[l, j] in `sum`, of factors of kinds ka and kw
  void product(i64 n, i64 m, i64 depth, Kind ka, Kind kw, Kind sum, bool constant = true) {
    UOp o = buffer({n, m}, false, sum), a = buffer({n, depth}, false, ka), w = buffer({depth, m}, constant, kw);
    UOp i = loop(0, n), j = loop(1, m), l = reduce_loop(2, depth);
    finish({store(at(o, {i, j}), reduce(ReduceKind::Add, cast(load(a, {i, l}), sum) * cast(load(w, {l, j}), sum), {l}), {i, j})});
  }
  void bytes(i64 n, i64 m, i64 depth, bool constant = true) { product(n, m, depth, Kind::U8, Kind::I8, Kind::I32, constant); }
  // "u8x4 i8x64 i32x16": the operands of each DOT of the linear form, once each kind.
  std::string dots(const Kernel& q) {
    std::string s;
    for (UOp u : lower(q).linear) {
      if (!u.is(Op::Dot)) continue;
      std::string one = str(name(u.src(0).dtype()), " ", name(u.src(1).dtype()), " ", name(u.dtype()));
      if (s.find(one) == s.npos) s += str(s.empty() ? "" : ", ", one);
    }
    return s;
  }
  i64 count_of(const Kernel& q, Op op) {
    i64 n = 0;
    for (UOp u : lower(q).linear) n += u.is(op);
    return n;
  }
};

TEST_F(Dots, RowsOfATarget) {
  std::vector<DotRow> rows = dot_rows(target);
  EXPECT_STREQ(rows[0].name, "vpdpbusd");
  EXPECT_STREQ(rows[1].name, "vdpbf16ps");
  EXPECT_EQ(rows[0].lanes, 16);
  target.has_vnni = target.has_bf16 = false, target.vector_bytes = 32;
  EXPECT_STREQ(dot_rows(target)[0].name, "pmaddwd");
  target.has_fma = true;
  EXPECT_STREQ(dot_rows(target)[0].name, "fma of bf16");
  target.has_fma = false;
  EXPECT_EQ(dot_rows(target)[0].group, 2);
  EXPECT_EQ(dot_rows(target)[0].lanes, 8);
  target.renderer = "CLANG";
  EXPECT_TRUE(dot_rows(target).empty()) << "C has no dot instruction";
}
TEST_F(Dots, TheInnermostOfTheReduceAxisIsTheGroup) {
  bytes(3, 16, 8);
  Kernel q = with(k, "TC 2 0, VECTOR 1 16");
  EXPECT_EQ(axes(q.ast).back().kind, AxisKind::Dot);
  EXPECT_EQ(axes(q.ast).back().size, 4);
  // w is no packed constant: its vectors are put in order in registers.
  EXPECT_EQ(dots(q), "u8x4 i8x64 i32x16");
  EXPECT_EQ(count_of(q, Op::Shuffle), 3);
}
TEST_F(Dots, PackedWeightsAreOneLoad) {
  bytes(6, 32, 24);
  Kernel q = with(k, "TC 2 0, VECTOR 1 16, UPCAST 1 2, UPCAST 0 6, PACK 2");
  EXPECT_EQ(q.slots[2].layout.str(), "0/6 1/2 1/16 0/4");
  EXPECT_EQ(dots(q), "u8x4 i8x64 i32x16");
  EXPECT_EQ(count_of(q, Op::Shuffle), 0);
  EXPECT_EQ(count_of(q, Op::Dot), 12);
}
TEST_F(Dots, ShorterRegisters) {
  bytes(2, 8, 4);
  EXPECT_EQ(dots(with(k, "TC 2 0, VECTOR 1 8, PACK 2")), "u8x4 i8x32 i32x8");
  EXPECT_EQ(dots(with(k, "TC 2 0, VECTOR 1 4, PACK 2")), "u8x4 i8x16 i32x4");
}
TEST_F(Dots, LanesThatNoRegisterHasAreSummedAsProducts) {
  bytes(2, 6, 4);
  EXPECT_EQ(dots(with(k, "TC 2 0, VECTOR 1 3")), "");
  EXPECT_EQ(dots(with(k, "TC 2 0")), "") << "no lanes at all";
}
TEST_F(Dots, Bf16) {
  product(4, 16, 6, Kind::BF16, Kind::BF16, Kind::F32);
  // After decompose the bits of a bf16 are a u16.
  EXPECT_EQ(dots(with(k, "TC 2 1, VECTOR 1 16, UPCAST 0 4, PACK 2")), "u16x2 u16x32 f32x16");
}
TEST_F(Dots, PairsOfWideningProducts) {
  target.has_vnni = target.has_bf16 = false, target.vector_bytes = 32, target.vector_registers = 16;
  bytes(4, 16, 6);
  EXPECT_EQ(dots(with(k, "TC 2 0, VECTOR 1 8, UPCAST 1 2, UPCAST 0 4, PACK 2")), "u8x2 i8x16 i32x8");
}
TEST_F(Dots, LanesAlongTheSum) {
  product(3, 2, 32, Kind::BF16, Kind::BF16, Kind::F32);
  EXPECT_EQ(dots(with(k, "TC 2 1, VECTOR 2 8")), "u16x16 u16x16 f32x8");
}
TEST_F(Dots, APaddedGroupIsZeroOutside) {
  bytes(3, 16, 7);
  EXPECT_EQ(dots(with(k, "PADTO 2 4, TC 2 0, VECTOR 1 16, PACK 2")), "u8x4 i8x64 i32x16");
  // Unrolled, the last group is known to end in a zero: one load that begins earlier, moved down.
  Kernel q = with(k, "PADTO 2 4, TC 2 0, VECTOR 1 16, UNROLL 2 2, PACK 2");
  EXPECT_EQ(dots(q), "u8x4 i8x64 i32x16");
  EXPECT_EQ(count_of(q, Op::Pack), 0);
  EXPECT_EQ(count_of(q, Op::Shuffle), 1);
}
TEST_F(Dots, AGroupThatNoBufferSurroundsIsReadOneByOne) {
  bytes(1, 16, 3);
  EXPECT_EQ(count_of(with(k, "PADTO 2 4, TC 2 0, VECTOR 1 16, PACK 2"), Op::Pack), 1) << "neither before nor behind a are bytes";
}
TEST_F(Dots, WhatDoesNotFitIsRefused) {
  bytes(3, 16, 8);
  EXPECT_EQ(refusal("TC 2 1"), "no sum over axis 2 is of products of bf16 and bf16 in f32");
  EXPECT_EQ(refusal("TC 1 0"), "no sum over axis 1 is of products of u8 and i8 in i32");
  EXPECT_EQ(refusal("TC 7 0"), "no sum over axis 7 is of products of u8 and i8 in i32");
  EXPECT_NE(refusal("TC 2 99").find("no dot instruction 99"), std::string::npos);
  EXPECT_EQ(refusal(with(k, "TC 2 0"), "TC 2 0"), "the kernel has a TC already");
  target.renderer = "CLANG";
  EXPECT_NE(refusal("TC 2 0").find("no dot instruction 0"), std::string::npos);
}
TEST_F(Dots, ADepthOfNoGroupsIsRefused) {
  bytes(3, 16, 6);
  EXPECT_EQ(refusal("TC 2 0"), "axis 2 of size 6 is no multiple of 4");
}
TEST_F(Dots, SignedByUnsignedOnly) {
  product(3, 16, 8, Kind::I8, Kind::I8, Kind::I32);
  EXPECT_NE(refusal("TC 2 0"), "accepted") << "vpdpbusd takes one operand unsigned";
  EXPECT_EQ(dots(with(k, "TC 2 3, VECTOR 1 16, PACK 2")), "i8x2 i8x32 i32x16") << "pmaddwd takes any";
}

// --- the heuristics ---------------------------------------------------------------------------------------------------------------------
TEST_F(Dots, TheHeuristicsTakeThem) {
  bytes(128, 128, 64);
  Kernel q = heuristics(prepare(k));
  EXPECT_TRUE(std::any_of(q.opts.begin(), q.opts.end(), [](const Opt& o) { return o.kind == OptKind::Tc; })) << opts_text(q.opts);
  EXPECT_TRUE(std::any_of(q.opts.begin(), q.opts.end(), [](const Opt& o) { return o.kind == OptKind::Pack; })) << opts_text(q.opts);
  same(k, q);
}
TEST_F(Dots, TwoSumsOverOneLoopShareTheVectorsOfWeights) {
  UOp o = buffer({28, 64}, false, Kind::F32), h = buffer({28, 32}, false, Kind::U8), l = buffer({28, 32}, false, Kind::U8), w = buffer({32, 64}, true, Kind::I8);
  UOp i = loop(0, 28), j = loop(1, 64), p = reduce_loop(2, 32);
  auto sum = [&](UOp x) { return cast(reduce(ReduceKind::Add, cast(load(x, {i, p}), Kind::I32) * cast(load(w, {p, j}), Kind::I32), {p}), Kind::F32); };
  finish({store(at(o, {i, j}), sum(h) * konst_f(Kind::F32, 256) + sum(l), {i, j})});
  Kernel q = heuristics(prepare(k));
  same(k, q);
  i64 dots = count_of(q, Op::Dot), weights = 0, sums = 0;
  for (UOp u : lower(q).linear) weights += u.is(Op::Load) && u.dtype() == DType(Kind::I8).vec(64), sums += u.is(Op::Reg);
  EXPECT_EQ(sums, dots) << "all in one loop: " << opts_text(q.opts);
  EXPECT_EQ(dots % (2 * weights), 0);
  EXPECT_GE(dots / weights, 8) << "of a vector of weights: " << opts_text(q.opts);
  EXPECT_LE(sums + weights + 1, target.vector_registers);
}
TEST_F(Dots, WhatFullTilesLeaveOfFreeRowsGoesInLowerOnes) {
  UOp o = buffer({40, 128}, false, Kind::I32), a = buffer({40, 16}, false, Kind::U8), w = buffer({16, 128}, true, Kind::I8);
  UOp i = range(var("n", 1, 40), {0, 0, 0, AxisKind::Loop}), j = loop(1, 128), p = reduce_loop(2, 16);
  finish({store(at(o, {i, j}), reduce(ReduceKind::Add, cast(load(a, {i, p}), Kind::I32) * cast(load(w, {p, j}), Kind::I32), {p}), {i, j})});
  sizes = {1, 2, 3, 4, 5, 7, 8, 11, 14, 23, 40};
  Kernel q = heuristics(prepare(k));
  EXPECT_EQ(std::count_if(q.opts.begin(), q.opts.end(), [](const Opt& x) { return x.kind == OptKind::Peel; }), 2)
      << "full tiles, tiles of 4, and of 2: " << opts_text(q.opts);
  same(k, q);
}
TEST_F(Dots, TheHeuristicsLeaveOtherTargetsAlone) {
  target.renderer = "CLANG";
  bytes(32, 32, 16);
  Kernel q = heuristics(prepare(k));
  EXPECT_FALSE(std::any_of(q.opts.begin(), q.opts.end(), [](const Opt& o) { return o.kind == OptKind::Tc; })) << opts_text(q.opts);
}

}  // namespace
