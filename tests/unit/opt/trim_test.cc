// TRIM: which taps of a window run in which row, that the numbers stay, and what is refused.
#include <cmath>

#include "opt/trim.h"
#include "rules/symbolic.h"
#include "small_kernel.h"

using namespace tg;

namespace {

class Trim : public SmallKernel {
 protected:
  // out[c, h] = sum over t of x[h*stride + t*dilation - pad] * w[t, c], where x is `fill` outside of 0 .. n-1: by a gate, or by a border around it.
  void window(i64 n, i64 taps, i64 stride, i64 dilation, i64 pad, bool border, f64 fill = 0, ReduceKind kind = ReduceKind::Add) {
    i64 rows = (n + 2 * pad - dilation * (taps - 1) - 1) / stride + 1;
    UOp o = buffer({4, rows}), x = buffer({border ? n + 2 * pad : n}), w = buffer({taps, 4}, true);
    if (border) k.slots[1].before = k.slots[1].after = {pad};
    UOp c = loop(0, 4), h = loop(1, rows), t = reduce_loop(2, taps);
    UOp row = h * stride + t * dilation;
    UOp value = border ? load(x, {row}) : node(Op::Load, Kind::F32, {at(x, {row - pad}), le(idx(0), row - pad) & lt(row - pad, idx(n)), konst_f(Kind::F32, fill)});
    if (kind == ReduceKind::Add) value = value * load(w, {t, c});
    finish({store(at(o, {c, h}), reduce(kind, value, {t}), {c, h})});
    k.ast = simplify(k.ast);
  }
  // How many taps each row runs, and whether a gate is left: "4 6 7 5".
  static std::string taps(const Kernel& q) {
    UOp h, t;
    std::string out;
    for (UOp u : toposort(q.ast)) {
      if (u.is(Op::Range) && u.arg<RangeArg>().id == 1) h = u;
      if (u.is(Op::Range) && u.arg<RangeArg>().id == 2) t = u;
    }
    for (i64 i = 0; i < h.src(0).as_int(); i++) {
      std::pair<UOp, UOp> row{h, idx(i)};
      out += str(i ? " " : "", simplify(substitute(t.src(0), {&row, 1})).as_int());
    }
    for (UOp u : toposort(q.ast))
      if (u.is(Op::Load) && u.nsrc() == 3) out += ", gated";
    return out;
  }
};

TEST_F(Trim, TheFirstAndLastRowHaveFewerTaps) {
  window(6, 3, 1, 1, 1, false);
  Kernel q = with(k, "TRIM 2");
  EXPECT_EQ(loops(q), "0 LOOP 4, 1 LOOP 6, 2 REDUCE ?");
  EXPECT_EQ(taps(q), "2 3 3 3 3 2");
}
TEST_F(Trim, ABorderOfTheBufferIsNotReadEither) {
  window(6, 5, 1, 1, 2, true);
  EXPECT_EQ(taps(with(k, "TRIM 2")), "3 4 5 5 4 3");
}
TEST_F(Trim, Strides) {  // rows -3.., -1.., 1.., 3.. of 8
  window(8, 7, 2, 1, 3, false);
  EXPECT_EQ(taps(with(k, "TRIM 2")), "4 6 7 5");
}
TEST_F(Trim, Dilation) {  // places h-3, h, h+3 of 4
  window(4, 3, 1, 3, 3, false);
  EXPECT_EQ(taps(with(k, "TRIM 2")), "2 1 1 2");
}
TEST_F(Trim, ARowOutsideHasNoTapAtAll) {  // h-2 and h-1 of 3
  window(3, 2, 1, 1, 2, false);
  EXPECT_EQ(taps(with(k, "TRIM 2")), "0 1 2 2 1 0");
}
TEST_F(Trim, WithOtherOpts) {
  window(12, 3, 1, 1, 1, false);
  with(k, "VECTOR 0 4, PACK 2, TRIM 2, THREAD 1 2");
  with(k, "THREAD 1 5, TRIM 2");
  with(k, "PEEL 1 5, TRIM 2");
  with(k, "TRIM 2, PEEL 1 5");
  with(k, "TRIM 2, PEEL 1 11");  // one row is left: its taps are a constant
  with(k, "SWAP 0 1, TRIM 2");
}
TEST_F(Trim, AMaximumIgnoresItsIdentity) {
  window(5, 3, 1, 1, 1, false, -INFINITY, ReduceKind::Max);
  EXPECT_EQ(taps(with(k, "TRIM 2")), "2 3 3 3 2");
}
TEST_F(Trim, WhatLiesOutsideMustAddNothing) {
  window(6, 3, 1, 1, 1, false, 2);
  EXPECT_EQ(refusal("TRIM 2"), "no tap of axis 2 is outside of a picture by the loops around it alone");
}
TEST_F(Trim, AMaximumSeesZeros) {
  window(6, 3, 1, 1, 1, false, 0, ReduceKind::Max);
  EXPECT_EQ(refusal("TRIM 2"), "no tap of axis 2 is outside of a picture by the loops around it alone");
}
// A weight that is not finite has no part in what lies outside.
TEST_F(Trim, InfinitiesOutsideAreNotMultiplied) {
  window(3, 3, 1, 1, 1, false);
  Kernel q = with(k, "TRIM 2");
  std::vector<f64> x{1, 2, 3}, weights(12, 1.0), sums{3, INFINITY};  // 1 + 2; the next row reads all three
  std::fill(weights.begin(), weights.begin() + 4, INFINITY);
  std::vector<Values> b{content(0), values(Kind::F32, {3}, x), values(Kind::F32, {3, 4}, weights)};
  eval_kernel(q.ast, b);
  Values want = values(Kind::F32, {2}, sums);
  EXPECT_EQ(b[0].v[0], want.v[0]);
  EXPECT_EQ(b[0].v[1], want.v[1]);
}
TEST_F(Trim, RowsInCopiesOrLanesStay) {
  window(6, 3, 1, 1, 1, false);
  EXPECT_EQ(refusal(with(k, "UPCAST 1 2"), "TRIM 2"), "no tap of axis 2 is outside of a picture by the loops around it alone");
  std::string why = refusal(with(k, "TRIM 2"), "UPCAST 1 2");
  EXPECT_NE(why.find("would differ between lanes or copies"), std::string::npos) << why;
  EXPECT_EQ(refusal("TRIM 1"), "axis 1 is no loop of a sum");
  EXPECT_EQ(refusal(with(k, "TRIM 2"), "TRIM 2"), "axis 2 has no fixed size");
}
TEST_F(Trim, TheShareThatIsLeftOut) {
  window(6, 3, 1, 1, 1, false);
  EXPECT_DOUBLE_EQ(trimmed_share(k, 2), 2.0 / 18);
  EXPECT_EQ(trimmed_share(with(k, "UPCAST 1 2"), 2), 0);
}
TEST_F(Trim, AllThatAKernelTakes) {
  window(6, 3, 1, 1, 1, false);
  EXPECT_EQ(opts_text(with_trims(k).opts), "TRIM 2");
}

}  // namespace
