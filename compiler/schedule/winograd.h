// Convolutions of 3x3 windows as Winograd's F(2,3) and F(4,3): a block of f x f results takes (f+2)^2 products for each pair of channels in place
// of 9 f^2, between a transform of the input and one of the sums. A. Lavin, S. Gray: Fast Algorithms for Convolutional Neural Networks.
#pragma once
#include <optional>
#include <vector>

#include "ir/graph.h"
#include "target/target.h"

namespace tg {

// A REDUCE that is such a convolution of f32: x (N, C, H, W), padded, with constant weights.
struct Conv3x3 {
  UOp sum;                                    // the REDUCE
  UOp x, weight;                              // before its padding; CONSTANT
  i64 top = 0, left = 0;                      // padding before x
  i64 n = 1, in = 1, out = 1, rows = 1, columns = 1;
  Ints weight_stride;                         // of the CONSTANT, in elements: along out, in, row and column of the window
  Ints order;                                 // the axes N, C, H, W (0 to 3) in the order in which the REDUCE has them
};
std::optional<Conv3x3> match_conv3x3(UOp u);

// The value below x that must be a buffer before a transform reads it.
UOp winograd_input(const Conv3x3& c);

// U, f32 ((f+2)^2, C, M): the weights' transform, worked out in f64 and rounded once.
// Thread-safe: reads no arena.
void winograd_weights(const Conv3x3& c, i64 f, std::span<const u8> weights, f32* u);

// c.sum by three kernels: transform, (f+2)^2 products of matrices, and the transform back, which takes in what follows. `u` is U.
UOp winograd(const Conv3x3& c, i64 f, UOp x, UOp u, const Target& target);

}  // namespace tg
