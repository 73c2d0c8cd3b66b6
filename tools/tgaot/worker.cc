// tgaot worker: compiles and times kernels for a parent process; not for people.
#include <cstdlib>

#include "base/workers.h"
#include "driver/tune_job.h"
#include "verbs.h"

void add_worker(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("worker", "compiles and times kernels for a parent process; not for people");
  verb->allow_extras();
  verb->callback([] { std::exit(tg::serve_jobs(tg::driver::worker_job_bytes)); });
}
