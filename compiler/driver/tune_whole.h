// What a search found, timed in the whole model: a kernel that is faster alone may be slower between its neighbours. The heuristics'
// kernels, the winners and the runners-up run in turns, and each kernel keeps what was fastest there.
#pragma once
#include "base/workers.h"
#include "driver/tune.h"
#include "ir/graph.h"
#include "schedule/schedule.h"
#include "search/clock.h"

namespace tg::driver {

// Changes the plan's Opts and the log where the whole model says so, and CACHEDB with them. Does nothing if nothing was searched in this
// run or nothing differs from the heuristics.
void settle_whole(const Graph& g, const Schedule& s, KernelPlan& plan, const Target& target, SearchClock& clock, Tuned* tuned);

struct WholeTimes {
  f64 ns = 0;              // of a run
  std::vector<f64> steps;  // of its launches, in order
};

// One way to make the model.
struct Timed {
  const Graph* graph;
  const Schedule* schedule;
  KernelPlan plan;
};
// Their times, run in turns for at most about `seconds`, less where the part's share ends; empty, and why, if they cannot be timed.
std::vector<WholeTimes> time_models(std::span<const Timed> models, const Target& target, SearchClock& clock, SearchPart part, f64 seconds,
                                    std::string* why);
// Models with more weights than this are not timed as a whole: each way is a bundle of its own.
constexpr i64 kMostTimedWeights = i64(1) << 30;
i64 weight_bytes(const Graph& g);

// The child's side: bundles run in turns.
WorkBytes whole_job_bytes(const std::vector<std::string>& bundles, f64 seconds);
std::vector<WholeTimes> parse_whole(std::span<const u8> bytes);
Result<WorkBytes> time_whole(std::span<const u8> job);  // behind the job's first number

}  // namespace tg::driver
