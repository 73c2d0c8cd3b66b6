// The stages from model.onnx to model.tgb, one function each; retune enters after the folds.
#include "driver/compile.h"

#include <cstdio>

#include "backend/backend.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/note.h"
#include "base/progress.h"
#include "base/settings.h"
#include "driver/capture.h"
#include "driver/derive.h"
#include "driver/fold.h"
#include "driver/portable.h"
#include "driver/report.h"
#include "driver/schedule_cache.h"
#include "driver/state.h"
#include "driver/target.h"
#include "driver/tune_choices.h"
#include "driver/tune_whole.h"
#include "driver/variants.h"
#include "formats/header.h"
#include "frontend/import.h"

namespace tg::driver {
namespace {

void check_outputs(const OutputOptions& o) {
  if (o.instead) return;
  check_output_path(o.path);
  if (!o.report.empty()) check_output_path(o.report);
}

Graph import_model(const CompileOptions& o, const std::vector<InputShape>& shapes) {
  ImportOptions io;
  for (const InputShape& s : shapes) io.shapes.push_back({s.input, s.dims, s.names});
  for (const FixedInput& f : o.fixed) io.fixed.push_back({f.input, f.value});
  for (const VarRange& v : o.vars) io.vars.push_back({v.name, v.min, v.max, v.multiple});
  std::string d = settings::DEFAULT_FLOAT();
  io.default_float = d == "float16" ? Kind::F16 : d == "bfloat16" ? Kind::BF16 : d == "float64" ? Kind::F64 : Kind::F32;
  return import_onnx(o.model, io);
}

bundle::Provenance provenance_of_model(const std::string& path) {
  bundle::Provenance p;
  p.model = path.substr(path.rfind('/') + 1);
  p.model_digest = digest(MappedFile(path).bytes()).str();
  return p;
}

// What this run adds to where the model came from: the compiler and its settings.
void add_settings(bundle::Provenance& p, const Target& target) {
  p.made_by = "tgaot " TGAOT_VERSION ", " + compiler_version(target);
  p.settings.clear();
  for (int i = 0; i < settings::kCount; i++) {
    settings::Id id = settings::Id(i);
    if (settings::row(id).changes_code && settings::value_text(id) != settings::default_text(id))
      p.settings.push_back({settings::row(id).name, settings::value_text(id)});
  }
}

void write_report(const Report& report, const std::string& model, const OutputOptions& o, const Target& target) {
  if (o.instead) return;
  report.print(o.path);
  if (!o.report.empty()) write_file(o.report, report.json(model, o.path, target));
}

TuneSources sources_of(const SearchOptions& o, const std::string& own_log, const std::string& where) {
  TuneSources s;
  if (!own_log.empty()) s.log = SearchLog::parse(own_log, where);
  for (const std::string& path : o.logs) add_log_file(path, &s);
  if (!o.like.empty()) add_like(o.like, &s);
  s.required = o.log_required;
  return s;
}

// A variant from the graph after both folds to its kernels.
struct Built {
  Graph graph, chosen;  // before and after the choices
  Schedule sched;
  KernelPlan plan;
  std::vector<CompiledKernel> compiled;
};

Built build(const Graph& folded, const Target& target, const TuneSources& sources, SearchClock clock, SearchLog* log, Report& report) {
  Built b;
  // One order of nodes, wherever the graph came from.
  b.graph = copy_graph(folded);
  Arena::Scope scope(*b.graph.arena);
  std::vector<Choice> choices = find_choices(b.graph, target);
  std::vector<std::string> notes;
  settle_choices(b.graph, target, sources, clock, &choices, log, &notes);
  report.choices(choices);
  b.chosen = with_choices(b.graph, target, choices, settings::DERIVE() != 0);
  std::vector<LayoutPick> layouts = settle_layouts(b.chosen, target, sources, clock, log, &notes);
  for (std::string& n : notes) report.note(std::move(n));
  b.sched = cached_schedule(b.graph, target, choices, &b.chosen, layouts);
  report.done("schedule");

  b.plan = plan_kernels(b.sched, target);
  Tuned tuned = tune(b.plan, target, sources, clock);
  settle_whole(b.chosen, b.sched, b.plan, target, clock, &tuned);
  for (std::string& n : tuned.notes) report.note(std::move(n));
  for (const auto& [_, e] : tuned.log.entries()) log->add(e);
  if (settings::BEAM() > 0) report.done("search");
  b.compiled = compile_kernels(b.plan, target);
  report.kernels(b.sched, b.plan, b.compiled);
  report.done("kernels");
  return b;
}

// From the graphs after both folds, one a variant, to the file: what compile and retune share.
void build_bundle(const std::vector<Graph>& folded, const Target& target, bundle::Provenance provenance, const OutputOptions& o,
                  const TuneSources& sources, Report& report) {
  SearchLog log;
  std::vector<Built> built;
  f64 budget = settings::BEAM_BUDGET();
  SearchClock clock(budget);
  for (const Graph& g : folded) {
    // What is left, to the variants that are left.
    f64 share = budget > 0 ? std::max(1e-3, (budget - clock.spent()) / f64(folded.size() - built.size())) : 0;
    built.push_back(build(g, target, sources, SearchClock(share), &log, report));
  }
  if (o.instead) return o.instead(built[0].plan, built[0].compiled, target);

  std::vector<Captured> captured(built.size());
  for (size_t i = 0; i < built.size(); i++) {
    Built& b = built[i];
    Arena::Scope scope(*b.graph.arena);
    captured[i].bundle = capture(b.chosen, b.sched, b.plan, b.compiled, target, &captured[i].constant_of, !o.strip);
    for (size_t c = 0; built.size() > 1 && c < b.chosen.constants.size(); c++) captured[i].keys.push_back(constant_key(b.chosen, c));
  }
  bundle::BundleDesc bundle = merge_variants(captured);
  add_settings(provenance, target);
  bundle.provenance = std::move(provenance);
  bundle.provenance.log = log.text();
  if (o.strip) {
    report.note("stripped: the graph is left out, so the bundle cannot be retuned for another target");
  } else {
    std::vector<std::span<const u32>> constant_of;  // the graphs in the bundle are those before the choices
    std::vector<const Graph*> graphs;
    bundle.portable.emplace();
    for (size_t i = 0; i < built.size(); i++) {
      graphs.push_back(&built[i].graph);
      constant_of.push_back(std::span(captured[i].constant_of).first(built[i].graph.constants.size()));
      bundle.portable->kernels.push_back({0, write_kernels(built[i].plan, built[i].compiled)});
    }
    bundle.portable->graph = write_graphs(graphs, constant_of);
  }
  report.sizes(bundle::write_bundle(bundle, o.path, {o.compress}));
  report.done("packing");
}

}  // namespace

void compile_model(const CompileOptions& o) {
  check_outputs(o.output);
  Target target = resolve_target();
  TuneSources sources = sources_of(o.search, "", "");
  if (settings::DEBUG() >= 1) std::fprintf(stderr, "target %s\n", target_text(target).c_str());
  Report report;
  std::vector<Graph> graphs;
  for (const std::vector<InputShape>& shapes : variants_of(o.shapes)) {
    Graph& graph = graphs.emplace_back(import_model(o, shapes));
    pair_state(graph, o.state, o.model);
    report.done("import");
    i64 moved = move_scales(graph), folded = fold_constants(graph);
    if (folded) report.note(str("folded ", folded, " values of constants; scales moved into the weights of ", moved, " sums"));
    report.done("fold");
  }
  build_bundle(graphs, target, provenance_of_model(o.model), o.output, sources, report);
  write_report(report, o.model, o.output, target);
}

void retune_bundle(const std::string& path, const OutputOptions& o, const SearchOptions& search) {
  check_outputs(o);
  Report report;
  bundle::Loaded old = bundle::read_bundle(path);
  std::vector<Graph> graphs = read_graphs(old, path);
  const bundle::Target& was = old.desc.targets[0];
  Target target = resolve_target(str(was.device, ":", was.renderer, ":", was.arch));
  if (settings::DEBUG() >= 1) std::fprintf(stderr, "target %s\n", target_text(target).c_str());
  if (std::string text = str(was.device, ":", was.renderer, ":", was.arch); target_text(target) != text)
    report.note(str("the kernels for ", text, " are replaced: bundles for several targets are not built yet"));
  report.done("read");
  OutputOptions out = o;
  out.compress |= (old.features & tgf::kCompressedWeights) != 0;
  build_bundle(graphs, target, old.desc.provenance, out, sources_of(search, old.desc.provenance.log, path + ": its search log"), report);
  write_report(report, path, out, target);
}

}  // namespace tg::driver
