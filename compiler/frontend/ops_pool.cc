// Pooling: AveragePool, MaxPool, LpPool, their global forms, MaxUnpool. https://onnx.ai/onnx/operators/
#include <algorithm>
#include <cmath>
#include <limits>

#include "frontend/byte_flow.h"
#include "frontend/declared.h"
#include "frontend/onnx_op.h"
#include "frontend/spatial.h"

namespace tg {
namespace {

// The window of a pool; with ceil_mode the end pads grow so that the last, partial window fits. `given` keeps the node's own pads.
struct PoolArgs {
  SpatialArgs s;
  Shape given_end;  // without what ceil_mode adds to s.end
};
PoolArgs pool_args(const OnnxNode& n, const Tensor& x) {
  PoolArgs p{spatial_args(n, x), {}};
  p.given_end = p.s.end;
  if (!n.attr("ceil_mode", 0)) return p;
  for (size_t i = 0; i < p.s.k.size(); i++) {
    i64 stride = p.s.conv.strides[i], reach = (p.s.k[i] - 1) * p.s.conv.dilations[i] + 1;
    UOp in = x.dim(i64(i) + 2), begin = p.s.begin[i], end = p.s.end[i], span = normal_dim(in + begin + end - reach);
    if (size_bounds(span).lo < 0) continue;  // refused by the window itself
    // Windows after the first; the last one must start inside the input or its begin pads.
    UOp more = min((span + (stride - 1)) / stride, (in + begin - 1) / stride);
    p.s.end[i] = normal_dim(max(more * stride + reach - in - begin, end));
  }
  return p;
}
// (N, C, *out, *k)
Tensor windows(const Tensor& x, const PoolArgs& p, UOp value) {
  ConvArgs inside = p.s.conv;
  inside.pads.clear();
  return pad_spatial(x, p.s.begin, p.s.end, value).pool_windows(p.s.k, inside, value);
}

Ints window_axes(const Tensor& windows, size_t k) {
  Ints a;
  for (size_t i = 0; i < k; i++) a.push_back(windows.rank() - i64(k) + i64(i));
  return a;
}

// How many of a window's elements count, (1, 1, *out) or a number: those of the input, with count_include_pad those of the node's pads too.
Tensor window_counts(const Tensor& x, const PoolArgs& p, bool include_pad, DType d) {
  i64 axes = i64(p.s.k.size());
  Tensor count;
  f64 whole = 1;
  for (i64 i = 0; i < axes; i++) {
    size_t at = size_t(i);
    i64 k = p.s.k[at], stride = p.s.conv.strides[at], dil = p.s.conv.dilations[at];
    UOp begin = p.s.begin[at], end = p.s.end[at], in = x.dim(i + 2), lo = idx(0), hi = in;
    if (include_pad) lo = normal_dim(-begin), hi = normal_dim(in + p.given_end[at]);
    if (normal_dim(lo + begin).is_const(0) && normal_dim(hi - in - end).is_const(0)) {  // no window is partial
      whole *= f64(k);
      continue;
    }
    UOp out = normal_dim((in + begin + end - ((k - 1) * dil + 1)) / stride + 1);
    Shape s(size_t(axes + 2), idx(1));
    s[at + 2] = out;
    // taps t with lo <= o*stride - begin + t*dil < hi
    Tensor tap = Tensor::arange(out).unsqueeze(1) * f64(stride) + Tensor::arange(k) * f64(dil);
    tap = tap - tap.like(begin);
    Tensor axis = (tap.ge(tap.like(lo)) & tap.lt(tap.like(hi))).cast(d).sum(Ints{1}).reshape(s);
    count = count ? count * axis : axis;
  }
  Tensor w = Tensor::scalar(d, whole);
  return count ? count * w : w;
}

}  // namespace

Tensor average_pool_of(OnnxNode& n, const Tensor& input) {
  Tensor x = input.widen();
  PoolArgs p = pool_args(n, x);
  Tensor v = windows(x, p, konst(x.dtype(), 0));
  Tensor sum = sum_of(v, window_axes(v, p.s.k.size()), false);
  return (sum / window_counts(x, p, n.attr("count_include_pad", 0), x.dtype())).cast(input.dtype());
}

Tensors max_pool_of(OnnxNode& n, const Tensor& x) {
  PoolArgs p = pool_args(n, x);
  Tensor v = windows(x, p, identity(ReduceKind::Max, x.dtype()));
  Ints axes = window_axes(v, p.s.k.size());
  Tensor y = v.max(axes, false);
  if (!n.wants(1)) return {y};
  // Indices into the whole of x: the first place, in memory order of the window, whose value is the maximum.
  i64 order = n.attr("storage_order", 0);
  Shape sizes = x.shape();
  Ints perm = x.all_axes();
  i64 none = std::numeric_limits<i64>::max();
  if (order) std::reverse(sizes.begin() + 2, sizes.end()), std::reverse(perm.begin() + 2, perm.end());
  Tensor at = Tensor::arange(elems(x.shape())).reshape(sizes).permute(perm);
  Tensor places = windows(at, p, konst(Kind::I64, none));
  Tensor best = v.eq(y.unsqueeze(axes));
  if (x.is_float()) best = best | v.is_nan();
  return {y, where(best, places, Tensor::integer(Kind::I64, none)).min(axes, false)};
}

namespace {

// (sum |x|^p)^(1/p) over the window, padding counting as 0.
Tensor power_norm(const Tensor& x, i64 p, const Ints& axes, bool keepdims) {
  if (p == 1) return x.abs().sum(axes, keepdims);
  if (p == 2) return x.square().sum(axes, keepdims).sqrt();
  return x.abs().pow(x.like(f64(p))).sum(axes, keepdims).pow(x.like(1.0 / f64(p)));
}
Tensor lp_pool(OnnxNode& n) {
  Tensor x = n[0].widen();
  PoolArgs a = pool_args(n, x);
  Tensor v = windows(x, a, konst(x.dtype(), 0));
  return power_norm(v, n.attr("p", 2), window_axes(v, a.s.k.size()), false).cast(n[0].dtype());
}

Ints spatial_axes(OnnxNode& n) {
  n.require(n[0].rank() >= 3, "input ", shape_text(n[0].shape()), " has no spatial axes");
  Ints a = n[0].all_axes();
  return Ints(a.begin() + 2, a.end());
}

// x (N, C, *pooled) goes to places in a result of zeros, given as indices into the whole of the unpooled shape.
Tensor max_unpool(OnnxNode& n) {
  Tensor x = n[0], at = n[1];
  Ints k = n.attr_ints("kernel_shape");
  i64 axes = i64(k.size());
  n.require(x.rank() == axes + 2, "input ", shape_text(x.shape()), " for a kernel of ", axes, " axes");
  Ints strides = n.attr("strides", Ints(axes, 1)), pads = n.attr("pads", Ints(2 * axes, 0));
  n.require(i64(strides.size()) == axes && i64(pads.size()) == 2 * axes, "strides and pads must be given for ", axes, " axes");
  Shape inferred{x.dim(0), x.dim(1)};
  for (i64 i = 0; i < axes; i++) inferred.push_back(normal_dim((x.dim(i + 2) - 1) * strides[i] + (k[i] - pads[i] - pads[axes + i])));
  Tensor index[] = {at.flatten()};
  Tensor y = Tensor::full(Shape{elems(inferred)}, x.dtype(), 0).scatter(index, x.flatten(), ScatterKind::Set).reshape(inferred);
  if (!n.has(2)) return y;
  // As ONNX's reference does: the result of the inferred shape stands at the begin of the wanted one.
  auto declared = n.declared(0, 2);
  if (declared) n.must_have(n[2], *declared);
  Shape shape = declared ? dims(IntSpan(*declared)) : n.dims(2), none(inferred.size(), idx(0)), end;
  n.require(shape.size() == inferred.size(), "output_shape has ", shape.size(), " dims, the input ", inferred.size());
  for (size_t i = 0; i < shape.size(); i++) end.push_back(normal_dim(shape[i] - inferred[i]));
  return y.pad(none, end, PadMode::Constant, y.like(0).uop());
}

constexpr OnnxOp kPoolOps[] = {
    {"AveragePool", 1, [](OnnxNode& n) { return average_pool_of(n, n[0]); }},
    {"GlobalAveragePool", 1, [](OnnxNode& n) { return mean_of(n[0], spatial_axes(n), true); }},
    {"GlobalLpPool", 1, [](OnnxNode& n) { return power_norm(n[0].widen(), n.attr("p", 2), spatial_axes(n), true).cast(n[0].dtype()); }},
    {"GlobalMaxPool", 1, [](OnnxNode& n) { return n[0].max(spatial_axes(n), true); }},
    {"LpPool", 1, lp_pool},
    {"MaxPool", 1, [](OnnxNode& n) { return max_pool_of(n, n[0]); }},
    {"MaxUnpool", 9, max_unpool},
};

}  // namespace

std::span<const OnnxOp> pool_ops() { return kPoolOps; }

}  // namespace tg
