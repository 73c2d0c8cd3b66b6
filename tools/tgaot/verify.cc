// tgaot verify: compares a bundle's outputs with a data set.
#include "base/error.h"
#include "verbs.h"

void add_verify(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("verify", "compares a bundle's outputs with a data set");
  verb->allow_extras();
  verb->callback([] { tg::fail("verify is not built yet in this version"); });
}
