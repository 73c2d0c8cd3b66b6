// CPU arch strings: what they resolve to, and what is said of those that are wrong.
#include <gtest/gtest.h>

#include <algorithm>

#include "target/target.h"

using namespace tg;

namespace {

Target target(std::string_view arch) {
  Result<Target> t = cpu_target(arch, "LLVM");
  TG_CHECK(t, t.why());
  return *t;
}
std::string refusal(std::string_view arch) {
  Result<Target> t = cpu_target(arch, "LLVM");
  return t ? "accepted" : t.why();
}
bool needs(const Target& t, std::string_view feature) { return std::find(t.needs.begin(), t.needs.end(), feature) != t.needs.end(); }

TEST(CpuTarget, MachineCpuAndChangesAreKeptAsWritten) {
  Target t = target("x86_64,znver2,avx2,-avx512f");
  EXPECT_EQ(t.device, "CPU");
  EXPECT_EQ(t.renderer, "LLVM");
  EXPECT_EQ(t.arch, "x86_64,znver2,avx2,-avx512f");
  EXPECT_EQ(t.triple, "x86_64-unknown-linux-gnu");
  EXPECT_EQ(t.cpu, "znver2");
}
TEST(CpuTarget, Avx2HasSixteenRegistersOf32Bytes) {
  Target t = target("x86_64,znver2,avx2,-avx512f");
  EXPECT_EQ(t.vector_bytes, 32);
  EXPECT_EQ(t.vector_registers, 16);
  EXPECT_TRUE(t.has_fma && t.has_f16c);
  EXPECT_FALSE(t.has_avx512 || t.has_vnni || t.has_bf16 || t.masked_cheap || t.lookup);
}
TEST(CpuTarget, Avx512HasThirtyTwoRegistersOf64Bytes) {
  Target t = target("x86_64,znver4");
  EXPECT_EQ(t.vector_bytes, 64);
  EXPECT_EQ(t.vector_registers, 32);
  EXPECT_TRUE(t.has_fma && t.has_avx512 && t.has_vnni && t.has_bf16 && t.masked_cheap);
  EXPECT_EQ(t.lookup, 32);
}
TEST(CpuTarget, TheBaselineIsSse2) {
  for (const char* arch : {"x86_64", "x86-64", "x86_64,x86-64"}) {
    Target t = target(arch);
    EXPECT_EQ(t.arch, "x86_64,x86-64") << arch;
    EXPECT_EQ(t.needs, (std::vector<std::string>{"x86_64"})) << arch;
    EXPECT_EQ(t.vector_bytes, 16);
    EXPECT_EQ(t.vector_registers, 16);
    EXPECT_FALSE(t.has_fma || t.has_f16c);
  }
}
TEST(CpuTarget, FeaturesAloneStandOnTheBaseline) {
  Target t = target("x86_64,avx2,fma");
  EXPECT_EQ(t.arch, "x86_64,x86-64,avx2,fma");
  EXPECT_EQ(t.vector_bytes, 32);
  EXPECT_TRUE(t.has_fma);
  EXPECT_FALSE(t.has_f16c);
  EXPECT_TRUE(needs(t, "avx")) << "avx2 includes avx";
  EXPECT_EQ(target("x86_64,+avx2,+fma").arch, t.arch);
}
TEST(CpuTarget, TheNeedsAreTheFeaturesOfTheCpuThatCodeMayUse) {
  Target t = target("x86_64,znver2,-avx512f");
  EXPECT_EQ(t.needs[0], "x86_64");
  for (const char* f : {"sse4.2", "avx", "avx2", "fma", "f16c", "bmi2", "popcnt", "lzcnt"}) EXPECT_TRUE(needs(t, f)) << f;
  for (const char* f : {"avx512f", "avx512vnni", "avxvnni"}) EXPECT_FALSE(needs(t, f)) << f;
}
TEST(CpuTarget, WhatIsSwitchedOffIsNotNeeded) {
  EXPECT_TRUE(needs(target("x86_64,znver4"), "avx512f"));
  Target t = target("x86_64,znver4,-avx512f");
  for (const std::string& f : t.needs) EXPECT_NE(f.substr(0, 6), "avx512") << "all of AVX-512 stands on avx512f";
  EXPECT_EQ(t.vector_bytes, 32);
  EXPECT_EQ(t.vector_registers, 16);
  EXPECT_FALSE(needs(target("x86_64,znver2,-fma"), "fma"));
  EXPECT_FALSE(target("x86_64,znver2,-fma").has_fma);
}
// A feature that the runtime cannot look for is one that code must not use: the machine may not have it.
TEST(CpuTarget, InstructionsThatTheRuntimeCannotCheckAreOff) {
  Target t = target("x86_64,znver2");
  EXPECT_NE(t.features.find("-sse4a"), std::string::npos) << t.features;
  EXPECT_EQ(target("x86_64,bdver2").features, "-sse4a,-tbm") << "xop and fma4 stand on sse4a";
  EXPECT_EQ(target("x86_64,haswell").features, "") << "nothing to switch off";
}
TEST(CpuTarget, Avx512WithoutShortVectorsIsLeftUnused) {
  Target t = target("x86_64,knl");
  EXPECT_EQ(t.vector_bytes, 32);
  EXPECT_FALSE(t.has_avx512);
  EXPECT_FALSE(needs(t, "avx512f"));
  EXPECT_NE(t.features.find("-avx512f"), std::string::npos);
}
TEST(CpuTarget, Arm64) {
  Target t = target("arm64,cortex-a76");
  EXPECT_EQ(t.arch, "arm64,cortex-a76");
  EXPECT_EQ(t.triple, "aarch64-unknown-linux-gnu");
  EXPECT_EQ(t.vector_bytes, 16);
  EXPECT_EQ(t.vector_registers, 32);
  EXPECT_TRUE(needs(t, "arm64") && needs(t, "neon") && needs(t, "dotprod"));
  EXPECT_EQ(target("aarch64,cortex-a76").arch, "arm64,cortex-a76");
}

TEST(CpuTarget, NativeIsResolvedToAnExplicitArch) {
  Target t = target("native");
  EXPECT_EQ(t.arch.find("native"), std::string::npos);
  EXPECT_EQ(target("").arch, t.arch);
  // The explicit string says all of it.
  Target again = target(t.arch);
  EXPECT_EQ(again.arch, t.arch);
  EXPECT_EQ(again.cpu, t.cpu);
  EXPECT_EQ(again.features, t.features);
  EXPECT_EQ(again.needs, t.needs);
  EXPECT_EQ(again.vector_bytes, t.vector_bytes);
}
TEST(CpuTarget, EveryExplicitArchIsAFixedPoint) {
  for (const char* arch : {"x86_64", "x86_64,avx2,fma", "x86_64,znver2,avx2,-avx512f", "x86_64,znver4,-avx512f", "x86_64,knl", "x86_64,bdver2", "arm64,cortex-a76"}) {
    Target t = target(arch), again = target(t.arch);
    EXPECT_EQ(again.arch, t.arch) << arch;
    EXPECT_EQ(again.features, t.features) << arch;
    EXPECT_EQ(again.needs, t.needs) << arch;
  }
}

TEST(CpuTarget, AnUnknownMachineIsRefusedWithTheKnownOnes) {
  EXPECT_EQ(refusal("mips,24kc"), "arch mips,24kc: machine mips is unknown; known: x86_64, arm64, native");
}
TEST(CpuTarget, AnUnknownCpuOrFeatureIsRefusedByName) {
  EXPECT_EQ(refusal("x86_64,znver99").substr(0, 70), "arch x86_64,znver99: znver99 is no CPU or feature of x86_64; features:");
  EXPECT_EQ(refusal("x86_64,znver2,avx3").substr(0, 71), "arch x86_64,znver2,avx3: avx3 is no CPU or feature of x86_64; features:");
  EXPECT_EQ(refusal("x86_64,znver2,-neon").substr(0, 72), "arch x86_64,znver2,-neon: neon is no CPU or feature of x86_64; features:");
  EXPECT_NE(refusal("x86_64,znver2,avx3").find("avx512vnni"), std::string::npos) << "the features are listed";
}
TEST(CpuTarget, TheCpuComesBeforeItsFeatures) {
  EXPECT_EQ(refusal("x86_64,avx2,znver2").substr(0, 73), "arch x86_64,avx2,znver2: znver2 is no CPU or feature of x86_64; features:");
}

}  // namespace
