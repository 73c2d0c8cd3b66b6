// Inputs known only at run time that decide nothing but the shape of a result, where the model declares that shape.
#include "model_builder.h"

using namespace tg;
using namespace tg::test;

namespace {

struct Declared : ::testing::Test {
  Model m;
  std::vector<std::string> notes;
  void result(const std::vector<i64>& dims) {
    auto* t = m.proto.mutable_graph()->mutable_output(0)->mutable_type()->mutable_tensor_type();
    t->set_elem_type(1);
    for (i64 d : dims) t->mutable_shape()->add_dim()->set_dim_value(d);
  }
  Values run(std::vector<Values> in) {
    ImportOptions o;
    o.note = [&](const std::string& s) { notes.push_back(s); };
    return m.run(in, o)[0];
  }
};

TEST_F(Declared, ReshapeTakesTheShapeAndSaysSo) {
  m.input("x", Kind::F32, {"4"}).input("s", Kind::I64, {"2"}).output("y");
  m.node("Reshape", {"x", "s"}, {"y"});
  result({2, 2});
  EXPECT_EQ(run({f32s({4}, {1, 2, 3, 4}), i64s({2}, {2, 2})}), f32s({2, 2}, {1, 2, 3, 4}));
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0],
            "Reshape node \"Reshape_y\" (opset 20): input 1 \"s\" is known only at run time; the result is taken to have its declared "
            "shape (2, 2)");
}
TEST_F(Declared, AShapeThatCannotBeIsAnError) {
  m.input("x", Kind::F32, {"4"}).input("s", Kind::I64, {"2"}).output("y");
  m.node("Reshape", {"x", "s"}, {"y"});
  result({3, 2});
  EXPECT_EQ(m.error(), "MODEL: Reshape node \"Reshape_y\" (opset 20): cannot reshape f32(4) to (3, 2)");
}
TEST_F(Declared, SliceReadsItsStartAtRunTime) {
  m.input("x", Kind::F32, {"5"}).input("b", Kind::I64, {"1"}).input("e", Kind::I64, {"1"}).output("y");
  m.node("Slice", {"x", "b", "e"}, {"y"});
  result({2});
  EXPECT_EQ(run({f32s({5}, {0, 1, 2, 3, 4}), i64s({1}, {-2}), i64s({1}, {5})}), f32s({2}, {3, 4}));
}
TEST_F(Declared, ReduceFindsItsAxes) {
  m.input("x", Kind::F32, {"2", "3"}).input("a", Kind::I64, {"1"}).output("y");
  m.node("ReduceSum", {"x", "a"}, {"y"});
  result({2, 1});
  EXPECT_EQ(run({f32s({2, 3}, {1, 2, 3, 4, 5, 6}), i64s({1}, {1})}), f32s({2, 1}, {6, 15}));
}
TEST_F(Declared, AmbiguousAxesAreRefused) {
  m.input("x", Kind::F32, {"3", "3"}).input("a", Kind::I64, {"1"}).output("y");
  attr(m.node("ReduceSum", {"x", "a"}, {"y"}), "keepdims", 0);
  result({3});
  EXPECT_NE(m.error().find("several lead from (3, 3) to the declared shape (3)"), std::string::npos) << m.error();
}
TEST_F(Declared, WithoutADeclarationItIsRefused) {
  m.input("x", Kind::F32, {"4"}).input("s", Kind::I64, {"2"}).output("y");
  m.node("Reshape", {"x", "s"}, {"y"});
  EXPECT_NE(m.error().find("must be known at compile time"), std::string::npos) << m.error();
}

}  // namespace
