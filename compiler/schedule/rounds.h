// A LOOP in one call: rounds of a small body with fixed shapes run inside one kernel, as a loop in its order around the loops of what a round
// stores. rounds.cc says which LOOPs and makes them RECURs, whose body is a graph of its own; rounds_kernel.cc makes the kernel.
#pragma once
#include <functional>
#include <vector>

#include "ir/tensor.h"

namespace tg {

// The sink of `body` lists the next value of each carried one, then what is scanned. Its PARAMs are the carried values as a round begins, then the
// values from outside (`inputs`, in the graph around); `round` is the RANGE that stands for the number of the round.
struct RoundsBody {
  i64 carried = 0, scans = 0;
  UOp body, round, count;
  std::vector<UOp> inits, inputs;
};

// The graph with every LOOP that can be one call as a RECUR.
UOp loops_to_rounds(UOp sink);
const RoundsBody& rounds_body(UOp recur);
inline bool is_rounds_result(UOp u) { return u.is(Op::Get) && u.src(0).is(Op::Recur); }

// What the kernel needs from the schedule around it. First all `scratch`, then all `result`, then the others are asked.
struct RoundsHooks {
  std::function<UOp(DType, const Shape& dims)> scratch;           // the PARAM of a new buffer
  std::function<UOp(i64 result, const Shape& at)> result;         // the INDEX of a result there; null: nobody wants it
  std::function<UOp(i64 carried, const Shape& at)> init;          // the first value of a carried one there
  std::function<UOp(UOp input, const Shape& at, UOp gate, UOp alternative)> load;
};
struct RoundsKernel {
  std::vector<UOp> stores;
  std::vector<i64> ordered;  // the axis of the rounds
};
RoundsKernel rounds_kernel(const RoundsBody& b, const RoundsHooks& hooks);

}  // namespace tg
