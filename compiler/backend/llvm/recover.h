// What crashes inside LLVM when it runs in this process (PARALLEL=0).
#pragma once
#include <functional>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace tg {

// f's answer; a fatal error of LLVM, an abort or a signal inside it is a refusal, and the process goes on (what f had allocated is lost).
// An Error that f throws is its refusal too.
Result<std::vector<u8>> run_recovering(const std::function<Result<std::vector<u8>>()>& f);

}  // namespace tg
