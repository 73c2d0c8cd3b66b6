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
  UOp made_of;                        // if set, there are no bytes: a value of this shape over CONSTANTs that have some, which the runtime works out at open
};

struct Value {
  std::string name;
  DType dtype;
  Shape dims;
};

// A size that the run itself finds: a variable of the graph, and behind the outputs a source of the SINK that gives its value. It is measured
// after what the value is made of has run; what has the variable among its dims runs after that.
struct MeasuredSize {
  std::string name;                    // of the VAR, which no input's dim is
  i64 min = 0, max = 0, multiple = 1;
  UOp var() const { return tg::var(name, min, max, multiple); }
};

struct Graph {
  std::shared_ptr<Arena> arena;
  UOp sink;                            // SINK of the outputs, in order, each of its Value's dtype and shape, then of the measured sizes
  std::vector<Value> inputs;           // input i is PARAM i
  std::vector<Value> outputs;
  std::vector<ConstantData> constants; // CONSTANT i
  std::vector<std::pair<u32, u32>> state;  // (output, input): fed back into the next run
  std::vector<MeasuredSize> measured;      // in order: the value of one may depend on those before it. Its value is sink.src(outputs.size() + i),
                                       // an i64 of shape ()
};

}  // namespace tg
