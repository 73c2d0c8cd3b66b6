// BEAM_BUDGET as the parts of one search share it: a part begins nothing that would end behind its share, and what a part leaves is the
// next one's. The last part, whole models in turns, is kept free as long as they took before.
#pragma once
#include <functional>

#include "base/types.h"

namespace tg {

enum class SearchPart { Choices, Layouts, Kernels, Whole };

class SearchClock {
 public:
  using Now = std::function<f64()>;  // seconds
  // budget: seconds from now on; 0: no limit.
  explicit SearchClock(f64 budget, Now now = monotonic_seconds);

  f64 spent() const { return now_() - began_; }
  f64 left(SearchPart part) const;  // until the part's share ends; below 0: it has. Without a limit more than anyone asks for
  bool over(SearchPart part) const { return left(part) <= 0; }

  // How long models shall run in turns in this part, of `most` seconds.
  f64 run_seconds(SearchPart part, f64 most) const;
  // Whole models were made and run: `seconds` in all, of which `running` were asked for.
  void timed_models(f64 seconds, f64 running);
  // Seconds that one such comparison will take: as long as the longest until now.
  f64 models_seconds(f64 running) const { return overhead_ + running; }

  static f64 monotonic_seconds();

 private:
  f64 budget_, began_, overhead_ = 0;
  Now now_;
};

}  // namespace tg
