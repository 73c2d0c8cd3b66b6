// Dot instructions as rows: each sums the products of a group of neighbours into every lane of a sum, in one instruction of a CPU.
#pragma once
#include <span>
#include <vector>

#include "target/target.h"

namespace tg {

struct DotRow {
  const char* name;
  Kind a, b, sum;         // kinds of the operands, in either order, and of the sum
  i64 group;              // products a lane
  i64 lanes;              // most lanes of the sum; fewer, down to 4, are the same instruction on shorter registers
  bool by_parts = false;  // as many multiply-adds as products, each operand taken apart in registers first
};

// The rows of a target, the best first. Empty where its renderer spells none.
std::vector<DotRow> dot_rows(const Target& t);

// The first row for these kinds and this group; null: none.
const DotRow* find_dot(std::span<const DotRow> rows, Kind a, Kind b, Kind sum, i64 group);

}  // namespace tg
