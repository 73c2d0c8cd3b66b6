// Weights that the runtime makes at open: forms of constants whose values are expressions over other constants (ConstantData::made_of), by kernels of
// the bundle that run once, in the variant's prepare block.
#pragma once
#include <vector>

#include "base/hash.h"
#include "driver/kernels.h"
#include "ir/graph.h"
#include "schedule/schedule.h"
#include "target/target.h"

namespace tg::driver {

struct DerivedForm {
  u32 constant;   // of the graph
  Layout layout;
};

// Input i of the schedule is `from[i]`, a constant of the graph, row-major; output i is forms[i].
struct DerivedKernels {
  std::vector<u32> from;
  Schedule sched;
  KernelPlan plan;
  std::vector<CompiledKernel> compiled;
};
DerivedKernels derived_kernels(const Graph& g, const std::vector<DerivedForm>& forms, const Target& target);

// What tells constant c of the graph from others, by value.
Digest constant_key(const Graph& g, size_t c);

}  // namespace tg::driver
