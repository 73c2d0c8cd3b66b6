// A kernel copied into an arena of its own in canonical order, and its digest: what it is called in caches, logs, bundles and between
// processes. Two kernels that differ in slots, in axis and other numbers, in names of VARs, or in the order of commutative operands have one digest.
#pragma once
#include <memory>
#include <vector>

#include "base/hash.h"
#include "ir/uop.h"

namespace tg {

struct Canonical {
  std::shared_ptr<Arena> arena;
  UOp ast;                    // its text form (ir/text.h) is what travels to other processes
  Digest digest;              // of that text
  std::vector<i64> slot_of;   // canonical slot -> slot of the kernel it was made from
  std::vector<i64> axis_of;   // canonical axis id -> its axis id
  std::vector<UOp> var_of;    // number of a variable -> the VAR it was made from, in the kernel's arena
};

// The number of a canonical kernel's VAR: which of a launch's integers it is. Its name is "v" and that number.
i64 var_number(UOp var);

// Axes are numbered phase by phase, those that STOREs close before the others; slots outputs first; the rest as met. Operands of commutative
// ops are sorted by a structure hash that leaves these numbers out; equal ones keep their order.
Canonical canonical(UOp ast);

}  // namespace tg
