// Layouts that search may change: buffers whose second choice comes near the first by the cost model.
#pragma once
#include <string>
#include <vector>

#include "base/hash.h"
#include "schedule/choice.h"

namespace tg {

// A buffer of a schedule with this axis innermost, the others in their order.
struct LayoutPick {
  u32 buffer;  // of Schedule::buffers
  i64 axis;
  bool panels = false;  // 64 of the axis innermost, the rest of it where it was
};

struct LayoutQuestion {
  Digest key;                             // of the kernels that write and read such a buffer
  std::string label;                      // "layout of conv_1_64_56_56, read by conv_1_64_56_56"
  std::vector<u32> buffers;               // all that lie between such kernels: they get one answer
  std::vector<Alternative> alternatives;  // the first is what layouts.cc chooses; cycles: of the kernels that touch a buffer
  std::vector<LayoutPick> picks;          // by alternative, for any of the buffers
};

// The few costliest of them. Buffers have the numbers that they get in schedule() of the same graph.
std::vector<LayoutQuestion> close_layouts(const Graph& g, const Target& target);

}  // namespace tg
