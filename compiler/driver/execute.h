// A graph compiled for a fixed kind of CPU and run here, now: for what is known while compiling.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "ir/graph.h"

namespace tg::driver {

// The outputs' bytes, row-major. Every host computes the same: no Opts, no fused multiply-add, one arch a machine. `inputs` are read where
// they are.
std::vector<std::shared_ptr<std::vector<u8>>> execute(const Graph& g, std::span<const std::span<const u8>> inputs);

}  // namespace tg::driver
