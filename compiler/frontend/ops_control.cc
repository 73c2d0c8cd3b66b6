// Control flow and containers. https://onnx.ai/onnx/operators/
#include "frontend/onnx_op.h"

namespace tg {
namespace {

// Only the branch that a constant condition chooses is looked at.
Tensors if_op(OnnxNode& n) {
  n.require(n.is_constant(0), "the condition is known only at run time, which is not supported yet");
  n.require(n.constant(0).v.size() == 1, "the condition must be one bool");
  return n.subgraph(n.attr_graph(n.constant(0).v[0] ? "then_branch" : "else_branch"));
}

constexpr Refused kLoop{"loops are not supported yet"}, kRnn{"recurrent layers are not supported yet"}, kSequence{"sequences are not supported yet"},
    kOptional{"optional values are not supported yet"}, kString{"strings are not supported"};

// clang-format off
constexpr OnnxOp kControlOps[] = {
  {"ConcatFromSequence", 11, kSequence},
  {"GRU",                 7, kRnn},
  {"If",                  1, if_op},
  {"LSTM",                7, kRnn},
  {"Loop",                1, kLoop},
  {"Optional",           15, kOptional},
  {"OptionalGetElement", 15, kOptional},
  {"OptionalHasElement", 15, kOptional},
  {"RNN",                 7, kRnn},
  {"RegexFullMatch",     20, kString},
  {"Scan",                8, kLoop},
  {"SequenceAt",         11, kSequence},
  {"SequenceConstruct",  11, kSequence},
  {"SequenceEmpty",      11, kSequence},
  {"SequenceErase",      11, kSequence},
  {"SequenceInsert",     11, kSequence},
  {"SequenceLength",     11, kSequence},
  {"SequenceMap",        17, kSequence},
  {"SplitToSequence",    11, kSequence},
  {"StringConcat",       20, kString},
  {"StringNormalizer",   10, kString},
  {"StringSplit",        20, kString},
  {"TfIdfVectorizer",     9, kString},
};
// clang-format on

}  // namespace

std::span<const OnnxOp> control_ops() { return kControlOps; }

}  // namespace tg
