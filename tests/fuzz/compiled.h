// Linear lists as machine code, loaded by the runtime's own loader and run on values.
#pragma once
#include <span>
#include <vector>

#include "ir/eval.h"
#include "target/target.h"

namespace tg::fuzz {

// The CPU that the tests run on, by LLVM.
const Target& host();

// Runs the tasks of a list, the last one first; buffers[i] is PARAM i in memory order, as for eval_linear, and ints[i] the VAR called vi. Throws Error if the list does not compile or
// load, or if a byte outside a buffer is written.
void run_compiled(std::span<const UOp> list, i64 tasks, const Target& target, std::vector<Values>& buffers, std::span<const i64> ints = {});

}  // namespace tg::fuzz
