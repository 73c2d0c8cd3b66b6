// A cost model: nanoseconds of one launch on one thread, read off the linear form. It ranks candidates before any is compiled, and says
// what bounds a kernel.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "opt/kernel.h"

namespace tg {

struct Estimate {
  f64 ns = 0;
  // Cycles of the whole launch, by what would bound it if it stood alone.
  f64 arithmetic = 0, loads = 0, stores = 0, latency = 0, spills = 0, loops = 0;
  f64 l2 = 0, l3 = 0, memory = 0;  // bytes that come from there, in cycles
  i64 uops = 0;                    // of the linear form

  std::string bound() const;  // "arithmetic", "loads", ..., whichever is largest
};

// slots: by PARAM slot; a constant is cold, what is written or comes from other kernels is in the last cache.
Estimate estimate(std::span<const UOp> linear, i64 tasks, std::span<const Slot> slots, const Target& target);

}  // namespace tg
