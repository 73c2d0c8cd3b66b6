#include "driver/report.h"

#include <algorithm>
#include <cstdio>

#include "base/progress.h"
#include "base/settings.h"
#include "driver/tree.h"

namespace tg::driver {
namespace {

std::string fixed(f64 v, int digits) {
  char s[64];
  std::snprintf(s, sizeof s, "%.*f", digits, v);
  return s;
}

}  // namespace

void Report::done(const char* stage) {
  auto now = std::chrono::steady_clock::now();
  f64 ms = std::chrono::duration<f64, std::milli>(now - last_).count();
  auto it = std::find_if(stages_.begin(), stages_.end(), [&](const Stage& s) { return s.name == stage; });  // of an earlier variant
  if (it != stages_.end()) it->ms += ms;
  else stages_.push_back({stage, ms});
  last_ = now;
}

void Report::choices(const std::vector<Choice>& v) {
  choices_.insert(choices_.end(), v.begin(), v.end());
  if (settings::DEBUG() < 2) return;
  clear_progress();
  for (const Choice& c : v) std::fprintf(stderr, "choice %s\n", c.str().c_str());
}

void Report::kernels(const Schedule& s, const KernelPlan& plan, std::span<const CompiledKernel> compiled) {
  size_t first = kernels_.size();
  for (size_t i = 0; i < plan.jobs.size(); i++) {
    const CompiledKernel& k = compiled[i];
    kernels_.push_back({plan.names[i], plan.jobs[i].entry, k.opts, k.tasks, 0, plan.work[i].flops, plan.work[i].bytes, i64(k.object.size()),
                        k.cached ? 0 : k.lower_ms, k.cached ? 0 : k.compile_ms, k.cached});
  }
  for (const KernelPlan::Use& u : plan.uses) kernels_[first + u.job].launches++, launches_++;
  if (s.arena_bytes >= arena_bytes_) arena_bytes_ = s.arena_bytes, lower_bound_bytes_ = s.lower_bound_bytes;
}

f64 Report::total() const {
  f64 ms = 0;
  for (const Stage& s : stages_) ms += s.ms;
  return ms;
}

void Report::print(const std::string& output) const {
  clear_progress();
  i64 cached = 0;
  f64 lower = 0, machine = 0;
  for (const Kernel& k : kernels_) cached += k.cached, lower += k.lower_ms, machine += k.compile_ms;
  std::fprintf(stderr, "%s: %lld kernels (%zu different%s), %.1f MB, memory %.1f MB (at least %.1f)\n", output.c_str(),
               (long long)launches_, kernels_.size(), cached ? str(", ", cached, " from the cache").c_str() : "",
               f64(stats_.file_bytes) * 1e-6, f64(arena_bytes_) * 1e-6, f64(lower_bound_bytes_) * 1e-6);
  for (const std::string& n : notes_) std::fprintf(stderr, "%s\n", n.c_str());
  f64 all = total();
  std::string line = str("time ", fixed(all, 0), " ms:");
  bool first = true;
  for (const Stage& s : stages_) {
    line += str(first ? " " : ", ", s.name, " ", fixed(s.ms, 0), " (", fixed(all > 0 ? 100 * s.ms / all : 0, 0), " %)");
    first = false;
    // Workers share the wall time of this stage: codegen and LLVM split it as they split the workers' time.
    if (s.name == "kernels" && lower + machine > 0)
      line += str(": codegen ", fixed(s.ms * lower / (lower + machine), 0), " (", fixed(100 * s.ms * lower / (lower + machine) / all, 0),
                  " %) + machine code ", fixed(s.ms * machine / (lower + machine), 0), " (",
                  fixed(100 * s.ms * machine / (lower + machine) / all, 0), " %)");
  }
  std::fprintf(stderr, "%s\n", line.c_str());
}

std::string Report::json(const std::string& model, const std::string& output, const Target& target) const {
  Tree t = Tree::map();
  t.add("model", model).add("output", output).add("target", str(target.device, ":", target.renderer, ":", target.arch));
  t.add("file_bytes", stats_.file_bytes)
      .add("weight_bytes", stats_.weight_bytes)
      .add("program_bytes", stats_.program_bytes)
      .add("portable_bytes", stats_.portable_bytes);
  t.add("arena_bytes", arena_bytes_).add("arena_bytes_at_least", lower_bound_bytes_).add("launches", launches_);
  Tree stages = Tree::map();
  for (const Stage& s : stages_) stages.add(s.name, s.ms);
  t.add("stages_ms", std::move(stages)).add("total_ms", total());
  Tree notes = Tree::list();
  for (const std::string& n : notes_) notes.add(n);
  t.add("notes", std::move(notes));
  Tree choices = Tree::list();
  for (const Choice& c : choices_) {
    Tree alternatives = Tree::list();
    for (const Alternative& a : c.alternatives) alternatives.add(Tree::map().add("name", a.name).add("cycles", a.cycles).add("error", a.error));
    choices.add(Tree::map().add("value", c.label).add("picked", c.alternatives[c.picked].name).add("alternatives", std::move(alternatives)));
  }
  t.add("choices", std::move(choices));
  Tree list = Tree::list();
  for (const Kernel& k : kernels_)
    list.add(Tree::map()
                 .add("name", k.name)
                 .add("entry", k.entry)
                 .add("launches", k.launches)
                 .add("opts", k.opts)
                 .add("tasks", k.tasks)
                 .add("flops", k.flops)
                 .add("bytes", k.bytes)
                 .add("code_bytes", k.code_bytes)
                 .add("codegen_ms", k.lower_ms)
                 .add("machine_code_ms", k.compile_ms)
                 .add("cached", k.cached));
  t.add("kernels", std::move(list));
  return t.json();
}

}  // namespace tg::driver
