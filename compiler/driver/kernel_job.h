// One kernel to compile, as it travels to a worker process, and the worker's answer. Both are bytes, so that they are cache keys and values
// too.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/hash.h"
#include "opt/kernel.h"

namespace tg::driver {

struct KernelJob {
  std::string ast;             // text form of the canonical kernel (ir/text.h)
  std::vector<Slot> slots;     // by canonical slot
  std::vector<i64> ordered;    // canonical axis ids
  std::string renderer, arch;  // an explicit arch string
  std::string entry;           // symbol of the function
  bool exact = false;          // no Opts, no fused multiply-add: the same bits on every machine
  std::optional<std::string> opts;  // exactly these Opts, as opts_text() writes them; none: those of the heuristics

  std::vector<u8> bytes() const;
  static KernelJob parse(std::span<const u8> bytes);
};

struct CompiledKernel {
  std::vector<u8> object;
  i64 tasks = 1;
  std::string opts;
  std::vector<Layout> layouts;  // by canonical slot: those of constants may have changed
  double lower_ms = 0, compile_ms = 0;
  std::string text;     // what DEBUG asks for
  bool cached = false;  // not part of the bytes

  std::vector<u8> bytes() const;
  static CompiledKernel parse(std::span<const u8> bytes);
};

// The kernel as its loops stand, without Opts, and shaped as the job asks. Nodes are made in the current arena; `target` must outlive the
// kernel. A list of Opts that cannot be applied is a refusal that names the Opt.
Result<Target> target_of(const KernelJob& job);
Kernel plain_kernel(const KernelJob& job, const Target& target);
Result<Kernel> shape_kernel(const KernelJob& job, const Target& target);

// Opts, lowering, rendering, compilation.
Result<CompiledKernel> compile_kernel(const KernelJob& job);

// The worker's loop body: job bytes to answer bytes.
Result<std::vector<u8>> compile_kernel_bytes(std::span<const u8> job);

}  // namespace tg::driver
