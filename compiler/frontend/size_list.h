// Small tensors of sizes as expressions: models compute shapes by tensor ops (Shape, Gather, Mul, Concat ..), and where sizes are free the
// elements of such a tensor are index expressions of VARs. They are read off the graph, whichever operators made it.
#pragma once
#include <vector>

#include "ir/tensor.h"

namespace tg {

constexpr i64 kMostElements = 128;  // of a tensor that is read so

// The elements of u, row-major: Index expressions of VARs and constants (Bool for a bool tensor), simplified. Null if u has a float dtype that
// does not hold whole numbers for sure, is too large, or depends on anything else.
const std::vector<UOp>* size_list(UOp u);

// Element i of a list of which the others may not be known; null if it is not.
UOp size_at(UOp list, i64 i);

// A tensor of an integer or bool dtype with these elements (Index or Bool expressions), which size_list() gives back.
UOp of_elements(DType d, const std::vector<i64>& dims, const std::vector<UOp>& v);

}  // namespace tg
