#include "ir/spec.h"

#include "ir/text.h"
#include "ir_test.h"

using namespace tg;

class SpecTest : public IrTest {
 protected:
  std::string tensor_form(std::string_view text) { return violation(Spec::Tensor, parse(text)); }
  std::string kernel_form(std::string_view text) { return violation(Spec::Kernel, parse(text)); }
  std::string linear_form(std::string_view text) { return violation(parse_list(text)); }
  static bool has(const std::string& s, std::string_view part) { return s.find(part) != std::string::npos; }
};
#define EXPECT_HAS(text, part) EXPECT_TRUE(has(text, part)) << text

TEST_F(SpecTest, BuiltTensorsAreLegal) {
  UOp x = tensor::param(0, Kind::F32, {var("n", 1, 8), idx(4)});
  UOp w = tensor::window(tensor::pad(x, dims({0, 1}), dims({0, 1}), konst_f(Kind::F32, 0)), {{1}, {3}, {1}, {1}});
  UOp y = tensor::reduce(w * w, ReduceKind::Add, {2}), i = tensor::sort(y, {1, true});
  EXPECT_EQ(violation(Spec::Tensor, node(Op::Sink, Kind::Void, {y, i, tensor::scan(y, {ReduceKind::Add, 1, false, false})})), "");
}
TEST_F(SpecTest, ArithmeticHasOneDtype) {
  EXPECT_HAS(tensor_form("%a = CONST f32 1\n%b = CONST f64 1\n%c = ADD f32 %a %b\n"), "tensor form: Add has sources of one dtype");
  EXPECT_HAS(tensor_form("%a = CONST f32 1\n%c = AND f32 %a %a\n"), "tensor form: And has");
  EXPECT_HAS(tensor_form("%a = CONST i32 1\n%c = EXP i32 %a\n"), "tensor form: Exp has");
  EXPECT_HAS(tensor_form("%a = CONST f32 1\n%c = LT f32 %a %a\n"), "tensor form: Lt has");
  EXPECT_HAS(tensor_form("%a = CONST f8e5m2 1\n%c = ADD f8e5m2 %a %a\n"), "tensor form: Add has");
}
TEST_F(SpecTest, FormsHaveTheirOps) {
  EXPECT_HAS(tensor_form("%l = LANES i32x4\n"), "tensor form: Lanes has 4 lanes");
  EXPECT_HAS(kernel_form("%n = CONST index 3\n%i = IOTA i32 %n\n"), "kernel form: there is no Iota");
  EXPECT_HAS(linear_form("%n = CONST index 3\n%x = PARAM f32 #0 %n\n"), "linear form: Param has no sources");
}
TEST_F(SpecTest, ALookupHasAPowerOfTwoOfNumbers) {
  std::string x = "%x = CONST i32 1\n";
  EXPECT_EQ(linear_form(x + "%l = LOOKUP i32 [7, -8] %x\n"), "");
  EXPECT_HAS(linear_form(x + "%l = LOOKUP i32 [7, 8, 9] %x\n"), "linear form: Lookup has numbers of its dtype");
  EXPECT_HAS(linear_form(x + "%l = LOOKUP i32 [7, 4294967296] %x\n"), "Lookup has");
  EXPECT_HAS(linear_form(x + "%l = LOOKUP u32 [7, 8] %x\n"), "Lookup has");
  EXPECT_HAS(linear_form("%x = CONST f32 1\n%l = LOOKUP f32 [7, 8] %x\n"), "Lookup has");
  EXPECT_HAS(tensor_form(x + "%l = LOOKUP i32 [7, 8] %x\n"), "tensor form: there is no Lookup");
}
TEST_F(SpecTest, TensorArguments) {
  std::string x = "%2 = CONST index 2\n%3 = CONST index 3\n%x = PARAM f32 #0 %2 %3\n";
  EXPECT_EQ(tensor_form(x + "%r = REDUCE f32 [0, 0, 1] %x\n"), "");
  EXPECT_HAS(tensor_form(x + "%r = REDUCE f32 [0, 1, 0] %x\n"), "ascending axes");
  EXPECT_HAS(tensor_form(x + "%r = REDUCE f32 [0, 2] %x\n"), "ascending axes");
  EXPECT_HAS(tensor_form(x + "%r = REDUCE f32 [4, 0] %x\n"), "Reduce");
  EXPECT_HAS(tensor_form(x + "%r = PERMUTE f32 [0, 0] %x\n"), "Permute");
  EXPECT_HAS(tensor_form(x + "%s = STACK index %2 %2\n%r = RESHAPE f32 %x %s\n"), "Reshape");
  EXPECT_HAS(tensor_form(x + "%r = GATHER f32 %x %2\n"), "Gather has an integer index");
}
TEST_F(SpecTest, KernelClosesItsRanges) {
  std::string k = "%2 = CONST index 2\n%i = RANGE index [0,0,0,4] %2\n%o = PARAM f32 #0 %2\n%to = INDEX f32 %o %i\n%v = CONST f32 1\n";
  EXPECT_EQ(kernel_form(k + "%s = STORE void %to %v %i\n%e = SINK void %s\n"), "");
  EXPECT_EQ(kernel_form(k + "%s = STORE void %to %v\n%e = SINK void %s\n"), "kernel form: no STORE or REDUCE closes r0");
  EXPECT_HAS(kernel_form(k + "%s = STORE void %to %i %i\n%e = SINK void %s\n"), "kernel form: Store takes");
  EXPECT_HAS(kernel_form(k + "%a = INDEX f32 %o %i %i\n"), "kernel form: Index has an index for each dim");
  EXPECT_HAS(kernel_form(k + "%3 = CONST index 3\n%p = PARAM f32 #0 %3\n%a = INDEX f32 %p %i\n%l = LOAD f32 %a\n%s = STORE void %to %l %i\n%e = SINK void %s\n"),
             "kernel form: slot 0 is two buffers");
}
TEST_F(SpecTest, LinearValuesStayInTheirLoops) {
  std::string k = "%2 = CONST index 2\n%o = PARAM f32 #0\n%i = RANGE index [0,0,0,4] %2\n%a = INDEX f32 %o %i\n%v = LOAD f32 %a\n";
  EXPECT_EQ(linear_form(k + "%s = STORE void %a %v\n%e = END void %i\n"), "");
  EXPECT_HAS(linear_form(k + "%e = END void %i\n%w = NEG f32 %v\n"), "is used outside its loop by Neg");
  EXPECT_HAS(linear_form(k), "no END closes r0");
  EXPECT_HAS(linear_form("let %2 = CONST index 2\n%i = RANGE index [0,0,0,4] %2\n"), "is used before its place");
  EXPECT_HAS(linear_form(k + "%b = BROADCAST f32x4 %v\n%y = ADD f32x4 %b %v\n"), "linear form: Add has");
}
TEST_F(SpecTest, CheckNamesThePass) { EXPECT_DEATH(check(Spec::Kernel, tensor::iota(idx(3), Kind::I32), "expand"), "after expand: kernel form: there is no Iota"); }
