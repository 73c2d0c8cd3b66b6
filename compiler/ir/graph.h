// The tensor graph of a model: what import makes and the schedule reads.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ir/tensor.h"

namespace tg {

// A weight: row-major, densely packed, little-endian bytes (kinds under 8 bits as in formats/dtype.h).
struct ConstantData {
  std::string name;
  DType dtype;
  std::vector<i64> dims;
  std::span<const u8> bytes;
  std::shared_ptr<const void> owner;  // keeps bytes alive: a mapped file, or a vector
};

struct Value {
  std::string name;
  DType dtype;
  Shape dims;
};

struct Graph {
  std::shared_ptr<Arena> arena;
  UOp sink;                            // SINK of the outputs, in order, each of its Value's dtype and shape
  std::vector<Value> inputs;           // input i is PARAM i
  std::vector<Value> outputs;
  std::vector<ConstantData> constants; // CONSTANT i
  std::vector<std::pair<u32, u32>> state;  // (output, input): fed back into the next run
};

}  // namespace tg
