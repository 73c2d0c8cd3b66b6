// A line on stderr that tells how far a slow step is. Shown on a terminal, or as one line at the end of each step when DEBUG>=1; silent
// otherwise. Redrawn at most ten times a second, and only once a step has lasted 0.2 s, so quick steps leave no flicker.
//
//   Progress p("codegen", kernels.size());
//   for (...) { ...; p.step(kernel.name); }
#pragma once
#include <string>
#include <string_view>

#include "base/types.h"

namespace tg {

class Progress {
 public:
  Progress(std::string what, i64 total);  // total 0: unknown
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void step(std::string_view detail = {}, i64 n = 1);  // thread-safe

 private:
  void draw(std::string_view detail);
  std::string what_;
  i64 total_, done_ = 0, began_ns_, drawn_ns_ = 0;
  bool shown_ = false;
};

// Removes a progress line that is on the terminal, so that what is printed next starts on a clean line. Notes call it themselves.
void clear_progress();

}  // namespace tg
