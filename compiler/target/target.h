// Facts about one architecture, as data. Stages read them; none compares a device name.
#pragma once
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/dtype.h"

namespace tg {

struct Target {
  std::string device, renderer, arch;   // "CPU", "LLVM", "x86_64,znver4"
  // CPU code generation, resolved from arch: LLVM's names, and what must be there at run time.
  std::string triple, cpu, features;    // features: "+avx2,-avx512f"
  std::vector<std::string> needs;       // "avx512f": as tgb checks them
  i64 vector_bytes = 16;                // widest vector register
  i64 vector_registers = 16;
  i64 fma_per_cycle_bytes = 32;         // bytes of f32 results an FMA pipe pair finishes a cycle
  i64 l1_bytes = 32 << 10, l2_bytes = 1 << 20, l3_bytes = 32 << 20;
  bool has_fma = false, has_f16c = false, has_avx512 = false, has_vnni = false, has_bf16 = false;
  bool masked_cheap = false;            // masked loads and stores cost no more than plain ones
  i64 lookup = 0;                       // 32-bit numbers among which an instruction chooses by an index in each lane; 0: there is none
  i64 bypass_bytes = 0;                 // a store of so many, aligned, may pass the caches by; 0: there is none
  i64 max_tasks = 64;
};

// The CPU target of an arch string: "x86_64,znver4", "x86_64,znver2,avx2,-avx512f", "native" or "" (this machine, resolved to an explicit string).
Result<Target> cpu_target(std::string_view arch, std::string_view renderer);

}  // namespace tg
