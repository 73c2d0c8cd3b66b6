// Kernel form to linear form: the list of UOps that a renderer spells.
#pragma once
#include <string>
#include <vector>

#include "ir/loops.h"
#include "opt/kernel.h"
#include "target/dots.h"

namespace tg {

struct Lowered {
  std::vector<UOp> linear;     // spec: linear; index is the renderer's to spell
  i64 tasks = 1;               // launches of the entry: task = 0 .. tasks-1
};

// `k`'s arena must be current; nodes are made in it.
Lowered lower(const Kernel& k);

// Steps, in their order, each DAG to DAG.
UOp add_border(UOp ast, const std::vector<Slot>& slots, const Target& target);  // border.cc: slot 0's border is stored too
UOp lower_offsets(UOp ast, const std::vector<Slot>& slots);   // offsets.cc: INDEX(buffer, coordinates) becomes INDEX(buffer, offset)
UOp share_rows(UOp ast);                                      // rows.cc: rows that are never needed at once become one
// expand.cc: UPCAST and UNROLL ranges become separate nodes; products over a DOT range become one DOT where `rows` have one for their kinds
UOp expand(UOp ast, std::span<const DotRow> rows = {});
// vectorize.cc: VECTOR ranges become lanes. slots: how far a buffer may be read, empty where nobody knows.
UOp vectorize(UOp ast, const std::vector<Slot>& slots = {});
UOp turn_strided(UOp ast);                                    // transpose.cc: strided lanes that are neighbours become rows
// linearize.cc: loops and accumulators, in order. fma: a sum's products are fused with it; the target has such an instruction.
std::vector<UOp> linearize(UOp ast, bool fma = true);

// prefetch.cc: panels of the constants in `slots` are asked for while the ones before them, of at most `most_bytes`, are worked on
std::vector<UOp> prefetch(std::vector<UOp> linear, const std::vector<i64>& slots, i64 most_bytes);

// The sources of a REDUCE that are not RANGEs.
std::vector<UOp> reduce_values(UOp u);

// An expression over placeholders with them replaced; constants get the lanes of what replaces them.
UOp instantiate(UOp expr, std::span<const std::pair<UOp, UOp>> values, int lanes);

// States x and y of a FOLD combined by its merge.
std::vector<UOp> merge_fold_states(UOp fold, const std::vector<UOp>& x, const std::vector<UOp>& y);

}  // namespace tg
