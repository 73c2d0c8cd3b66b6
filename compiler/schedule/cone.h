// What would have to be computed again if a value were not stored: facts about the part of the graph below a node, read once, bottom up.
#pragma once
#include "ir/tensor.h"

namespace tg {

struct Cone {
  bool heavy = false;      // holds a contraction: a reduce that reads its operands many times (matmul, convolution, overlapping pool)
  bool reduces = false;    // holds any reduce
  bool costly = false;     // holds a transcendental
  bool loads = false;      // reads a buffer
  bool bare = false;       // a model's input or weight, or a value with a kernel of its own, seen through movement ops alone
  int ops = 0;             // arithmetic, saturating
  int buffers = 0;         // buffers of more than one element read, saturating
  i64 heavy_volume = 0;    // elements of the largest result of a contraction, or of a reduce of one
  i64 volume = 0;          // elements of the largest buffer read, reduces that are not contractions included
};

// By node id; valid for the nodes below the sink.
Memo<Cone> cones(UOp sink);

// Ops that always get buffers and kernels of their own.
constexpr OpSet kOwnKernel = Op::Concat | Op::Scatter | Op::Sort | Op::Scan | Op::Contiguous;

}  // namespace tg
