// CPU:CLANG: a list becomes an object with the entry of the CPU ABI, for the arch that was asked for.
#include "backend/clang/clang.h"

#include <gtest/gtest.h>

#include "backend/backend.h"
#include "render/c_style.h"

using namespace tg;

namespace {
Target target(std::string_view arch) {
  auto t = cpu_target(arch, "CLANG");
  TG_CHECK(t, t.why());
  return *t;
}
// p0[i] = p1[i] + p2[i] for 4 * lanes elements.
std::vector<UOp> add_list(int lanes) {
  std::vector<UOp> l;
  auto put = [&](UOp u) { return l.push_back(u), u; };
  UOp p[3];
  for (i64 i = 0; i < 3; i++) p[i] = put(node(Op::Param, Kind::F32, {}, i));
  UOp n = put(idx(4)), r = put(range(n, {})), c = put(idx(lanes)), at = put(alu(Op::Mul, {r, c}));
  DType d(Kind::F32, u16(lanes));
  auto load = [&](UOp b) { return put(node(Op::Load, d, {put(node(Op::Index, Kind::F32, {b, at}))})); };
  UOp a = load(p[1]), b = load(p[2]), sum = put(alu(Op::Add, {a, b}));
  put(node(Op::Store, Kind::Void, {put(node(Op::Index, Kind::F32, {p[0], at})), sum}));
  put(node(Op::End, Kind::Void, {r}));
  return l;
}
}  // namespace

TEST(Clang, AnObjectIsElfAndNamesTheEntry) {
  Arena arena;
  Arena::Scope scope(arena);
  std::string source, assembly;
  auto o = compile_program(add_list(16), "add_16", target("x86_64,znver4"), &source, &assembly);
  ASSERT_TRUE(o) << o.why();
  EXPECT_EQ(std::string(o->begin(), o->begin() + 4), "\x7f"
                                                     "ELF");
  EXPECT_NE(source.find("void add_16(void* const* args, const i64* vars, i64 task)"), std::string::npos) << source;
  EXPECT_NE(assembly.find("vaddps"), std::string::npos) << assembly;
  EXPECT_NE(assembly.find("%zmm"), std::string::npos) << assembly;
}
TEST(Clang, FeaturesOfTheArchHold) {
  Arena arena;
  Arena::Scope scope(arena);
  std::string assembly;
  auto o = compile_program(add_list(16), "add_16", target("x86_64,znver2,avx2,-avx512f"), nullptr, &assembly);
  ASSERT_TRUE(o) << o.why();
  EXPECT_EQ(assembly.find("%zmm"), std::string::npos);
  EXPECT_NE(assembly.find("%ymm"), std::string::npos);
}
TEST(Clang, ACompileErrorIsARefusalWithTheCompilersWords) {
  auto o = compile_c("void f(void) { return 1 +; }", target("x86_64"));
  ASSERT_FALSE(o);
  EXPECT_NE(o.why().find("error: expected expression"), std::string::npos) << o.why();
}
TEST(Clang, TheVersionIsPartOfTheProgramsIdentity) {
  std::string v = compiler_version(target("x86_64"));
  EXPECT_EQ(v.substr(0, 9), "clang 22.") << v;
}
