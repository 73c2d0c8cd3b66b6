// DEFAULT_FLOAT: the dtype that a model's float32 computes and stores in.
#pragma once
#include "frontend/tensor.h"

namespace tg {

// An operator's float32 result, kept in d. Narrower than f32: rounded to d and read as f32 again, so that the operator itself, its sums and
// norms stay in f32; operands of products take the narrow value (Tensor::matmul, conv). Constants stay as they are. Wider: a cast.
Tensor kept_in(const Tensor& x, DType d);
// x itself as d, below what was widened and only moved since.
Tensor narrowed(const Tensor& x, DType d);

// Roundings that nothing would store: those of a value whose one reader is arithmetic of the same kernel.
UOp drop_roundings(UOp sink, DType d);

}  // namespace tg
