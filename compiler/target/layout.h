// How a buffer lies in memory, beside the AST: an ordered list of pieces of its logical axes, outermost first. One to one.
//   f32[1,64,56,56] as (c/16, h, w, c%16):  {1,4} {2,56} {3,56} {1,16}
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/uop.h"

namespace tg {

struct LayoutPiece {
  i64 axis, factor;  // factor: how many values this piece of the axis takes
  bool operator==(const LayoutPiece&) const = default;
};

struct Layout {
  // The pieces of one axis, in the order in which they stand, are its digits, most significant first; their product is at least the axis'
  // size, and what is above it is padding. A free axis has one piece, whose factor is its largest size.
  std::vector<LayoutPiece> pieces;

  static Layout row_major(std::span<const i64> dims);
  static Layout permuted(std::span<const i64> dims, std::span<const i64> order);
  i64 elems() const;                                 // with padding
  bool is_row_major(std::span<const i64> dims) const;
  // Physical element offset of a logical coordinate in a buffer of sizes `dims`. A free size counts as it is in a run: its axis is one piece.
  UOp offset(std::span<const UOp> coords, std::span<const UOp> dims) const;
  std::vector<i64> strides(size_t axes) const;       // of axes in one piece; 0 for others
  std::string str() const;                           // "1/4 2/56 3/56 1/16"
  bool operator==(const Layout&) const = default;
};

// Elements of `bits` each (8 or more) rearranged from row-major `dims` into the layout; padding is zero.
void apply_layout(const Layout& l, std::span<const i64> dims, int elem_bytes, const u8* from, u8* to);
// And back.
void undo_layout(const Layout& l, std::span<const i64> dims, int elem_bytes, const u8* from, u8* to);
// The inverse of Layout::str(); nothing if the text is no layout of these dims.
std::optional<Layout> parse_layout(std::string_view text, std::span<const i64> dims);

}  // namespace tg
