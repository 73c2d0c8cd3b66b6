#include "ir/text.h"

#include "ir_test.h"

using namespace tg;

class Text : public IrTest {
 protected:
  std::string error(std::string_view text) {
    try {
      parse(text);
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  }
  // Read in an arena of its own and printed again.
  std::string again(std::string_view text) {
    Arena other;
    Arena::Scope s(other);
    return print(parse(text));
  }
};

TEST_F(Text, OneNodeALine) {
  UOp x = tensor::param(0, Kind::F32, dims({2, 3}));
  EXPECT_EQ(print(tensor::reduce(x + konst_f(Kind::F32, 0.5), ReduceKind::Add, {1})),
            "%0 = CONST index 2\n"
            "%1 = CONST index 3\n"
            "%2 = PARAM f32 #0 %0 %1\n"
            "%3 = CONST f32 0.5\n"
            "%4 = ADD f32 %2 %3\n"
            "%5 = REDUCE f32 [0, 1] %4\n");
}
TEST_F(Text, ReadingGivesTheSameNode) {
  UOp n = var("a \"b\"\n", 1, 8, 2), x = tensor::param(0, Kind::I8, {n, idx(7)});
  UOp y = tensor::window(tensor::permute(x, Ints{1, 0}), {{0}, {3}, {2}, {1}});
  UOp s = node(Op::Sink, Kind::Void, {cast(y, Kind::BF16), tensor::reshape(x, {n * 7})});
  EXPECT_EQ(parse(print(s)), s);
  EXPECT_EQ(again(print(s)), print(s));
}
TEST_F(Text, FloatsComeBackBitForBit) {
  for (f64 v : {0.0, -0.0, 0.1, 1e-310, -1.7976931348623157e308, kInf, -kInf, kNaN, -kNaN}) {
    UOp c = konst_f(Kind::F64, v);
    EXPECT_EQ(parse(print(c)), c) << print(c);
  }
  UOp odd = konst_bits(Kind::F32, 0x7ff8000020000000);
  EXPECT_EQ(parse(print(odd)), odd) << print(odd);
}
TEST_F(Text, IntegersOfEveryKind) {
  for (UOp c : {konst(Kind::U64, -1), konst(Kind::I64, int_min(Kind::I64)), konst(Kind::Bool, 1), konst(Kind::I4, -8), konst(Kind::U2, 3)})
    EXPECT_EQ(parse(print(c)), c) << print(c);
}
TEST_F(Text, NamesAreFreeAndOpsInAnyCase) {
  UOp u = parse(
      "; twice x\n"
      "\n"
      "  %x = param f32 #3   ; no dims\n"
      "  %y=Add f32 %x %x\r\n");
  UOp x = tensor::param(3, Kind::F32, {});
  EXPECT_EQ(u, node(Op::Add, Kind::F32, {x, x}));
}
TEST_F(Text, VectorsHaveLanes) {
  UOp u = parse("%c = CONST f32x16 1\n");
  EXPECT_EQ(u.dtype(), DType(Kind::F32, 16));
  EXPECT_EQ(print(u), "%0 = CONST f32x16 1\n");
}
TEST_F(Text, ErrorsHaveLineAndColumn) {
  EXPECT_EQ(error("%0 = CONST f32 1\n%1 = FOO f32 %0\n"), "2:6: FOO is no op");
  EXPECT_EQ(error("%0 = CONST f31 1\n"), "1:12: f31 is no dtype");
  EXPECT_EQ(error("%0 = CONST i8 128\n"), "1:15: 128 is outside i8");
  EXPECT_EQ(error("%0 = CONST i8 1\n%1 = ADD i8 %0 %2\n"), "2:16: no value %2 above this line");
  EXPECT_EQ(error("%0 = CONST i8 1\n%1 = ADD i8 %0\n"), "2:1: Add has 2 sources, got 1");
  EXPECT_EQ(error("%0 = CONST i8 1\n%0 = CONST i8 2\n"), "2:1: a second %0");
  EXPECT_EQ(error("%0 = IOTA i64 [1 2] %1\n"), "1:15: no value [1 above this line");
  EXPECT_EQ(error("%0 = SORT i64 [1 2] %1\n"), "1:18: expected ','");
  EXPECT_EQ(error("%0 = VAR index \"n"), "1:18: a string without an end");
  EXPECT_EQ(error("0 = CONST i8 1"), "1:1: expected %name = OP ..., got 0");
  EXPECT_EQ(error("\n"), "1:1: expected %name = OP ..., got nothing");
}
TEST_F(Text, ListsKeepTheirOrder) {
  UOp n = idx(8), r = range(n, {0, 0, 0, AxisKind::Loop}), p = node(Op::Param, Kind::F32, {}, 0);
  UOp at = node(Op::Index, Kind::F32, {p, r}), v = node(Op::Load, Kind::F32, {at});
  std::vector<UOp> list{p, n, r, at, v, node(Op::Store, Kind::Void, {at, v}), node(Op::End, Kind::Void, {r})};
  EXPECT_EQ(parse_list(print_list(list)), list);
  std::vector<UOp> without{p, r, at};
  EXPECT_EQ(print_list(without),
            "%0 = PARAM f32 #0\n"
            "let %1 = CONST index 8\n"
            "%2 = RANGE index [0, 0, 0, 4] %1\n"
            "%3 = INDEX f32 %0 %2\n");
  EXPECT_EQ(parse_list(print_list(without)), without);
}
TEST_F(Text, ShortTextIsAFormula) {
  UOp n = var("n", 1, 8);
  EXPECT_EQ(((n + 3) / 2 % 4).str(), "(((n+3)/2)%4)");
  EXPECT_EQ(tensor::param(0, Kind::F32, {n}).str(), "Param f32[0](n)");
}
