// Why a model's kernels take the time they take: measured, what bounds them by the estimate and by the roofline of this machine, and what a
// search tried.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "driver/kernels.h"
#include "search/estimate.h"

namespace tg::driver {

struct ExplainedKernel {
  std::string name, entry, opts;
  std::string told;   // what a search of it tried; "" if none is known
  std::string unfit;  // why it could not be timed
  i64 launches = 0, tasks = 1;
  Work work;
  f64 ns = 0;           // of one launch, all tasks on one thread
  f64 roofline_ns = 0;  // what arithmetic and memory allow at the least
  bool by_memory = false;
  Estimate estimate;
};
struct Explained {
  f64 gflops = 0, gbytes = 0;            // peaks of one thread here, measured in the same run: a register tile, a sum over memory
  std::vector<ExplainedKernel> kernels;  // by time, costliest first
};

Explained explain(const KernelPlan& plan, std::span<const CompiledKernel> compiled, const Target& target);

std::string explained_text(const Explained& e, i64 most);
std::string explained_json(const Explained& e);

}  // namespace tg::driver
