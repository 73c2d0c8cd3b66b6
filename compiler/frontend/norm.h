// Parts of normalizations that several families build on.
#pragma once
#include "frontend/tensor.h"

namespace tg {

struct Normalized {
  Tensor y, mean, inv;  // (x - mean) * inv; mean and inv = 1 / sqrt(var + epsilon) keep dims of 1
};
// In x's dtype: widen halves first.
Normalized normalize(const Tensor& x, const Ints& axes, f64 epsilon);
Tensor rms_inverse(const Tensor& x, const Ints& axes, f64 epsilon);  // 1 / sqrt(mean(x^2) + epsilon), dims kept
Ints axes_from(const Tensor& x, i64 axis);                           // axis and all after it
// v (C..), C.. being axes 1.. of a tensor of that rank, ready to broadcast over its other axes.
Tensor per_channel(const Tensor& v, i64 rank);

}  // namespace tg
