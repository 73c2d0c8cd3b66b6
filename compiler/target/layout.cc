#include "target/layout.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace tg {

Layout Layout::row_major(std::span<const i64> dims) {
  Layout l;
  for (size_t i = 0; i < dims.size(); i++) l.pieces.push_back({i64(i), dims[i]});
  return l;
}
Layout Layout::permuted(std::span<const i64> dims, std::span<const i64> order) {
  Layout l;
  for (i64 a : order) l.pieces.push_back({a, dims[a]});
  return l;
}
i64 Layout::elems() const {
  i64 n = 1;
  for (auto& p : pieces) n *= p.factor;
  return n;
}
bool Layout::is_row_major(std::span<const i64> dims) const { return *this == row_major(dims); }

UOp Layout::offset(std::span<const UOp> coords) const {
  std::vector<i64> below(coords.size(), 1);  // product of the axis' pieces to the right of the current one
  UOp off;
  i64 stride = 1;
  for (size_t i = pieces.size(); i-- > 0;) {
    auto [axis, factor] = pieces[i];
    bool first = true;  // the most significant piece needs no modulus
    for (size_t j = 0; j < i; j++) first &= pieces[j].axis != axis;
    if (factor != 1) {
      UOp digit = coords[axis] / idx(below[axis]);
      if (!first) digit = digit % idx(factor);
      UOp term = digit * idx(stride);
      off = off ? off + term : term;
    }
    below[axis] *= factor;
    stride *= factor;
  }
  return off ? off : idx(0);
}

std::vector<i64> Layout::strides(size_t axes) const {
  std::vector<i64> s(axes, 0), seen(axes, 0);
  i64 stride = 1;
  for (size_t i = pieces.size(); i-- > 0;) {
    s[pieces[i].axis] = seen[pieces[i].axis]++ ? 0 : stride;
    stride *= pieces[i].factor;
  }
  return s;
}

std::string Layout::str() const {
  return join(pieces, " ", [](const LayoutPiece& p) { return tg::str(p.axis, "/", p.factor); });
}

void apply_layout(const Layout& l, std::span<const i64> dims, int elem_bytes, const u8* from, u8* to) {
  size_t n = l.pieces.size(), r = dims.size();
  std::vector<i64> stride(r, 1), weight(n), digit(n, 0), coord(r, 0);
  for (size_t a = r; a-- > 1;) stride[a - 1] = stride[a] * dims[a];
  std::vector<i64> below(r, 1);
  for (size_t i = n; i-- > 0;) {
    weight[i] = below[l.pieces[i].axis];
    below[l.pieces[i].axis] *= l.pieces[i].factor;
  }
  i64 total = l.elems();
  if (total == 0) return;
  // The innermost piece is copied as a run when it is contiguous in the source.
  i64 run = n ? l.pieces[n - 1].factor : 1, run_axis = n ? l.pieces[n - 1].axis : 0;
  i64 run_stride = n ? stride[run_axis] * weight[n - 1] : 1;
  for (i64 done = 0; done < total; done += run) {
    i64 src = 0;
    bool inside = true;
    for (size_t a = 0; a < r; a++) {
      src += coord[a] * stride[a];
      if (i64(a) != run_axis || !n) inside &= coord[a] < dims[a];
    }
    i64 valid = !inside ? 0 : n ? std::clamp<i64>((dims[run_axis] - coord[run_axis] + weight[n - 1] - 1) / weight[n - 1], 0, run) : 1;
    if (run_stride == 1 || valid <= 1) {
      if (valid > 0) std::memcpy(to, from + src * elem_bytes, size_t(valid * elem_bytes));
    } else {
      const u8* p = from + src * elem_bytes;
      for (i64 i = 0; i < valid; i++) std::memcpy(to + i * elem_bytes, p + i * run_stride * elem_bytes, size_t(elem_bytes));
    }
    if (valid < run) std::memset(to + valid * elem_bytes, 0, size_t((run - valid) * elem_bytes));
    to += run * elem_bytes;
    for (size_t i = n ? n - 1 : 0; i-- > 0;) {
      coord[l.pieces[i].axis] += weight[i];
      if (++digit[i] < l.pieces[i].factor) break;
      coord[l.pieces[i].axis] -= weight[i] * l.pieces[i].factor;
      digit[i] = 0;
    }
  }
}

}  // namespace tg
