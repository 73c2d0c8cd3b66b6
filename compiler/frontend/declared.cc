#include "frontend/declared.h"

namespace tg::sizes {
namespace {

Tensor number(i64 v) { return Tensor::integer(Kind::I64, v); }
// For each i of 0..r-1 (rows) and each axis (columns).
Tensor rows(i64 r) { return Tensor::arange(r).unsqueeze(1); }
Tensor counted(const Tensor& axes, i64 r) {
  Tensor a = axes.cast(Kind::I64).flatten();
  return where(a.lt(number(0)), a + f64(r), a);
}
Tensor any(const Tensor& hits) { return hits.cast(Kind::I64).sum(Ints{1}); }  // how many

}  // namespace

Tensor of(const Shape& s) { return Tensor::sizes_as_ints(s); }

Tensor list(std::span<const Tensor> each) {
  std::vector<Tensor> parts;
  for (const Tensor& t : each) parts.push_back(t.cast(Kind::I64).reshape(Ints{1}));
  return parts.empty() ? Tensor::ints(Ints{}) : Tensor::concat(parts, 0);
}

Tensor with(const Tensor& sizes, i64 axis, const Tensor& value) {
  std::vector<Tensor> each;
  for (i64 a = 0; a < sizes.size(0); a++) each.push_back(a == axis ? value : sizes.shrink(0, a, 1));
  return list(each);
}

Tensor reshaped(const Shape& from, const Tensor& wanted, bool zeros) {
  Tensor w = wanted.cast(Kind::I64);
  if (!zeros) {
    Shape old = from;
    old.resize(size_t(w.size(0)), idx(0));
    w = where(w.eq(number(0)), of(old), w);
  }
  Tensor open = w.eq(number(-1)), others = where(open, number(1), w).prod(Ints{0});
  return where(open, number(0).like(elems(from)).floor_div(others.max(number(1))), w);
}

Tensor broadcasted(const Shape& from, const Tensor& wanted) {
  i64 r = wanted.size(0), more = i64(from.size()) - r;
  Shape own = from;
  Tensor w = wanted.cast(Kind::I64);
  if (more < 0) own.insert(own.begin(), size_t(-more), idx(1));
  if (more > 0) {
    Tensor both[] = {Tensor::ints(Ints(size_t(more), 1)), w};
    w = Tensor::concat(both, 0);
  }
  return where(w.eq(number(1)), of(own), w);
}

Tensor without(const Shape& from, const Tensor& axes, bool keep) {
  i64 r = i64(from.size()), left = r - axes.size(0);
  Tensor a = counted(axes, r), gone = any(rows(r).eq(a)), own = of(from);
  if (keep) return where(gone.gt(number(0)), number(1), own);
  if (left <= 0) return Tensor::ints(Ints{});
  Tensor place = Tensor::arange(r) - any(a.unsqueeze(0).lt(rows(r)));  // of an axis that stays
  Tensor here = rows(left).eq(place) & gone.eq(number(0));
  return where(here, own, number(0)).sum(Ints{1});
}

Tensor with_ones(const Shape& from, const Tensor& axes) {
  i64 r = i64(from.size()), all = r + axes.size(0);
  Tensor a = counted(axes, all), fresh = any(rows(all).eq(a));
  if (!r) return where(fresh.gt(number(0)), number(1), number(0));
  Tensor from_axis = Tensor::arange(all) - any(a.unsqueeze(0).lt(rows(all)));
  Tensor own = where(from_axis.unsqueeze(1).eq(Tensor::arange(r)), of(from), number(0)).sum(Ints{1});
  return where(fresh.gt(number(0)), number(1), own);
}

Tensor sliced(const Tensor& m, const Tensor& begin, const Tensor& end, const Tensor& step) {
  Tensor zero = number(0), one = number(1), back = step.lt(zero);
  Tensor low = where(back, number(-1), zero), top = where(back, m - one, m);
  auto at = [&](const Tensor& v) { return where(v.lt(zero), v + m, v).clip(low, top); };
  Tensor span = where(back, at(begin) - at(end), at(end) - at(begin)), by = where(back, zero - step, step);
  return (span + by - one).max(zero).floor_div(by);
}

}  // namespace tg::sizes
