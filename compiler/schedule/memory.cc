// Places inputs, outputs and scratch in one arena: largest first, each at the lowest aligned offset that is free for its whole life. Inputs
// live from the start of a run, outputs to its end (those that the caller binds are used where they are, and their place stays
// untouched). Free sizes are planned at their largest.
#include <algorithm>

#include "schedule/schedule.h"
#include "schedule/steps.h"

namespace tg {
namespace {
constexpr i64 kAlign = 64;
i64 aligned(i64 v) { return (v + kAlign - 1) / kAlign * kAlign; }
// With free sizes offsets are worked out anew in each run, so of any two buffers that are alive at once the upper one must lie on the lower, by
// itself or through others, also where it was placed first and the other found room below it.
template <class Alive>
void lie_on_all_below(Schedule& s, std::vector<u32> placed, Alive at_once) {
  std::stable_sort(placed.begin(), placed.end(), [&](u32 a, u32 b) { return s.buffers[a].offset < s.buffers[b].offset; });
  std::vector<std::vector<bool>> below(placed.size(), std::vector<bool>(placed.size()));
  for (size_t i = 0; i < placed.size(); i++) {
    Buffer& b = s.buffers[placed[i]];
    b.lies_on.clear();
    for (size_t k = i; k-- > 0;) {  // the nearest first: what they lie on is implied
      const Buffer& p = s.buffers[placed[k]];
      if (below[i][k] || !at_once(placed[i], placed[k]) || aligned(p.offset + p.bytes) > b.offset) continue;
      b.lies_on.push_back(placed[k]);
      below[i][k] = true;
      for (size_t j = 0; j < k; j++) below[i][j] = below[i][j] || below[k][j];
    }
    std::sort(b.lies_on.begin(), b.lies_on.end());
  }
}

}  // namespace

void plan_memory(Schedule& s) {
  Timeline time = timeline(s);
  i64 end = i64(time.uses.size());
  std::vector<Span> life = lives(s, time);
  std::vector<u32> order;
  for (u32 b = 0; b < s.buffers.size(); b++) {
    if (s.buffers[b].kind == Buffer::Constant || s.buffers[b].kind == Buffer::State) continue;
    if (s.buffers[b].kind == Buffer::Input) life[b] = {0, std::max<i64>(life[b].last, 0)};
    if (s.buffers[b].kind == Buffer::Output) life[b] = {std::max<i64>(life[b].first, 0), end};
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
  if (std::any_of(s.buffers.begin(), s.buffers.end(), [](const Buffer& b) { return b.is_free(); })) lie_on_all_below(s, placed, [&](u32 a, u32 b) {
    return life[a].first <= life[b].last && life[b].first <= life[a].last;
  });
  for (i64 t = 0; t < end; t++) {
    i64 alive = 0;
    for (u32 b : order)
      if (life[b].holds(t)) alive += s.buffers[b].bytes;
    s.lower_bound_bytes = std::max(s.lower_bound_bytes, alive);
  }
}

}  // namespace tg
