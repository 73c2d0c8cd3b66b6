// What ONNX's cases do not show of the operators: random numbers, the shape of the graphs that are built, and what is refused.
#include <map>

#include "frontend/pool.h"
#include "frontend/random.h"
#include "model_builder.h"

using namespace tg;
using namespace tg::test;

namespace {

std::map<Op, int> ops_of(const Graph& g) {
  Arena::Scope scope(*g.arena);
  std::map<Op, int> n;
  for (UOp u : toposort(g.sink)) n[u.op()]++;
  return n;
}
tgonnx::AttributeProto& attr_f(tgonnx::NodeProto& n, const std::string& name, f32 v) {
  auto* a = n.add_attribute();
  a->set_name(name), a->set_type(1), a->set_f(v);
  return *a;
}

// --- random
// ------------------------------------------------------------------------------------------------------------------------------- Known
// answers of Random123 1.09 (kat_vectors): threefry2x32, 20 rounds.
TEST(Threefry, KnownAnswers) {
  struct {
    u32 counter[2], key[2], out[2];
  } rows[] = {
      {{0, 0}, {0, 0}, {0x6b200159, 0x99ba4efe}},
      {{0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}, {0x1cb996fc, 0xbb002be7}},
      {{0x243f6a88, 0x85a308d3}, {0x13198a2e, 0x03707344}, {0xc4923a9c, 0x483df7a0}},
  };
  for (auto& r : rows) {
    Arena arena;
    Arena::Scope scope(arena);
    // Parameters, so that nothing folds while the graph is built.
    Tensor x = tensor::param(0, Kind::U32, dims({1})), y = tensor::param(1, Kind::U32, dims({1}));
    RandomBits b = threefry(x, y, u64(r.key[1]) << 32 | r.key[0]);
    EvalEnv env;
    for (u32 c : r.counter) env.params.push_back(int_values(Kind::U32, {1}, std::vector<i64>{i64(c)}));
    EXPECT_EQ(eval(b.a.uop(), env).v[0], r.out[0]);
    EXPECT_EQ(eval(b.b.uop(), env).v[0], r.out[1]);
  }
}

Values random(const std::string& op, const std::vector<std::pair<std::string, f32>>& attrs, const std::string& node_name = "") {
  Model m;
  m.output("y");
  auto& n = m.node(op, {}, {"y"});
  attr_ints(n, "shape", {100, 100});
  for (auto& [k, v] : attrs) attr_f(n, k, v);
  if (!node_name.empty()) n.set_name(node_name);
  return m.run({})[0];
}
std::pair<f64, f64> moments(const Values& v) {
  f64 mean = 0, var = 0;
  for (i64 i = 0; i < v.elems(); i++) mean += v.number(i) / f64(v.elems());
  for (i64 i = 0; i < v.elems(); i++) var += (v.number(i) - mean) * (v.number(i) - mean) / f64(v.elems());
  return {mean, var};
}

// Of 10,000 numbers the mean errs by 0.0029 (one sigma) for a width of 1; the bounds are five sigma.
TEST(Random, UniformFillsItsRange) {
  Values v = random("RandomUniform", {{"low", -2}, {"high", 6}, {"seed", 3}});
  auto [mean, var] = moments(v);
  EXPECT_NEAR(mean, 2, 5 * 8 * 0.0029);
  EXPECT_NEAR(var, 64.0 / 12, 5 * 0.05);
  for (i64 i = 0; i < v.elems(); i++) {
    EXPECT_GE(v.number(i), -2);
    EXPECT_LT(v.number(i), 6);
  }
}
TEST(Random, NormalHasItsMeanAndScale) {
  auto [mean, var] = moments(random("RandomNormal", {{"mean", 1}, {"scale", 3}, {"seed", 3}}));
  EXPECT_NEAR(mean, 1, 5 * 0.03);
  EXPECT_NEAR(var, 9, 5 * 9 * 0.0142);
}
TEST(Random, OneSeedGivesOneSequence) {
  EXPECT_EQ(random("RandomUniform", {{"seed", 3}}), random("RandomUniform", {{"seed", 3}}, "another name"));
  EXPECT_NE(random("RandomUniform", {{"seed", 3}}), random("RandomUniform", {{"seed", 4}}));
}
TEST(Random, NodesWithoutASeedDiffer) { EXPECT_NE(random("RandomUniform", {}, "a"), random("RandomUniform", {}, "b")); }

TEST(Random, BernoulliDrawsWithItsProbability) {
  Model m;
  m.input("p", Kind::F32, {"10000"}).output("y");
  m.node("Bernoulli", {"p"}, {"y"});
  f64 mean = moments(m.run({f32s({10000}, std::vector<f64>(10000, 0.3))})[0]).first;
  EXPECT_NEAR(mean, 0.3, 5 * 0.0046);
}
TEST(Random, MultinomialDrawsInProportion) {
  Model m;
  m.input("x", Kind::F32, {"1", "3"}).output("y");
  attr(m.node("Multinomial", {"x"}, {"y"}), "sample_size", 5000);
  Values v = m.run({f32s({1, 3}, {std::log(0.2), std::log(0.5), std::log(0.3)})})[0];
  EXPECT_EQ(v.dtype, DType(Kind::I32));
  f64 share[3] = {};
  for (i64 i = 0; i < v.elems(); i++) share[i64(v.number(i))] += 1 / 5000.0;
  EXPECT_NEAR(share[0], 0.2, 5 * 0.0057);
  EXPECT_NEAR(share[1], 0.5, 5 * 0.0071);
}

// --- graphs
// -------------------------------------------------------------------------------------------------------------------------------
TEST(Resize, RepeatingElementsIsMovement) {
  Model m(13);
  m.input("x", Kind::F32, {"1", "2", "4", "5"}).output("y");
  m.weight("s", f32s({4}, {1, 1, 2, 3}));
  auto& n = m.node("Resize", {"x", "", "s"}, {"y"});
  attr_s(n, "coordinate_transformation_mode", "asymmetric");
  attr_s(n, "nearest_mode", "floor");
  auto ops = ops_of(m.load());
  EXPECT_EQ(ops[Op::Gather], 0);
  EXPECT_EQ(ops[Op::Mul], 0);
}

// 3 inputs of stride 2 give 7 outputs of 3 taps; no more products than inputs x taps, padded to 4 taps.
TEST(ConvTranspose, MultipliesNoInsertedZeros) {
  Model m;
  m.input("x", Kind::F32, {"1", "1", "3"}).output("y");
  m.weight("w", f32s({1, 1, 3}, {1, 10, 100}));
  attr_ints(m.node("ConvTranspose", {"x", "w"}, {"y"}), "strides", {2});
  Graph g = m.load();
  Arena::Scope scope(*g.arena);
  i64 products = 0;
  for (UOp u : toposort(g.sink))
    if (u.is(Op::Mul)) products = std::max(products, elems(shape(u)).as_int());
  EXPECT_EQ(products, 4 * 2 * 2);  // places q, phases, taps
  EXPECT_EQ(eval_graph(g, std::vector{f32s({1, 1, 3}, {1, 2, 3})})[0], f32s({1, 1, 7}, {1, 10, 102, 20, 203, 30, 300}));
}

TEST(BatchNormalization, OfConstantsIsOneScaleAndOneShift) {
  Model m(15);
  m.input("x", Kind::F32, {"1", "2", "3"}).output("y");
  m.weight("s", f32s({2}, {2, 3}));
  m.weight("b", f32s({2}, {1, -1}));
  m.weight("m", f32s({2}, {0.5, 4}));
  m.weight("v", f32s({2}, {4, 9}));
  attr_f(m.node("BatchNormalization", {"x", "s", "b", "m", "v"}, {"y"}), "epsilon", 0);
  Graph g = m.load();
  auto ops = ops_of(g);
  EXPECT_EQ(ops[Op::Mul], 1);
  EXPECT_EQ(ops[Op::Add], 1);
  EXPECT_EQ(ops[Op::Sqrt], 0);
  Arena::Scope scope(*g.arena);
  EXPECT_EQ(eval_graph(g, std::vector{f32s({1, 2, 3}, {0.5, 1.5, 2.5, 4, 5, 6})})[0], f32s({1, 2, 3}, {1, 2, 3, -1, 0, 1}));
}

// The packed weight is seen as u4: its bytes are neither copied nor unpacked by the graph.
TEST(MatMulNBits, BorrowsThePackedWeight) {
  Model m;
  m.import("com.microsoft", 1).input("a", Kind::F32, {"1", "16"}).output("y");
  std::vector<f64> bytes;
  for (int i = 0; i < 8; i++) bytes.push_back((2 * i) | (2 * i + 1) << 4);  // the numbers 0 .. 15, low half first
  m.weight("b", values(Kind::U8, {1, 1, 8}, bytes));
  m.weight("s", f32s({1, 1}, {0.5}));
  auto& n = m.node("MatMulNBits", {"a", "b", "s"}, {"y"});
  n.set_domain("com.microsoft");
  for (auto [k, v] : {std::pair("K", 16), {"N", 1}, {"bits", 4}, {"block_size", 16}}) attr(n, k, v);
  Graph g = m.load();
  bool packed = false;
  for (const ConstantData& c : g.constants) packed |= c.dtype == DType(Kind::U8) && c.bytes.size() == 8;
  EXPECT_TRUE(packed);
  Arena::Scope scope(*g.arena);
  std::vector<f64> a(16);
  a[0] = 1, a[15] = 10;
  EXPECT_EQ(eval_graph(g, std::vector{f32s({1, 16}, a)})[0], f32s({1, 1}, {0.5 * (0 - 8) + 10 * 0.5 * (15 - 8)}));
}

// --- numbers
// ------------------------------------------------------------------------------------------------------------------------------
TEST(QuantizeLinear, TiesGoToEvenAndEndsSaturate) {
  Model m;
  m.input("x", Kind::F32, {"6"}).output("y");
  m.weight("s", f32s({}, {2}));
  m.weight("z", values(Kind::I8, {}, std::vector<f64>{1}));
  m.node("QuantizeLinear", {"x", "s", "z"}, {"y"});
  // x/2 = 0.5 1.5 -0.5 1e9 -inf nan; NaN is the lower end, as in onnxruntime
  auto out = m.run({f32s({6}, {1, 3, -1, 2e9, -INFINITY, std::nan("")})})[0];
  EXPECT_EQ(out, values(Kind::I8, {6}, std::vector<f64>{1, 3, 1, 127, -128, -128}));
}
TEST(MaxPool, PassesNaN) {
  Model m;
  m.input("x", Kind::F32, {"1", "1", "4"}).output("y");
  auto& n = m.node("MaxPool", {"x"}, {"y"});
  attr_ints(n, "kernel_shape", {2});
  attr_ints(n, "strides", {2});
  auto out = m.run({f32s({1, 1, 4}, {std::nan(""), 5, 1, 2})})[0];
  EXPECT_TRUE(std::isnan(out.number(0)));
  EXPECT_EQ(out.number(1), 2);
}
TEST(Softmax, OfHalvesSumsInF32) {
  Model m;
  m.input("x", Kind::F16, {"4096"}).output("y");
  m.node("Softmax", {"x"}, {"y"});
  auto out = m.run({values(Kind::F16, {4096}, std::vector<f64>(4096, 1))})[0];
  EXPECT_EQ(out.number(17), 1.0 / 4096);  // in f16 the sum would stop at 2048
}

// --- dropout: in training elements are 0 or divided by what is kept; the share of zeros is the ratio
TEST(Dropout, InTraining) {
  Model m;
  m.input("x", Kind::F32, {"10000"}).input("r", Kind::F32, {}).input("t", Kind::Bool, {}).output("y").output("mask");
  m.node("Dropout", {"x", "r", "t"}, {"y", "mask"});
  auto out = m.run({f32s({10000}, std::vector<f64>(10000, 3)), f32s({}, {0.25}), values(Kind::Bool, {}, std::vector<f64>{1})});
  i64 kept = 0;
  for (i64 i = 0; i < 10000; i++) {
    bool keep = out[1].number(i) != 0;
    kept += keep;
    EXPECT_EQ(out[0].number(i), keep ? 4 : 0) << i;
  }
  EXPECT_NEAR(f64(kept), 7500, 5 * 43.3);  // 5 standard deviations
}
TEST(Dropout, OutOfTraining) {
  Model m;
  m.input("x", Kind::F32, {"2"}).input("t", Kind::Bool, {}).output("y").output("mask");
  m.weight("r", f32s({}, {0.5}));
  m.node("Dropout", {"x", "r", "t"}, {"y", "mask"});
  auto out = m.run({f32s({2}, {3, -4}), values(Kind::Bool, {}, std::vector<f64>{0})});
  EXPECT_EQ(out[0].number(0), 3);
  EXPECT_EQ(out[0].number(1), -4);
  EXPECT_EQ(out[1].number(0), 1);
}

// --- refusals
// -----------------------------------------------------------------------------------------------------------------------------
TEST(Refused, ResizeToASizeOfTheInputs) {
  Model m(13);
  m.input("x", Kind::F32, {"1", "1", "2", "2"}).input("s", Kind::F32, {"4"}).output("y");
  m.node("Resize", {"x", "", "s"}, {"y"});
  EXPECT_NE(m.error().find("input 2 \"s\" must be known at compile time"), std::string::npos) << m.error();
}
TEST(Refused, ConvWhoseWeightDoesNotFit) {
  Model m;
  m.input("x", Kind::F32, {"1", "96", "8", "8"}).input("w", Kind::F32, {"8", "64", "3", "3"}).output("y");
  attr(m.node("Conv", {"x", "w"}, {"y"}), "group", 2);
  EXPECT_NE(m.error().find("with groups=2 over input f32(1, 96, 8, 8): needs 48 channels"), std::string::npos) << m.error();
}

}  // namespace
