// Sequences and optionals are known while importing and never reach the graph: a sequence is a STACK of its tensors, an optional without a
// value an empty GROUP, both void, in the place of a Tensor. An optional with a value is that value.
#pragma once
#include "frontend/onnx_op.h"

namespace tg {

Tensor sequence(const Tensors& elements);
Tensor no_value();
inline bool is_sequence(const Tensor& t) { return t && t.uop().is(Op::Stack) && t.dtype() == DType(Kind::Void); }
inline bool is_no_value(const Tensor& t) { return t && t.uop().is(Op::Group) && t.dtype() == DType(Kind::Void); }
Tensors elements(const Tensor& sequence);
// "a sequence", "an optional without a value"; null for tensors and absent ones.
const char* not_tensor(const Tensor& t);

}  // namespace tg
