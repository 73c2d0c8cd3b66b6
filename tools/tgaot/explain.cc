// tgaot explain: what bounds each kernel of a bundle or model, and what a search tried.
#include "driver/explain.h"

#include <cstdio>

#include "driver/compile.h"
#include "verbs.h"

void add_explain(CLI::App& app) {
  struct Args {
    std::string file;
    std::vector<std::string> shapes;
    tg::i64 kernels = 20;
    bool json = false;
    tg::driver::SearchOptions search;
  };
  auto a = std::make_shared<Args>();
  Verb verb(app, "explain", "what bounds each kernel, by measurement, estimate and roofline; what a search tried and refused");
  verb.required("file", &a->file, "a bundle (.tgb) or a model (.onnx)")
      .option("--shape", &a->shapes, "of a model: fixes an input's shape: input=1x3x224x224")
      .option("--kernels", &a->kernels, "how many are shown, costliest first (20); 0: all")
      .flag("--json", &a->json, "as JSON, all kernels");
  add_search_options(verb, &a->search);
  verb.run([a] {
    tg::driver::OutputOptions out;
    out.instead = [&](const tg::driver::KernelPlan& plan, std::span<const tg::driver::CompiledKernel> compiled, const tg::Target& target) {
      tg::driver::Explained e = tg::driver::explain(plan, compiled, target);
      std::fputs((a->json ? tg::driver::explained_json(e) : tg::driver::explained_text(e, a->kernels)).c_str(), stdout);
    };
    if (a->file.ends_with(".tgb")) {
      tg::driver::retune_bundle(a->file, out, a->search);
      return;
    }
    tg::driver::CompileOptions o;
    o.model = a->file, o.output = out, o.search = a->search;
    for (const std::string& s : a->shapes) o.shapes.push_back(parse_shape(s));
    tg::driver::compile_model(o);
  });
}
