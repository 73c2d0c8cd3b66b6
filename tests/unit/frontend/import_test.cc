#include "frontend/import.h"

#include "model_builder.h"

using namespace tg;
using namespace tg::test;

namespace {

Model relu_model() {
  Model m;
  m.input("x", Kind::F32, {"2"}).output("y");
  m.node("Relu", {"x"}, {"y"});
  return m;
}

TEST(Import, RunsATwoNodeGraph) {
  Model m;
  m.input("x", Kind::F32, {"3"}).output("y");
  m.weight("w", f32s({3}, {1, 2, 3}));
  m.node("Add", {"x", "w"}, {"s"});
  m.node("Relu", {"s"}, {"y"});
  auto out = m.run({f32s({3}, {-5, 1, std::nan("")})});
  EXPECT_EQ(out[0].number(0), 0);
  EXPECT_EQ(out[0].number(1), 3);
  EXPECT_TRUE(std::isnan(out[0].number(2)));  // NaN goes through Relu
}

TEST(Import, OutputsKeepTheirNamesDtypesAndShapes) {
  Graph g = relu_model().load();
  ASSERT_EQ(g.outputs.size(), 1u);
  EXPECT_EQ(g.outputs[0].name, "y");
  EXPECT_EQ(g.outputs[0].dtype, DType(Kind::F32));
  EXPECT_EQ(shape_text(g.outputs[0].dims), "(2)");
  EXPECT_EQ(g.inputs[0].name, "x");
}

// --- free dimensions ---------------------------------------------------------------------------------------------------------------------
TEST(FreeDims, BecomeOneWithANote) {
  Model m;
  m.input("x", Kind::F32, {"N", "3"}).output("y");
  m.node("Relu", {"x"}, {"y"});
  std::vector<std::string> notes;
  ImportOptions o;
  o.note = [&](const std::string& s) { notes.push_back(s); };
  EXPECT_EQ(shape_text(m.load(o).inputs[0].dims), "(1, 3)");
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0], "dimension N of input \"x\" was not given, it becomes 1; fix it with --shape x=...");
}
TEST(FreeDims, ShapeFixesThemEverywhere) {
  Model m;
  m.input("a", Kind::F32, {"N"}).input("x", Kind::F32, {"N", "3"}).output("y");
  m.node("Relu", {"x"}, {"y"});
  ImportOptions o;
  o.shapes = {{"x", {4, 3}}};
  Graph g = m.load(o);
  EXPECT_EQ(shape_text(g.inputs[0].dims), "(4)");
  EXPECT_EQ(shape_text(g.inputs[1].dims), "(4, 3)");
}
TEST(FreeDims, StarGivesEveryInputWithFreeDims) {
  Model m;
  m.input("a", Kind::F32, {"5"}).input("x", Kind::F32, {"N", ""}).output("y");
  m.node("Relu", {"x"}, {"y"});
  ImportOptions o;
  o.shapes = {{"*", {4, 6}}};
  Graph g = m.load(o);
  EXPECT_EQ(shape_text(g.inputs[0].dims), "(5)");
  EXPECT_EQ(shape_text(g.inputs[1].dims), "(4, 6)");
}
TEST(FreeDims, QuestionMarksAreNoName) {
  Model m;
  m.input("x", Kind::F32, {"?", "?"}).output("y");
  m.node("Relu", {"x"}, {"y"});
  ImportOptions o;
  o.shapes = {{"*", {4, 6}}};
  EXPECT_EQ(shape_text(m.load(o).inputs[0].dims), "(4, 6)");
}
TEST(FreeDims, OneNameIsOneSize) {
  Model m;
  m.input("x", Kind::F32, {"N", "N"}).output("y");
  m.node("Relu", {"x"}, {"y"});
  ImportOptions o;
  o.shapes = {{"*", {4, 6}}};
  EXPECT_EQ(m.error(o), "--shape x: dimension N is 6 here and 4 elsewhere");
}
TEST(FreeDims, AShapeThatContradictsTheModelIsAnError) {
  ImportOptions o;
  o.shapes = {{"x", {3}}};
  EXPECT_EQ(relu_model().error(o), "--shape x: dimension 0 is 2 in the model, not 3");
  o.shapes = {{"x", {2, 2}}};
  EXPECT_EQ(relu_model().error(o), "--shape x: 2 dimensions for an input with 1");
  o.shapes = {{"z", {2}}};
  EXPECT_EQ(relu_model().error(o), "--shape z: the model has no such input; it has x");
}
TEST(FreeDims, AVarStaysFree) {
  Model m;
  m.input("x", Kind::F32, {"N", "3"}).output("y");
  m.node("Relu", {"x"}, {"y"});
  ImportOptions o;
  o.vars = {{"N", 1, 8, 1}};
  Graph g = m.load(o);
  EXPECT_EQ(shape_text(g.outputs[0].dims), "(N, 3)");
}
TEST(FreeDims, AVarNobodyHasIsAnError) {
  ImportOptions o;
  o.vars = {{"N", 1, 8, 1}};
  EXPECT_EQ(relu_model().error(o), "--var N: no input has a free dimension of that name");
}

// --- what cannot be imported
// -----------------------------------------------------------------------------------------------------------------
TEST(Refuse, AllUnsupportedNodesAreListedAtOnce) {
  Model m;
  m.input("x", Kind::F32, {"2"}).output("y");
  m.node("Frobnicate", {"x"}, {"a"});
  m.node("Relu", {"a"}, {"b"});
  m.node("StringConcat", {"x"}, {"c"});
  m.node("Add", {"b", "c"}, {"y"});
  EXPECT_EQ(m.error(),
            "MODEL: 2 nodes cannot be imported:\n"
            "  Frobnicate node \"Frobnicate_a\" (opset 20): the op is not supported\n"
            "  StringConcat node \"StringConcat_c\" (opset 20): strings are not supported");
}
TEST(Refuse, AnOpNewerThanTheOpset) {
  Model m(12);
  m.input("x", Kind::F32, {"2"}).output("y");
  m.node("Mish", {"x"}, {"y"});
  EXPECT_EQ(m.error(), "MODEL: Mish node \"Mish_y\" (opset 12): the op is supported from opset 18");
}
TEST(Refuse, AnOldOpset) {
  Model m(3);
  m.input("x", Kind::F32, {"2"}).output("y");
  m.node("Tile", {"x"}, {"y"});
  EXPECT_EQ(m.error(), "MODEL: Tile node \"Tile_y\" (opset 3): the op is supported from opset 6");
}
TEST(Refuse, AnOpsetThatDoesNotExist) {
  Model m(99);
  m.input("x", Kind::F32, {"2"}).output("y");
  m.node("Relu", {"x"}, {"y"});
  EXPECT_EQ(m.error(), "MODEL: opset 99 is not supported; 1 to 27 are. Convert the model with onnx.version_converter");
}
TEST(Refuse, AShapeThatDependsOnAnInputNamesTheInput) {
  Model m;
  m.input("x", Kind::F32, {"2"}).input("s", Kind::I64, {"2"}).output("y");
  m.node("Reshape", {"x", "s"}, {"y"});
  EXPECT_NE(m.error().find("Reshape node \"Reshape_y\" (opset 20): input 1 \"s\" must be known at compile time"), std::string::npos)
      << m.error();
}
TEST(Refuse, ShapesThatDoNotBroadcast) {
  Model m;
  m.input("x", Kind::F32, {"2"}).input("z", Kind::F32, {"3"}).output("y");
  m.node("Add", {"x", "z"}, {"y"});
  EXPECT_EQ(m.error(), "MODEL: Add node \"Add_y\" (opset 20): shapes (2) and (3) do not broadcast");
}
TEST(Refuse, ANonTensorInput) {
  Model m = relu_model();
  m.proto.mutable_graph()->mutable_input(0)->mutable_type()->mutable_sequence_type();
  EXPECT_EQ(m.error(), "MODEL: input \"x\" is a sequence; only tensors are supported");
}
TEST(Refuse, StringsByName) {
  Model m = relu_model();
  m.proto.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(8);
  EXPECT_EQ(m.error(), "MODEL: input \"x\" holds strings, which are not supported");
}

// --- names
// -----------------------------------------------------------------------------------------------------------------------------------
TEST(Names, AnInputThatNothingMakes) {
  Model m;
  m.input("x", Kind::F32, {"2"}).output("y");
  m.node("Add", {"x", "gone"}, {"y"});
  EXPECT_EQ(m.error(), "MODEL: Add node \"Add_y\" (opset 20) reads \"gone\", which nothing makes");
}
TEST(Names, ACycle) {
  Model m;
  m.input("x", Kind::F32, {"2"}).output("y");
  m.node("Add", {"x", "y"}, {"a"});
  m.node("Relu", {"a"}, {"y"});
  EXPECT_EQ(m.error(),
            "MODEL: Add node \"Add_a\" (opset 20) reads \"y\", which only a later node makes; nodes must be in topological order, without "
            "cycles");
}
TEST(Names, DuplicatesAreRefused) {
  Model m;
  m.input("x", Kind::F32, {"2"}).output("y");
  m.node("Relu", {"x"}, {"y"});
  m.node("Neg", {"x"}, {"y"});
  EXPECT_EQ(m.error(), "MODEL: Neg node \"Neg_y\" (opset 20) defines \"y\", a name that is already in use");
}
TEST(Names, AnOutputThatNothingMakes) {
  Model m = relu_model();
  m.output("z");
  EXPECT_EQ(m.error(), "MODEL: output \"z\" is made by no node");
}

// --- constants
// -----------------------------------------------------------------------------------------------------------------------------------
TEST(Constants, ShapeArithmeticFolds) {
  Model m;
  m.input("x", Kind::F32, {"2", "6"}).output("y");
  m.weight("half", i64s({1}, {2}));
  m.node("Shape", {"x"}, {"s"});
  m.node("Div", {"s", "half"}, {"h"});  // (1, 3)
  m.node("Concat", {"half", "half", "h"}, {"t"});
  attr(*m.proto.mutable_graph()->mutable_node(2), "axis", 0);
  m.node("Reshape", {"x", "t"}, {"y"});  // (2, 2, 1, 3)
  Graph g = m.load();
  EXPECT_EQ(shape_text(g.outputs[0].dims), "(2, 2, 1, 3)");
  EXPECT_TRUE(g.constants.empty());  // nothing of the arithmetic is left
}
TEST(Constants, LargeWeightsBorrowFromTheFile) {
  Model m;
  m.input("x", Kind::F32, {"100"}).output("y");
  std::vector<f64> v;
  for (int i = 0; i < 100; i++) v.push_back(i);
  m.weight("w", f32s({100}, v));
  m.node("Mul", {"x", "w"}, {"y"});
  Graph g = m.load();
  ASSERT_EQ(g.constants.size(), 1u);
  EXPECT_EQ(g.constants[0].name, "w");
  EXPECT_EQ(decode(Kind::F32, {100}, g.constants[0].bytes), f32s({100}, v));
}
TEST(Constants, DataMayBeInTypedFields) {
  Model m;
  m.input("x", Kind::F32, {"2"}).output("y").output("z");
  auto& w = m.weight("w", f32s({2}, {0, 0}));
  w.clear_raw_data();
  w.add_float_data(1.5f), w.add_float_data(-2);
  auto& h = m.weight("h", values(Kind::F16, {2}, std::vector<f64>{0, 0}));
  h.clear_raw_data();
  h.add_int32_data(0x3C00), h.add_int32_data(0xC000);  // 1 and -2
  m.node("Add", {"x", "w"}, {"y"});
  m.node("Identity", {"h"}, {"z"});
  auto out = m.run({f32s({2}, {1, 1})});
  EXPECT_EQ(out[0], f32s({2}, {2.5, -1}));
  EXPECT_EQ(out[1].number(0), 1);
  EXPECT_EQ(out[1].number(1), -2);
}
TEST(Constants, TooFewBytesNameTheTensor) {
  Model m;
  m.input("x", Kind::F32, {"2"}).output("y");
  m.weight("w", f32s({2}, {1, 2})).set_raw_data("abcd");
  m.node("Add", {"x", "w"}, {"y"});
  EXPECT_EQ(m.error(), "MODEL: initializer \"w\" has 4 bytes of data, 8 are needed for 2 elements of f32");
}

// --- external data
// ---------------------------------------------------------------------------------------------------------------------------------
struct External : ::testing::Test {
  Model m;
  void refer(const std::string& location, const std::string& offset = "") {
    m.input("x", Kind::F32, {"2"}).output("y");
    auto& w = m.weight("w", f32s({2}, {0, 0}));
    w.clear_raw_data();
    w.set_data_location(1);
    auto* e = w.add_external_data();
    e->set_key("location"), e->set_value(location);
    if (!offset.empty()) e = w.add_external_data(), e->set_key("offset"), e->set_value(offset);
    m.node("Add", {"x", "w"}, {"y"});
  }
  void write(const std::string& path) {
    f32 v[3] = {9, 10, 20};
    std::ofstream(path, std::ios::binary).write(reinterpret_cast<char*>(v), sizeof v);
  }
};
TEST_F(External, IsReadAtItsOffset) {
  refer("w.bin", "4");
  write(m.folder.file("w.bin"));
  EXPECT_EQ(m.run({f32s({2}, {1, 1})})[0], f32s({2}, {11, 21}));
}
TEST_F(External, OutsideTheFolderIsRefused) {
  TempFolder other;
  write(other.file("w.bin"));
  refer("../" + other.path.filename().string() + "/w.bin");
  EXPECT_NE(m.error().find("lies outside the model's folder"), std::string::npos) << m.error();
}
TEST_F(External, ALinkOutOfTheFolderIsRefused) {
  TempFolder other;
  write(other.file("w.bin"));
  std::filesystem::create_symlink(other.file("w.bin"), m.folder.file("w.bin"));
  refer("w.bin");
  EXPECT_NE(m.error().find("lies outside the model's folder"), std::string::npos) << m.error();
}
TEST_F(External, AnAbsolutePathIsRefused) {
  refer("/etc/passwd");
  EXPECT_NE(m.error().find("is an absolute path"), std::string::npos) << m.error();
}
TEST_F(External, ATooShortFileIsAnError) {
  refer("w.bin", "8");
  write(m.folder.file("w.bin"));
  EXPECT_NE(m.error().find("has 12 bytes, 8 from byte 8 on are needed"), std::string::npos) << m.error();
}

// --- subgraphs and functions
// --------------------------------------------------------------------------------------------------------------------
tgonnx::GraphProto* branch(tgonnx::NodeProto& n, const std::string& name) {
  auto* a = n.add_attribute();
  a->set_name(name), a->set_type(5);
  return a->mutable_g();
}
TEST(If, AConstantConditionChoosesItsBranch) {
  Model m;
  m.input("x", Kind::F32, {"2"}).output("y");
  m.weight("c", int_values(Kind::Bool, {}, std::vector<i64>{0}));
  auto& n = m.node("If", {"c"}, {"y"});
  auto* yes = branch(n, "then_branch");
  Model::fill(yes->add_node(), "Frobnicate", {"x"}, {"t"});  // not looked at
  yes->add_output()->set_name("t");
  auto* no = branch(n, "else_branch");
  Model::fill(no->add_node(), "Neg", {"x"}, {"e"});
  no->add_output()->set_name("e");
  EXPECT_EQ(m.run({f32s({2}, {1, 2})})[0], f32s({2}, {-1, -2}));
}
TEST(If, ShadowedNamesAreRefused) {
  Model m;
  m.input("x", Kind::F32, {"2"}).output("y");
  m.weight("c", int_values(Kind::Bool, {}, std::vector<i64>{1}));
  auto& n = m.node("If", {"c"}, {"y"});
  auto* yes = branch(n, "then_branch");
  Model::fill(yes->add_node(), "Neg", {"x"}, {"x"});
  yes->add_output()->set_name("x");
  EXPECT_NE(m.error().find("defines \"x\", a name that is already in use"), std::string::npos) << m.error();
}
// y = c ? -x : no(inputs), for x of 2 elements.
void negated_or(Model& m, const std::string& no, const std::vector<std::string>& inputs) {
  m.input("c", Kind::Bool, {}).input("x", Kind::F32, {"2"}).output("y");
  auto& n = m.node("If", {"c"}, {"y"});
  for (bool yes : {true, false}) {
    auto* side = branch(n, yes ? "then_branch" : "else_branch");
    Model::fill(side->add_node(), yes ? "Neg" : no, yes ? std::vector<std::string>{"x"} : inputs, {"t"});
    side->add_output()->set_name("t");
  }
}
TEST(If, ARunTimeConditionChoosesBetweenBothBranches) {
  Model m;
  negated_or(m, "Abs", {"x"});
  EXPECT_EQ(m.run({int_values(Kind::Bool, {}, std::vector<i64>{1}), f32s({2}, {1, -2})})[0], f32s({2}, {-1, 2}));
  EXPECT_EQ(m.run({int_values(Kind::Bool, {}, std::vector<i64>{0}), f32s({2}, {1, -2})})[0], f32s({2}, {1, 2}));
}
TEST(If, BranchesOfDifferentShapesAreRefused) {
  Model m;
  m.weight("zero", i64s({1}, {0}));
  negated_or(m, "Unsqueeze", {"x", "zero"});
  EXPECT_EQ(m.error(),
            "MODEL: If node \"If_y\" (opset 20): output 0 is (2) in one branch and (1, 2) in the other; with a condition known only "
            "at run time both need one shape: fix the condition with --fix, or make the shapes equal");
}
TEST(If, ABranchThatCannotBeIsDemandedNotToBeTaken) {
  Model m;
  negated_or(m, "MatMul", {"x", "missing"});
  m.weight("missing", f32s({3}, {1, 2, 3}));
  Graph g = m.load();
  ASSERT_EQ(g.measured.size(), 1u);
  EXPECT_EQ(g.measured[0].min, 1);
  EXPECT_EQ(g.measured[0].max, 1);
  EXPECT_NE(g.measured[0].name.find("only its then_branch can be computed"), std::string::npos) << g.measured[0].name;
  EXPECT_EQ(m.run({int_values(Kind::Bool, {}, std::vector<i64>{1}), f32s({2}, {1, -2})})[0], f32s({2}, {-1, 2}));
}
TEST(Loop, AConditionOfTheRoundAloneIsANumberOfRounds) {
  Model m;
  m.input("x", Kind::F32, {"2"}).output("y").output("all");
  m.weight("most", int_values(Kind::I64, {}, std::vector<i64>{100}));
  m.weight("three", int_values(Kind::I64, {}, std::vector<i64>{3}));
  auto& n = m.node("Loop", {"most", "", "x"}, {"y", "all"});
  auto* body = branch(n, "body");
  for (const char* name : {"i", "c", "p"}) body->add_input()->set_name(name);
  Model::fill(body->add_node(), "Add", {"p", "p"}, {"q"});
  Model::fill(body->add_node(), "Less", {"i", "three"}, {"go"});
  for (const char* name : {"go", "q", "p"}) body->add_output()->set_name(name);
  Graph g = m.load();
  Arena::Scope scope(*g.arena);
  EXPECT_EQ(shape_text(g.outputs[1].dims), "(4, 2)");
  EXPECT_EQ(m.run({f32s({2}, {1, 2})})[0], f32s({2}, {16, 32}));
}
TEST(Nesting, BeyondSixtyFourIsRefused) {
  auto nested = [](int depth) {
    Model m;
    m.input("x", Kind::F32, {"2"}).output("y");
    m.weight("c", int_values(Kind::Bool, {}, std::vector<i64>{1}));
    auto* g = m.proto.mutable_graph();
    std::string result = "y";
    for (int i = 0; i < depth; i++) {
      auto& n = Model::fill(g->add_node(), "If", {"c"}, {result});
      g = branch(n, "then_branch");
      result = "y" + std::to_string(i);
      g->add_output()->set_name(result);
    }
    Model::fill(g->add_node(), "Neg", {"x"}, {result});
    return m.error();
  };
  EXPECT_EQ(nested(60), "no error");
  EXPECT_NE(nested(70).find("nested more than 64 deep"), std::string::npos) << nested(70);
}

TEST(Functions, AreInlinedWithTheirAttributes) {
  Model m;
  m.import("mine", 1);
  m.input("x", Kind::F32, {"2"}).output("y").output("z");
  auto* f = m.proto.add_functions();
  f->set_name("Leaky"), f->set_domain("mine");
  f->add_input("a"), f->add_output("b"), f->add_attribute("slope");
  auto* o = f->add_opset_import();
  o->set_version(20);
  auto& n = Model::fill(f->add_node(), "LeakyRelu", {"a"}, {"b"});
  auto* a = n.add_attribute();
  a->set_name("alpha"), a->set_ref_attr_name("slope"), a->set_type(1);
  auto& call = m.node("Leaky", {"x"}, {"y"});
  call.set_domain("mine");
  auto* s = call.add_attribute();
  s->set_name("slope"), s->set_type(1), s->set_f(0.5f);
  m.node("Leaky", {"x"}, {"z"}).set_domain("mine");  // no slope: LeakyRelu's own default
  auto out = m.run({f32s({2}, {-2, 4})});
  EXPECT_EQ(out[0], f32s({2}, {-1, 4}));
  EXPECT_EQ(out[1], f32s({2}, {-0.02, 4}));
}
TEST(Functions, ThatCallThemselvesAreRefused) {
  Model m;
  m.import("mine", 1);
  m.input("x", Kind::F32, {"2"}).output("y");
  auto* f = m.proto.add_functions();
  f->set_name("Again"), f->set_domain("mine");
  f->add_input("a"), f->add_output("b");
  auto* o = f->add_opset_import();
  o->set_domain("mine"), o->set_version(1);
  Model::fill(f->add_node(), "Again", {"a"}, {"b"}).set_domain("mine");
  m.node("Again", {"x"}, {"y"}).set_domain("mine");
  EXPECT_NE(m.error().find("nested more than 64 deep"), std::string::npos) << m.error();
}

// --- damaged files
// --------------------------------------------------------------------------------------------------------------------------------
std::string error_of(const std::string& bytes) {
  TempFolder t;
  std::string path = t.file("m.onnx");
  std::ofstream(path, std::ios::binary) << bytes;
  try {
    import_onnx(path);
  } catch (const Error& e) { return std::string(e.what()).substr(path.size()); }
  return "no error";
}
TEST(Damaged, EmptyFile) { EXPECT_EQ(error_of(""), ": the file is empty"); }
TEST(Damaged, NotOnnx) { EXPECT_NE(error_of("#!/bin/sh\necho hello\n").find("not an ONNX file"), std::string::npos); }
TEST(Damaged, MissingFile) {
  try {
    import_onnx("/nonexistent/m.onnx");
    FAIL();
  } catch (const Error& e) { EXPECT_EQ(std::string(e.what()), "/nonexistent/m.onnx: cannot be read: No such file or directory"); }
}
TEST(Damaged, EveryTruncationIsAnError) {
  Model m = relu_model();
  m.proto.set_ir_version(9);  // older files need no opset
  std::string whole = m.proto.SerializeAsString();
  for (size_t n = 0; n < whole.size(); n++) EXPECT_NE(error_of(whole.substr(0, n)), "no error") << "at " << n << " of " << whole.size();
}
TEST(Damaged, FlippedBitsNeverCrash) {
  Model m;
  m.input("x", Kind::F32, {"2", "4"}).output("y");
  m.weight("w", f32s({4, 3}, std::vector<f64>(12, 0.5)));
  m.weight("s", i64s({2}, {3, 2}));
  m.node("MatMul", {"x", "w"}, {"a"});
  m.node("Reshape", {"a", "s"}, {"b"});
  auto& n = m.node("Transpose", {"b"}, {"y"});
  attr_ints(n, "perm", {1, 0});
  std::string whole = m.proto.SerializeAsString();
  for (size_t bit = 0; bit < whole.size() * 8; bit += 3) {
    std::string s = whole;
    s[bit / 8] = char(s[bit / 8] ^ 1 << bit % 8);
    error_of(s);
  }
}

}  // namespace
