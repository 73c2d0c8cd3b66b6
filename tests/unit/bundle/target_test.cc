// The grammar of DEV: what it accepts, and the words of its errors.
#include "formats/target.h"

#include <gtest/gtest.h>

#include <string>

#include "formats/dtype.h"

namespace {

// "iface|indices|device|renderer|arch" of each target, or "error: ..."
std::string parsed(const char* dev) {
  tgf::Target t[tgf::kMaxTargets];
  uint32_t n;
  char error[400];
  if (!tgf::parse_targets(dev, t, &n, error, sizeof error)) return std::string("error: ") + error;
  std::string s;
  for (uint32_t i = 0; i < n; i++) {
    if (i) s += " ; ";
    s += std::string(t[i].iface) + "|" + t[i].indices + "|" + t[i].device + "|" + t[i].renderer + "|" + t[i].arch;
  }
  return s;
}
std::string printed(const char* dev) {
  tgf::Target t[tgf::kMaxTargets];
  uint32_t n;
  char error[400], text[400];
  if (!tgf::parse_targets(dev, t, &n, error, sizeof error) || n != 1) return "error";
  tgf::print_target(t[0], text, sizeof text);
  return text;
}

TEST(Target, PartsAreFoundAndUpperCased) {
  EXPECT_EQ(parsed(""), "");
  EXPECT_EQ(parsed("CPU"), "||CPU||");
  EXPECT_EQ(parsed("cpu:clang"), "||CPU|CLANG|");
  EXPECT_EQ(parsed("AMD::gfx950"), "||AMD||gfx950");
  EXPECT_EQ(parsed("USB+AMD"), "USB||AMD||");
  EXPECT_EQ(parsed("NV:CUDA:sm_70"), "||NV|CUDA|sm_70");
  EXPECT_EQ(parsed("CPU:LLVM:x86_64,znver2,avx2,-avx512f"), "||CPU|LLVM|x86_64,znver2,avx2,-avx512f");
  EXPECT_EQ(parsed("CPU;AMD"), "||CPU|| ; ||AMD||");
  EXPECT_EQ(parsed("AMD:LLVM;CPU:CLANG"), "||AMD|LLVM| ; ||CPU|CLANG|");
  EXPECT_EQ(parsed(":1+CL"), "|1|CL||");
  EXPECT_EQ(parsed("KFD:0,2-3+AMD"), "KFD|0,2-3|AMD||");
  EXPECT_EQ(parsed("RPC:phone.local:9000+QCOM:CL"), "RPC|phone.local:9000|QCOM|CL|");
}

TEST(Target, ErrorsSayWhatAndWhatToDo) {
  EXPECT_EQ(parsed("A+B+C"), "error: too many '+' in target string: 'A+B+C'; a target is [interface[:indices]+]device[:renderer[:arch]]");
  EXPECT_EQ(parsed("CPU:a:b:c"),
            "error: too many ':' in target string: 'CPU:a:b:c'; a target is [interface[:indices]+]device[:renderer[:arch]]");
  EXPECT_EQ(parsed("KFD:0:1+AMD"),
            "error: too many ':' in target string: 'KFD:0:1+AMD'; a target is [interface[:indices]+]device[:renderer[:arch]]");
  EXPECT_EQ(parsed("CPQ"), "error: DEV=CPQ: unknown device 'CPQ', did you mean: 'CPU'? List with: tgaot devices");
  EXPECT_EQ(parsed("CPU:LLM"), "error: DEV=CPU:LLM: CPU has no renderer 'LLM', did you mean: 'LLVM'?");
  EXPECT_EQ(parsed("KFDD+AMD"), "error: DEV=KFDD+AMD: AMD has no interface 'KFDD', did you mean: 'KFD'?");
  EXPECT_EQ(parsed("KFD:x+AMD"), "error: DEV=KFD:x+AMD: invalid visibility filter 'x'; write indices as 1 or 0,2 or 0-3");
  EXPECT_EQ(parsed("RPC+CPU"), "error: DEV=RPC+CPU: RPC needs the agent's address: RPC:host:port+device");
  EXPECT_NE(parsed(std::string(300, 'x').c_str()).find("error: "), std::string::npos);
  std::string many = "CPU";
  for (int i = 0; i < 16; i++) many += ";CPU";
  EXPECT_EQ(parsed(many.c_str()), "error: DEV names more than 16 targets");
}

TEST(Target, PrintsAsItIsRead) {
  for (const char* t : {"CPU", "CPU:CLANG", "AMD::gfx950", "USB+AMD", "USB:1+AMD::gfx950", ":1+CL", "RPC:h:1+CPU:LLVM:x86_64,znver4"})
    EXPECT_EQ(printed(t), t);
}

TEST(Dtype, BytesOfPackedKinds) {
  EXPECT_EQ(tgf::dense_bytes(tgf::Dtype::F32, 3), 12);
  EXPECT_EQ(tgf::dense_bytes(tgf::Dtype::I4, 3), 2);
  EXPECT_EQ(tgf::dense_bytes(tgf::Dtype::U2, 5), 2);
  EXPECT_EQ(tgf::dense_bytes(tgf::Dtype::Bool, 0), 0);
}

}  // namespace
