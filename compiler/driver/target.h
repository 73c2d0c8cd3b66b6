// DEV as the machine to compile for.
#pragma once
#include <string>

#include "base/result.h"
#include "target/target.h"

namespace tg::driver {

// The target that the setting DEV names, its arch explicit; an empty DEV is `preferred` (DEV's grammar), or this machine's CPU. An Error
// names what is not known or not built.
Target resolve_target(const std::string& preferred = "");

std::string target_text(const Target& t);  // "CPU:LLVM:x86_64,znver4"

}  // namespace tg::driver
