// What a compilation did: the stages' times, the kernels, memory and sizes; a summary for stderr and JSON for a file.
#pragma once
#include <chrono>
#include <span>
#include <string>
#include <vector>

#include "bundle/bundle.h"
#include "driver/kernels.h"
#include "schedule/choice.h"
#include "schedule/schedule.h"
#include "target/target.h"

namespace tg::driver {

// Of several variants: kernels and launches of all, stages added up, the largest memory.
class Report {
 public:
  void done(const char* stage);  // the stage that ends now; it began when the last one ended
  void note(std::string text) { notes_.push_back(std::move(text)); }
  void choices(const std::vector<Choice>& v);  // one line each with DEBUG=2
  void kernels(const Schedule& s, const KernelPlan& plan, std::span<const CompiledKernel> compiled);
  void sizes(const bundle::WriteStats& stats) { stats_ = stats; }

  // Two lines: what was made, and the share of each stage.
  void print(const std::string& output) const;
  std::string json(const std::string& model, const std::string& output, const Target& target) const;

 private:
  struct Stage {
    std::string name;
    f64 ms;
  };
  struct Kernel {
    std::string name, entry, opts;
    i64 tasks, launches, flops, bytes, code_bytes;
    f64 lower_ms, compile_ms;
    bool cached;
  };
  f64 total() const;

  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  std::vector<Stage> stages_;
  std::vector<Kernel> kernels_;  // by job
  std::vector<std::string> notes_;
  std::vector<Choice> choices_;
  i64 launches_ = 0, arena_bytes_ = 0, lower_bound_bytes_ = 0;
  bundle::WriteStats stats_;
};

}  // namespace tg::driver
