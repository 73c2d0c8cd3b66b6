// Which part of a graph with LOOPs and BRANCHes runs a node: all of it once, each round of a loop, or one side of a branch.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "ir/tensor.h"

namespace tg {

// A node belongs to the innermost region that holds all its readers, and outside the loops on which it does not depend; it never leaves the
// side of a branch. So what is read by one side alone is computed only if that side is taken, and what is the same in each round once.
struct Regions {
  struct Region {
    UOp owner;          // LOOP or BRANCH, a node of the parent; null: the top
    u32 side = 0;       // of a BRANCH: 0 if the condition is true, 1 if not
    u32 parent = 0, depth = 0;
  };
  std::vector<Region> list;  // the top first, parents before children
  Memo<u32> of;              // by node

  u32 inside(UOp owner, u32 side = 0) const;        // the region of a LOOP's rounds, of a BRANCH's side
  bool in_loop(u32 region, u32 above) const;        // is there a loop between the region and one of those around it
  bool around(u32 outer, u32 inner) const;          // is outer inner itself or a region around it

 private:
  friend Regions regions(std::span<const UOp> order, std::span<const UOp> roots);
  std::vector<std::pair<u32, u32>> first_;          // (owner's node id, its first region), by id
};

// order: a toposort() of the roots.
Regions regions(std::span<const UOp> order, std::span<const UOp> roots);

// What stands for a buffer of a LOOP or BRANCH: the value at the beginning of a round, and results.
inline bool is_result(UOp u) { return u.is(Op::Get) && u.src(0).in(Op::Loop | Op::Branch); }
inline bool is_kept(UOp u) { return u.is(Op::Carry) || is_result(u); }

// "" or what is wrong with the use of CARRY and STEP: each belongs to one LOOP and is read inside it only.
std::string loop_violation(std::span<const UOp> order);

}  // namespace tg
