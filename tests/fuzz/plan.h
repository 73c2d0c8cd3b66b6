// What a memory plan must keep, whatever the graph.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "schedule/schedule.h"

namespace tg {

// What is wrong with the plan of a schedule; empty: nothing. A buffer lives from the first call that uses it to the last; inputs are there from
// the beginning, outputs to the end.
inline std::string plan_fault(const Schedule& s) {
  constexpr i64 kAlign = 64;
  struct Life {
    i64 first = -1, last = -1;
  };
  std::vector<Life> life(s.buffers.size());
  for (size_t i = 0; i < s.calls.size(); i++)
    for (u32 b : s.calls[i].buffers) {
      if (life[b].first < 0) life[b].first = i64(i);
      life[b].last = i64(i);
    }
  for (size_t b = 0; b < s.buffers.size(); b++) {
    if (s.buffers[b].kind == Buffer::Input) life[b] = {0, std::max<i64>(life[b].last, 0)};
    if (s.buffers[b].kind == Buffer::Output) life[b] = {std::max<i64>(life[b].first, 0), i64(s.calls.size())};
  }
  i64 peak = 0;
  for (size_t a = 0; a < s.buffers.size(); a++) {
    const Buffer& x = s.buffers[a];
    if (x.kind == Buffer::Constant || life[a].first < 0) {
      if (x.offset != -1) return str("buffer ", a, " has a place in the arena and no use for it");
      continue;
    }
    if (x.offset < 0 || x.offset % kAlign) return str("buffer ", a, " lies at ", x.offset);
    if (x.bytes != byte_size(x.dtype.kind, x.layout.elems())) return str("buffer ", a, " has ", x.bytes, " bytes");
    peak = std::max(peak, x.offset + x.bytes);
    for (size_t b = a + 1; b < s.buffers.size(); b++) {
      const Buffer& y = s.buffers[b];
      if (y.offset < 0 || !x.bytes || !y.bytes || life[a].last < life[b].first || life[b].last < life[a].first) continue;
      if (x.offset + x.bytes > y.offset && y.offset + y.bytes > x.offset) return str("buffers ", a, " and ", b, " overlap while both are alive");
    }
    i64 end = 0;  // of those that it lies upon
    for (u32 below : x.lies_on) end = std::max(end, (s.buffers[below].offset + s.buffers[below].bytes + kAlign - 1) / kAlign * kAlign);
    if (x.offset != end) return str("buffer ", a, " lies at ", x.offset, ", what it lies upon ends at ", end);
  }
  if (s.arena_bytes != peak) return str("the arena has ", s.arena_bytes, " bytes, the plan takes ", peak);
  if (s.lower_bound_bytes > peak) return str("the lower bound ", s.lower_bound_bytes, " is above the peak ", peak);
  return "";
}

}  // namespace tg
