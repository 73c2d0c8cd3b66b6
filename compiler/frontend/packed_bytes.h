// Weights of 2 and 4 bits as the bytes they lie in.
#pragma once
#include "frontend/pool.h"

namespace tg {

// The graph with every constant of i2, u2, i4 or u4 that is only cast read as bytes, whose parts are shifted out by arithmetic that loops can be
// made for: lanes, packing and unrolling know bytes, not halves of them. Constants whose last dim is no whole number of bytes stay. The new
// constants share the bytes of the old ones.
UOp read_as_bytes(UOp sink, Pool& pool);

}  // namespace tg
