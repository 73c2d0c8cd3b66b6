// tgaot retune: a bundle for another target, without the model.
#include "base/error.h"
#include "verbs.h"

void add_retune(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("retune", "a bundle for another target, without the model");
  verb->allow_extras();
  verb->callback([] { tg::fail("retune is not built yet in this version"); });
}
