// What the simplifier makes of index expressions, written out.
#include "base/settings.h"
#include "expect.h"

namespace tg {
namespace {

class Symbolic : public RulesTest {
 protected:
  UOp i = loop(16, 0), j = loop(4, 1), k = loop(3, 2), m = loop(8, 3);
};

TEST_F(Symbolic, LikeTerms) {
  EXPECT_SIMPLIFIES(i * 3 + i, i * 4);
  EXPECT_SIMPLIFIES(i - i, 0);
  EXPECT_SIMPLIFIES((i + j) - (j + i), 0);
  EXPECT_SIMPLIFIES((i + j) * 4 - i * 4, j * 4);
  EXPECT_SIMPLIFIES((j + 5) + (i + -3), i + j + 2);
  EXPECT_SIMPLIFIES(-(i - j), j - i);
}
TEST_F(Symbolic, SumsAreSortedWhateverTheirOrder) {
  EXPECT_SIMPLIFIES(j + i * 2 + 7, i * 2 + j + 7);
  EXPECT_SIMPLIFIES((idx(7) + j) + i * 2, i * 2 + j + 7);
}
TEST_F(Symbolic, DivisionBySplit) {
  EXPECT_SIMPLIFIES((i * 4 + j) / 4, i);
  EXPECT_SIMPLIFIES((i * 4 + j) % 4, j);
  EXPECT_SIMPLIFIES((i * 12 + j * 3 + k) / 12, i);
  EXPECT_SIMPLIFIES((i * 12 + j * 3 + k) % 12, j * 3 + k);
  EXPECT_SIMPLIFIES(((i * 12 + j * 3 + k) / 3) % 4, j);
  EXPECT_SIMPLIFIES((i * 12 + j * 3 + k) % 3, k);
  EXPECT_SIMPLIFIES((i * 6 + 3) / 3, i * 2 + 1);
  EXPECT_SIMPLIFIES((i * 6 + 4) % 3, 1);
  EXPECT_SIMPLIFIES(j / 4, 0);
  EXPECT_SIMPLIFIES(j % 4, j);
  EXPECT_SIMPLIFIES((j + 8) / 4, 2);
  EXPECT_SIMPLIFIES((j - 8) % 4, j);
  EXPECT_SIMPLIFIES((i * 3 + k) / 12, i / 4);
  EXPECT_SIMPLIFIES((i * 3 + k) % 12, i % 4 * 3 + k);
}
TEST_F(Symbolic, NestedDivision) {
  EXPECT_SIMPLIFIES(i / 2 / 3, i / 6);
  EXPECT_SIMPLIFIES((i / 2 + 3) / 3, i / 6 + 1);
  UOp n = loop(1000, 9);
  EXPECT_SIMPLIFIES(n % 24 / 4, n / 4 % 6);
  EXPECT_SIMPLIFIES(n % 24 % 4, n % 4);
  EXPECT_SIMPLIFIES((n % 24 + 4) % 8, (n + 4) % 8);
}
// A number that a kernel has loaded may be any, and does not become one that overflows.
TEST_F(Symbolic, ALoadedNumberKeepsItsRemainder) {
  UOp x = free_value(Kind::I64, 0), n = cast(x, Kind::Index);
  for (UOp e : {(n % 11 * 3 + i) % 33, (n % 12 * 5 + i * 5) % 60, (n % 22 * 12 + j) % 132, (n / 3 + 7) / 5, cast((x * -13 + -14) % 13, Kind::Index) * 4 + j,
                cast((x * -13 + -14) % 4, Kind::Index) * 33 + cast((x * -13 + -14) % 33, Kind::Index)}) {
    UOp s = simplify(e);
    for (i64 v : {std::numeric_limits<i64>::max(), std::numeric_limits<i64>::min(), i64(0), i64(-1), i64(1) << 62, -(i64(1) << 61) - 3}) {
      Evaluator eval;
      eval.leaf[x.id()] = u64(v), eval.leaf[i.id()] = 7, eval.leaf[j.id()] = 3;
      EXPECT_EQ(eval(e), eval(s)) << e.str() << " became " << s.str() << " at " << v;
    }
  }
}
TEST_F(Symbolic, QuotientAndRemainderMeet) {
  UOp n = loop(1000, 9);
  EXPECT_SIMPLIFIES(n / 7 * 7 + n % 7, n);
  EXPECT_SIMPLIFIES(n / 7 * 14 + n % 7 * 2 + 1, n * 2 + 1);
  EXPECT_SIMPLIFIES(n - n / 7 * 7, n % 7);
  EXPECT_SIMPLIFIES((n / 4) % 6 * 4 + n % 4, n % 24);
  EXPECT_SIMPLIFIES((n * 2 + 1) / 4 * 4 + (n * 2 + 1) % 4, n * 2 + 1);
  EXPECT_SIMPLIFIES((n / 3) / 4 * 4 + (n / 3) % 4, n / 3);
}
TEST_F(Symbolic, FloorOfNegatives) {
  EXPECT_SIMPLIFIES((j - 4) / 4, -1);
  EXPECT_SIMPLIFIES((j - 1) / 4, (j + 3) / 4 + -1);
  EXPECT_SIMPLIFIES((idx(3) - j) % 4, idx(3) - j);
  EXPECT_SIMPLIFIES((idx(7) - j) / 4, 1);
  EXPECT_SIMPLIFIES((j * 7 + 3) % 8, idx(3) - j);
  EXPECT_SIMPLIFIES(j / idx(-4), j * 3 / 4 - j);
}
TEST_F(Symbolic, Comparisons) {
  EXPECT_SIMPLIFIES(lt(i, idx(16)), 1);
  EXPECT_SIMPLIFIES(lt(i, idx(0)), 0);
  EXPECT_SIMPLIFIES(lt(i + 3, idx(5)), lt(i, idx(2)));
  EXPECT_SIMPLIFIES(lt(i * 4 + j, idx(32)), lt(i, idx(8)));
  EXPECT_SIMPLIFIES(lt(i * 4 + j, idx(33)), lt(i * 4 + j, idx(33)));
  EXPECT_SIMPLIFIES(lt(i * 6, idx(13)), lt(i, idx(3)));
  EXPECT_SIMPLIFIES(lt(idx(5), i * 2), lt(idx(2), i));
  EXPECT_SIMPLIFIES(le(i, idx(3)), lt(i, idx(4)));
  EXPECT_SIMPLIFIES(logical_not(lt(i, idx(4))), lt(idx(3), i));
  EXPECT_SIMPLIFIES(lt(i / 4, idx(2)), lt(i, idx(8)));
  EXPECT_SIMPLIFIES(lt(idx(1), i / 4), lt(idx(7), i));
  EXPECT_SIMPLIFIES(lt(i - j, m), lt(i, j + m));
  EXPECT_SIMPLIFIES(lt(i + j, i + m), lt(j, m));
  EXPECT_SIMPLIFIES(eq(i * 2, idx(5)), 0);
  EXPECT_SIMPLIFIES(eq(i * 2, idx(6)), eq(i, idx(3)));
  EXPECT_SIMPLIFIES(ne(i, idx(20)), 1);
  EXPECT_SIMPLIFIES(lt(idx(0), i * 3 + j * 5), lt(idx(0), i + j));
  EXPECT_SIMPLIFIES(eq(cast(lt(i, j), Kind::Index), idx(0)), le(j, i).is(Op::Le) ? lt(j, i + 1) : UOp());
}
TEST_F(Symbolic, MinMaxByBounds) {
  EXPECT_SIMPLIFIES(max(i, idx(0)), i);
  EXPECT_SIMPLIFIES(min(i, idx(15)), i);
  EXPECT_SIMPLIFIES(max(i + j, i), i + j);
  EXPECT_SIMPLIFIES(min(max(i, idx(2)), idx(1)), 1);
  EXPECT_SIMPLIFIES(max(max(i, idx(2)), idx(5)), max(i, idx(5)));
}
TEST_F(Symbolic, Booleans) {
  UOp a = lt(i, idx(5)), b = lt(j, idx(2)), c = free_value(Kind::Bool, 0);
  EXPECT_SIMPLIFIES(a & a, a);
  EXPECT_SIMPLIFIES(a & logical_not(a), 0);
  EXPECT_SIMPLIFIES(a | logical_not(a), 1);
  EXPECT_SIMPLIFIES(a & lt(i, idx(9)), a);
  EXPECT_SIMPLIFIES(a | lt(i, idx(9)), lt(i, idx(9)));
  EXPECT_SIMPLIFIES(a & lt(idx(7), i), 0);
  EXPECT_SIMPLIFIES((b & a) & c, simplify((c & a) & b));
  EXPECT_SIMPLIFIES(c ^ c, 0);
  EXPECT_SIMPLIFIES(logical_not(logical_not(c)), c);
  EXPECT_SIMPLIFIES(eq(c, konst(Kind::Bool, 1)), c);
}
TEST_F(Symbolic, NotGoesInsideComparisons) {
  UOp f = free_value(Kind::F32, 0), g = free_value(Kind::F32, 1), b = lt(f, g), c = free_value(Kind::Bool, 2);
  EXPECT_SIMPLIFIES(logical_not(lt(i, idx(5)) & lt(j, idx(2))), simplify(lt(idx(4), i) | lt(idx(1), j)));
  EXPECT_SIMPLIFIES(logical_not(lt(i, idx(5)) | lt(j, idx(2))), simplify(lt(idx(4), i) & lt(idx(1), j)));
  EXPECT_EQ(simplify(logical_not(b & c)).op(), Op::Not) << "floats may be NaN";
  EXPECT_SIMPLIFIES(lt(where(c, idx(1), idx(4)), idx(3)), c);
  EXPECT_SIMPLIFIES(eq(where(c, idx(1), idx(4)), idx(4)), logical_not(c));
}
TEST_F(Symbolic, FastMathIsAsked) {
  UOp f = free_value(Kind::F32, 0), g = f + konst_f(Kind::F32, 0);
  EXPECT_SIMPLIFIES(g, g);
  with_context({{settings::FASTMATH, 1}}, [&] { EXPECT_SIMPLIFIES(g, f); });
  EXPECT_SIMPLIFIES(g, g);
}
TEST_F(Symbolic, Where) {
  UOp c = free_value(Kind::Bool, 0), d = free_value(Kind::Bool, 1);
  UOp f = free_value(Kind::F32, 2), g = free_value(Kind::F32, 3);
  EXPECT_SIMPLIFIES(where(lt(i, idx(99)), f, g), f);
  EXPECT_SIMPLIFIES(where(logical_not(c), f, g), where(c, g, f));
  EXPECT_SIMPLIFIES(where(c, where(c, f, g), g), where(c, f, g));
  EXPECT_SIMPLIFIES(where(c, where(d, f, g), g), where(c & d, f, g));
  EXPECT_SIMPLIFIES(where(c, konst(Kind::Bool, 1), konst(Kind::Bool, 0)), c);
}
TEST_F(Symbolic, BranchesKnowTheirCondition) {
  EXPECT_SIMPLIFIES(where(lt(i, idx(4)), i / 4, i + 1), where(lt(i, idx(4)), idx(0), i + 1));
  EXPECT_SIMPLIFIES(where(lt(i, idx(4)), max(i, idx(3)), max(i, idx(3))), max(i, idx(3)));
  EXPECT_SIMPLIFIES(where(lt(i, idx(4)), idx(9), max(i, idx(3))), where(lt(i, idx(4)), idx(9), i));
}
TEST_F(Symbolic, UnderAGate) {
  UOp x = i + k - 1;
  EXPECT_EQ(simplify_given(max(x, idx(0)), lt(idx(-1), x)).str(), simplify(x).str());
  EXPECT_EQ(simplify_given(min(x, idx(9)), lt(i + k, idx(11))).str(), simplify(x).str());
  EXPECT_EQ(simplify_given((i * 4 + m) / 4, lt(m, idx(4))).str(), i.str());
  EXPECT_EQ(simplify_given(x % 14, lt(x, idx(14)) & le(idx(0), x)).str(), simplify(x).str());
  EXPECT_EQ(simplify_given(x / 14 + j, lt(x, idx(14)) & le(idx(0), x)).str(), j.str());
  EXPECT_EQ(simplify_given(i * 2, eq(i, idx(3))).str(), idx(6).str());
}
TEST_F(Symbolic, GatesLoseImpliedClauses) {
  EXPECT_EQ(simplify_valid(lt(i, idx(5)) & lt(i + j, idx(99))).str(), lt(i, idx(5)).str());
  EXPECT_EQ(simplify_valid(lt(i, idx(2)) & lt(i + j, idx(5))).str(), lt(i, idx(2)).str());
  EXPECT_EQ(simplify_valid(eq(i, idx(3)) & lt(i, idx(7))).str(), eq(i, idx(3)).str());
  EXPECT_EQ(simplify_valid(lt(i + j, idx(2)) & lt(idx(2), i)).str(), konst(Kind::Bool, 0).str());
}
TEST_F(Symbolic, CoefficientsOfLoops) {
  EXPECT_EQ(coefficient(i * 12 + j * 3 - k + 5, i), 12);
  EXPECT_EQ(coefficient(i * 12 + j * 3 - k + 5, k), -1);
  EXPECT_EQ(coefficient(i * 12 + 5, m), 0);
  EXPECT_EQ(coefficient(i / 2 + j, i), std::nullopt);
  EXPECT_EQ(coefficient(i * j, i), std::nullopt);
  EXPECT_TRUE(depends_on(i / 2 + j, i));
  EXPECT_FALSE(depends_on(i / 2 + j, k));
}
TEST_F(Symbolic, PowersAndDoublingsStaySmall) {
  UOp p = free_value(Kind::Index, 0), q = p, n = free_value(Kind::I64, 1), d = n;
  for (int a = 0; a < 60; a++) p = p * p, q = q + q, d = (d + n) * d + d;
  EXPECT_TRUE(simplify(p) == simplify(simplify(p)));
  EXPECT_SIMPLIFIES(q, free_value(Kind::Index, 0) * (i64(1) << 60));
  EXPECT_TRUE(simplify(d) == simplify(simplify(d)));
}
TEST_F(Symbolic, Variables) {
  UOp n = var("n", 1, 512), s = var("s", 8, 512, 8);
  UOp r = loop(n, 5), q = loop(s, 6), b = loop(32, 7);
  EXPECT_SIMPLIFIES(lt(r, n), 1);
  EXPECT_SIMPLIFIES((b * n + r) / n, b);
  EXPECT_SIMPLIFIES((b * n + r) % n, r);
  EXPECT_SIMPLIFIES(s % 8, 0);
  EXPECT_SIMPLIFIES(s / 8 * 8, s);
  EXPECT_SIMPLIFIES((s * 3 + 5) % 8, 5);
  EXPECT_SIMPLIFIES((b * (n * s) + r * s + q) / (n * s), b);
  EXPECT_SIMPLIFIES((b * (n * s) + r * s + q) % (n * s), r * s + q);
  EXPECT_SIMPLIFIES((b * (n * s) + r * s + q) / s % n, r);
  EXPECT_SIMPLIFIES((r * s + q) / (s * 4), r / 4);
  EXPECT_SIMPLIFIES(lt(b * n + r, n * 32), 1);
  EXPECT_SIMPLIFIES((n + 1) * s - s, n * s);
}
// The offset of a point after its buffer was viewed under other sizes, again and again.
UOp view(UOp offset, std::initializer_list<i64> sizes, std::vector<UOp>* at) {
  std::vector<i64> v(sizes);
  at->assign(v.size(), UOp());
  for (size_t a = v.size(); a-- > 0; offset = offset / v[a]) (*at)[a] = a ? offset % v[a] : offset;
  return offset;
}
UOp flat(const std::vector<UOp>& at, std::initializer_list<i64> sizes) {
  UOp r;
  size_t a = 0;
  for (i64 n : sizes) {
    r = r ? r * n + at[a] : at[a];
    a++;
  }
  return r;
}
TEST_F(Symbolic, ViewsOfViewsFold) {
  UOp a = loop(8, 10), b = loop(14, 11), c = loop(14, 12);
  UOp plain = a * 196 + b * 14 + c;
  std::vector<UOp> at;
  view(plain, {8, 196}, &at);
  EXPECT_SIMPLIFIES(flat(at, {8, 196}), plain);
  view(plain, {4, 2, 7, 2, 7, 2}, &at);
  EXPECT_SIMPLIFIES(at[1], a % 2);
  EXPECT_SIMPLIFIES(at[3], b % 2);
  EXPECT_SIMPLIFIES(at[4], c / 2);
  EXPECT_SIMPLIFIES(flat(at, {4, 2, 7, 2, 7, 2}), plain);
  view(plain, {16, 98}, &at);  // 98 = 7 rows of 14
  EXPECT_SIMPLIFIES(at[0], a * 2 + b / 7);
  EXPECT_SIMPLIFIES(at[1], b % 7 * 14 + c);
  view(plain, {49, 32}, &at);  // fits nothing: one division, and it comes back
  EXPECT_SIMPLIFIES(flat(at, {49, 32}), plain);
}
TEST_F(Symbolic, DepthToSpace) {
  // (1, 2*2*8, 14, 14) seen as (8, 28, 28): row y is y//2 of the channel that y%2 picks.
  UOp c = loop(8, 10), y = loop(28, 11), x = loop(28, 12);
  std::vector<UOp> at;
  view((c * 28 + y) * 28 + x, {8, 14, 2, 14, 2}, &at);
  UOp from = flat({at[2], at[4], at[0], at[1], at[3]}, {2, 2, 8, 14, 14});
  EXPECT_SIMPLIFIES(from, simplify(y % 2 * 3136 + x % 2 * 1568 + c * 196 + y / 2 * 14 + x / 2));
  EXPECT_EQ(at[0].nsrc(), 2u);
}
TEST_F(Symbolic, SplitLoopsFoldIntoTheirViews) {
  UOp o = loop(7, 10), v = loop(8, 11);  // x = o*8 + v < 56
  UOp x = o * 8 + v;
  EXPECT_SIMPLIFIES(x / 8, o);
  EXPECT_SIMPLIFIES(x / 4, o * 2 + v / 4);
  EXPECT_SIMPLIFIES(x / 28, x / 28);
  EXPECT_SIMPLIFIES(x / 56, 0);
  EXPECT_SIMPLIFIES(x % 16, o % 2 * 8 + v);
  EXPECT_SIMPLIFIES(lt(x, idx(48)), lt(o, idx(6)));
  EXPECT_SIMPLIFIES(lt(idx(7), x), lt(idx(0), o));
}
TEST_F(Symbolic, PaddedConvolution) {
  UOp y = loop(14, 10), ky = loop(3, 11), x = loop(14, 12), kx = loop(3, 13);
  UOp gate = le(idx(1), y + ky) & lt(y + ky, idx(15)) & le(idx(1), x + kx) & lt(x + kx, idx(15));
  EXPECT_SIMPLIFIES(gate, simplify(lt(x + kx, idx(15)) & lt(idx(0), y + ky) & lt(y + ky, idx(15)) & lt(idx(0), x + kx)));
  EXPECT_TRUE(simplify(gate).src(1) == lt(x + kx, idx(15)) || simplify(gate).src(1) == lt(idx(0), x + kx)) << "the inner loops' clauses stand last";
  UOp offset = (y + ky - 1) * 14 + (x + kx - 1);
  EXPECT_EQ(simplify_given(offset / 14, gate).str(), simplify(y + ky - 1).str());
  EXPECT_EQ(simplify_given(offset % 14, gate).str(), simplify(x + kx - 1).str());
  // Stride 2 and no kernel: each pixel once.
  EXPECT_SIMPLIFIES(lt(y * 2 + 1, idx(28)), 1);
}
TEST_F(Symbolic, WhereOfACompareIsMinOrMax) {
  EXPECT_SIMPLIFIES(where(lt(i, m), i, m), min(i, m));
  EXPECT_SIMPLIFIES(where(lt(i, m), m, i), max(i, m));
}
TEST_F(Symbolic, WrappingIntegersAreNotNumbers) {
  UOp x = free_value(Kind::U8, 0), y = free_value(Kind::I32, 1);
  EXPECT_SIMPLIFIES(x * 4 / 4, x * 4 / 4);
  EXPECT_SIMPLIFIES(lt(y + 1, y), lt(y + 1, y));
  EXPECT_SIMPLIFIES(y * 3 + y, y * 4);
  UOp w = cast(x, Kind::I32);
  EXPECT_SIMPLIFIES(w * 4 / 4, w);
  EXPECT_SIMPLIFIES(lt(w, konst(Kind::I32, 256)), 1);
}
TEST_F(Symbolic, FloatsChangeOnlyWhereTheBitsStay) {
  UOp f = free_value(Kind::F32, 0), zero = konst_f(Kind::F32, 0), one = konst_f(Kind::F32, 1);
  EXPECT_SIMPLIFIES(f * one, f);
  EXPECT_SIMPLIFIES(f - zero, f);
  EXPECT_SIMPLIFIES(f + zero, f + zero);
  EXPECT_SIMPLIFIES(f * zero, f * zero);
  EXPECT_SIMPLIFIES(f / f, f / f);
  EXPECT_SIMPLIFIES(f / konst_f(Kind::F32, 8), f * konst_f(Kind::F32, 0.125));
  EXPECT_SIMPLIFIES(f / konst_f(Kind::F32, 3), f / konst_f(Kind::F32, 3));
  EXPECT_SIMPLIFIES(konst_f(Kind::F32, 0.1) + konst_f(Kind::F32, 0.2), konst_f(Kind::F32, 0.3f + 0.0));
}
TEST_F(Symbolic, CastsThatKeepEveryValue) {
  UOp x = free_value(Kind::I8, 0), f = free_value(Kind::F16, 1);
  EXPECT_SIMPLIFIES(cast(cast(x, Kind::I32), Kind::I8), x);
  EXPECT_SIMPLIFIES(cast(cast(i, Kind::I64) * 4 + 1, Kind::Index), i * 4 + 1);
  EXPECT_SIMPLIFIES(cast(cast(f, Kind::F32), Kind::F16), f);
  EXPECT_SIMPLIFIES(cast(cast(x, Kind::F32), Kind::I8), x);
}
TEST_F(Symbolic, LoadsUnderAGate) {
  UOp buf = node(Op::Param, Kind::F32, {}, 0);
  UOp x = i + k - 1, gate = le(idx(0), x) & lt(x, idx(16));
  UOp load = node(Op::Load, Kind::F32, {node(Op::Index, Kind::F32, {buf, min(max(x, idx(0)), idx(15))}), gate, konst_f(Kind::F32, 0)});
  EXPECT_EQ(simplify(load).src(0).src(1).str(), simplify(x).str());
  UOp always = node(Op::Load, Kind::F32, {node(Op::Index, Kind::F32, {buf, i}), lt(i, idx(16)), konst_f(Kind::F32, 0)});
  EXPECT_SIMPLIFIES(always, node(Op::Load, Kind::F32, {node(Op::Index, Kind::F32, {buf, i})}));
}

}  // namespace
}  // namespace tg
