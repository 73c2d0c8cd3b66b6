// The interpreter of the kernel form: logical coordinates, loops as they are written.
#pragma once
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ir/eval.h"

namespace tg {

using Vars = std::vector<std::pair<std::string, i64>>;

// Runs a SINK of STOREs. buffers[i] is PARAM i, row-major by the PARAM's dims, or in memory order where the PARAM has no dims and an INDEX an
// offset (after codegen's lower_offsets); its numbers are read and written in place. STOREs run in the
// order of their AFTERs; those that share outer ranges run in one loop, and where neither waits for the other, both see memory as it was
// before. A coordinate outside its buffer, or a row element that nothing wrote, throws Error naming the node.
void eval_kernel(UOp sink, std::vector<Values>& buffers, const Vars& vars = {});

}  // namespace tg
