// Products of bytes and what DEFAULT_FLOAT makes of a model: the numbers by hand, and that the graph holds what dot instructions take.
#include "ir/tensor.h"
#include "model_builder.h"

using namespace tg;
using namespace tg::test;

namespace {

Values ints(Kind k, std::vector<i64> dims, std::vector<f64> v) { return values(k, std::move(dims), v); }

// Kinds of the factors below the sums of products of a graph: "u8 i8".
std::string factors(const Graph& g) {
  std::string s;
  for (UOp u : toposort(g.sink)) {
    if (!u.is(Op::Reduce) || !u.src(0).is(Op::Mul)) continue;
    std::string one;
    for (UOp f : u.src(0).src()) {
      while (is_movement(f.op())) f = f.src(0);
      one += str(one.empty() ? "" : " ", name(f.is(Op::Cast) ? f.src(0).dtype() : f.dtype()));
    }
    s += str(s.empty() ? "" : ", ", one);
  }
  return s;
}
// Large enough that import does not fold it away: 2 x 3 times in (3, n) columns that repeat.
std::vector<f64> repeated(std::vector<f64> rows, i64 n) {
  std::vector<f64> v;
  for (f64 r : rows)
    for (i64 j = 0; j < n; j++) v.push_back(r);
  return v;
}

// (x - 1) of {1 2 3; 250 0 5} by columns of (w - zero): rows {0 1 2} and {249 -1 4}.
TEST(Bytes, MatMulIntegerTakesZeroPointsOffItsSums) {
  for (Kind kw : {Kind::I8, Kind::U8}) {
    f64 wz = kw == Kind::U8 ? 120 : 0;
    Model m;
    m.input("x", Kind::U8, {"2", "3"}).output("y");
    m.weight("w", ints(kw, {3, 4}, repeated({wz - 100, wz + 7, wz + 127}, 4)));
    m.weight("xz", ints(Kind::U8, {}, {1}));
    m.weight("wz", ints(kw, {}, {wz}));
    m.node("MatMulInteger", {"x", "w", "xz", "wz"}, {"y"});
    Values y = m.run({ints(Kind::U8, {2, 3}, {1, 2, 3, 250, 0, 5})})[0];
    std::vector<f64> want = repeated({0 * -100 + 1 * 7 + 2 * 127, 249 * -100 + -1 * 7 + 4 * 127}, 4);
    EXPECT_EQ(y, ints(Kind::I32, {2, 4}, want)) << name(DType(kw));
  }
}
TEST(Bytes, SignedActivationsAndWideWeights) {
  // Weights that leave i8 once their zero point is taken off keep it: 255 - 7 = 248.
  Model m;
  m.input("x", Kind::I8, {"1", "3"}).output("y");
  m.weight("w", ints(Kind::U8, {3, 2}, {0, 255, 1, 7, 200, 9}));
  m.weight("xz", ints(Kind::I8, {}, {-3}));
  m.weight("wz", ints(Kind::U8, {2}, {7, 5}));
  m.node("MatMulInteger", {"x", "w", "xz", "wz"}, {"y"});
  Graph g = m.load();
  EXPECT_EQ(factors(g), "u8 i8");
  // x - xz = -125 130 3; w - wz = {-7 250; -6 2; 193 4}
  Values y = m.run({ints(Kind::I8, {1, 3}, {-128, 127, 0})})[0];
  EXPECT_EQ(y, ints(Kind::I32, {1, 2}, {-125.0 * -7 + 130.0 * -6 + 3 * 193, -125.0 * 250 + 130 * 2 + 3 * 4}));
}
TEST(Bytes, PaddingOfAConvolutionStandsForTheZeroPoint) {
  for (bool dynamic : {false, true}) {
    Model m;
    m.input("x", Kind::U8, {"1", "1", "3", "3"});
    if (dynamic) m.input("xz", Kind::U8, {});
    m.output("y");
    m.weight("w", ints(Kind::I8, {1, 1, 3, 3}, {1, 2, 3, 4, -5, 6, 7, 8, 9}));
    if (!dynamic) m.weight("xz", ints(Kind::U8, {}, {10}));
    attr_ints(m.node("ConvInteger", {"x", "w", "xz"}, {"y"}), "pads", {1, 1, 1, 1});
    std::vector<Values> in{ints(Kind::U8, {1, 1, 3, 3}, {10, 11, 10, 10, 10, 10, 10, 10, 0})};
    if (dynamic) in.push_back(ints(Kind::U8, {}, {10}));
    // x - 10: 1 at (0, 1) and -10 at (2, 2); out[i][j] = sum w[di][dj] x[i + di - 1][j + dj - 1]
    EXPECT_EQ(m.run(in)[0], ints(Kind::I32, {1, 1, 3, 3}, {6, -5, 4, 3, 2 - 90, 1 - 80, 0, -60, 50})) << dynamic;
  }
}
TEST(Bytes, DequantizedFactorsAreSummedAsIntegers) {
  Model m;
  m.input("x", Kind::U8, {"2", "3"}).output("y");
  m.weight("xs", f32s({}, {0.5}));
  m.weight("xz", ints(Kind::U8, {}, {2}));
  m.weight("w", ints(Kind::I8, {3, 2}, {1, -2, 3, 4, -5, 6}));
  m.weight("ws", f32s({2}, {0.25, 2}));
  m.weight("wz", ints(Kind::I8, {2}, {0, 0}));
  m.node("DequantizeLinear", {"x", "xs", "xz"}, {"a"});
  attr(m.node("DequantizeLinear", {"w", "ws", "wz"}, {"b"}), "axis", 1);
  m.node("MatMul", {"a", "b"}, {"y"});
  EXPECT_EQ(factors(m.load()), "u8 i8");
  // x - 2 = {0 1 2; 8 -2 -1}
  EXPECT_EQ(m.run({ints(Kind::U8, {2, 3}, {2, 3, 4, 10, 0, 1})})[0], f32s({2, 2}, {-7 * 0.125, 16.0, 7 * 0.125, -30.0}));
}
TEST(Bytes, ConstantBytesTakeTheirZeroPointIfTheyStayWithinI8) {
  constexpr i64 kColumns = 4000;  // more than import folds
  for (bool fits : {true, false}) {
    Model m;
    m.input("x", Kind::F32, {"1", "3"}).output("y");
    std::vector<f64> w;
    for (i64 j = 0; j < kColumns; j++) w.insert(w.end(), {fits ? 20.0 : 255.0, 120.0 + f64(j % 2), 247.0});
    m.weight("w", ints(Kind::U8, {kColumns, 3}, w));
    m.weight("ws", f32s({}, {0.5}));
    m.weight("wz", ints(Kind::U8, {}, {120}));
    m.node("DequantizeLinear", {"w", "ws", "wz"}, {"b"});
    attr(m.node("Gemm", {"x", "b"}, {"y"}), "transB", 1);
    if (fits) EXPECT_EQ(factors(m.load()), "f32 i8");
    else EXPECT_NE(factors(m.load()), "f32 i8");
    Values y = m.run({f32s({1, 3}, {2, 4, -1})})[0];
    for (i64 j : {0, 1, 3999}) EXPECT_EQ(y.number(j), 0.5 * ((fits ? -100 : 135) * 2 + (j % 2) * 4 - 127)) << j;
  }
}
TEST(Bytes, AScaleAlongTheSumStaysInIt) {
  Model m;
  m.input("x", Kind::F32, {"1", "2"}).output("y");
  m.weight("w", ints(Kind::I8, {2, 2}, {1, 2, 3, 4}));
  m.weight("ws", f32s({2}, {0.5, 10}));
  attr(m.node("DequantizeLinear", {"w", "ws"}, {"b"}), "axis", 0);
  m.node("MatMul", {"x", "b"}, {"y"});
  EXPECT_EQ(m.run({f32s({1, 2}, {1, 1})})[0], f32s({1, 2}, {0.5 + 30, 1 + 40}));
}
TEST(Bytes, AConvolutionOfDequantizedBytes) {
  Model m;
  m.input("x", Kind::I8, {"1", "1", "1", "3"}).output("y");
  m.weight("xs", f32s({}, {0.5}));
  m.weight("xz", ints(Kind::I8, {}, {-1}));
  m.weight("w", ints(Kind::I8, {2, 1, 1, 2}, {1, 2, -3, 4}));
  m.weight("ws", f32s({2}, {0.5, 4}));
  m.weight("wz", ints(Kind::I8, {2}, {0, 0}));
  m.weight("b", f32s({2}, {100, 200}));
  m.node("DequantizeLinear", {"x", "xs", "xz"}, {"a"});
  attr(m.node("DequantizeLinear", {"w", "ws", "wz"}, {"wd"}), "axis", 0);
  attr_ints(m.node("Conv", {"a", "wd", "b"}, {"y"}), "pads", {0, 1, 0, 0});
  EXPECT_EQ(factors(m.load()), "u8 i8");
  // x + 1 = 1 3 -127, padded before with 0
  EXPECT_EQ(m.run({ints(Kind::I8, {1, 1, 1, 3}, {0, 2, -128})})[0],
            f32s({1, 2, 1, 3}, {100 + 0.25 * 2, 100 + 0.25 * 7, 100 + 0.25 * -251, 200 + 2 * 4.0, 200 + 2 * 9.0, 200 + 2 * -517.0}));
}
TEST(Bytes, ALargeTableIsDequantizedWhereItIsRead) {
  Model m;
  m.input("i", Kind::I64, {"2"}).output("y");
  std::vector<f64> table(size_t(1000 * 300));
  for (size_t k = 0; k < table.size(); k++) table[k] = f64(k % 241) - 120;
  m.weight("w", ints(Kind::I8, {1000, 300}, table));
  m.weight("s", f32s({}, {0.5}));
  m.node("DequantizeLinear", {"w", "s"}, {"d"});
  m.node("Gather", {"d", "i"}, {"g"});
  m.node("ReduceSum", {"g"}, {"y"});
  Graph g = m.load();
  for (UOp u : toposort(g.sink))
    if (u.is(Op::Gather)) {
      EXPECT_EQ(u.dtype(), DType(Kind::I8)) << "the table is read as it is stored";
    }
  f64 want = 0;
  for (size_t k = 0; k < 300; k++) want += 0.5 * (table[300 * 7 + k] + table[300 * 999 + k]);
  EXPECT_EQ(m.run({i64s({2}, {7, 999})})[0].number(0), want);
}

// --- DEFAULT_FLOAT
// ------------------------------------------------------------------------------------------------------------------------
ImportOptions as(Kind k) {
  ImportOptions o;
  o.default_float = k;
  return o;
}
// 257 needs 9 bits: bf16 makes it 256.
TEST(DefaultFloat, FactorsAreRoundedAndSumsAreNot) {
  Model m;
  m.input("x", Kind::F32, {"1", "2"}).output("y");
  m.weight("w", f32s({2, 1}, {1, 257}));
  m.node("MatMul", {"x", "w"}, {"y"});
  Graph g = m.load(as(Kind::BF16));
  EXPECT_EQ(factors(g), "bf16 bf16");
  EXPECT_EQ(g.inputs[0].dtype, DType(Kind::F32));
  EXPECT_EQ(g.outputs[0].dtype, DType(Kind::F32));
  // 257 -> 256 twice, then 256 + 256 and 1 x 3: the sum 259 would be 260 in bf16
  EXPECT_EQ(m.run({f32s({1, 2}, {3, 1})}, as(Kind::BF16))[0], f32s({1, 1}, {259}));
  EXPECT_EQ(m.run({f32s({1, 2}, {257, 0})}, as(Kind::BF16))[0], f32s({1, 1}, {256}));
  EXPECT_EQ(m.run({f32s({1, 2}, {257, 0})})[0], f32s({1, 1}, {257}));
}
TEST(DefaultFloat, ValuesReadTwiceAreRounded) {
  Model m;
  m.input("x", Kind::F32, {"1"}).output("y");
  m.weight("c", f32s({1}, {0.5}));
  m.node("Add", {"x", "c"}, {"a"});  // 256.5
  m.node("Mul", {"a", "a"}, {"b"});
  m.node("Sub", {"b", "x"}, {"y"});
  // a is read twice: 256; b once, by arithmetic: not rounded; x is 256 itself
  EXPECT_EQ(m.run({f32s({1}, {256})}, as(Kind::BF16))[0], f32s({1}, {256.0 * 256 - 256}));
}
TEST(DefaultFloat, SoftmaxAndNormsStayInF32Inside) {
  Model m;
  m.input("x", Kind::F32, {"1", "512"}).output("y");
  m.node("ReduceMean", {"x"}, {"y"});
  std::vector<f64> v(512, 1.0);
  v[0] = 2;
  // In bf16 the sum would stop growing at 256.
  EXPECT_EQ(m.run({f32s({1, 512}, v)}, as(Kind::BF16))[0].number(0), 513.0 / 512);
}
TEST(DefaultFloat, AWiderOneComputesInIt) {
  Model m;
  m.input("x", Kind::F32, {"1"}).output("y");
  m.weight("c", f32s({1}, {1}));
  m.node("Add", {"x", "c"}, {"a"});
  m.node("Sub", {"a", "x"}, {"y"});
  // 2^24 + 1 is no f32
  EXPECT_EQ(m.run({f32s({1}, {16777216})}, as(Kind::F64))[0], f32s({1}, {1}));
  EXPECT_EQ(m.run({f32s({1}, {16777216})})[0], f32s({1}, {0}));
}
TEST(DefaultFloat, QuantizedArithmeticIsUntouched) {
  Model m;
  m.input("x", Kind::F32, {"1"}).output("y");
  m.weight("s", f32s({}, {1}));
  m.weight("z", ints(Kind::I16, {}, {0}));
  m.node("QuantizeLinear", {"x", "s", "z"}, {"q"});
  m.node("DequantizeLinear", {"q", "s", "z"}, {"y"});
  for (Kind k : {Kind::F16, Kind::F64}) EXPECT_EQ(m.run({f32s({1}, {2047})}, as(k))[0], f32s({1}, {2047})) << name(DType(k));
}

// --- fewer bits than a byte -----------------------------------------------------------------------------------------------------------------
// Too large for import to fold; a row of one 1 picks a row of weights.
TEST(Packed, NumbersOfAFewBitsAreReadFromTheirBytes) {
  struct Case {
    Kind kind;
    std::vector<f64> few;
  };
  for (const Case& c : {Case{Kind::I4, {-8, 7, -1, 0, 3, -5, 6, 1}}, Case{Kind::U4, {15, 0, 8, 7, 1, 14, 9, 2}}, Case{Kind::I2, {-2, 1, 0, -1, 1, -2, -1, 0}},
                        Case{Kind::U2, {3, 0, 2, 1, 1, 3, 0, 2}}}) {
    std::vector<f64> v;
    for (i64 i = 0; i < 8192; i++) v.push_back(c.few[size_t(i * 5 % 8 + i / 64) % 8]);
    Model m;
    m.input("x", Kind::F32, {"1", "128"}).output("y");
    m.weight("w", values(c.kind, {128, 64}, v));
    m.weight("s", f32s({}, {1}));
    m.node("DequantizeLinear", {"w", "s"}, {"d"});
    m.node("MatMul", {"x", "d"}, {"y"});
    Graph g = m.load();
    for (UOp u : toposort(g.sink)) EXPECT_TRUE(u.is(Op::Sink) || bits(u.dtype()) >= 8) << name(DType(c.kind)) << ": " << info(u.op()).name;
    for (i64 row : {0, 1, 77, 127}) {
      std::vector<f64> one(128, 0.0), want(v.begin() + row * 64, v.begin() + row * 64 + 64);
      one[size_t(row)] = 1;
      EXPECT_EQ(m.run({f32s({1, 128}, one)})[0], f32s({1, 64}, want)) << name(DType(c.kind)) << " row " << row;
    }
  }
}
TEST(Packed, ARowOfHalfAByteStays) {
  Model m;
  m.input("x", Kind::F32, {"1", "91"}).output("y");
  std::vector<f64> v(91 * 91, -3);
  v[1] = 5;  // no splat
  m.weight("w", values(Kind::I4, {91, 91}, v));
  m.weight("s", f32s({}, {1}));
  m.node("DequantizeLinear", {"w", "s"}, {"d"});
  m.node("MatMul", {"x", "d"}, {"y"});
  std::vector<f64> want(91, -273);
  want[1] = -265;
  EXPECT_EQ(m.run({f32s({1, 91}, std::vector<f64>(91, 1.0))})[0], f32s({1, 91}, want));
}

}  // namespace
