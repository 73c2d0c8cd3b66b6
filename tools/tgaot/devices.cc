// tgaot devices: for each device that DEV can name, whether this machine can compile models for it, run them and measure on it, and why
// not.
#include <cstdio>
#include <cstdlib>

#include "backend/clang/clang.h"
#include "backend/llvm/llvm.h"
#include "base/error.h"
#include "base/settings.h"
#include "formats/target.h"
#include "runtime-lite/src/backend.h"
#include "verbs.h"

namespace {

using tg::str;

std::string compiles(std::string_view device) {
  if (device == "CL") return "no: single kernels only, as OpenCL C; whole models are not built yet";
  if (device != "CPU") return "no: not built yet in this version";
  auto clang = tg::clang_version();
  return str("yes: LLVM ", tg::llvm_version(), " in process; CLANG: ", clang ? str("clang ", *clang) : str("no, ", clang.why()));
}

// Opens the device as the runtime does.
std::string runs(const char* device) {
  const tgb::Backend* b = tgb::find_backend(device);
  if (!b) return "no: not built yet in this version";
  tgb::Memory memory{[](void*, size_t bytes, size_t) { return std::malloc(bytes); }, [](void*, void* p) { std::free(p); }, nullptr};
  tgb::OpenDesc desc{memory, "", "", tg::u32(tg::settings::NUM_CPU_THREADS()), 0};
  char why[256] = "";
  tgb::Device* d = nullptr;
  if (b->open(desc, &d, why, sizeof why) != TGB_OK) return str("no: ", static_cast<const char*>(why));
  b->close(d);
  return std::string_view(device) == "CPU" ? str("yes: ", tg::settings::NUM_CPU_THREADS(), " threads") : "yes";
}

void print() {
  for (tg::u32 i = 0; i < tgf::kDeviceCount; ++i) {
    const tgf::DeviceRow& d = tgf::kDevices[i];
    std::string renderers, run = runs(d.device);
    for (const char* r : d.renderers)
      if (*r) renderers += str(renderers.empty() ? "" : ",", r);
    std::printf("%-7s %-15s compile %s\n", d.device, renderers.c_str(), compiles(d.device).c_str());
    std::printf("%-7s %-15s run     %s\n", "", "", run.c_str());
    std::printf("%-7s %-15s measure %s\n", "", "",
                !run.starts_with("yes") ? "no: it does not run here" : std::string_view(d.device) == "CPU" ? "yes" : "no: not built yet in this version");
  }
}

}  // namespace

void add_devices(CLI::App& app) { Verb(app, "devices", "what this machine can compile for, run and measure").run(print); }
