// Movement ops as index arithmetic: where element I of a movement op lies in its source.
#pragma once
#include "ir/tensor.h"

namespace tg {

// Coordinates in u.src(0) of coordinate `index` of u, a movement op other than CONCAT. Where u is a PAD, *valid becomes the condition
// (bool) under which the coordinate is inside, else it stays null; outside, u has the PAD's value.
Shape source_index(UOp u, const Shape& index, UOp* valid);

// RESHAPE alone: coordinate `index` of a tensor of dims `from` as a coordinate of dims `to`.
Shape reshape_index(const Shape& from, const Shape& index, const Shape& to);

}  // namespace tg
