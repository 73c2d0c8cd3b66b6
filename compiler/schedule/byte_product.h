// Sums of products of f32 by constant bytes in the instruction that multiplies bytes: each row of activations is rounded to 16 bits, as two bytes
// (A16W8), so two of that instruction take the place of four multiply-adds a lane. What it errs by stands in formats/README.md.
#pragma once
#include <optional>

#include "ir/graph.h"
#include "target/target.h"

namespace tg {

// A REDUCE that sums x * f32(w), or x * f32(w - zero), in f32, over axes that both see; w is a CONSTANT of i8 or u8. A row is what one element of
// the sum reads of x.
struct ByteProduct {
  UOp sum;                    // the REDUCE
  u32 x_side = 0;             // which factor is x
  UOp weight;                 // CONSTANT
  std::vector<i64> zeros;     // taken off w, by element of the CONSTANT's axes `zero_stride`; empty: nothing
  Ints zero_stride;
  UOp integers;               // what is cast to f32: `weight`, or the difference
  std::vector<u8> repeated;   // by axis of the product: x does not see it
  Ints weight_axis;           // by axis of the CONSTANT: the axis of the product that walks it; -1: of size 1
  i64 rows = 0, depth = 0, columns = 0;  // at the largest sizes
};
// Thread-safe if the constants are.
std::optional<ByteProduct> match_byte_product(UOp u, const Graph& g);

// Has the target the instruction?
bool multiplies_bytes(const Target& t);

// The value below x that must be a buffer, as its row is read twice.
UOp byte_product_input(const ByteProduct& p);

// The constants: w, as i8, zero points taken off (nothing if w is so already); and 128 times the sums of w, i32, by the axes that x does not see.
std::optional<ConstantData> centred_weights(const ByteProduct& p, const ConstantData& w);
ConstantData weight_sums(const ByteProduct& p, const ConstantData& w);

// p.sum anew. x: the factor as it is now; weights, sums: CONSTANTs of what the two functions above make, weights the model's own if that is nothing.
UOp byte_product(const ByteProduct& p, UOp x, UOp weights, UOp sums, const Target& target);

}  // namespace tg
