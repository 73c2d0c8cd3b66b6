// tgaot worker: compiles and times kernels for a parent process; not for people.
#include <cstdlib>

#include "base/workers.h"
#include "driver/tune_job.h"
#include "verbs.h"

void add_worker(CLI::App& app) {
  Verb(app, "worker", "compiles and times kernels for a parent process; not for people").any_arguments().run([] {
    std::exit(tg::serve_jobs(tg::driver::worker_job_bytes));
  });
}
