// The kernels of a plan given their Opts by search (BEAM), by logs, or by another bundle's kernels.
#pragma once
#include <map>
#include <string>

#include "driver/kernels.h"
#include "search/clock.h"
#include "search/log.h"

namespace tg::driver {

struct TuneSources {
  SearchLog log;                            // Opts to take; with BEAM above 0 to begin with
  bool required = false;                    // a kernel that the log does not know is an Error
  std::map<std::string, std::string> like;  // by entry: Opts of another bundle's kernels
  SearchLog like_choices;                   // the other bundle's answers for the model as a whole
};

struct Tuned {
  SearchLog log;                      // a line for each kernel that was searched or taken from a log: the bundle keeps it
  std::vector<std::string> notes;     // for the report
  struct Kernel {                     // by job, if this run has searched
    Digest kernel;                    // in the log
    std::string base, found, second;  // Opts of the heuristics, of the winner, of the next one ("": none)
    Digest cached;                    // where CACHEDB has the result; 0: nowhere
  };
  std::vector<Kernel> kernels;
};

// Sets `opts` of the plan's jobs. Searches where BEAM is above 0, costliest kernels first, until BEAM_BUDGET is spent or the user presses
// Ctrl-C; what was found until then is kept, and in CACHEDB.
Tuned tune(KernelPlan& plan, const Target& target, const TuneSources& sources, SearchClock& clock);

// What a search of this kernel tried, for people; "" if CACHEDB does not know.
std::string told(const Digest& kernel);

// Another choice for job j of a search's result: in the log and in CACHEDB.
void replace_found(Tuned* t, size_t j, const std::string& opts);

// Identity of a kernel in logs.
Digest kernel_digest(const KernelJob& job);

// Reads logs and bundles that --log and --like name.
void add_log_file(const std::string& path, TuneSources* to);
void add_like(const std::string& bundle, TuneSources* to);

}  // namespace tg::driver
