// A value without its repetitions: what arithmetic on constants is done on.
#pragma once
#include "ir/tensor.h"

namespace tg::driver {

// A value of u's rank with dims of 1 along the axes on which u repeats, as far as its ops tell: u == widen(narrow(u), shape(u)). Scalars
// stay as they are. Shapes must be constant.
UOp narrow(UOp u);

// Dims of 1 repeated up to s; nothing if x has that shape or is a scalar.
UOp widen(UOp x, const Shape& s);

}  // namespace tg::driver
