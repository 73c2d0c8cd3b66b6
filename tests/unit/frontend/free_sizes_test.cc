// Sizes that stay free: how shapes spell them, what small tensors of sizes come to, and what is refused.
#include "frontend/size_list.h"
#include "frontend/tensor.h"
#include "model_builder.h"
#include "rules/sizes.h"

using namespace tg;
using namespace tg::test;

namespace {

ImportOptions with(std::vector<ImportOptions::Var> vars, std::vector<ImportOptions::Shape> shapes = {}) {
  ImportOptions o;
  o.vars = std::move(vars), o.shapes = std::move(shapes);
  return o;
}

struct Sizes : ::testing::Test {
  Arena arena;
  Arena::Scope scope{arena};
  UOp n = var("N", 1, 8), h = var("H", 32, 320, 32), w = var("W", 32, 320, 32);
};

TEST_F(Sizes, EqualOnesAreOneNode) {
  EXPECT_EQ(normal_size((n + 1) * 4 - 4), normal_size(n * 4));
  EXPECT_EQ(normal_size(h / 16), normal_size(h / 32 * 2));
  EXPECT_EQ(normal_size(h / 32 * 32), h);
  EXPECT_EQ(normal_size((h / 32 * 16) * 2 * (w / 32)), normal_size(h * (w / 32)));
  EXPECT_EQ(normal_size((h / 32) * w * 16), normal_size(h * (w / 32) * 16));
  EXPECT_EQ(normal_size(max(n - n / 2, idx(0))), normal_size(n - n / 2));
}
TEST_F(Sizes, BoundsSeeMultiplesAndFewValues) {
  EXPECT_EQ(size_bounds(h - h / 32), (Bounds{31, 310}));
  EXPECT_EQ(size_bounds(n - (n + 1) / 2), (Bounds{0, 4}));
  EXPECT_EQ(size_bounds(n * n - n), (Bounds{0, 56}));
  EXPECT_TRUE(always_le((n + 1) / 2, n));
  EXPECT_FALSE(always_lt((n + 1) / 2, n));
}
TEST_F(Sizes, QuotientsLeaveNothingOver) {
  EXPECT_EQ(*whole_quotient(n * 12, n * 4), idx(3));
  EXPECT_EQ(*whole_quotient(h * 64, h / 8), idx(512));
  EXPECT_EQ(*whole_quotient(n * h * 3, n), normal_size(h * 3));
  EXPECT_FALSE(whole_quotient(n * 3, idx(2)));
  EXPECT_FALSE(whole_quotient(n + 1, n));
}

TEST(FreeSizes, AShapeNamesThemItself) {
  Model m;
  m.input("x", Kind::F32, {"?", "3"}).output("y");
  m.node("Relu", {"x"}, {"y"});
  Graph g = m.load(with({{"N", 1, 4, 1}}, {{"x", {0, 3}, {"N", ""}}}));
  Arena::Scope s(*g.arena);
  EXPECT_EQ(shape_text(g.outputs[0].dims), "(N, 3)");
}
TEST(FreeSizes, ANameWithoutBoundsIsAnError) {
  Model m;
  m.input("x", Kind::F32, {"?", "3"}).output("y");
  m.node("Relu", {"x"}, {"y"});
  EXPECT_EQ(m.error(with({}, {{"x", {0, 3}, {"N", ""}}})), "--shape x: dimension 0 is called N, which no --var gives bounds for");
}
TEST(FreeSizes, BroadcastNeedsOneSize) {
  Model m;
  m.input("x", Kind::F32, {"N", "3"}).input("z", Kind::F32, {"M", "3"}).output("y");
  m.node("Add", {"x", "z"}, {"y"});
  EXPECT_EQ(m.error(with({{"N", 1, 4, 1}, {"M", 1, 4, 1}})),
            "MODEL: Add node \"Add_y\" (opset 20): shapes (N, 3) and (M, 3) do not broadcast: (N) and (M) are not the same for all sizes");
}
TEST(FreeSizes, AReshapeThatDoesNotDivideAsksForAMultiple) {
  Model m;
  m.input("x", Kind::F32, {"N", "3"}).output("y");
  m.weight("s", i64s({2}, {-1, 2}));
  m.node("Reshape", {"x", "s"}, {"y"});
  EXPECT_NE(m.error(with({{"N", 1, 4, 1}})).find("are not a multiple of 2 for all sizes; give the size a multiple, --var NAME=MIN..MAX:MULTIPLE"),
            std::string::npos);
}
TEST(FreeSizes, AWindowThatDoesNotFitAsksForALargerSmallestSize) {
  Model m;
  m.input("x", Kind::F32, {"1", "1", "L"}).input("w", Kind::F32, {"1", "1", "5"}).output("y");
  m.node("Conv", {"x", "w"}, {"y"});
  EXPECT_NE(m.error(with({{"L", 4, 9, 1}})).find("does not fit axis 2 of f32(1, 1, L) for all sizes; raise the smallest"), std::string::npos);
}

TEST(Measured, TheSizeIsNamedAndBounded) {
  Model m;
  m.input("x", Kind::F32, {"2", "3"}).output("y");
  m.node("NonZero", {"x"}, {"y"});
  Graph g = m.load();
  ASSERT_EQ(g.measured.size(), 1u);
  EXPECT_EQ(g.measured[0].name, "y.1.size");
  EXPECT_EQ(g.measured[0].max, 6);
  EXPECT_EQ(m.run({f32s({2, 3}, {0, 1, 0, 0, 2, 3})})[0], i64s({2, 3}, {0, 1, 1, 1, 1, 2}));
  EXPECT_EQ(m.run({f32s({2, 3}, {0, 0, 0, 0, 0, 0})})[0].dims, (Ints{2, 0}));
}
TEST(Measured, WithoutABoundItIsRefused) {
  Model m;
  m.input("n", Kind::I64, {}).output("y");
  m.weight("zero", i64s({}, {0})), m.weight("one", i64s({}, {1}));
  m.node("Range", {"zero", "n", "one"}, {"y"});
  EXPECT_NE(m.error().find("the size y.size depends on the model's inputs: it must be known at compile time (--fix INPUT=FILE makes one a "
                           "constant), or bounded: --var y.size=0..MAX"),
            std::string::npos)
      << m.error();
  ImportOptions o = with({{"y.size", 0, 4, 1}});
  EXPECT_EQ(m.run({i64s({}, {3})}, o)[0], i64s({3}, {0, 1, 2}));
}

}  // namespace
