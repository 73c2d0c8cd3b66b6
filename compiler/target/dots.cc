// vpdpbusd multiplies u8 by i8 and wraps; without it, pairs widened to i16 go through pmaddwd, which is exact for every pair of bytes
// (pmaddubsw, which saturates, is not). vdpbf16ps rounds to nearest and takes denormals, and makes them, as zero; without
// it a pair is taken apart by a shift and a mask, once for all the products that an operand is in.
#include "target/dots.h"

namespace tg {

std::vector<DotRow> dot_rows(const Target& t) {
  std::vector<DotRow> rows;
  if (t.renderer != "LLVM" || !t.triple.starts_with("x86_64")) return rows;
  i64 lanes = t.vector_bytes / 4;
  if (t.has_vnni) rows.push_back({"vpdpbusd", Kind::U8, Kind::I8, Kind::I32, 4, lanes});
  if (t.has_bf16)
    rows.push_back({"vdpbf16ps", Kind::BF16, Kind::BF16, Kind::F32, 2, lanes});
  else if (t.has_fma)
    rows.push_back({"fma of bf16", Kind::BF16, Kind::BF16, Kind::F32, 2, lanes, true});
  for (auto [a, b] : {std::pair{Kind::U8, Kind::I8}, {Kind::I8, Kind::I8}, {Kind::U8, Kind::U8}, {Kind::I16, Kind::I16}})
    rows.push_back({"pmaddwd", a, b, Kind::I32, 2, lanes});
  return rows;
}

const DotRow* find_dot(std::span<const DotRow> rows, Kind a, Kind b, Kind sum, i64 group) {
  for (const DotRow& r : rows)
    if (r.sum == sum && r.group == group && ((r.a == a && r.b == b) || (r.a == b && r.b == a))) return &r;
  return nullptr;
}

}  // namespace tg
