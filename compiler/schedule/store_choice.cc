#include "schedule/store_choice.h"

#include <algorithm>

#include "ir/bounds.h"

namespace tg {
namespace {

constexpr size_t kMost = 5;
constexpr f64 kClose = 2;                      // cycles of one way over those of the other
constexpr f64 kLeastCycles = 3000;             // what takes less is not worth a question
constexpr f64 kNearBytes = 32, kFarBytes = 8;  // a cycle, of a value that a core's own cache holds or not; measured on Zen 4
constexpr f64 kCostlyOps = 16, kKernelCycles = 300;

StoreChoice costs_of(const StoredOrNot& s, const Target& t) {
  StoreChoice c{s.value, s.readers, s.stored, 0, 0};
  f64 elements = f64(most_elems(shape(s.value))), bytes = f64(byte_size(s.value.dtype().kind, i64(elements)));
  f64 a_cycle = bytes < f64(t.l2_bytes) / 2 ? kNearBytes : kFarBytes, readers = f64(s.readers);
  f64 arithmetic = elements * (f64(s.cone.ops) + (s.cone.costly ? kCostlyOps : 0)) * 4 / f64(t.vector_bytes);
  f64 read = std::min(f64(s.cone.buffers) * bytes, 4 * f64(s.cone.volume) * f64(s.cone.buffers)) / a_cycle;
  c.stored_cycles = arithmetic + read + (1 + readers) * bytes / a_cycle + kKernelCycles;
  c.again_cycles = readers * (arithmetic + read);
  return c;
}

}  // namespace

std::vector<StoredOrNot> stored_or_not(const Graph& g) {
  Arena::Scope scope(*g.arena);
  for (UOp u : toposort(g.sink))
    if (u.in(Op::Loop | Op::Branch)) return {};
  std::vector<StoredOrNot> found;
  RangeMaker ranges;
  realize(g.sink, ranges, &found);
  return found;
}

std::vector<StoreChoice> close_stores(const Graph& g, const Target& target) {
  Arena::Scope scope(*g.arena);
  Asked now = std::move(asked());
  asked() = {};  // the graph as it stands
  std::vector<StoredOrNot> found = stored_or_not(g);
  asked() = std::move(now);
  Memo<u8> inside;  // of what is computed again as a whole
  for (const StoredOrNot& s : found)
    if (!s.stored)
      for (UOp x : s.value.src()) inside[x] = 1;
  std::vector<StoreChoice> close;
  for (const StoredOrNot& s : found) {
    if (!s.stored && inside[s.value]) continue;
    StoreChoice c = costs_of(s, target);
    f64 fewer = std::min(c.stored_cycles, c.again_cycles), more = std::max(c.stored_cycles, c.again_cycles);
    if (more >= kLeastCycles && more <= kClose * fewer) close.push_back(c);
  }
  std::stable_sort(close.begin(), close.end(), [](const StoreChoice& x, const StoreChoice& y) { return x.again_cycles > y.again_cycles; });
  if (close.size() > kMost) close.resize(kMost);
  std::stable_sort(close.begin(), close.end(), [](const StoreChoice& x, const StoreChoice& y) { return x.value.id() < y.value.id(); });
  return close;
}

void store_otherwise(UOp value, bool stored) { asked().keep[value] = stored ? Asked::Stored : Asked::Again; }

}  // namespace tg
