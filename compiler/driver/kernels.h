// The kernels of a schedule compiled: equal ones once, from the cache or by worker processes.
#pragma once
#include <string>
#include <vector>

#include "driver/kernel_job.h"
#include "schedule/cost.h"
#include "schedule/schedule.h"

namespace tg::driver {

struct KernelPlan {
  struct Use {  // by call of the schedule
    u32 job;
    std::vector<i64> slot_of;  // slot of the job's kernel -> slot of the call
    std::vector<UOp> var_of;   // number of a variable of the job's kernel -> VAR of the schedule
    WorkOfRun work;
  };
  std::vector<KernelJob> jobs;
  std::vector<Work> work;          // by job: what one launch does, at the largest sizes
  std::vector<std::string> names;  // by job: of the first call that needs it
  std::vector<Use> uses;
};

// exact: no Opts and no fused multiply-add, so that every machine computes the same bits.
KernelPlan plan_kernels(const Schedule& s, const Target& t, bool exact = false);

// Answers by job. An Error names the kernel that cannot be compiled and why. With DEBUG>=2 a line a kernel is printed, with higher levels
// what they ask for, in the order of the jobs.
std::vector<CompiledKernel> compile_kernels(const KernelPlan& plan, const Target& t);

}  // namespace tg::driver
