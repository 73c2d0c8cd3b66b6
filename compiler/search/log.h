// What searches found, as text, one kernel a line:
//
//   kernel=<digest> near=<digest> target=CPU:LLVM:x86_64,znver4 sizes=64,64,64 ns=18230 base=19021 name=matmul_64_64 opts=VECTOR 1 16
//
// kernel names one kernel with its layouts on one target, near leaves its sizes out. ns and base are times of the winner and of the
// heuristics' kernel. Both are 0 where the kernel was not searched, and the heuristics' Opts stand.
// opts runs to the end of the line. Lines that begin with # are left alone. The line of a choice (schedule/choice.h) has the name "choice", and the
// alternative's name for opts.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "ir/uop.h"

namespace tg {

struct LogEntry {
  Digest kernel, near;
  std::string target, name, opts;
  std::vector<i64> sizes;
  f64 ns = 0, base_ns = 0;

  std::string line() const;  // without a line's end
};

constexpr const char* kChoiceName = "choice";

class SearchLog {
 public:
  // `where` names the text in errors.
  static SearchLog parse(std::string_view text, const std::string& where);
  std::string text() const;     // by digest, so that order of search does not show
  void add(const LogEntry& e);  // of two lines for one kernel the faster one stays, of equals the first
  const LogEntry* find(const Digest& kernel) const;
  std::vector<const LogEntry*> nearest(const Digest& near, const std::string& target, const std::vector<i64>& sizes, size_t most) const;
  const std::map<Digest, LogEntry>& entries() const { return all_; }
  bool empty() const { return all_.empty(); }

 private:
  std::map<Digest, LogEntry> all_;
};

// The digest of a canonical kernel without its sizes, and the sizes of its loops.
Digest near_digest(UOp ast);
std::vector<i64> loop_sizes(UOp ast);
// How far two lists of sizes are apart: sum of |log ratio|; infinite if they have not as many loops.
f64 distance(const std::vector<i64>& a, const std::vector<i64>& b);

}  // namespace tg
