#include "driver/target.h"

#include "backend/clang/clang.h"
#include "base/error.h"
#include "base/settings.h"
#include "formats/target.h"

namespace tg::driver {

Target resolve_target(const std::string& preferred) {
  std::string dev = settings::DEV();
  if (dev.empty()) dev = preferred;
  tgf::Target parsed[tgf::kMaxTargets] = {};
  u32 n = 0;
  char error[512];
  if (!tgf::parse_targets(dev.c_str(), parsed, &n, error, sizeof error)) throw_error(error);
  if (n > 1) fail("DEV=", dev, ": bundles for several targets are not built yet; name one");
  const tgf::Target& want = parsed[0];
  std::string device = *want.device ? want.device : "CPU", renderer = *want.renderer ? want.renderer : "LLVM";
  if (device != "CPU") fail("DEV=", dev, ": compiling models for ", device, " is not built yet; for CPU it is. List with: tgaot devices");
  if (renderer != "LLVM" && renderer != "CLANG") fail("DEV=", dev, ": CPU has no renderer ", renderer, "; it has LLVM and CLANG");
  if (renderer == "CLANG")
    if (auto clang = clang_version(); !clang) fail("DEV=", dev, ": ", clang.why());
  Result<Target> t = cpu_target(want.arch, renderer);
  if (!t) fail("DEV=", dev, ": ", t.why());
  return *t;
}

std::string target_text(const Target& t) { return str(t.device, ":", t.renderer, ":", t.arch); }

}  // namespace tg::driver
