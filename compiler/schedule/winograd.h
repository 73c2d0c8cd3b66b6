// Convolutions of windows 3x3, 3x1 and 1x3 as Winograd's F(2,3) and F(4,3): along an axis, a block of f results takes f+2 products for each pair of
// channels in place of 3f, between a transform of the input and one of the sums. A. Lavin, S. Gray: Fast Algorithms for Convolutional Neural Networks.
#pragma once
#include <optional>
#include <vector>

#include "ir/graph.h"
#include "target/target.h"

namespace tg {

// A REDUCE that is such a convolution, summed in f32: x (N, C, H, W), padded, with constant weights; either may be f16 or bf16, widened. One of a single spatial axis, x (N, C, W), has H = 1.
struct Conv3 {
  UOp sum;                                    // the REDUCE
  UOp x, weight;                              // before its padding; CONSTANT
  i64 taps[2] = {1, 1};                       // rows and columns of the window: 3 or 1
  i64 top = 0, left = 0;                      // padding before x
  i64 n = 1, in = 1, out = 1, rows = 1, columns = 1;
  Ints weight_stride;                         // of the CONSTANT, in elements: along out, in, row and column of the window; 0: none
  Ints weight_axis;                           // those axes; -1: none
  Ints order;                                 // the axes N, C, H, W (0 to 3) in the order in which the REDUCE has them
};
std::optional<Conv3> match_conv3(UOp u);
// Results and inputs of a block along rows (0) or columns (1).
inline i64 results(const Conv3& c, i64 f, int axis) { return c.taps[axis] == 3 ? f : 1; }
inline i64 places(const Conv3& c, i64 f, int axis) { return results(c, f, axis) + c.taps[axis] - 1; }
inline i64 blocks(const Conv3& c, i64 f, int axis) {
  return ((axis ? c.columns : c.rows) + results(c, f, axis) - 1) / results(c, f, axis);
}

// The value below x that must be a buffer before a transform reads it.
UOp winograd_input(const Conv3& c);

// U, f32 (places, C, M): the weights' transform, worked out in f64 and rounded once.
// Thread-safe: reads no arena.
void winograd_weights(const Conv3& c, i64 f, std::span<const u8> weights, f32* u);

// The same as a value over the CONSTANT, step by step: f64 products and sums in the same order, rounded once, so that every machine makes the same bits.
UOp winograd_weights(const Conv3& c, i64 f);

// c.sum by three kernels: transform, a product of matrices for each place, and the transform back, which takes in what follows. `u` is U.
UOp winograd(const Conv3& c, i64 f, UOp x, UOp u, const Target& target);

// The same in one kernel, a piece of the grid of blocks after the other (winograd_blocks.cc): `rows` x `columns` blocks a piece, `panel` channels out at a
// time. cycles: of all sums. Nothing if the grid has no such pieces.
struct WinogradPieces {
  i64 rows = 1, columns = 1, panel = 1, pieces = 1;
  f64 cycles = 0;
};
std::optional<WinogradPieces> winograd_pieces(const Conv3& c, i64 f, const Target& t);
UOp winograd_in_pieces(const Conv3& c, i64 f, UOp x, UOp u, const Target& target);

}  // namespace tg
