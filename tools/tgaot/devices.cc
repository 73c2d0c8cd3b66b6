// tgaot devices: for each device that DEV can name, whether this machine can compile for it, run it and measure on it, and why not.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "base/error.h"
#include "base/settings.h"
#include "formats/target.h"
#include "verbs.h"

namespace {

using tg::str;

bool on_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::string_view rest = path ? path : "";
  while (!rest.empty()) {
    size_t colon = rest.find(':');
    std::string file = str(rest.substr(0, colon), "/", program);
    if (access(file.c_str(), X_OK) == 0) return true;
    rest = colon == rest.npos ? "" : rest.substr(colon + 1);
  }
  return false;
}

std::string cpu_compile() {
  bool clang = on_path("clang-22") || on_path("clang");
  return clang ? "yes (LLVM 22 in process; CLANG by the clang program)" : "yes (LLVM 22 in process; CLANG: no, no clang program on PATH)";
}

void print() {
  std::printf("%-8s %-18s %s\n", "device", "renderers", "compile; run; measure");
  for (tg::u32 i = 0; i < tgf::kDeviceCount; ++i) {
    const tgf::DeviceRow& d = tgf::kDevices[i];
    std::string renderers;
    for (const auto& r : d.renderers)
      if (*r) renderers += str(renderers.empty() ? "" : ",", r);
    std::string state = "no; no; no: not built yet in this version";
    if (std::string_view(d.device) == "CPU")
      state = str(cpu_compile(), "; yes (", tg::settings::NUM_CPU_THREADS(), " threads); yes");
    std::printf("%-8s %-18s %s\n", d.device, renderers.c_str(), state.c_str());
  }
}

}  // namespace

void add_devices(CLI::App& app) {
  app.add_subcommand("devices", "what this machine can compile for, run and measure")->callback(print);
}
