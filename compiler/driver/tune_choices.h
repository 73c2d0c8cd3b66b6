// The picked alternatives of choices, by logs and by search: the model is made with each alternative in turn and timed as a whole.
#pragma once
#include "driver/tune.h"
#include "schedule/choice.h"

namespace tg::driver {

// Sets `picked` where a log has a line for the choice; with BEAM above 0 also where CACHEDB has one, and times the others, costliest first, for at
// most a third of BEAM_BUDGET. Choices with one label are one question. What is known or found gets a line in `log`, whose Opts are the
// alternative's name; what was done, a line in `notes`.
void settle_choices(const Graph& g, const Target& target, const TuneSources& from, std::vector<Choice>* choices, SearchLog* log,
                    std::vector<std::string>* notes);

}  // namespace tg::driver
