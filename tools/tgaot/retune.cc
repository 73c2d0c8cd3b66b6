// tgaot retune: a bundle for another target, without the model.
#include "driver/compile.h"
#include "verbs.h"

void add_retune(CLI::App& app) {
  struct Args {
    std::string bundle;
    tg::driver::OutputOptions o;
    tg::driver::SearchOptions search;
  };
  auto a = std::make_shared<Args>();
  Verb verb(app, "retune", "a bundle scheduled and compiled again for the target in DEV, without the model");
  verb.required("bundle", &a->bundle, "the .tgb file")
      .option("-o,--output", &a->o.path, "the new file; default: the bundle itself is replaced")
      .flag("--compress", &a->o.compress, "store the weights compressed; needs a runtime built with TGB_ZSTD=ON")
      .flag("--strip", &a->o.strip, "leave out the portable part; the bundle cannot be retuned again")
      .option("--report", &a->o.report, "write a JSON report: kernels, memory, times");
  add_search_options(verb, &a->search);
  verb.run([a] {
    if (a->o.path.empty()) a->o.path = a->bundle;
    tg::driver::retune_bundle(a->bundle, a->o, a->search);
  });
}
