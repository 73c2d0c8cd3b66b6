// Values whose sizes change, in buffers of their largest shape: what there is lies at the first places of each axis.
#pragma once
#include "ir/tensor.h"

namespace tg {

UOp first_places(UOp x, const Shape& to);  // of x, which has more
UOp padded_to(UOp x, const Shape& to);     // zeros behind x, which has less

// `next` is `view`, the first places of `kept`, with new elements behind: the same with what `kept` has behind these, in the shape of `kept`, so that it
// may be made there and what is new is all that is stored. Null if `next` is something else, or fills `kept`.
UOp appended(UOp next, UOp view, UOp kept);

}  // namespace tg
