// Sequences and optionals that import resolves; expected values by hand.
#include "model_builder.h"

using namespace tg;
using namespace tg::test;

namespace {

std::vector<f64> numbers(const Values& v) {
  std::vector<f64> r;
  for (i64 i = 0; i < v.elems(); i++) r.push_back(v.number(i));
  return r;
}

Model pair_model() {
  Model m;
  m.input("a", Kind::F32, {"2"}).input("b", Kind::F32, {"2"});
  m.node("SequenceConstruct", {"a", "b"}, {"s"});
  return m;
}
const std::vector<Values> kPair = {f32s({2}, {1, 2}), f32s({2}, {3, 4})};

TEST(Sequence, InsertEraseAtAndLength) {
  Model m = pair_model();
  m.weight("first", i64s({}, {0}));
  m.weight("last", i64s({}, {-1}));
  m.node("SequenceInsert", {"s", "b", "first"}, {"bab"});
  m.node("SequenceErase", {"bab", "last"}, {"ba"});
  m.node("SequenceAt", {"ba", "last"}, {"y"});
  m.node("SequenceLength", {"bab"}, {"n"});
  m.output("y").output("n");
  auto out = m.run(kPair);
  EXPECT_EQ(numbers(out[0]), (std::vector<f64>{1, 2}));
  EXPECT_EQ(numbers(out[1]), (std::vector<f64>{3}));
}
TEST(Sequence, ConcatAlongANewAxis) {
  Model m = pair_model();
  auto& n = m.node("ConcatFromSequence", {"s"}, {"y"});
  attr(n, "axis", -1), attr(n, "new_axis", 1);
  m.output("y");
  auto out = m.run(kPair);
  EXPECT_EQ(out[0].dims, (std::vector<i64>{2, 2}));
  EXPECT_EQ(numbers(out[0]), (std::vector<f64>{1, 3, 2, 4}));
}
TEST(Sequence, APositionOfRunTimeChoosesAmongEqualShapes) {
  Model m = pair_model();
  m.input("i", Kind::I64, {}).output("y");
  m.node("SequenceAt", {"s", "i"}, {"y"});
  EXPECT_EQ(numbers(m.run({kPair[0], kPair[1], i64s({}, {1})})[0]), (std::vector<f64>{3, 4}));
  EXPECT_EQ(numbers(m.run({kPair[0], kPair[1], i64s({}, {-2})})[0]), (std::vector<f64>{1, 2}));
}
TEST(Sequence, SplitIntoPartsOfTwo) {  // the last one is smaller
  Model m;
  m.input("x", Kind::F32, {"5"});
  m.weight("two", i64s({}, {2}));
  m.weight("at", i64s({}, {2}));
  m.node("SplitToSequence", {"x", "two"}, {"s"});
  m.node("SequenceAt", {"s", "at"}, {"y"});
  m.node("SequenceLength", {"s"}, {"n"});
  m.output("y").output("n");
  auto out = m.run({f32s({5}, {1, 2, 3, 4, 5})});
  EXPECT_EQ(numbers(out[0]), (std::vector<f64>{5}));
  EXPECT_EQ(numbers(out[1]), (std::vector<f64>{3}));
}
TEST(Sequence, MapRunsItsBodyForEachElement) {  // with a tensor that all share, and an outer name
  Model m = pair_model();
  m.weight("ten", f32s({}, {10}));
  auto& n = m.node("SequenceMap", {"s", "b"}, {"t"});
  auto* g = n.add_attribute();
  g->set_name("body"), g->set_type(5);
  g->mutable_g()->add_input()->set_name("e");
  g->mutable_g()->add_input()->set_name("shared");
  g->mutable_g()->add_output()->set_name("r");
  Model::fill(g->mutable_g()->add_node(), "Mul", {"e", "ten"}, {"scaled"});
  Model::fill(g->mutable_g()->add_node(), "Add", {"scaled", "shared"}, {"r"});
  attr(m.node("ConcatFromSequence", {"t"}, {"y"}), "axis", 0);
  m.output("y");
  EXPECT_EQ(numbers(m.run(kPair)[0]), (std::vector<f64>{13, 24, 33, 44}));
}
TEST(Sequence, GoesThroughIdentityAndAnIfWithAConstantCondition) {
  Model m = pair_model();
  m.weight("yes", values(Kind::Bool, {}, std::vector<f64>{1}));
  auto& n = m.node("If", {"yes"}, {"t"});
  for (const char* branch : {"then_branch", "else_branch"}) {
    auto* g = n.add_attribute();
    g->set_name(branch), g->set_type(5);
    g->mutable_g()->add_output()->set_name(std::string(branch) + "_t");
    Model::fill(g->mutable_g()->add_node(), "Identity", {"s"}, {std::string(branch) + "_t"});
  }
  attr(m.node("ConcatFromSequence", {"t"}, {"y"}), "axis", 0);
  m.output("y");
  EXPECT_EQ(numbers(m.run(kPair)[0]), (std::vector<f64>{1, 2, 3, 4}));
}
TEST(Sequence, WhatCannotBeResolvedIsNamed) {
  Model out_of_range = pair_model();
  out_of_range.weight("i", i64s({}, {2}));
  out_of_range.node("SequenceAt", {"s", "i"}, {"y"});
  out_of_range.output("y");
  EXPECT_EQ(out_of_range.error(), "MODEL: SequenceAt node \"SequenceAt_y\" (opset 20): position 2 of a sequence of 2");

  Model as_output = pair_model();
  as_output.output("s");
  EXPECT_EQ(as_output.error(), "MODEL: output \"s\" is a sequence; only tensors are supported");

  Model as_tensor = pair_model();
  as_tensor.node("Relu", {"s"}, {"y"});
  as_tensor.output("y");
  EXPECT_EQ(as_tensor.error(), "MODEL: Relu node \"Relu_y\" (opset 20): input 0 is a sequence where a tensor is expected");

  Model as_sequence = pair_model();
  as_sequence.node("SequenceLength", {"a"}, {"y"});
  as_sequence.output("y");
  EXPECT_EQ(as_sequence.error(), "MODEL: SequenceLength node \"SequenceLength_y\" (opset 20): input 0 must be a sequence");
}

TEST(Optional, IsItsValueOrNone) {
  Model m = pair_model();
  m.node("Optional", {"a"}, {"some"});
  m.node("Optional", {}, {"none"});
  m.node("OptionalHasElement", {"some"}, {"has"});
  m.node("OptionalHasElement", {"none"}, {"has_not"});
  m.node("OptionalGetElement", {"some"}, {"y"});
  m.output("y").output("has").output("has_not");
  auto out = m.run(kPair);
  EXPECT_EQ(numbers(out[0]), (std::vector<f64>{1, 2}));
  EXPECT_EQ(out[1].number(0), 1);
  EXPECT_EQ(out[2].number(0), 0);
}
TEST(Optional, WithoutAValueHasNoElement) {
  Model m = pair_model();
  m.node("Optional", {}, {"none"});
  m.node("OptionalGetElement", {"none"}, {"y"});
  m.output("y");
  EXPECT_EQ(m.error(), "MODEL: OptionalGetElement node \"OptionalGetElement_y\" (opset 20): the optional has no value");
}

}  // namespace
