// What a search asks of worker processes beside compiling: which lists of Opts are legal and what they would cost, and how long machine
// code takes.
#pragma once
#include <string>
#include <vector>

#include "base/workers.h"
#include "driver/kernel_job.h"
#include "opt/actions.h"
#include "search/beam.h"
#include "search/measure.h"

namespace tg::driver {

struct ProposeJob {
  KernelJob kernel;               // its opts are not looked at
  std::vector<std::string> opts;  // lists, as text
  bool limited = true;            // by BEAM_UOPS_MAX and BEAM_UPCAST_MAX

  WorkBytes bytes() const;
};
// One answer a list, in order.
std::vector<Result<Proposal>> parse_proposals(std::span<const u8> bytes);

WorkBytes measure_job_bytes(const MeasureJob& job);

// Everything that a worker process is asked: compile a kernel, propose, measure.
Result<WorkBytes> worker_job_bytes(std::span<const u8> job);

ActionLimits action_limits();

}  // namespace tg::driver
