// tgaot inspect: prints the parts of a bundle.
#include "base/error.h"
#include "verbs.h"

void add_inspect(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("inspect", "prints the parts of a bundle");
  verb->allow_extras();
  verb->callback([] { tg::fail("inspect is not built yet in this version"); });
}
