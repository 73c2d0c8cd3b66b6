// Pooling: AveragePool, MaxPool, LpPool, their global forms, MaxUnpool. https://onnx.ai/onnx/operators/
#include <algorithm>
#include <cmath>
#include <limits>

#include "frontend/onnx_op.h"
#include "frontend/spatial.h"

namespace tg {
namespace {

// The window of a pool; with ceil_mode the end pads grow so that the last, partial window fits. `given` keeps the node's own pads.
struct PoolArgs {
  SpatialArgs s;
  Ints given;
};
PoolArgs pool_args(const OnnxNode& n, const Tensor& x) {
  PoolArgs p{spatial_args(n, x), {}};
  p.given = p.s.conv.pads;
  if (!n.attr("ceil_mode", 0)) return p;
  i64 axes = i64(p.s.k.size());
  for (i64 i = 0; i < axes; i++) {
    i64 in = x.size(i + 2), stride = p.s.conv.strides[i], reach = (p.s.k[i] - 1) * p.s.conv.dilations[i] + 1;
    i64 begin = p.given[i], end = p.given[axes + i], span = in + begin + end - reach;
    if (span < 0) continue;  // refused by the window itself
    i64 out = (span + stride - 1) / stride + 1;
    if ((out - 1) * stride >= in + begin) out--;  // the last window must start inside the input or its begin pads
    p.s.conv.pads[axes + i] = std::max(end, (out - 1) * stride + reach - in - begin);
  }
  return p;
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
    i64 k = p.s.k[i], stride = p.s.conv.strides[i], dil = p.s.conv.dilations[i], begin = p.s.conv.pads[i], end = p.s.conv.pads[axes + i];
    i64 lo = include_pad ? -p.given[i] : 0;
    bool partial = begin > -lo || end > (include_pad ? p.given[axes + i] : 0);
    if (!partial) {
      whole *= f64(k);
      continue;
    }
    i64 in = x.size(i + 2), hi = in + (include_pad ? p.given[axes + i] : 0), out = (in + begin + end - (k - 1) * dil - 1) / stride + 1;
    check_table(std::max<i64>(0, out));
    std::vector<f64> c(std::max<i64>(0, out));
    for (i64 o = 0; o < out; o++) {  // taps t with lo <= start + t*dil < hi
      i64 start = o * stride - begin;
      auto up = [&](i64 from) { return from <= 0 ? 0 : std::min(k, (from + dil - 1) / dil); };
      c[o] = f64(up(hi - start) - up(lo - start));
    }
    Ints s(axes + 2, 1);
    s[i + 2] = out;
    Tensor axis = Tensor::of(d, s, c);
    count = count ? count * axis : axis;
  }
  Tensor w = Tensor::scalar(d, whole);
  return count ? count * w : w;
}

}  // namespace

Tensor average_pool_of(OnnxNode& n, const Tensor& input) {
  Tensor x = input.widen();
  PoolArgs p = pool_args(n, x);
  Tensor v = x.pool_windows(p.s.k, p.s.conv, konst(x.dtype(), 0));
  Tensor sum = v.reduce(ReduceKind::Add, window_axes(v, p.s.k.size()));
  return (sum / window_counts(x, p, n.attr("count_include_pad", 0), x.dtype())).cast(input.dtype());
}

Tensors max_pool_of(OnnxNode& n, const Tensor& x) {
  PoolArgs p = pool_args(n, x);
  Tensor v = x.pool_windows(p.s.k, p.s.conv, identity(ReduceKind::Max, x.dtype()));
  Ints axes = window_axes(v, p.s.k.size());
  Tensor y = v.max(axes, false);
  if (!n.wants(1)) return {y};
  // Indices into the whole of x: the first place, in memory order of the window, whose value is the maximum.
  i64 order = n.attr("storage_order", 0);
  Ints sizes = x.sizes(), perm = x.all_axes();
  i64 none = std::numeric_limits<i64>::max();
  if (order) std::reverse(sizes.begin() + 2, sizes.end()), std::reverse(perm.begin() + 2, perm.end());
  Tensor at = Tensor::arange(x.numel()).reshape(sizes).permute(perm);
  Tensor places = at.pool_windows(p.s.k, p.s.conv, konst(Kind::I64, none));
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
  Tensor v = x.pool_windows(a.s.k, a.s.conv, konst(x.dtype(), 0));
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
  Ints inferred{x.size(0), x.size(1)};
  for (i64 i = 0; i < axes; i++) inferred.push_back((x.size(i + 2) - 1) * strides[i] - pads[i] - pads[axes + i] + k[i]);
  i64 total = 1;
  for (i64 d : inferred) total *= d;
  Tensor index[] = {at.flatten()};
  Tensor y = Tensor::full(dims({total}), x.dtype(), 0).scatter(index, x.flatten(), ScatterKind::Set).reshape(inferred);
  if (!n.has(2)) return y;
  // As ONNX's reference does: the result of the inferred shape stands at the begin of the wanted one.
  auto declared = n.declared(0, 2);
  Ints shape = declared ? *declared : n.ints(2), none(inferred.size()), end;
  n.require(shape.size() == inferred.size(), "output_shape has ", shape.size(), " dims, the input ", inferred.size());
  for (size_t i = 0; i < shape.size(); i++) end.push_back(shape[i] - inferred[i]);
  return y.pad(none, end);
}

constexpr OnnxOp kPoolOps[] = {
    {"AveragePool", 1, [](OnnxNode& n) { return average_pool_of(n, n[0]); }},
    {"GlobalAveragePool", 1, [](OnnxNode& n) { return n[0].mean(spatial_axes(n), true); }},
    {"GlobalLpPool", 1, [](OnnxNode& n) { return power_norm(n[0].widen(), n.attr("p", 2), spatial_axes(n), true).cast(n[0].dtype()); }},
    {"GlobalMaxPool", 1, [](OnnxNode& n) { return n[0].max(spatial_axes(n), true); }},
    {"LpPool", 1, lp_pool},
    {"MaxPool", 1, [](OnnxNode& n) { return max_pool_of(n, n[0]); }},
    {"MaxUnpool", 9, max_unpool},
};

}  // namespace

std::span<const OnnxOp> pool_ops() { return kPoolOps; }

}  // namespace tg
