// The interpreter of the linear form: a list of nodes run one after another, loops by RANGE and END, lanes one by one.
#pragma once
#include <span>
#include <vector>

#include "ir/eval_kernel.h"

namespace tg {

// buffers[i] is PARAM i: its elements in memory order (dims do not matter). task is SPECIAL 0. A list with SPECIALs of groups or items runs
// the whole grid: groups one after another, the items of a group in turns from BARRIER to BARRIER. An element outside its buffer, or one of
// a ROW, LOCAL or REG that nothing wrote, throws Error naming the node.
void eval_linear(std::span<const UOp> list, std::vector<Values>& buffers, const Vars& vars = {}, i64 task = 0);

}  // namespace tg
