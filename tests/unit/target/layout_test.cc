// Layouts: where a logical coordinate lies, and the bytes of a constant rearranged. Expected offsets are worked out by hand.
#include "target/layout.h"

#include <gtest/gtest.h>

#include <numeric>

using namespace tg;

namespace {

class LayoutTest : public testing::Test {
 protected:
  Arena arena;
  Arena::Scope scope{arena};

  static i64 offset(const Layout& l, std::vector<i64> coords) {
    std::vector<UOp> c;
    for (i64 x : coords) c.push_back(idx(x));
    return l.offset(c, {}).as_int();
  }
  // Elements 1, 2, 3 .. rearranged; padding shows as 0.
  static std::vector<int> rearranged(const Layout& l, std::vector<i64> dims) {
    i64 n = 1;
    for (i64 d : dims) n *= d;
    std::vector<u8> from(static_cast<size_t>(n)), to(size_t(l.elems()), u8(0xee));
    std::iota(from.begin(), from.end(), u8(1));
    apply_layout(l, dims, 1, from.data(), to.data());
    return {to.begin(), to.end()};
  }
};

using I = std::vector<int>;

TEST_F(LayoutTest, RowMajorHasTheLastAxisInnermost) {
  std::vector<i64> dims{2, 3, 4};
  Layout l = Layout::row_major(dims);
  EXPECT_EQ(l.str(), "0/2 1/3 2/4");
  EXPECT_EQ(l.elems(), 24);
  EXPECT_EQ(offset(l, {1, 2, 3}), 1 * 12 + 2 * 4 + 3);
  EXPECT_EQ(l.strides(3), (std::vector<i64>{12, 4, 1}));
  EXPECT_TRUE(l.is_row_major(dims));
}
TEST_F(LayoutTest, PermutedListsTheOutermostAxisFirst) {
  Layout l = Layout::permuted(std::vector<i64>{1, 3, 4, 5}, std::vector<i64>{0, 2, 3, 1});  // channels last
  EXPECT_EQ(l.str(), "0/1 2/4 3/5 1/3");
  EXPECT_EQ(offset(l, {0, 2, 3, 4}), 3 * 15 + 4 * 3 + 2);
  EXPECT_EQ(l.strides(4), (std::vector<i64>{60, 1, 15, 3}));
  EXPECT_FALSE(l.is_row_major(std::vector<i64>{1, 3, 4, 5}));
}
TEST_F(LayoutTest, PiecesOfOneAxisAreItsDigits) {
  Layout l{{{1, 2}, {0, 3}, {1, 4}}};  // (c/4, r, c%4) of 3 x 8
  EXPECT_EQ(offset(l, {0, 0}), 0);
  EXPECT_EQ(offset(l, {2, 1}), 0 * 12 + 2 * 4 + 1);
  EXPECT_EQ(offset(l, {2, 5}), 1 * 12 + 2 * 4 + 1);
  EXPECT_EQ(l.strides(2), (std::vector<i64>{4, 0})) << "axis 1 has no single stride";
}
TEST_F(LayoutTest, ThreeDigits) {
  Layout l{{{0, 2}, {0, 2}, {0, 3}}};
  for (i64 i = 0; i < 12; i++) EXPECT_EQ(offset(l, {i}), i);
}
TEST_F(LayoutTest, ASymbolicCoordinateDividesByWhatLiesInside) {
  Layout l{{{0, 2}, {0, 4}}};
  UOp r = range(idx(8), {0, 0, 0, AxisKind::Loop});
  EXPECT_EQ(l.offset(std::vector<UOp>{r}, {}), (r % 4) + (r / 4) * 4) << "the outermost digit needs no modulus";
}
TEST_F(LayoutTest, AnAxisOfOneTakesNoPart) {
  Layout l{{{0, 1}, {1, 5}}};
  EXPECT_EQ(offset(l, {0, 3}), 3);
  EXPECT_EQ(Layout{}.elems(), 1);
  EXPECT_EQ(offset(Layout{}, {}), 0);
}

TEST_F(LayoutTest, ApplyTransposes) {
  EXPECT_EQ(rearranged(Layout::permuted(std::vector<i64>{2, 3}, std::vector<i64>{1, 0}), {2, 3}), (I{1, 4, 2, 5, 3, 6}));
}
TEST_F(LayoutTest, ApplyBlocks) {
  // rows 1 2 3 4 and 5 6 7 8 as (c/2, r, c%2)
  EXPECT_EQ(rearranged({{{1, 2}, {0, 2}, {1, 2}}}, {2, 4}), (I{1, 2, 5, 6, 3, 4, 7, 8}));
}
TEST_F(LayoutTest, PaddingIsZero) {
  EXPECT_EQ(rearranged({{{0, 2}, {0, 4}}}, {5}), (I{1, 2, 3, 4, 5, 0, 0, 0}));
  EXPECT_EQ(rearranged({{{0, 4}, {1, 2}}}, {3, 2}), (I{1, 2, 3, 4, 5, 6, 0, 0})) << "padding of an outer axis";
  // 3 x 3 as (r, c/2, r', c%2) with r of 2 x 2 digits: rows 0..3, columns 0..3
  EXPECT_EQ(rearranged({{{0, 2}, {1, 2}, {0, 2}, {1, 2}}}, {3, 3}), (I{1, 2, 4, 5, 3, 0, 6, 0, 7, 8, 0, 0, 9, 0, 0, 0}));
}
TEST_F(LayoutTest, UndoIsTheInverseOfApply) {
  struct Case {
    Layout l;
    std::vector<i64> dims;
  };
  std::vector<Case> cases{{{{{1, 2}, {0, 3}, {1, 4}}}, {3, 7}},
                          {{{{2, 5}, {0, 2}, {1, 3}}}, {2, 3, 5}},
                          {{{{0, 2}, {1, 2}, {0, 2}, {1, 2}}}, {3, 3}},
                          {{{{3, 1}, {1, 2}, {2, 4}, {0, 1}, {1, 16}}}, {1, 20, 4, 1}},
                          {{}, {}}};
  for (const Case& c : cases)
    for (int bytes : {1, 2, 4, 8}) {
      size_t n = size_t(bytes);
      for (i64 d : c.dims) n *= size_t(d);
      std::vector<u8> from(n), to(size_t(c.l.elems() * bytes)), back(n, 0xee);
      for (size_t i = 0; i < n; i++) from[i] = u8(i * 7 + 1);
      apply_layout(c.l, c.dims, bytes, from.data(), to.data());
      undo_layout(c.l, c.dims, bytes, to.data(), back.data());
      EXPECT_EQ(back, from) << c.l.str() << ", " << bytes << " bytes";
    }
}
TEST_F(LayoutTest, ApplyPutsAnElementWhereOffsetSays) {
  Layout l{{{1, 2}, {0, 2}, {2, 3}, {0, 2}, {1, 3}}};
  std::vector<i64> dims{3, 5, 3};
  std::vector<int> at = rearranged(l, dims);
  for (i64 a = 0; a < 3; a++)
    for (i64 b = 0; b < 5; b++)
      for (i64 c = 0; c < 3; c++) EXPECT_EQ(at[size_t(offset(l, {a, b, c}))], 1 + a * 15 + b * 3 + c);
}
TEST_F(LayoutTest, ADimOfZeroHasNoElements) {
  Layout l = Layout::row_major(std::vector<i64>{3, 0});
  EXPECT_EQ(l.elems(), 0);
  EXPECT_EQ(rearranged(l, {3, 0}), I{});
}

TEST_F(LayoutTest, TextReadsBack) {
  std::vector<i64> dims{3, 7};
  Layout l{{{1, 2}, {0, 3}, {1, 4}}};
  EXPECT_EQ(l.str(), "1/2 0/3 1/4");
  ASSERT_TRUE(parse_layout("1/2 0/3 1/4", dims));
  EXPECT_EQ(*parse_layout("1/2 0/3 1/4", dims), l);
  ASSERT_TRUE(parse_layout("", std::vector<i64>{}));
}
TEST_F(LayoutTest, TextThatIsNoLayoutOfTheDims) {
  std::vector<i64> dims{3, 7};
  EXPECT_FALSE(parse_layout("1/2 0/3 1/3", dims)) << "6 values for an axis of 7";
  EXPECT_FALSE(parse_layout("0/3 2/7", dims)) << "no axis 2";
  EXPECT_FALSE(parse_layout("0/3", dims)) << "axis 1 is missing";
  EXPECT_FALSE(parse_layout("0/3 1/7x", dims));
  EXPECT_FALSE(parse_layout("0 3 1/7", dims));
  EXPECT_FALSE(parse_layout("-1/3 0/3 1/7", dims));
  EXPECT_FALSE(parse_layout("0/4611686018427387904 0/4611686018427387904 1/7", dims)) << "the product overflows";
}

}  // namespace
