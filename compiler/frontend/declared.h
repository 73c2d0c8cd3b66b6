// What a shape that only the run knows comes to, as a list of i64: operators that take the declared shape of a result compare it (OnnxNode::must_have).
#pragma once
#include "frontend/tensor.h"

namespace tg::sizes {

Tensor of(const Shape& s);
Tensor list(std::span<const Tensor> each);                               // of one element each
Tensor with(const Tensor& sizes, i64 axis, const Tensor& value);         // one axis is another number
Tensor reshaped(const Shape& from, const Tensor& wanted, bool zeros);    // -1: what the others leave; 0: as it was, if not `zeros`
Tensor broadcasted(const Shape& from, const Tensor& wanted);
Tensor without(const Shape& from, const Tensor& axes, bool keep);        // `axes`, different ones, are gone, or stay with one element
Tensor with_ones(const Shape& from, const Tensor& axes);                 // axes of the result
// Elements of begin..end by step, along an axis of m.
Tensor sliced(const Tensor& m, const Tensor& begin, const Tensor& end, const Tensor& step);

}  // namespace tg::sizes
