// What the files of the Opts share: the axis that an Opt names, and RANGEs replaced by others.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "ir/loops.h"
#include "opt/kernel.h"

namespace tg::opt {

using R = Result<Kernel>;

// The axis that an Opt names by target and part, or why it may have none.
struct Found {
  Axis axis;
  std::string why;
};
Found find_axis(const Kernel& k, const Opt& o);

// What becomes of one RANGE: the expression it is read as, and the loops that stand in its place.
struct Split {
  UOp value;
  std::vector<UOp> loops;
};
// The kernel with RANGEs (by id) replaced, both where they are read and in the lists of loops.
UOp replace_ranges(UOp ast, const std::map<u32, Split>& map);

// The number of the next piece of an axis.
i64 next_part(UOp ast, i64 id);
// A RANGE of `size` that is piece `part` of the axis of `of`.
UOp piece(UOp size, UOp of, i64 part, AxisKind kind);

}  // namespace tg::opt
