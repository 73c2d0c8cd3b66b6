// tgaot worker: compiles kernels for a parent process; not for people.
#include "base/error.h"
#include "verbs.h"

void add_worker(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("worker", "compiles kernels for a parent process; not for people");
  verb->allow_extras();
  verb->callback([] { tg::fail("worker is not built yet in this version"); });
}
