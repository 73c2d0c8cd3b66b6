// Counter-based random numbers as a graph: the same on every device and in every run.
#pragma once
#include "frontend/tensor.h"

namespace tg {

struct RandomBits {
  Tensor a, b;  // u32, independent
};
// Threefry-2x32 of 20 rounds over counters (x, y), u32 of one shape, under a key whose low word comes first.
// https://www.thesalmons.org/john/random123/papers/random123sc11.pdf
RandomBits threefry(Tensor x, Tensor y, u64 key);

}  // namespace tg
