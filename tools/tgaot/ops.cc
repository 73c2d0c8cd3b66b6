// tgaot ops: the ONNX operators that can be imported.
#include "base/error.h"
#include "verbs.h"

void add_ops(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("ops", "the ONNX operators that can be imported");
  verb->allow_extras();
  verb->callback([] { tg::fail("ops is not built yet in this version"); });
}
