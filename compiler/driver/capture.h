// The captured run: a schedule and its compiled kernels as the parts of a bundle that the runtime replays.
#pragma once
#include <span>

#include "bundle/bundle.h"
#include "driver/kernels.h"
#include "ir/graph.h"
#include "schedule/schedule.h"
#include "target/target.h"

namespace tg::driver {

// A bundle with signature, weights, programs and one variant for `target`, without portable part and provenance. constant_of receives the
// bundle's constant for each of the graph's. Weights and machine code are borrowed from graph and compiled. unread: with the constants that no
// kernel reads, for a graph that goes into the bundle too.
bundle::BundleDesc capture(const Graph& g, const Schedule& s, const KernelPlan& plan, std::span<const CompiledKernel> compiled,
                           const Target& target, std::vector<u32>* constant_of, bool unread = true);

}  // namespace tg::driver
