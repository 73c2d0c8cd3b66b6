// CPU:LLVM: a list becomes an object for the arch that was asked for, the same bytes each time.
#include "backend/llvm/llvm.h"

#include <gtest/gtest.h>

#include "backend/backend.h"
#include "base/error.h"
#include "codegen/lower.h"
#include "ir/spec.h"
#include "ir/text.h"
#include "opt/prepare.h"

using namespace tg;

namespace {

Target target(std::string_view arch) {
  Result<Target> t = cpu_target(arch, "LLVM");
  TG_CHECK(t, t.why());
  return *t;
}

// out[i, j] = max(sum of a[i, l] * w[l, j], 0) of 12 x 32, 24 terms, with the heuristics' Opts for the target.
constexpr const char* kMatmul = R"(
  %n = CONST index 12
  %m = CONST index 32
  %d = CONST index 24
  %i = RANGE index [0, 0, 0, 4] %n
  %j = RANGE index [1, 0, 0, 4] %m
  %l = RANGE index [2, 0, 1, 8] %d
  %o = PARAM f32 #0 %n %m
  %a = PARAM f32 #1 %n %d
  %w = PARAM f32 #2 %d %m
  %ai = INDEX f32 %a %i %l
  %wi = INDEX f32 %w %l %j
  %x = LOAD f32 %ai
  %y = LOAD f32 %wi
  %p = MUL f32 %x %y
  %s = REDUCE f32 [0] %p %l
  %z = CONST f32 0
  %r = MAX f32 %s %z
  %oi = INDEX f32 %o %i %j
  %st = STORE void %oi %r %i %j
  %k = SINK void %st)";

std::vector<UOp> matmul_list(const Target& t) {
  Kernel k;
  k.ast = parse(kMatmul);
  for (std::vector<i64> dims : {std::vector<i64>{12, 32}, {12, 24}, {24, 32}}) {
    Slot s;
    s.dims = dims, s.layout = Layout::row_major(dims), s.constant = k.slots.size() == 2;
    k.slots.push_back(s);
  }
  k.target = &t;
  return lower(heuristics(prepare(k))).linear;
}
struct Built {
  std::vector<u8> object;
  std::string text, assembly;
};
Built build(const Target& t, int nodes_before = 0) {
  Arena arena;
  Arena::Scope scope(arena);
  for (int i = 0; i < nodes_before; i++) (void)(var(str("v", i), 0, 100 + i) * 3 + i);
  Built b;
  Result<std::vector<u8>> o = compile_llvm(matmul_list(t), "matmul", t, &b.text, &b.assembly);
  TG_CHECK(o, o.why());
  b.object = *o;
  return b;
}

TEST(Llvm, AnObjectIsElfAndNamesTheEntry) {
  Built b = build(target("x86_64,znver4"));
  EXPECT_EQ(std::string(b.object.begin(), b.object.begin() + 4), "\x7f"
                                                                 "ELF");
  EXPECT_NE(b.text.find("define void @matmul(ptr"), std::string::npos) << b.text.substr(0, 400);
  EXPECT_NE(b.assembly.find("matmul:"), std::string::npos);
}
TEST(Llvm, TheSameListGivesTheSameBytes) {
  for (const char* arch : {"x86_64,znver4", "x86_64,znver2", "x86_64", "arm64,cortex-a76"}) {
    Target t = target(arch);
    EXPECT_EQ(build(t).object, build(t).object) << arch;
  }
}
TEST(Llvm, WhatTheArenaHeldBeforeDoesNotShow) {
  Target t = target("x86_64,znver4");
  Built a = build(t), b = build(t, 1000);
  EXPECT_EQ(a.text, b.text);
  EXPECT_EQ(a.object, b.object);
}
TEST(Llvm, ASumOfProductsIsFusedInVectorRegisters) {
  Built b = build(target("x86_64,znver4"));
  EXPECT_NE(b.assembly.find("vfmadd"), std::string::npos);
  EXPECT_NE(b.assembly.find("%zmm"), std::string::npos);
}
TEST(Llvm, FeaturesOfTheArchHold) {
  Built b = build(target("x86_64,znver2,avx2,-avx512f"));
  EXPECT_EQ(b.assembly.find("%zmm"), std::string::npos);
  EXPECT_NE(b.assembly.find("%ymm"), std::string::npos);
  b = build(target("x86_64"));
  EXPECT_EQ(b.assembly.find("%ymm"), std::string::npos);
  EXPECT_EQ(b.assembly.find("vfmadd"), std::string::npos) << "the baseline has no fused multiply-add";
}
// Rows of 16 floats to a buffer that a FENCE names, `step` apart.
std::string assembly_of_stores(i64 step, bool fence) {
  Arena arena;
  Arena::Scope scope(arena);
  std::string text, assembly;
  Target t = target("x86_64,znver4");
  std::vector<UOp> list = parse_list(str("%o = PARAM f32 #0\n%n = CONST index 8\n%step = CONST index ", step, "\n%r = RANGE index [0, 0, 0, 4] %n\n%at = MUL index %r %step\n",
                                         "%p = INDEX f32 %o %at\n%v = CONST f32x16 1\n%s = STORE void %p %v\n%e = END void %r\n", fence ? "%f = FENCE void %o\n" : ""));
  EXPECT_EQ(violation(list), "");
  Result<std::vector<u8>> o = compile_llvm(list, "k", t, &text, &assembly);
  EXPECT_TRUE(o) << o.why();
  return assembly;
}
TEST(Llvm, WholeLinesPassTheCachesByInFrontOfAFence) {
  EXPECT_NE(assembly_of_stores(16, true).find("vmovntps"), std::string::npos);
  EXPECT_NE(assembly_of_stores(16, true).find("sfence"), std::string::npos);
  EXPECT_EQ(assembly_of_stores(17, true).find("vmovnt"), std::string::npos) << "no line is stored whole";
  EXPECT_NE(assembly_of_stores(17, true).find("sfence"), std::string::npos);
  EXPECT_EQ(assembly_of_stores(16, false).find("vmovnt"), std::string::npos);
  EXPECT_EQ(assembly_of_stores(16, false).find("sfence"), std::string::npos);
}
TEST(Llvm, AnUnknownTargetIsARefusal) {
  Arena arena;
  Arena::Scope scope(arena);
  Target t = target("x86_64");
  std::vector<UOp> list = matmul_list(t);
  t.triple = "pdp11-unknown-elf";
  Result<std::vector<u8>> r = compile_llvm(list, "matmul", t);
  ASSERT_FALSE(r);
  EXPECT_EQ(r.why().substr(0, 38), "LLVM has no target pdp11-unknown-elf: ");
}
TEST(Llvm, AnUnknownRendererIsARefusal) {
  Arena arena;
  Arena::Scope scope(arena);
  Target t = target("x86_64");
  t.renderer = "BASIC";
  Result<std::vector<u8>> r = compile_program(matmul_list(t), "matmul", t);
  ASSERT_FALSE(r);
  EXPECT_EQ(r.why(), "renderer BASIC of CPU is not built yet; known: LLVM, CLANG, OPENCL");
}
TEST(Llvm, NothingIsLeftToLinkButTheEntry) {
  // No call of a library: the loader resolves nothing.
  Built b = build(target("x86_64"));
  EXPECT_EQ(b.assembly.find("\tcall"), std::string::npos);
}
TEST(Llvm, TheVersionIsPartOfTheProgramsIdentity) {
  EXPECT_EQ(compiler_version(target("x86_64")), "LLVM " + llvm_version());
  EXPECT_EQ(llvm_version().substr(0, 3), "22.");
}

// out[i, j] = sum of a[i, l] * w[l, j] of bytes or bf16, packed, as each target's dot instruction.
std::string dot_assembly(std::string_view arch, const char* a, const char* b, const char* sum) {
  Arena arena;
  Arena::Scope scope(arena);
  Target t = target(arch);
  Kernel k;
  k.ast = parse(str("%n = CONST index 64\n%d = CONST index 64\n%i = RANGE index [0, 0, 0, 4] %n\n%j = RANGE index [1, 0, 0, 4] %n\n%l = RANGE index [2, 0, 1, 8] %d\n%o = PARAM ",
                    sum, " #0 %n %n\n%a = PARAM ", a, " #1 %n %d\n%w = PARAM ", b, " #2 %d %n\n%ai = INDEX ", a, " %a %i %l\n%wi = INDEX ", b, " %w %l %j\n%x = LOAD ", a,
                    " %ai\n%y = LOAD ", b, " %wi\n%xc = CAST ", sum, " %x\n%yc = CAST ", sum, " %y\n%p = MUL ", sum, " %xc %yc\n%s = REDUCE ", sum,
                    " [0] %p %l\n%oi = INDEX ", sum, " %o %i %j\n%st = STORE void %oi %s %i %j\n%k = SINK void %st\n"));
  for (int i = 0; i < 3; i++) {
    Slot s;
    s.dims = {64, 64}, s.layout = Layout::row_major(s.dims), s.constant = i == 2;
    k.slots.push_back(s);
  }
  k.target = &t;
  std::string text, assembly;
  auto o = compile_llvm(lower(heuristics(prepare(k))).linear, "dots", t, &text, &assembly);
  TG_CHECK(o, o.why());
  return assembly;
}
TEST(Llvm, DotInstructionsOfEachMachine) {
  auto uses = [](const std::string& assembly, const char* what) { return assembly.find(what) != std::string::npos; };
  std::string zen4 = dot_assembly("x86_64,znver4", "u8", "i8", "i32");
  EXPECT_TRUE(uses(zen4, "vpdpbusd") && uses(zen4, "%zmm")) << zen4;
  std::string alder = dot_assembly("x86_64,alderlake", "u8", "i8", "i32");
  EXPECT_TRUE(uses(alder, "vpdpbusd") && uses(alder, "%ymm") && !uses(alder, "%zmm")) << alder;
  std::string zen2 = dot_assembly("x86_64,znver2", "u8", "i8", "i32");
  EXPECT_TRUE(uses(zen2, "vpmaddwd") && !uses(zen2, "vpdpbusd")) << zen2;
  std::string base = dot_assembly("x86_64", "i8", "i8", "i32");
  EXPECT_TRUE(uses(base, "pmaddwd")) << base;
  for (const std::string& s : {zen4, alder, zen2, base}) EXPECT_FALSE(uses(s, "pmaddubsw")) << "saturates";
  EXPECT_TRUE(uses(dot_assembly("x86_64,znver4", "bf16", "bf16", "f32"), "vdpbf16ps"));
  EXPECT_FALSE(uses(dot_assembly("x86_64,znver3", "bf16", "bf16", "f32"), "vdpbf16ps"));
}

}  // namespace
