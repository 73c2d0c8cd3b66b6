// Resize and Upsample. Every axis is resized by itself: places and weights are computed here in f64, and the graph gets a gather of a
// constant index per tap, or where an axis only repeats or skips elements, movement. https://onnx.ai/onnx/operators/onnx__Resize.html
#include <algorithm>
#include <cmath>
#include <map>

#include "frontend/declared.h"
#include "frontend/onnx_op.h"

namespace tg {
namespace {

struct ResizeArgs {
  enum Mode : u8 { Nearest, Linear, Cubic } mode = Nearest;
  std::string coordinates = "half_pixel", nearest = "round_prefer_floor";
  f64 cubic_a = -0.75, extrapolation = 0;
  bool antialias = false, exclude_outside = false;
};

// One output element: what it reads and with which weight; nothing read: it is extrapolated.
using Taps = std::map<i64, f64>;

// Where in the input output element o lies. T: f32 for places that are then rounded to the nearest element, so that a scale like 0.6f gives
// the element that it means; f64 for weights.
template <class T>
f64 source(const ResizeArgs& a, T o, T scale, i64 in, i64 out, const f64 roi[2]) {
  T length = scale * T(in), last = T(in - 1);
  const std::string& c = a.coordinates;
  if (c == "align_corners") return length == 1 ? T(0) : o * last / (length - 1);
  if (c == "asymmetric") return o / scale;
  if (c == "tf_half_pixel_for_nn") return (o + T(0.5)) / scale;
  if (c == "pytorch_half_pixel") return length == 1 ? T(-0.5) : (o + T(0.5)) / scale - T(0.5);
  if (c == "tf_crop_and_resize")
    return roi[0] * last + (length == 1 ? (roi[1] - roi[0]) * last / 2 : o * (roi[1] - roi[0]) * last / (length - 1));
  T x = (o + T(0.5)) / scale - T(0.5);
  if (c == "half_pixel_symmetric") x += T(in) / 2 * (1 - T(out) / length);
  return x;
}

i64 nearest(const std::string& mode, f64 x) {
  f64 f = std::floor(x), r = x - f;
  if (mode == "floor" || r == 0) return i64(f);
  if (mode == "ceil") return i64(f) + 1;
  if (mode == "round_prefer_ceil") return i64(f) + (r >= 0.5);
  return i64(f) + (r > 0.5);
}

f64 weight(const ResizeArgs& a, f64 distance) {
  f64 x = std::abs(distance);
  if (a.mode == ResizeArgs::Linear) return std::max(0.0, 1 - x);
  f64 A = a.cubic_a;
  if (x <= 1) return ((A + 2) * x - (A + 3)) * x * x + 1;
  return x < 2 ? ((A * x - 5 * A) * x + 8 * A) * x - 4 * A : 0;
}

std::vector<Taps> axis_taps(const ResizeArgs& a, i64 in, i64 out, f64 scale, const f64 roi[2]) {
  std::vector<Taps> all(out);
  for (i64 o = 0; o < out; o++) {
    bool rounds = a.mode == ResizeArgs::Nearest;
    f64 x = rounds ? source<f32>(a, f32(o), f32(scale), in, out, roi) : source<f64>(a, f64(o), scale, in, out, roi);
    if (a.coordinates == "tf_crop_and_resize" && (x < 0 || x > f64(in - 1))) continue;
    auto clamped = [&](i64 i) { return std::clamp<i64>(i, 0, in - 1); };
    if (a.mode == ResizeArgs::Nearest) {
      all[o][clamped(nearest(a.nearest, x))] = 1;
      continue;
    }
    // With antialias the kernel is widened by the reduction, and its weights add up to 1 again.
    f64 narrow = a.antialias ? std::min(scale, 1.0) : 1;
    i64 reach = i64(std::ceil((a.mode == ResizeArgs::Linear ? 1 : 2) / narrow)), base = i64(std::floor(x));
    f64 total = 0;
    std::vector<std::pair<i64, f64>> taps;
    for (i64 i = base - reach; i <= base + reach + 1; i++) {
      f64 w = weight(a, (f64(i) - x) * narrow);
      if (w == 0) continue;
      bool outside = i < 0 || i >= in;
      if (a.antialias || !a.exclude_outside || !outside) total += w;
      taps.push_back({i, w});
    }
    bool normalize = a.antialias || a.exclude_outside;
    if (a.antialias && a.exclude_outside) {  // first to 1 over all taps, then over those inside: the second alone decides
      total = 0;
      for (auto [i, w] : taps) total += i >= 0 && i < in ? w : 0;
    }
    for (auto [i, w] : taps) {
      if (a.exclude_outside && (i < 0 || i >= in)) continue;
      all[o][clamped(i)] += normalize ? w / total : w;
    }
  }
  return all;
}

// The dim that a scale makes of another. onnxruntime and ONNX's shape inference compute in f32.
UOp scaled(const Tensor& x, i64 axis, f64 scale) {
  UOp in = x.dim(axis);
  if (in.is_const()) return idx(i64(std::floor(f32(in.as_int()) * f32(scale))));
  for (i64 den = 1; den <= 64; den *= 2)  // what f32 has no rounding for
    if (f64 num = scale * f64(den); num == std::floor(num) && num >= 1 && num < 1e6) return normal_dim(in * i64(num) / den);
  fail("axis ", axis, " of ", shape_text(x.shape()), " is free: its result by the scale ", scale, " is no exact expression; fix it with --shape");
}

// Every element repeated s times, or every s-th one from b on: movement. Absent if the taps are anything else.
Tensor moved(const Tensor& x, i64 axis, const std::vector<Taps>& taps) {
  i64 in = x.size(axis), out = i64(taps.size());
  for (const Taps& t : taps)
    if (t.size() != 1 || t.begin()->second != 1) return {};
  auto at = [&](i64 o) { return taps[o].begin()->first; };
  if (out % in == 0) {
    i64 s = out / in;
    bool repeats = true;
    for (i64 o = 0; o < out; o++) repeats &= at(o) == o / s;
    if (repeats) {
      Shape sh = x.shape();
      sh.insert(sh.begin() + axis + 1, idx(s));
      return x.unsqueeze(axis + 1).expand(sh).flatten(axis, axis + 1);
    }
  }
  i64 s = out > 1 ? at(1) - at(0) : 1;
  bool skips = s > 0;
  for (i64 o = 0; skips && o < out; o++) skips = at(o) == at(0) + o * s;
  return skips ? x.slice(axis, at(0), at(out - 1) + 1, s) : Tensor();
}

Tensor resize_axis(const Tensor& x, i64 axis, const std::vector<Taps>& taps, const ResizeArgs& a) {
  i64 out = i64(taps.size());
  if (out == 0) return x.shrink(axis, 0, 0);
  if (Tensor m = moved(x, axis, taps)) return m;
  size_t most = 1;
  bool extrapolates = false;
  for (const Taps& t : taps) most = std::max(most, t.size()), extrapolates |= t.empty();
  // (taps, out): absent ones read the last place of the same element with weight 0.
  std::vector<std::vector<i64>> index(most, std::vector<i64>(out));
  std::vector<std::vector<f64>> weights(most, std::vector<f64>(out));
  for (i64 o = 0; o < out; o++) {
    size_t k = 0;
    for (auto [i, w] : taps[o]) index[k][o] = i, weights[k++][o] = w;
    for (; k < most; k++) index[k][o] = k ? index[k - 1][o] : 0;
  }
  Ints along(x.rank(), 1);
  along[axis] = out;
  Tensor y;
  bool plain = true;
  for (f64 w : weights[0]) plain &= w == 1;
  if (most <= 4) {
    for (size_t k = 0; k < most; k++) {
      Tensor v = x.take(axis, Tensor::ints(index[k]));
      if (most > 1 || !plain) v = v * Tensor::of(x.dtype(), along, weights[k]);
      y = y ? y + v : v;
    }
  } else {  // many taps: a sum over them
    Ints flat, s(x.rank() + 1, 1);
    std::vector<f64> w;
    for (i64 o = 0; o < out; o++)
      for (size_t k = 0; k < most; k++) flat.push_back(index[k][o]), w.push_back(weights[k][o]);
    s[axis] = out, s[axis + 1] = i64(most);
    Tensor v = x.take(axis, Tensor::of_ints(Kind::I64, Ints{out, i64(most)}, flat));
    y = (v * Tensor::of(x.dtype(), s, w)).reduce(ReduceKind::Add, Ints{axis + 1});
  }
  if (!extrapolates) return y;
  std::vector<f64> missing(out);
  for (i64 o = 0; o < out; o++) missing[o] = taps[o].empty();
  return where(Tensor::of(Kind::Bool, along, missing), y.like(a.extrapolation), y);
}

Tensor resize_axis_at_run_time(const Tensor& x, i64 axis, UOp out, const Tensor& scale, const Tensor& begin, const Tensor& end,
                               const ResizeArgs& a);

// Of an axis whose size is free. A whole scale that only repeats elements is movement; it is recognized by what it does to a short axis, since
// the places of all elements follow from those of the first ones. scale 0: that of the sizes.
Tensor resize_free_axis(const Tensor& x, i64 axis, UOp out, f64 scale, const f64 region[2], const ResizeArgs& a) {
  constexpr i64 kSample = 24;
  i64 s = i64(scale);
  if (a.mode == ResizeArgs::Nearest && a.coordinates != "tf_crop_and_resize" && a.coordinates != "align_corners" && f64(s) == scale && s >= 1 && s <= 64 && out == normal_dim(x.dim(axis) * s)) {
    bool repeats = true;
    std::vector<Taps> taps = axis_taps(a, kSample, kSample * s, scale, region);
    for (i64 o = 0; o < kSample * s; o++) repeats &= taps[o].begin()->first == o / s;
    if (repeats) {
      Shape sh = x.shape();
      sh.insert(sh.begin() + axis + 1, idx(s));
      return x.unsqueeze(axis + 1).expand(sh).flatten(axis, axis + 1);
    }
  }
  Tensor ratio = scale ? Tensor::scalar(Kind::F32, scale) : Tensor(cast(out, Kind::F32)) / cast(x.dim(axis), Kind::F32);
  return resize_axis_at_run_time(x, axis, out, ratio, Tensor::scalar(Kind::F32, region[0]), Tensor::scalar(Kind::F32, region[1]), a);
}

// axes, scales and sizes of one length; sizes hold the result's dims. A scale of 0: that of the sizes, which are free.
Tensor resize(OnnxNode& n, const Tensor& x, const Ints& axes, const std::vector<f64>& scales, const Shape& sizes,
              const std::vector<f64>& roi, const ResizeArgs& a) {
  bool moves = a.mode == ResizeArgs::Nearest;
  DType d = moves ? x.dtype() : x.is_float() ? x.widen().dtype() : DType(Kind::F32);
  Tensor y = x.cast(d);
  for (size_t i = 0; i < axes.size(); i++) {
    i64 axis = x.axis(axes[i]);
    f64 region[2] = {0, 1};
    if (!roi.empty()) region[0] = roi[i], region[1] = roi[axes.size() + i];
    UOp in = x.dim(axis), out = sizes[i];
    bool is_free = !in.is_const() || !out.is_const();
    n.require(std::isfinite(scales[i]) && (scales[i] > 0 || (is_free && scales[i] == 0)), "scale ", scales[i], " of axis ", axis,
              " must be positive");
    n.require(size_bounds(in).lo > 0 || out.is_const(0), "axis ", axis, " may be empty and cannot be resized to ", out.str());
    if (in.is_const()) check_table(in.as_int(), 4);  // a list of taps takes more than a number
    if (out.is_const()) check_table(out.as_int(), 4);
    if (out == in && scales[i] == 1 && region[0] == 0 && region[1] == 1) continue;
    y = is_free ? resize_free_axis(y, axis, out, scales[i], region, a)
                : resize_axis(y, axis, axis_taps(a, in.as_int(), out.as_int(), scales[i], region), a);
  }
  if (d == x.dtype()) return y;
  if (!x.is_float()) y = y.round();
  return y.cast(x.dtype());  // float to integer saturates
}

// --- scales, sizes or roi known at run time, over a result of known shape
// ----------------------------------------------------------------- The same places and weights as above, computed by the graph in f32.
// scale, begin and end (of the roi) are numbers, shape ().
Tensor source_at_run_time(const ResizeArgs& a, const Tensor& scale, UOp in, UOp out, const Tensor& begin, const Tensor& end) {
  Tensor o = Tensor::arange(out).cast(Kind::F32), length = scale * scale.like(in), one = length.eq(length.like(1));
  Tensor last = o.like(in - 1);
  const std::string& c = a.coordinates;
  if (c == "align_corners") return where(one, o * 0.0, o * last / (length - 1.0));
  if (c == "asymmetric") return o / scale;
  Tensor half = (o + 0.5) / scale;
  if (c == "tf_half_pixel_for_nn") return half;
  if (c == "pytorch_half_pixel") return where(one, half.like(-0.5), half - 0.5);
  if (c == "tf_crop_and_resize") {
    Tensor extent = (end - begin) * last;
    return begin * last + where(one, extent / 2.0, o * extent / (length - 1.0));
  }
  if (c == "half_pixel_symmetric") return half.like(in) / 2.0 * (1.0 - half.like(out) / length) + half - 0.5;
  return half - 0.5;
}

Tensor weight_at_run_time(const ResizeArgs& a, const Tensor& distance) {
  Tensor x = distance.abs();
  if (a.mode == ResizeArgs::Linear) return (1.0 - x).max(x.like(0));
  f64 A = a.cubic_a;
  Tensor near = ((A + 2) * x - (A + 3)) * x * x + 1.0, far = ((A * x - 5 * A) * x + 8 * A) * x - 4 * A;
  return where(x.le(x.like(1)), near, where(x.lt(x.like(2)), far, x.like(0)));
}

Tensor resize_axis_at_run_time(const Tensor& x, i64 axis, UOp out, const Tensor& scale, const Tensor& begin, const Tensor& end,
                               const ResizeArgs& a) {
  UOp in = x.dim(axis);
  Tensor at = source_at_run_time(a, scale, in, out, begin, end), y;  // (out)
  auto clamped = [&](const Tensor& i) { return i.clip(i.like(0), i.like(in - 1)).cast(Kind::I64); };
  Shape along(x.rank(), idx(1));
  along[axis] = out;
  if (a.mode == ResizeArgs::Nearest) {
    Tensor f = at.floor(), r = at - f, i;
    if (a.nearest == "floor")
      i = f;
    else if (a.nearest == "ceil")
      i = at.ceil();
    else
      i = where(a.nearest == "round_prefer_ceil" ? r.ge(r.like(0.5)) : r.gt(r.like(0.5)), f + 1.0, f);
    y = x.take(axis, clamped(i));
  } else {
    // A scale is at least (out - 1/2) / in: that bounds how far a kernel widened by antialias reaches.
    Tensor narrow = a.antialias ? scale.min(scale.like(1)) : scale.like(1);
    f64 least = a.antialias ? std::min(1.0, (f64(constant_dim(out)) - 0.5) / f64(constant_dim(in))) : 1;
    i64 reach = i64(std::ceil((a.mode == ResizeArgs::Linear ? 1 : 2) / least));
    std::vector<f64> offsets;
    for (i64 k = 1 - reach; k <= reach; k++) offsets.push_back(f64(k));
    i64 taps = i64(offsets.size());
    Tensor i = at.floor().unsqueeze(1) + Tensor::of(Kind::F32, Ints{1, taps}, offsets);  // (out, taps)
    Tensor w = weight_at_run_time(a, (i - at.unsqueeze(1)) * narrow);
    if (a.exclude_outside) w = where(i.ge(i.like(0)) & i.le(i.like(in - 1)), w, w.like(0));
    if (a.antialias || a.exclude_outside) w = w / w.sum(Ints{1}, true);
    Shape ws = along;
    ws.insert(ws.begin() + axis + 1, idx(taps));
    y = (x.take(axis, clamped(i)) * w.cast(x.dtype()).reshape(ws)).reduce(ReduceKind::Add, Ints{axis + 1});
  }
  if (a.coordinates != "tf_crop_and_resize") return y;
  Tensor outside = at.lt(at.like(0)) | at.gt(at.like(in - 1));
  return where(outside.reshape(along), y.like(a.extrapolation), y);
}

// Input `scales_at` or, if that is absent, sizes_at holds a number an axis of `axes`; shape: the result's.
Tensor resize_at_run_time(OnnxNode& n, const Tensor& x, const Ints& axes, const Ints& shape, size_t scales_at, size_t sizes_at,
                          const ResizeArgs& a) {
  n.require(i64(shape.size()) == x.rank(), "the declared result has rank ", shape.size());
  bool by_size = !n.has(scales_at) || n[scales_at].dim(0).is_const(0);
  Tensor given = n[by_size ? sizes_at : scales_at].cast(Kind::F32);
  n.require(given.rank() == 1 && given.size(0) == i64(axes.size()), shape_text(given.shape()), " scales or sizes for ", axes.size(),
            " axes");
  auto number = [&](const Tensor& v, i64 i) { return v.shrink(0, i, 1).reshape(Shape{}); };
  std::vector<Tensor> scales;
  for (size_t i = 0; i < axes.size(); i++) scales.push_back(by_size ? number(given, i64(i)) / given.like(x.dim(axes[i])) : number(given, i64(i)));
  std::string policy = n.attr("keep_aspect_ratio_policy", "stretch");
  if (by_size && policy != "stretch") {
    n.require(policy == "not_larger" || policy == "not_smaller", "keep_aspect_ratio_policy \"", policy, "\" is unknown");
    Tensor all = scales[0];
    for (const Tensor& s : scales) all = policy == "not_larger" ? all.min(s) : all.max(s);
    for (Tensor& s : scales) s = all;
  }
  bool crops = a.coordinates == "tf_crop_and_resize";
  Tensor wanted = sizes::of(x.shape());
  for (size_t i = 0; i < axes.size(); i++) {
    Tensor now = scales[i] * scales[i].like(x.dim(axes[i]));
    if (crops && !by_size) {
      Tensor roi = n[1].cast(Kind::F32).flatten();
      now = now * (number(roi, i64(axes.size() + i)) - number(roi, i64(i)));
    }
    if (by_size && policy == "stretch") now = number(n[sizes_at], i64(i));
    else now = by_size ? (now + 0.5).floor() : now.floor();
    wanted = sizes::with(wanted, axes[i], now.cast(Kind::I64));
  }
  n.must_have(wanted, shape);
  if (crops) n.require(n[1].numel() == 2 * i64(axes.size()), "roi ", shape_text(n[1].shape()), " for ", axes.size(), " axes");
  DType d = a.mode == ResizeArgs::Nearest ? x.dtype() : x.is_float() ? x.widen().dtype() : DType(Kind::F32);
  Tensor y = x.cast(d);
  for (size_t i = 0; i < axes.size(); i++) {
    i64 axis = axes[i];
    UOp out = idx(shape[axis]);
    n.require(size_bounds(x.dim(axis)).lo > 0 && shape[axis] > 0, "axis ", axis, " is empty");
    if (by_size && policy == "stretch" && !crops && out == x.dim(axis)) continue;  // a scale of 1
    Tensor begin, end;
    if (crops) {
      Tensor roi = n[1].cast(Kind::F32).flatten();
      begin = number(roi, i64(i)), end = number(roi, i64(axes.size() + i));
    }
    y = resize_axis_at_run_time(y, axis, out, scales[i], begin, end, a);
  }
  if (d == x.dtype()) return y;
  return (x.is_float() ? y : y.round()).cast(x.dtype());
}

ResizeArgs mode_of(OnnxNode& n) {
  ResizeArgs a;
  std::string mode = n.attr("mode", "nearest");
  if (mode == "linear" || mode == "bilinear")
    a.mode = ResizeArgs::Linear;
  else if (mode == "cubic")
    a.mode = ResizeArgs::Cubic;
  else
    n.require(mode == "nearest", "mode \"", mode, "\" is unknown");
  return a;
}

// Before opset 11, and Upsample: places are o / scale, nearest is the one below.
Tensor upsample(OnnxNode& n) {
  Tensor x = n[0];
  ResizeArgs a = mode_of(n);
  a.coordinates = "asymmetric", a.nearest = "floor";
  std::vector<f64> scales;
  if (auto d = n.declared(0, 1)) return resize_at_run_time(n, x, x.all_axes(), *d, 1, 1, a);
  if (n.inputs() > 1)
    scales = n.floats(1);
  else
    for (f32 s : n.attr_floats("scales")) scales.push_back(s);
  n.require(i64(scales.size()) == x.rank(), scales.size(), " scales for input ", shape_text(x.shape()));
  Shape sizes;
  for (i64 i = 0; i < x.rank(); i++) sizes.push_back(scaled(x, i, scales[i]));
  return resize(n, x, x.all_axes(), scales, sizes, {}, a);
}

Tensor resize_11(OnnxNode& n) {
  Tensor x = n[0];
  ResizeArgs a = mode_of(n);
  a.coordinates = n.attr("coordinate_transformation_mode", "half_pixel");
  constexpr std::string_view known[] = {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
                                        "asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize"};
  n.require(std::ranges::count(known, a.coordinates), "coordinate_transformation_mode \"", a.coordinates, "\" is unknown");
  a.nearest = n.attr("nearest_mode", "round_prefer_floor");
  constexpr std::string_view rounding[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
  n.require(std::ranges::count(rounding, a.nearest), "nearest_mode \"", a.nearest, "\" is unknown");
  a.cubic_a = n.attr("cubic_coeff_a", -0.75f);
  a.exclude_outside = n.attr("exclude_outside", 0);
  a.extrapolation = n.attr("extrapolation_value", 0.0f);
  a.antialias = n.attr("antialias", 0) && a.mode != ResizeArgs::Nearest;
  Ints axes = n.attr("axes", x.all_axes());
  for (i64& axis : axes) axis = x.axis(axis);
  std::vector<f64> scales, roi;
  Shape sizes;
  for (size_t i : {size_t(1), size_t(2), size_t(3)}) {
    if (i == 1 && a.coordinates != "tf_crop_and_resize") continue;
    if (n.has(i) && n[i].dim(0).is_const(0)) continue;
    if (auto d = n.declared(0, i)) return resize_at_run_time(n, x, axes, *d, 2, 3, a);
  }
  // An empty tensor counts as absent.
  bool has_sizes = n.has(3) && n[3].numel() > 0, has_scales = n.has(2) && n[2].numel() > 0;
  n.require(has_sizes != has_scales, "exactly one of scales and sizes must be given");
  if (a.coordinates == "tf_crop_and_resize") {
    roi = n.floats(1);
    n.require(roi.size() == 2 * axes.size(), "roi has ", roi.size(), " numbers for ", axes.size(), " axes");
  }
  if (has_scales) {
    scales = n.floats(2);
    n.require(scales.size() == axes.size(), scales.size(), " scales for ", axes.size(), " axes");
    for (size_t i = 0; i < axes.size(); i++) sizes.push_back(scaled(x, axes[i], scales[i]));
  } else {
    Shape wanted = n.dims(3);
    n.require(wanted.size() == axes.size(), wanted.size(), " sizes for ", axes.size(), " axes");
    bool is_free = false;
    for (size_t i = 0; i < axes.size(); i++) {
      UOp in = x.dim(axes[i]), out = normal_dim(wanted[i]);
      sizes.push_back(out);
      is_free |= !in.is_const() || !out.is_const();
      if (in.is_const() && out.is_const()) {
        scales.push_back(f64(out.as_int()) / f64(in.as_int()));
      } else {
        auto up = whole_quotient(out, in), down = whole_quotient(in, out);
        scales.push_back(up && up->is_const() ? f64(up->as_int()) : down && down->is_const() ? 1 / f64(down->as_int()) : 0);
      }
    }
    std::string policy = n.attr("keep_aspect_ratio_policy", "stretch");
    if (policy != "stretch") {
      n.require(!is_free, "keep_aspect_ratio_policy \"", policy, "\" over a variable dimension is not supported");
      n.require(policy == "not_larger" || policy == "not_smaller", "keep_aspect_ratio_policy \"", policy, "\" is unknown");
      f64 s = policy == "not_larger" ? *std::ranges::min_element(scales) : *std::ranges::max_element(scales);
      for (size_t i = 0; i < axes.size(); i++) scales[i] = s, sizes[i] = idx(i64(s * f64(x.size(axes[i])) + 0.5));
    }
  }
  return resize(n, x, axes, scales, sizes, roi, a);
}

constexpr OnnxOp kResizeOps[] = {
    {"Resize", 10, upsample},
    {"Resize", 11, resize_11},
    {"Upsample", 7, upsample},
};

}  // namespace

std::span<const OnnxOp> resize_ops() { return kResizeOps; }

}  // namespace tg
