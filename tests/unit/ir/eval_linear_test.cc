#include "ir/eval_linear.h"

#include "ir/text.h"
#include "ir_test.h"

using namespace tg;

class EvalLinear : public IrTest {
 protected:
  std::vector<Values> bufs;
  void buffer(std::vector<f64> v, DType d = Kind::F32) { bufs.push_back(values(d, {i64(v.size())}, v)); }
  V run(std::string_view text, size_t out = 0, i64 task = 0) {
    eval_linear(parse_list(text), bufs, {{"n", 3}}, task);
    V r;
    for (i64 i = 0; i < bufs[out].elems(); i++) r.push_back(bufs[out].number(i));
    return r;
  }
  std::string error(std::string_view text) {
    try {
      run(text);
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  }
};

TEST_F(EvalLinear, LoopOfScalars) {
  buffer({-1, -1, -1}), buffer({1, 2, 3});
  EXPECT_EQ(run("%o = PARAM f32 #0\n%x = PARAM f32 #1\n%n = CONST index 3\n%c = CONST f32 0.5\n"
                "%i = RANGE index [0,0,0,4] %n\n"
                "%a = INDEX f32 %x %i\n%v = LOAD f32 %a\n%y = MUL f32 %v %c\n%b = INDEX f32 %o %i\n%s = STORE void %b %y\n"
                "%e = END void %i\n"),
            V({0.5, 1, 1.5}));
}
TEST_F(EvalLinear, AccumulatorOverNestedLoops) {
  buffer({0, 0}), buffer({1, 2, 3, 4, 5, 6});
  EXPECT_EQ(run("%o = PARAM f32 #0\n%x = PARAM f32 #1\n%n = CONST index 2\n%m = CONST index 3\n%z = CONST f32 0\n"
                "%i = RANGE index [0,0,0,4] %n\n%acc = REG f32 #0\n%init = STORE void %acc %z\n%row = MUL index %i %m\n"
                "%k = RANGE index [1,0,0,8] %m\n%at = ADD index %row %k\n%p = INDEX f32 %x %at\n%v = LOAD f32 %p\n%old = LOAD f32 %acc\n"
                "%new = ADD f32 %old %v\n%set = STORE void %acc %new\n%ek = END void %k\n"
                "%sum = LOAD f32 %acc\n%q = INDEX f32 %o %i\n%st = STORE void %q %sum\n%ei = END void %i\n"),
            V({6, 15}));
}
TEST_F(EvalLinear, VectorsLoadInARowAndReduce) {
  buffer({0, 0, 0, 0, 0}), buffer({1, 2, 3, 4, 5, 6});
  EXPECT_EQ(run("%o = PARAM f32 #0\n%x = PARAM f32 #1\n%1 = CONST index 1\n%0 = CONST index 0\n%4 = CONST index 4\n"
                "%a = INDEX f32 %x %1\n%v = LOAD f32x4 %a\n%two = CONST f32x4 2\n%w = MULACC f32x4 %v %two %v\n"
                "%b = INDEX f32 %o %0\n%s = STORE void %b %w\n"
                "%h = HREDUCE f32 #0 %v\n%c = INDEX f32 %o %4\n%t = STORE void %c %h\n"),
            V({6, 9, 12, 15, 14}));
}
TEST_F(EvalLinear, LanesShuffleExtractPackBroadcast) {
  buffer({0, 0, 0, 0});
  EXPECT_EQ(run("%o = PARAM f32 #0\n%0 = CONST index 0\n%l = LANES i32x4\n%f = CAST f32x4 %l\n%c = CONST f32 10\n%b = BROADCAST f32x4 %c\n"
                "%s = SHUFFLE f32x4 [3, 4, 0, 7] %f %b\n%e = EXTRACT f32 #2 %f\n%p = PACK f32x4 %e %c %e %c\n%r = ADD f32x4 %s %p\n"
                "%at = INDEX f32 %o %0\n%st = STORE void %at %r\n"),
            V({3 + 2, 10 + 10, 0 + 2, 10 + 10}));
}
TEST_F(EvalLinear, ALookupTakesTheLowBitsOfItsIndex) {
  buffer({0, 0, 0, 0}, Kind::I32);
  EXPECT_EQ(run("%o = PARAM i32 #0\n%0 = CONST index 0\n%l = LANES i32x4\n%c = CONST i32x4 -3\n%x = ADD i32x4 %l %c\n%t = LOOKUP i32x4 [5, 6, -7, 8] %x\n"
                "%at = INDEX i32 %o %0\n%st = STORE void %at %t\n"),
            V({6, -7, 8, 5}));
}
TEST_F(EvalLinear, GatherAndScatterByVectorOffsets) {
  buffer({0, 0, 0, 0}), buffer({10, 11, 12, 13});
  EXPECT_EQ(run("%o = PARAM f32 #0\n%x = PARAM f32 #1\n%l = LANES indexx2\n%3 = CONST indexx2 3\n%r = SUB indexx2 %3 %l\n"
                "%a = INDEX f32 %x %r\n%v = LOAD f32x2 %a\n%b = INDEX f32 %o %l\n%s = STORE void %b %v\n"),
            V({13, 12, 0, 0}));
}
TEST_F(EvalLinear, GatesKeepAccessesInside) {
  buffer({0, 0, 0, 0}), buffer({10, 11, 12});
  EXPECT_EQ(run("%o = PARAM f32 #0\n%x = PARAM f32 #1\n%0 = CONST index 0\n%l = LANES indexx4\n%3 = CONST indexx4 3\n%g = LT boolx4 %l %3\n"
                "%alt = CONST f32x4 -5\n%a = INDEX f32 %x %0\n%v = LOAD f32x4 %a %g %alt\n%b = INDEX f32 %o %0\n%s = STORE void %b %v\n"),
            V({10, 11, 12, -5}));
}
TEST_F(EvalLinear, TaskAndVariables) {
  buffer({0, 0, 0});
  EXPECT_EQ(run("%o = PARAM f32 #0\n%1 = CONST index 1\n%8 = CONST index 8\n%n = VAR index \"n\" %1 %8 %1\n%t = SPECIAL index #0 %n\n"
                "%s = ADD index %t %n\n%f = CAST f32 %s\n%a = INDEX f32 %o %t\n%st = STORE void %a %f\n",
                0, 2),
            V({0, 0, 5}));
}
TEST_F(EvalLinear, LoopOfNoSteps) {
  buffer({7});
  EXPECT_EQ(run("%o = PARAM f32 #0\n%n = CONST index -2\n%c = CONST f32 1\n%i = RANGE index [0,0,0,4] %n\n%a = INDEX f32 %o %i\n%s = STORE void %a %c\n%e = END void %i\n"),
            V({7}));
}
TEST_F(EvalLinear, GroupsShareLocalMemoryAcrossBarriers) {
  // Each of 2 groups of 3 items turns its three elements around through local memory.
  buffer({0, 0, 0, 0, 0, 0}), buffer({1, 2, 3, 4, 5, 6});
  EXPECT_EQ(run("%o = PARAM f32 #0\n%x = PARAM f32 #1\n%2 = CONST index 2\n%3 = CONST index 3\n%m = LOCAL f32 [0, 2] %3\n"
                "%g = SPECIAL index #1 %2\n%l = SPECIAL index #4 %3\n%b = MUL index %g %3\n%at = ADD index %b %l\n"
                "%a = INDEX f32 %x %at\n%v = LOAD f32 %a\n%p = INDEX f32 %m %l\n%s = STORE void %p %v\n%bar = BARRIER void #0 %s\n"
                "%r = SUB index %2 %l\n%q = INDEX f32 %m %r\n%w = LOAD f32 %q\n%to = INDEX f32 %o %at\n%t = STORE void %to %w\n"),
            V({3, 2, 1, 6, 5, 4}));
}
TEST_F(EvalLinear, ParamOfOtherDtypeSeesTheBytes) {
  buffer({0}, Kind::U8), bufs.push_back(int_values(Kind::I4, {2}, std::vector<i64>{-1, 7}));
  EXPECT_EQ(run("%o = PARAM u8 #0\n%x = PARAM u8 #1\n%0 = CONST index 0\n%a = INDEX u8 %x %0\n%v = LOAD u8 %a\n%b = INDEX u8 %o %0\n%s = STORE void %b %v\n"),
            V({0x7f}));
}
TEST_F(EvalLinear, ErrorsNameTheNode) {
  buffer({0, 0});
  EXPECT_EQ(error("%o = PARAM f32 #0\n%2 = CONST index 2\n%a = INDEX f32 %o %2\n%v = LOAD f32 %a\n"),
            "element 2 of a buffer of 2 is read in Load f32(Index f32(Param f32[0], 2))");
  EXPECT_EQ(error("%r = REG f32 #0\n%v = LOAD f32 %r\n"), "read before it is written: Load f32(Reg f32[0])");
  EXPECT_EQ(error("%2 = CONST index 2\n%i = RANGE index [0,0,0,4] %2\n"), "no END closes r0");
  EXPECT_EQ(error("let %2 = CONST index 2\n%i = RANGE index [0,0,0,4] %2\n%e = END void %i\n"), "value 2 is used before its place in the list by r0");
}
