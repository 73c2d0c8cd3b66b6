// How sizes are spelled in shapes, see normal_dim in ir/tensor.h.
#pragma once
#include "ir/uop.h"

namespace tg {

// simplify() decides most; what it leaves open is which of several variables with a multiple takes in a factor (16*H*(W/32) and 16*(H/32)*W
// are equal): there is one answer here.
UOp normal_size(UOp d);

}  // namespace tg
