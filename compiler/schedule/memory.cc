// Places inputs, outputs and scratch in one arena: largest first, each at the lowest aligned offset that is free for its whole life. Inputs
// live from the start of a run, outputs to its end (those that the caller binds are used where they are, and their place stays untouched).
#include <algorithm>

#include "schedule/schedule.h"

namespace tg {
namespace {
constexpr i64 kAlign = 64;
i64 aligned(i64 v) { return (v + kAlign - 1) / kAlign * kAlign; }
}  // namespace

void plan_memory(Schedule& s) {
  struct Life {
    i64 first = -1, last = -1;
  };
  std::vector<Life> life(s.buffers.size());
  for (size_t i = 0; i < s.calls.size(); i++)
    for (u32 b : s.calls[i].buffers) {
      if (life[b].first < 0) life[b].first = i64(i);
      life[b].last = i64(i);
    }
  std::vector<u32> order;
  for (u32 b = 0; b < s.buffers.size(); b++) {
    if (s.buffers[b].kind == Buffer::Constant || s.buffers[b].kind == Buffer::State) continue;
    if (s.buffers[b].kind == Buffer::Input) life[b] = {0, std::max<i64>(life[b].last, 0)};
    if (s.buffers[b].kind == Buffer::Output) life[b] = {std::max<i64>(life[b].first, 0), i64(s.calls.size())};
    if (life[b].first >= 0) order.push_back(b);
  }
  std::stable_sort(order.begin(), order.end(), [&](u32 a, u32 b) { return s.buffers[a].bytes > s.buffers[b].bytes; });
  std::vector<u32> placed;
  for (u32 b : order) {
    Buffer& buf = s.buffers[b];
    buf.bytes = byte_size(buf.dtype.kind, buf.layout.elems());
    std::vector<u32> rivals;  // alive at the same time, by offset
    for (u32 p : placed)
      if (life[p].first <= life[b].last && life[b].first <= life[p].last) rivals.push_back(p);
    std::sort(rivals.begin(), rivals.end(), [&](u32 x, u32 y) { return s.buffers[x].offset < s.buffers[y].offset; });
    i64 at = 0;
    for (u32 p : rivals) {
      if (s.buffers[p].offset >= at + buf.bytes) break;
      at = std::max(at, aligned(s.buffers[p].offset + s.buffers[p].bytes));
    }
    buf.offset = at;
    for (u32 p : rivals)
      if (aligned(s.buffers[p].offset + s.buffers[p].bytes) <= at) buf.lies_on.push_back(p);
    s.arena_bytes = std::max(s.arena_bytes, at + buf.bytes);
    placed.push_back(b);
  }
  for (size_t i = 0; i < s.calls.size(); i++) {
    i64 alive = 0;
    for (u32 b : order)
      if (life[b].first <= i64(i) && i64(i) <= life[b].last) alive += s.buffers[b].bytes;
    s.lower_bound_bytes = std::max(s.lower_bound_bytes, alive);
  }
}

}  // namespace tg
