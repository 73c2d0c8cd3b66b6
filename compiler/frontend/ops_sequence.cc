// Sequences and optionals, resolved while importing: positions, splits and lengths must be known then. https://onnx.ai/onnx/operators/
#include "frontend/sequence.h"

#include <algorithm>

namespace tg {

Tensor sequence(const Tensors& elements) {
  std::vector<UOp> src;
  for (const Tensor& t : elements) src.push_back(t.uop());
  return node(Op::Stack, Kind::Void, std::span<const UOp>(src));
}
Tensor no_value() { return node(Op::Group, Kind::Void, std::span<const UOp>()); }

Tensors elements(const Tensor& sequence) { return Tensors(sequence.uop().src().begin(), sequence.uop().src().end()); }

const char* not_tensor(const Tensor& t) {
  return is_sequence(t) ? "a sequence" : is_no_value(t) ? "an optional without a value" : nullptr;
}

namespace {

Tensors list(OnnxNode& n, size_t i) {
  Tensor s = n.any(i);
  n.require(is_sequence(s), "input ", i, " must be a sequence");
  return elements(s);
}

// Input i as a position of `count` elements; ends: one behind the last is one too.
i64 position(OnnxNode& n, size_t i, i64 count, bool ends) {
  i64 p = n.integer(i), at = p < 0 ? p + count : p;
  n.require(at >= 0 && at < count + ends, "position ", p, " of a sequence of ", count);
  return at;
}

Tensor construct(OnnxNode& n) {
  Tensors all;
  for (size_t i = 0; i < n.inputs(); i++) {
    n.require(all.empty() || n[i].dtype() == all[0].dtype(), "input ", i, " is ", name(n[i].dtype()), ", input 0 ", name(n[0].dtype()));
    all.push_back(n[i]);
  }
  return sequence(all);
}

// A position known only at run time chooses among tensors of one shape.
Tensor at(OnnxNode& n) {
  Tensors all = list(n, 0);
  if (n.is_constant(1)) return all[size_t(position(n, 1, i64(all.size()), false))];
  n.require(!all.empty(), "the sequence is empty");
  for (const Tensor& t : all)
    n.require(same_shape(t.shape(), all[0].shape()) && t.dtype() == all[0].dtype(),
              "the position is known only at run time, and the elements have different shapes, ", shape_text(all[0].shape()), " and ",
              shape_text(t.shape()));
  for (Tensor& t : all) t = t.unsqueeze(0);
  return Tensor::concat(all, 0).take(0, n[1].reshape(Shape{}));
}

Tensor insert(OnnxNode& n) {
  Tensors all = list(n, 0);
  if (!all.empty())
    n.require(n[1].dtype() == all[0].dtype(), "a tensor of ", name(n[1].dtype()), " for a sequence of ", name(all[0].dtype()));
  i64 p = n.has(2) ? position(n, 2, i64(all.size()), true) : i64(all.size());
  all.insert(all.begin() + p, n[1]);
  return sequence(all);
}

Tensor erase(OnnxNode& n) {
  Tensors all = list(n, 0);
  n.require(!all.empty(), "the sequence is empty");
  all.erase(all.begin() + (n.has(1) ? position(n, 1, i64(all.size()), false) : i64(all.size()) - 1));
  return sequence(all);
}

Tensor concat(OnnxNode& n) {
  Tensors all = list(n, 0);
  n.require(!all.empty(), "the sequence is empty");
  i64 axis = n.attr_int("axis"), fresh = n.attr("new_axis", 0), r = all[0].rank() + (fresh ? 1 : 0);
  n.require(axis >= -r && axis < r, "axis ", axis, " for a result of rank ", r);
  if (axis < 0) axis += r;
  if (fresh)
    for (Tensor& t : all) t = t.unsqueeze(axis);
  return Tensor::concat(all, axis);
}

// split: absent, one size (the last part may be smaller), or all sizes.
Tensor split(OnnxNode& n) {
  Tensor x = n[0];
  i64 axis = x.axis(n.attr("axis", 0)), size = x.size(axis);
  constexpr i64 kMost = 1 << 16;
  if (!n.has(1)) {
    n.require(size <= kMost, size, " parts; at most ", kMost, " are allowed");
    bool keep = n.attr("keepdims", 1);
    Tensors all;
    for (i64 i = 0; i < size; i++) all.push_back(keep ? x.shrink(axis, i, 1) : x.shrink(axis, i, 1).squeeze(axis));
    return sequence(all);
  }
  Ints sizes = n.ints(1);
  if (n[1].rank() == 0) {
    i64 each = sizes[0];
    n.require(each > 0 && size / each < kMost, "parts of ", each, " of an axis of ", size, "; at most ", kMost, " parts are allowed");
    sizes.clear();
    for (i64 left = size; left > 0; left -= each) sizes.push_back(std::min(left, each));
  }
  i64 sum = 0;
  for (i64 s : sizes) {
    n.require(s >= 0 && s <= size, "a part of ", s, " of an axis of ", size);
    sum += s;
  }
  n.require(sum == size, "the parts have ", sum, " of ", size, " elements");
  return sequence(x.split(axis, sizes));
}

// The body once for each position; inputs that are tensors are the same in all.
Tensors map(OnnxNode& n) {
  const tgonnx::GraphProto& body = n.attr_graph("body");
  size_t count = list(n, 0).size();
  std::vector<Tensors> outs(n.outputs());
  for (size_t k = 0; k < count; k++) {
    Tensors in;
    for (size_t i = 0; i < n.inputs(); i++) {
      Tensor t = n.any(i);
      if (is_sequence(t)) {
        Tensors all = elements(t);
        n.require(all.size() == count, "sequences of ", count, " and ", all.size());
        t = all[k];
      }
      in.push_back(t);
    }
    Tensors out = n.subgraph(body, in);
    n.require(out.size() == outs.size(), "the body gives ", out.size(), " values, the node ", outs.size());
    for (size_t i = 0; i < outs.size(); i++) {
      n.require(!not_tensor(out[i]), "the body gives ", not_tensor(out[i]));
      outs[i].push_back(out[i]);
    }
  }
  Tensors all;
  for (const Tensors& o : outs) all.push_back(sequence(o));
  return all;
}

Tensor get_element(OnnxNode& n) {
  Tensor t = n.any(0);
  n.require(!is_no_value(t), "the optional has no value");
  return t;
}

Tensor has_element(OnnxNode& n) { return Tensor::full(Shape{}, Kind::Bool, n.has(0) && !is_no_value(n.any(0))); }

// clang-format off
constexpr OnnxOp kSequenceOps[] = {
  {"ConcatFromSequence", 11, concat},
  {"Optional",           15, [](OnnxNode& n) { return n.has(0) ? n.any(0) : no_value(); }},
  {"OptionalGetElement", 15, get_element},
  {"OptionalHasElement", 15, has_element},
  {"SequenceAt",         11, at},
  {"SequenceConstruct",  11, construct},
  {"SequenceEmpty",      11, [](OnnxNode&) { return sequence({}); }},
  {"SequenceErase",      11, erase},
  {"SequenceInsert",     11, insert},
  {"SequenceLength",     11, [](OnnxNode& n) { return Tensor::full(Shape{}, Kind::I64, f64(list(n, 0).size())); }},
  {"SequenceMap",        17, map},
  {"SplitToSequence",    11, split},
};
// clang-format on

}  // namespace

std::span<const OnnxOp> sequence_ops() { return kSequenceOps; }

}  // namespace tg
