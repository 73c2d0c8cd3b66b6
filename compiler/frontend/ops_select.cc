// NonMaxSuppression and Unique: which elements are chosen, and how many, depends on their values. The chosen ones come first in a result that
// has room for all, and the importer cuts it to a size that the run measures. https://onnx.ai/onnx/operators/
#include <algorithm>
#include <limits>

#include "frontend/onnx_op.h"
#include "frontend/pool.h"

namespace tg {
namespace {

// Positions of the true elements of a list, in order, then of the others.
Tensor true_first(const Tensor& chosen) { return chosen.cast(Kind::U8).sort_order(0, true); }
Tensor how_many(const Tensor& chosen) { return chosen.cast(Kind::I64).sum(Ints{0}); }

// The first `size` places of an axis: no more than there are, whatever their number is.
Tensor first_of(const Tensor& x, i64 axis, UOp size) { return tensor::slice(x.uop(), size_t(axis), idx(0), size); }

Tensor iota_like(const Tensor& x, i64 axis) {
  Shape s(size_t(x.rank()), idx(1));
  s[size_t(axis)] = x.dim(axis);
  return Tensor::arange(x.dim(axis)).reshape(s);
}

// --- NonMaxSuppression
// Corners of boxes (.., 4) along the last axis: the first and the last of each of two directions.
struct Corners {
  Tensor low[2], high[2];
  Tensor area() const { return (high[0] - low[0]) * (high[1] - low[1]); }
};
Corners corners(const Tensor& boxes, bool centers) {
  auto part = [&](i64 i) { return boxes.shrink(-1, i, 1).squeeze(-1); };
  Corners c;
  for (i64 d = 0; d < 2; d++) {
    Tensor a = part(d), b = part(d + 2);
    Tensor half = centers ? b / 2.0 : Tensor();
    c.low[d] = centers ? a - half : a.min(b);
    c.high[d] = centers ? a + half : a.max(b);
  }
  return c;
}

// Whether the intersection of a and b is more than `limit` of their union.
Tensor overlap(const Corners& a, const Corners& b, const Tensor& limit) {
  Tensor common, apart;
  for (i64 d = 0; d < 2; d++) {
    Tensor length = a.high[d].min(b.high[d]) - a.low[d].max(b.low[d]);
    Tensor none = length.le(length.like(0));
    common = common ? common * length : length;
    apart = apart ? apart | none : none;
  }
  Tensor area_a = a.area(), area_b = b.area(), all = area_a + area_b - common;
  auto empty = [](const Tensor& t) { return t.le(t.like(0)); };
  Tensor invalid = apart | empty(common) | empty(area_a) | empty(area_b) | empty(all);
  return invalid.logical_not() & (common / all).gt(limit);
}

// In each round every class of every batch takes its best box that is left and drops those that overlap it: as many rounds as boxes are taken
// of one class, each over all boxes.
Tensors non_max_suppression(OnnxNode& n) {
  Tensor boxes = n[0], scores = n[1];
  n.require(boxes.rank() == 3 && scores.rank() == 3 && boxes.size(2) == 4 && boxes.dim(0) == scores.dim(0) && boxes.dim(1) == scores.dim(2),
            "boxes ", shape_text(boxes.shape()), " for scores ", shape_text(scores.shape()));
  n.require(boxes.dtype() == DType(Kind::F32) && scores.dtype() == DType(Kind::F32), "boxes and scores must be f32");
  UOp batches = scores.dim(0), classes = scores.dim(1);
  i64 count = size_bounds(scores.dim(2)).hi, most = count;
  bool centers = n.attr("center_point_box", 0);
  auto scalar = [&](size_t i, DType d, f64 otherwise) { return n.has(i) ? n[i].cast(d).reshape(Shape{}) : Tensor::scalar(d, otherwise); };
  Tensor limit = scalar(2, Kind::I64, 0), iou = scalar(3, Kind::F32, 0);
  if (!n.has(2)) most = 0;
  else if (n.is_constant(2)) most = std::clamp<i64>(n.integer(2), 0, count);
  if (most == 0 || batches.is_const(0) || classes.is_const(0)) return {Tensor::full(dims({0, 3}), Kind::I64, 0)};

  f64 nothing = -std::numeric_limits<f64>::infinity();
  Tensor alive = scores.gt(n.has(4) ? scalar(4, Kind::F32, 0) : Tensor::scalar(Kind::F32, nothing));
  if (!n.is_constant(2)) alive = alive & limit.gt(limit.like(0));
  Corners all = corners(boxes.unsqueeze(1), centers);  // (batches, 1, count)
  Tensor batch = Tensor::arange(batches).unsqueeze(1);

  i64 id = Pool::current().next_loop();
  auto any = [](const Tensor& t) { return t.reduce(ReduceKind::Or, t.all_axes()); };
  Shape taken_shape{batches, classes, idx(most)};
  Tensor left(tensor::carry({id, 0}, alive.dtype(), alive.shape())), taken(tensor::carry({id, 1}, Kind::I64, taken_shape));
  Tensor round(cast(tensor::step(id, idx(most)), Kind::I64));
  Tensor best = where(left, scores, scores.like(nothing)).argmax(2).first;  // (batches, classes)
  Tensor exists = left.reduce(ReduceKind::Or, Ints{2});
  Tensor at[] = {batch.expand(best.shape()), best, Tensor()};
  Corners one = corners(boxes.gather(at).unsqueeze(2), centers);            // (batches, classes, 1)
  Tensor index = iota_like(scores, 2);
  Tensor next_left = left & overlap(all, one, iou).logical_not() & index.ne(best.unsqueeze(2));
  Tensor place = Tensor::arange(most).reshape(Ints{1, 1, most}).eq(round) & exists.unsqueeze(2);
  Tensor next_taken = where(place, best.unsqueeze(2), taken);
  Tensor next_go = any(next_left);
  if (!n.is_constant(2)) next_go = next_go & (round + 1.0).lt(limit);
  std::vector<UOp> inits{alive.uop(), Tensor::full(taken_shape, Kind::I64, -1).uop()}, nexts{next_left.uop(), next_taken.uop()};
  UOp loop = tensor::loop(id, idx(most), any(alive).uop(), inits, next_go.uop(), nexts, {});

  Tensor result(tensor::get(loop, 1));
  Tensor b = Tensor::arange(batches).unsqueeze(Ints{1, 2}).expand(taken_shape), c = Tensor::arange(classes).unsqueeze(1).expand(taken_shape);
  auto flat = [](const Tensor& t) { return t.flatten().unsqueeze(1); };
  Tensor rows = Tensor::concat({flat(b), flat(c), flat(result)}, 1);
  Tensor chosen = result.ge(result.like(0)).flatten();
  UOp size = n.measured(how_many(chosen), size_bounds(batches * classes).hi * most);
  return {first_of(rows.take(0, true_first(chosen)), 0, size)};
}

// --- Unique
// The order of x's rows (rows, columns), the first column being the most significant one: stable sorts from the last to the first.
Tensor row_order(const Tensor& x) {
  Tensor order;
  for (i64 c = x.size(1); c-- > 0;) {
    Tensor column = x.shrink(1, c, 1).squeeze(1);
    Tensor next = (order ? column.take(0, order) : column).sort_order(0, false);
    order = order ? order.take(0, next) : next;
  }
  return order;
}

// y, then the first position of each element in x, the place in y of each element of x, how often each occurs.
Tensors unique_of(OnnxNode& n, const Tensor& x, i64 axis, bool sorted) {
  UOp count = x.dim(axis);
  n.require(size_bounds(count).lo > 0, "an axis of ", count.str(), " elements, which may be none");
  Ints order_of_axes{axis};
  for (i64 a = 0; a < x.rank(); a++)
    if (a != axis) order_of_axes.push_back(a);
  Tensor rows = x.permute(order_of_axes);
  rows = rows.rank() == 1 ? rows.unsqueeze(1) : rows.flatten(1);
  constexpr i64 kMostColumns = 256;
  n.require(rows.size(1) >= 1 && rows.size(1) <= kMostColumns, "rows of ", rows.size(1), " elements to compare; at most ", kMostColumns, " are supported");

  Tensor order = row_order(rows), there = rows.take(0, order);
  Tensor first;  // of those that are equal, in sorted order; the first one is the first of x, since sorting is stable
  if (!count.is_const(1)) {
    Tensor differs = there.shrink(0, idx(1), count - 1).ne(there.shrink(0, idx(0), count - 1)).reduce(ReduceKind::Or, Ints{1});
    first = Tensor::concat({Tensor::full(dims({1}), Kind::Bool, 1), differs}, 0);
  } else {
    first = Tensor::full(dims({1}), Kind::Bool, 1);
  }
  Tensor group = first.cast(Kind::I64).cumsum(0) - 1.0;                    // of each in sorted order
  Tensor positions = order.take(0, true_first(first));                     // by group; behind the groups: of no meaning
  Tensor number = how_many(first);
  if (!sorted) {
    // Groups by their first position; those behind the end stay there.
    Tensor is_group = Tensor::arange(count).lt(number);
    Tensor by_position = where(is_group, positions, positions.like(count)).sort_order(0, false);
    Tensor rank = Tensor::full(Shape{count}, Kind::I64, 0).scatter(std::vector<Tensor>{by_position}, Tensor::arange(count), ScatterKind::Set);
    positions = positions.take(0, by_position);
    group = rank.take(0, group);
  }
  Tensor zeros = Tensor::full(Shape{count}, Kind::I64, 0);
  Tensor inverse = zeros.scatter(std::vector<Tensor>{order}, group, ScatterKind::Set);
  Tensor counts = zeros.scatter(std::vector<Tensor>{group}, Tensor::full(Shape{count}, Kind::I64, 1), ScatterKind::Add);
  UOp size = n.measured(number, size_bounds(count).hi);
  return {first_of(x.take(axis, positions), axis, size), first_of(positions, 0, size), inverse, first_of(counts, 0, size)};
}

Tensors unique(OnnxNode& n) {
  bool sorted = n.attr("sorted", 1);
  if (!n.has_attr("axis")) return unique_of(n, n[0].reshape(Ints{-1}), 0, sorted);
  return unique_of(n, n[0], n[0].axis(n.attr_int("axis")), sorted);
}
// com.microsoft: y in the order of first occurrence, the place in y of each element, counts.
Tensors ms_unique(OnnxNode& n) {
  n.require(n[0].rank() == 1, "input ", shape_text(n[0].shape()), " must be a list");
  Tensors all = unique_of(n, n[0], 0, false);
  return {all[0], all[2], all[3]};
}

constexpr OnnxOp kSelectOps[] = {
    {"NonMaxSuppression", 10, non_max_suppression},
    {"Unique", 11, unique},
};

}  // namespace

std::span<const OnnxOp> ms_select_ops() {
  static constexpr OnnxOp kOps[] = {{"Unique", 1, ms_unique}};
  return kOps;
}
std::span<const OnnxOp> select_ops() { return kSelectOps; }

}  // namespace tg
