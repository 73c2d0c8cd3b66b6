// CPUs. The machine model that kernels are shaped for: vector registers (32 of 64 bytes with AVX-512, else 16 of 32 or 16 bytes), two FMA
// pipes of 32 bytes, L1 and L2 of a core. Arch strings are "<machine>,<cpu>,[-]<feature>…" with LLVM's names for CPU and features:
// https://llvm.org/docs/CommandGuide/llc.html
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/Triple.h>

#include <algorithm>
#include <memory>

#include "backend/llvm/llvm.h"
#include "base/error.h"

namespace tg {
namespace {

// Features that runtime-lite knows how to look for; a kernel needs those its CPU has.
constexpr const char* kX86[] = {"sse3", "pclmul", "ssse3", "fma", "sse4.1", "sse4.2", "movbe", "popcnt", "aes", "avx", "f16c", "bmi", "avx2",
                                "bmi2", "avx512f", "avx512dq", "adx", "avx512ifma", "avx512cd", "avx512bw", "avx512vl", "avx512vbmi",
                                "avx512vbmi2", "gfni", "vaes", "vpclmulqdq", "avx512vnni", "avx512bitalg", "avx512vpopcntdq", "avx512fp16",
                                "avxvnni", "avx512bf16", "lzcnt"};
constexpr const char* kArm[] = {"neon", "lse", "fullfp16", "rdm", "dotprod", "sve", "sve2", "i8mm", "bf16", "fp16fml"};

// Features that LLVM uses of its own accord and the runtime cannot look for: switched off, so that nothing is used unseen.
constexpr const char* kX86Unseen[] = {"sse4a", "xop",  "fma4",      "tbm", "avxifma", "avxneconvert", "avxvnniint8", "avxvnniint16", "avx10.2",
                                      "avx10.1", "egpr", "push2pop2", "ppx", "ndd",     "ccmp",         "nf",          "cf",           "zu"};
constexpr const char* kArmUnseen[] = {"sha3", "cssc", "mops", "jsconv", "complxnum", "flagm", "altnzcv"};

std::vector<std::string> split(std::string_view s) {
  std::vector<std::string> v;
  while (!s.empty()) {
    size_t c = std::min(s.find(','), s.size());
    if (c) v.emplace_back(s.substr(0, c));
    s.remove_prefix(std::min(c + 1, s.size()));
  }
  return v;
}

}  // namespace

Result<Target> cpu_target(std::string_view arch, std::string_view renderer) {
  using R = Result<Target>;
  llvm::InitializeAllTargetInfos();
  llvm::InitializeAllTargetMCs();
  std::vector<std::string> parts = split(arch);
  bool native = parts.empty() || parts[0] == "native";
  std::string machine = native ? "x86_64" : parts[0];
#if defined(__aarch64__)
  if (native) machine = "arm64";
#endif
  if (machine == "aarch64") machine = "arm64";
  if (machine == "x86-64") machine = "x86_64";
  if (machine != "x86_64" && machine != "arm64")
    return R::no("arch ", std::string(arch), ": machine ", machine, " is unknown; known: x86_64, arm64, native");
  bool x86 = machine == "x86_64";

  Target t;
  t.device = "CPU", t.renderer = renderer;
  t.triple = x86 ? "x86_64-unknown-linux-gnu" : "aarch64-unknown-linux-gnu";
  std::string error;
  const llvm::Target* lt = llvm::TargetRegistry::lookupTarget(llvm::Triple(t.triple), error);
  if (!lt) return R::no("LLVM has no target ", t.triple, ": ", error);

  size_t at = native ? parts.size() : 1;
  std::vector<std::string> host;
  if (native) llvm_host(&t.cpu, &host);
  else if (at < parts.size() && parts[at][0] != '-' && parts[at][0] != '+') {
    std::unique_ptr<llvm::MCSubtargetInfo> plain(lt->createMCSubtargetInfo(llvm::Triple(t.triple), "", ""));
    if (plain->isCPUStringValid(parts[at])) t.cpu = parts[at++];
  }
  if (t.cpu.empty()) t.cpu = x86 ? "x86-64" : "generic";

  std::unique_ptr<llvm::MCSubtargetInfo> base(lt->createMCSubtargetInfo(llvm::Triple(t.triple), t.cpu, ""));
  auto known = x86 ? std::span<const char* const>(kX86) : std::span<const char* const>(kArm);
  std::vector<std::string> changes;  // "+f", "-f"
  if (native) {
    for (const char* f : known) {
      bool has = std::find(host.begin(), host.end(), f) != host.end();
      if (has != base->checkFeatures(std::string("+") + f)) changes.push_back((has ? "+" : "-") + std::string(f));
    }
  }
  for (; at < parts.size(); at++) {
    std::string f = parts[at];
    bool off = f[0] == '-';
    if (f[0] == '-' || f[0] == '+') f.erase(0, 1);
    if (std::find(known.begin(), known.end(), f) == known.end())
      return R::no("arch ", std::string(arch), ": ", f, " is no CPU or feature of ", machine, "; features: ", join(known));
    changes.push_back((off ? "-" : "+") + f);
  }
  t.features = join(changes, ",");
  std::unique_ptr<llvm::MCSubtargetInfo> sti(lt->createMCSubtargetInfo(llvm::Triple(t.triple), t.cpu, t.features));
  auto has = [&](const char* f) { return sti->checkFeatures(std::string("+") + f); };
  auto off = [&](const char* f) {
    if (!has(f)) return;
    t.features += str(t.features.empty() ? "" : ",", "-", f);
    sti.reset(lt->createMCSubtargetInfo(llvm::Triple(t.triple), t.cpu, t.features));
  };
  for (const char* f : x86 ? std::span<const char* const>(kX86Unseen) : std::span<const char* const>(kArmUnseen)) off(f);
  // AVX-512 without its byte, word and short-vector parts is not worth kernels of its own.
  if (x86 && !(has("avx512vl") && has("avx512bw") && has("avx512dq"))) off("avx512f");
  t.needs.push_back(machine);
  for (const char* f : known)
    if (has(f)) t.needs.push_back(f);
  t.arch = machine + "," + t.cpu;
  for (const std::string& c : changes) t.arch += "," + (c[0] == '+' ? c.substr(1) : c);

  if (x86) {
    t.has_avx512 = has("avx512f") && has("avx512vl") && has("avx512bw") && has("avx512dq");
    bool avx2 = has("avx2");
    t.has_fma = has("fma") || t.has_avx512, t.has_f16c = has("f16c");
    t.has_vnni = t.has_avx512 ? has("avx512vnni") : has("avxvnni"), t.has_bf16 = has("avx512bf16") && t.has_avx512;
    t.vector_bytes = t.has_avx512 ? 64 : avx2 ? 32 : 16;
    t.vector_registers = t.has_avx512 ? 32 : 16;
    t.masked_cheap = t.has_avx512;
    t.lookup = t.has_avx512 ? 32 : 0;
    t.bypass_bytes = t.has_avx512 && renderer == "LLVM" ? 64 : 0;
    t.fma_per_cycle_bytes = avx2 ? 64 : 32;
  } else {
    t.has_fma = true, t.has_f16c = true;
    t.vector_bytes = 16, t.vector_registers = 32;
    t.fma_per_cycle_bytes = 32;
  }
  return t;
}

}  // namespace tg
