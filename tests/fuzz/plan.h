// What a memory plan must keep, whatever the graph.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "ir/eval.h"
#include "schedule/steps.h"

namespace tg {

// From the first use of a buffer to the last, inputs from the beginning, outputs to the end; what a loop finds or leaves, in all its rounds.
inline std::vector<Span> planned_lives(const Schedule& s) {
  Timeline time = timeline(s);
  std::vector<Span> life = lives(s, time);
  for (size_t b = 0; b < s.buffers.size(); b++) {
    if (s.buffers[b].kind == Buffer::Input) life[b] = {0, std::max<i64>(life[b].last, 0)};
    if (s.buffers[b].kind == Buffer::Output) life[b] = {std::max<i64>(life[b].first, 0), i64(time.uses.size())};
  }
  return life;
}

// What is wrong with the plan of a schedule; empty: nothing.
inline std::string plan_fault(const Schedule& s) {
  constexpr i64 kAlign = 64;
  std::vector<Span> life = planned_lives(s);
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

// The same at the sizes of a run: offsets are worked out as the runtime does, from what each buffer lies upon.
inline std::string plan_fault_at(const Schedule& s, const Graph& g, const std::vector<std::pair<std::string, i64>>& vars) {
  EvalEnv env;
  env.vars = vars;
  for (UOp v : s.vars)  // what the run finds later is at its largest when memory is planned
    if (std::none_of(vars.begin(), vars.end(), [&](auto& x) { return x.first == v.arg_str(); })) env.vars.push_back({std::string(v.arg_str()), v.src(1).as_int()});
  std::vector<u32> order;
  for (u32 b = 0; b < s.buffers.size(); b++)
    if (s.buffers[b].offset >= 0) order.push_back(b);
  std::stable_sort(order.begin(), order.end(), [&](u32 a, u32 b) { return s.buffers[a].offset < s.buffers[b].offset; });
  std::vector<i64> bytes(s.buffers.size()), at(s.buffers.size(), -1);
  for (u32 b : order) {
    bytes[b] = eval_index(s.buffers[b].bytes_to_plan(g), env);
    if (bytes[b] > s.buffers[b].bytes) return str("buffer ", b, " has ", bytes[b], " bytes, more than the plan's ", s.buffers[b].bytes);
    i64 end = 0;
    for (u32 below : s.buffers[b].lies_on) {
      if (at[below] < 0) return str("buffer ", b, " lies upon ", below, ", which comes after it");
      end = std::max(end, (at[below] + bytes[below] + 63) / 64 * 64);
    }
    at[b] = end;
    if (end + bytes[b] > s.arena_bytes) return str("buffer ", b, " ends at ", end + bytes[b], ", outside the arena of ", s.arena_bytes);
  }
  std::vector<Span> life = planned_lives(s);
  for (u32 a : order)
    for (u32 b : order)
      if (a < b && bytes[a] && bytes[b] && at[a] < at[b] + bytes[b] && at[b] < at[a] + bytes[a] && life[a].first <= life[b].last && life[b].first <= life[a].last)
        return str("buffers ", a, " and ", b, " overlap at the sizes of this run while both are alive");
  return "";
}

}  // namespace tg
