// Reductions, running sums, the place of an extremum, norms of whole axes. https://onnx.ai/onnx/operators/
#include <algorithm>
#include <limits>

#include "frontend/byte_flow.h"
#include "frontend/declared.h"
#include "frontend/onnx_op.h"

namespace tg {
namespace {

// The axes that lead to a declared shape. Axes of one element may count as reduced or not, without a difference.
Ints axes_of_result(OnnxNode& n, const Ints& in, const Ints& out, bool keep) {
  std::vector<Ints> fit;
  for (u32 set = 0; set < 1u << std::min<size_t>(in.size(), 16); set++) {
    Ints axes, left;
    for (size_t a = 0; a < in.size(); a++) {
      if (set >> a & 1) axes.push_back(i64(a));
      if (!(set >> a & 1))
        left.push_back(in[a]);
      else if (keep)
        left.push_back(1);
    }
    if (left == out) fit.push_back(axes);
  }
  auto without_ones = [&](Ints axes) {
    std::erase_if(axes, [&](i64 a) { return in[a] == 1; });
    return axes;
  };
  n.require(!fit.empty(), "no axes lead from (", join(in), ") to the declared shape (", join(out), ")");
  for (const Ints& f : fit)
    n.require(without_ones(f) == without_ones(fit[0]), "the axes must be known at compile time: several lead from (", join(in),
              ") to the declared shape (", join(out), ")");
  return fit.back();
}

// axes: an attribute in the old forms, input 1 in the new; none: all axes, or with noop_with_empty_axes no axis.
Ints reduce_axes(OnnxNode& n, bool attribute) {
  if (!attribute)
    if (auto d = n.declared(0, 1)) {
      bool keep = n.attr("keepdims", 1);
      if (!n[1].dim(0).is_const(0)) n.must_have(sizes::without(n[0].shape(), n[1], keep), *d);
      return axes_of_result(n, n[0].sizes(), *d, keep);
    }
  Ints a = attribute ? n.attr("axes", Ints{}) : n.has(1) ? n.ints(1) : Ints{};
  if (!a.empty()) return n[0].axes(a);
  return n.attr("noop_with_empty_axes", 0) && !attribute ? Ints{} : n[0].all_axes();
}

// pre and post are applied around the reduction, in f32 for halves.
template <bool attribute, class F>
Tensor reduction(OnnxNode& n, F f) {
  bool keep = n.attr("keepdims", 1);
  return f(n[0].widen(), reduce_axes(n, attribute), keep).cast(n[0].dtype());
}

Tensor extremum(const Tensor& x, const Ints& axes, bool keep, ReduceKind k) {
  if (x.dtype().kind == Kind::Bool) return x.cast(Kind::U8).reduce(k, axes, keep).cast(Kind::Bool);
  return x.reduce(k, axes, keep);
}
Tensor log_sum_exp(const Tensor& x, const Ints& axes, bool keep) {
  if (!x.is_float()) return log_sum_exp(x.cast(Kind::F64), axes, keep).cast(x.dtype());
  constexpr f64 inf = std::numeric_limits<f64>::infinity();
  Tensor m = x.max(axes, true);
  m = where(m.eq(m.like(inf)) | m.eq(m.like(-inf)), m.like(0), m);  // inf - inf would be NaN
  Tensor r = (x - m).exp().sum(axes, true).log() + m;
  return keep ? r : r.squeeze(axes);
}
// sqrt and log of integers: through f64, truncated.
template <class F>
Tensor through_float(const Tensor& x, F f) {
  return x.is_float() ? f(x) : f(x.cast(Kind::F64)).cast(x.dtype());
}

// clang-format off
template <bool old> Tensor reduce_sum(OnnxNode& n)  { return reduction<old>(n, [](Tensor x, Ints a, bool k) { return x.sum(a, k); }); }
template <bool old> Tensor reduce_mean(OnnxNode& n) { return reduction<old>(n, [](Tensor x, Ints a, bool k) { return mean_of(x, a, k); }); }
template <bool old> Tensor reduce_prod(OnnxNode& n) { return reduction<old>(n, [](Tensor x, Ints a, bool k) { return x.prod(a, k); }); }
template <bool old> Tensor reduce_max(OnnxNode& n)  { return reduction<old>(n, [](Tensor x, Ints a, bool k) { return extremum(x, a, k, ReduceKind::Max); }); }
template <bool old> Tensor reduce_min(OnnxNode& n)  { return reduction<old>(n, [](Tensor x, Ints a, bool k) { return extremum(x, a, k, ReduceKind::Min); }); }
template <bool old> Tensor reduce_l1(OnnxNode& n)   { return reduction<old>(n, [](Tensor x, Ints a, bool k) { return (is_uint(x.dtype()) ? x : x.abs()).sum(a, k); }); }
template <bool old> Tensor reduce_l2(OnnxNode& n)   { return reduction<old>(n, [](Tensor x, Ints a, bool k) { return through_float(x, [&](Tensor y) { return y.square().sum(a, k).sqrt(); }); }); }
template <bool old> Tensor reduce_log_sum(OnnxNode& n) { return reduction<old>(n, [](Tensor x, Ints a, bool k) { return through_float(x, [&](Tensor y) { return y.sum(a, k).log(); }); }); }
template <bool old> Tensor reduce_log_sum_exp(OnnxNode& n) { return reduction<old>(n, [](Tensor x, Ints a, bool k) { return log_sum_exp(x, a, k); }); }
template <bool old> Tensor reduce_sum_square(OnnxNode& n) { return reduction<old>(n, [](Tensor x, Ints a, bool k) { return x.square().sum(a, k); }); }
// clang-format on

template <bool max>
Tensor arg(OnnxNode& n) {
  Tensor x = n[0];
  i64 a = x.axis(n.attr("axis", 0));
  bool last = n.attr("select_last_index", 0);
  if (x.dim(a).is_const(0)) n.fail("axis ", a, " of ", shape_text(x.shape()), " is empty");
  Tensor r = max ? x.argmax(a, last).first : x.argmin(a, last).first;
  return n.attr("keepdims", 1) ? r.unsqueeze(a) : r;
}

template <ReduceKind kind>
Tensor cumulative(OnnxNode& n) {
  Tensor x = n[0].widen();
  bool exclusive = n.attr("exclusive", 0), reverse = n.attr("reverse", 0);
  auto along = [&](i64 a) { return Tensor(tensor::scan(x.uop(), {kind, x.axis(a), exclusive, reverse})); };
  if (n.is_constant(1)) return along(n.integer(1)).cast(n[0].dtype());
  // An axis known only at run time chooses among the scans of all axes.
  n.require(x.rank() > 0 && n[1].numel() == 1, "the axis must be one number");
  Tensor axis = n[1].cast(Kind::I64).reshape(Shape{}), r = along(0);
  for (i64 a = 1; a < x.rank(); a++) r = where(axis.eq(axis.like(a)) | axis.eq(axis.like(a - x.rank())), along(a), r);
  return r.cast(n[0].dtype());
}

Tensor hardmax_of(const Tensor& x, i64 axis) {
  axis = x.axis(axis);
  Shape s(x.rank(), idx(1));
  s[axis] = x.dim(axis);
  Tensor i = Tensor::arange(x.dim(axis)).reshape(s);
  return i.eq(x.argmax(axis).first.unsqueeze(axis)).cast(x.dtype());
}
// Before opset 13 the input is seen as a matrix, cut at axis.
Tensor hardmax_1(OnnxNode& n) {
  Tensor x = n[0];
  i64 a = n.attr("axis", 1);
  a = a == x.rank() ? a : x.axis(a);
  const Shape& s = x.shape();
  Tensor flat = x.reshape(Shape{elems(Shape(s.begin(), s.begin() + a)), elems(Shape(s.begin() + a, s.end()))});
  return hardmax_of(flat, 1).reshape(s);
}

Tensor lp_normalization(OnnxNode& n) {
  Tensor x = n[0].widen();
  i64 p = n.attr("p", 2);
  Ints a{x.axis(n.attr("axis", -1))};
  n.require(p == 1 || p == 2, "p must be 1 or 2, not ", p);
  Tensor norm = p == 1 ? x.abs().sum(a, true) : x.square().sum(a, true).sqrt();
  return where(norm.eq(norm.like(0)), x.like(0), x / norm).cast(n[0].dtype());
}

// clang-format off
constexpr OnnxOp kReduceOps[] = {
  {"ArgMax",           1, arg<true>},
  {"ArgMin",           1, arg<false>},
  {"CumProd",         26, cumulative<ReduceKind::Mul>},
  {"CumSum",          11, cumulative<ReduceKind::Add>},
  {"Hardmax",          1, hardmax_1},
  {"Hardmax",         13, [](OnnxNode& n) { return hardmax_of(n[0], n.attr("axis", -1)); }},
  {"LpNormalization",  1, lp_normalization},
  {"ReduceL1",         1, reduce_l1<true>},            // axes are an attribute
  {"ReduceL1",        18, reduce_l1<false>},
  {"ReduceL2",         1, reduce_l2<true>},
  {"ReduceL2",        18, reduce_l2<false>},
  {"ReduceLogSum",     1, reduce_log_sum<true>},
  {"ReduceLogSum",    18, reduce_log_sum<false>},
  {"ReduceLogSumExp",  1, reduce_log_sum_exp<true>},
  {"ReduceLogSumExp", 18, reduce_log_sum_exp<false>},
  {"ReduceMax",        1, reduce_max<true>},
  {"ReduceMax",       18, reduce_max<false>},
  {"ReduceMean",       1, reduce_mean<true>},
  {"ReduceMean",      18, reduce_mean<false>},
  {"ReduceMin",        1, reduce_min<true>},
  {"ReduceMin",       18, reduce_min<false>},
  {"ReduceProd",       1, reduce_prod<true>},
  {"ReduceProd",      18, reduce_prod<false>},
  {"ReduceSum",        1, reduce_sum<true>},
  {"ReduceSum",       13, reduce_sum<false>},
  {"ReduceSumSquare",  1, reduce_sum_square<true>},
  {"ReduceSumSquare", 18, reduce_sum_square<false>},
};
// clang-format on

}  // namespace

std::span<const OnnxOp> reduce_ops() { return kReduceOps; }

}  // namespace tg
