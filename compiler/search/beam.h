// The search over Opts of one kernel: the N best lists are kept, every round tries what lies near them. Pure logic; compiling and timing is
// what the caller gives it. Candidates have a fixed order, and of equals the earlier one stays.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "base/types.h"

namespace tg {

struct Proposal {
  std::string opts;  // as the kernel has them in the end
  Digest shape;      // of the kernel with these Opts: two lists may give one kernel
  f64 estimate_ns = 0;
};
struct Built {
  std::vector<u8> bytes;  // the caller's own
  Digest code;            // equal machine code is timed once
};

class BeamTools {
 public:
  virtual ~BeamTools() = default;
  virtual std::vector<std::string> templates() = 0;
  virtual std::vector<std::string> moves(const std::string& opts) = 0;
  virtual std::vector<Result<Proposal>> propose(const std::vector<std::string>& opts) = 0;
  virtual std::vector<Result<Built>> build(const std::vector<Proposal>& p) = 0;
  virtual Result<f64> time(const Proposal& p, const Built& b, f64 best_ns) = 0;  // nanoseconds
  virtual bool enough() = 0;                                                     // time is up, or the user stops
};

struct BeamLimits {
  i64 width = 4;
  i64 measured = 16;      // of a round, by estimate: the first half, the rest spread over equally good ones; 0: all
  f64 least_gain = 0.01;  // of a round, for the search to go on
  f64 least_gain_ns = 10;
  i64 rounds = 16;
  bool sample = false;  // `measured` of a round's candidates are drawn by the digest of their text, whatever their estimates
};

struct Candidate {
  Proposal p;
  Built built;
  f64 ns = 0;
};
struct BeamResult {
  std::vector<Candidate> best;  // fastest first; at most `width`
  i64 proposed = 0, compiled = 0, measured = 0, rounds = 0;
  std::map<std::string, i64> refused;      // reason -> how often
  std::vector<std::pair<f64, f64>> ranks;  // estimate and time of all that were timed
  bool stopped = false;                    // enough() ended it
};

// seeds are compiled and timed whatever their estimate; the first one that works is in the result unless faster ones fill it.
BeamResult beam(const BeamLimits& limits, const std::vector<std::string>& seeds, BeamTools& tools);

// Spearman's rank correlation; ties get their mean rank. NaN for fewer than 3 pairs.
f64 rank_correlation(const std::vector<std::pair<f64, f64>>& pairs);

}  // namespace tg
