#include "search/clock.h"

#include <algorithm>
#include <chrono>

namespace tg {
namespace {

constexpr f64 kForever = 1e300;
constexpr f64 kChoices = 0.2, kLayouts = 0.35;      // of the budget: where these parts end
constexpr f64 kWhole = 0.15, kMostWhole = 0.5;      // kept for whole models, at least and at most
constexpr f64 kLeastRun = 0.3;                      // seconds of models in turns that tell something

}  // namespace

f64 SearchClock::monotonic_seconds() { return std::chrono::duration<f64>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

SearchClock::SearchClock(f64 budget, Now now) : budget_(budget), began_(now()), now_(std::move(now)) {}

f64 SearchClock::left(SearchPart part) const {
  if (budget_ <= 0) return kForever;
  f64 end = budget_;
  switch (part) {
    case SearchPart::Choices: end *= kChoices; break;
    case SearchPart::Layouts: end *= kLayouts; break;
    // All as found, and once more as picked.
    case SearchPart::Kernels: end -= std::clamp(2 * (overhead_ + kLeastRun), kWhole * budget_, kMostWhole * budget_); break;
    case SearchPart::Whole: break;
  }
  return end - spent();
}

f64 SearchClock::run_seconds(SearchPart part, f64 most) const {
  return budget_ <= 0 ? most : std::clamp(left(part) / 2 - overhead_, std::min(kLeastRun, most), most);
}

void SearchClock::timed_models(f64 seconds, f64 running) { overhead_ = std::max(overhead_, seconds - running); }

}  // namespace tg
