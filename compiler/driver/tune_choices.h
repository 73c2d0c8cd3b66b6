// What a search decides for the model as a whole, before its kernels: choices (schedule/choice.h) and layouts (schedule/layout_choice.h).
#pragma once
#include "driver/tune.h"
#include "schedule/choice.h"
#include "schedule/layout_choice.h"
#include "search/clock.h"

namespace tg::driver {

// Sets `picked` by the log's word; with BEAM the whole model is timed with each alternative that the cost model does not rule out. What was asked
// goes into the log, a line a question.
void settle_choices(const Graph& g, const Target& target, const TuneSources& from, SearchClock& clock, std::vector<Choice>* choices,
                    SearchLog* log, std::vector<std::string>* notes);

// The same for layouts of `chosen`, the graph with the choices in place.
std::vector<LayoutPick> settle_layouts(const Graph& chosen, const Target& target, const TuneSources& from, SearchClock& clock,
                                       SearchLog* log, std::vector<std::string>* notes);

}  // namespace tg::driver
