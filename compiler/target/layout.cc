#include "target/layout.h"

#include <algorithm>
#include <charconv>
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

UOp Layout::offset(std::span<const UOp> coords, std::span<const UOp> dims) const {
  std::vector<i64> below(coords.size(), 1);  // product of the axis' pieces to the right of the current one
  UOp off, stride = idx(1);
  for (size_t i = pieces.size(); i-- > 0;) {
    auto [axis, factor] = pieces[i];
    bool first = true;  // the most significant piece needs no modulus
    for (size_t j = 0; j < i; j++) first &= pieces[j].axis != axis;
    bool free = size_t(axis) < dims.size() && !dims[axis].is_const();
    TG_CHECK(!free || (first && below[axis] == 1), "a free axis in pieces: ", str());
    if (factor != 1 || free) {
      UOp digit = coords[axis] / idx(below[axis]);
      if (!first) digit = digit % idx(factor);
      UOp term = digit * stride;
      off = off ? off + term : term;
    }
    below[axis] *= factor;
    stride = stride * (free ? dims[axis] : idx(factor));
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

namespace {

// A run of a layout's innermost piece: elements to, to+1 .. to+length-1, of which the first `valid` are row-major elements from, from+step ..
// and the others padding.
struct Run {
  i64 to, length, valid, from, step;
};

template <class F>
void each_run(const Layout& l, std::span<const i64> dims, F f) {
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
  Run run;
  run.length = n ? l.pieces[n - 1].factor : 1;
  i64 axis = n ? l.pieces[n - 1].axis : 0;
  run.step = n ? stride[axis] * weight[n - 1] : 1;
  for (run.to = 0; run.to < total; run.to += run.length) {
    run.from = 0;
    bool inside = true;
    for (size_t a = 0; a < r; a++) {
      run.from += coord[a] * stride[a];
      if (i64(a) != axis || !n) inside &= coord[a] < dims[a];
    }
    run.valid = !inside ? 0 : n ? std::clamp<i64>((dims[axis] - coord[axis] + weight[n - 1] - 1) / weight[n - 1], 0, run.length) : 1;
    f(run);
    for (size_t i = n ? n - 1 : 0; i-- > 0;) {
      coord[l.pieces[i].axis] += weight[i];
      if (++digit[i] < l.pieces[i].factor) break;
      coord[l.pieces[i].axis] -= weight[i] * l.pieces[i].factor;
      digit[i] = 0;
    }
  }
}

}  // namespace

void apply_layout(const Layout& l, std::span<const i64> dims, int elem_bytes, const u8* from, u8* to) {
  each_run(l, dims, [&](const Run& r) {
    u8* t = to + r.to * elem_bytes;
    const u8* f = from + r.from * elem_bytes;
    if (r.step == 1) std::memcpy(t, f, size_t(r.valid * elem_bytes));
    else
      for (i64 i = 0; i < r.valid; i++) std::memcpy(t + i * elem_bytes, f + i * r.step * elem_bytes, size_t(elem_bytes));
    std::memset(t + r.valid * elem_bytes, 0, size_t((r.length - r.valid) * elem_bytes));
  });
}

void undo_layout(const Layout& l, std::span<const i64> dims, int elem_bytes, const u8* from, u8* to) {
  each_run(l, dims, [&](const Run& r) {
    const u8* f = from + r.to * elem_bytes;
    u8* t = to + r.from * elem_bytes;
    for (i64 i = 0; i < r.valid; i++) std::memcpy(t + i * r.step * elem_bytes, f + i * elem_bytes, size_t(elem_bytes));
  });
}

std::optional<Layout> parse_layout(std::string_view text, std::span<const i64> dims) {
  Layout l;
  std::vector<i64> covered(dims.size(), 1);
  while (!text.empty()) {
    LayoutPiece p;
    const char* end = text.data() + text.size();
    auto [slash, e1] = std::from_chars(text.data(), end, p.axis);
    if (e1 != std::errc() || slash == end || *slash != '/') return {};
    auto [next, e2] = std::from_chars(slash + 1, end, p.factor);
    if (e2 != std::errc() || (next != end && *next != ' ') || p.axis < 0 || p.axis >= i64(dims.size()) || p.factor < 0) return {};
    if (__builtin_mul_overflow(covered[p.axis], p.factor, &covered[p.axis])) return {};
    l.pieces.push_back(p);
    text.remove_prefix(size_t(next - text.data()) + (next != end));
  }
  for (size_t a = 0; a < dims.size(); a++)
    if (covered[a] < dims[a]) return {};
  return l;
}

}  // namespace tg
