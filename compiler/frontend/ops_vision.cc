// Grids, regions and crops: AffineGrid, CenterCropPad, GridSample, MaxRoiPool, RoiAlign, ImageDecoder. https://onnx.ai/onnx/operators/
#include <cmath>
#include <limits>

#include "frontend/declared.h"
#include "frontend/onnx_op.h"
#include "frontend/sampling.h"

namespace tg {
namespace {

// theta (N, r, r+1), size (N, C, *spatial) of r dims; gives (N, *spatial, r), coordinates x, y, .. from the last axis to the first.
Tensor affine_grid(OnnxNode& n) {
  Tensor theta = n[0];
  Ints size;
  if (auto d = n.declared(0, 1)) {  // (N, *spatial, r)
    size = *d;
    n.require(size.size() >= 3, "the declared result has rank ", size.size());
    i64 most = i64(size.size());
    Tensor parts[] = {n[1].cast(Kind::I64).shrink(0, 0, 1), n[1].cast(Kind::I64).shrink(0, 2, n[1].size(0) - 2), Tensor::ints(Ints{most - 2})};
    n.must_have(Tensor::concat(parts, 0), size);
    size.pop_back();
    size.insert(size.begin() + 1, 1);
  } else {
    size = n.ints(1);
  }
  i64 r = i64(size.size()) - 2;
  n.require(r >= 1 && theta.rank() == 3 && theta.size(1) == r && theta.size(2) == r + 1, "theta ", shape_text(theta.shape()),
            " for a size of ", size.size(), " dims");
  bool align = n.attr("align_corners", 0);
  DType d = theta.widen().dtype();
  // grid = sum over coordinates j of theta[.., j] * position_j, + theta[.., r]
  Ints out(size.begin() + 2, size.end());
  out.insert(out.begin(), theta.size(0));
  out.push_back(r);
  auto column = [&](i64 j) {  // (N, 1.., r)
    Shape s{theta.dim(0)};
    s.insert(s.end(), r, idx(1));
    s.push_back(idx(r));
    return theta.widen().shrink(2, j, 1).reshape(s);
  };
  Tensor grid;
  for (i64 j = 0; j < r; j++) {
    i64 axis = r - 1 - j, len = size[2 + axis];
    check_table(len);
    std::vector<f64> at(len);
    for (i64 i = 0; i < len; i++) at[i] = align ? (len == 1 ? -1.0 : -1 + 2.0 * f64(i) / f64(len - 1)) : (2.0 * f64(i) + 1) / f64(len) - 1;
    Ints s(r + 2, 1);
    s[1 + axis] = len;
    Tensor term = column(j) * Tensor::of(d, s, at);
    grid = grid ? grid + term : term;
  }
  return (grid + column(r)).expand(out).cast(theta.dtype());
}

Tensor center_crop_pad(OnnxNode& n) {
  Tensor x = n[0];
  Ints shape, axes = n.attr("axes", x.all_axes());
  if (auto d = n.declared(0, 1)) {
    n.require(i64(d->size()) == x.rank(), "the declared result has rank ", d->size());
    Tensor wanted = sizes::of(x.shape());
    for (size_t i = 0; i < axes.size(); i++) wanted = sizes::with(wanted, x.axis(axes[i]), n[1].shrink(0, i64(i), 1));
    n.must_have(wanted, *d);
    for (i64 a : axes) shape.push_back(d->at(size_t(x.axis(a))));
  } else {
    shape = n.ints(1);
  }
  n.require(shape.size() == axes.size(), "shape has ", shape.size(), " dims for ", axes.size(), " axes");
  Ints begin(x.rank()), end(x.rank());
  for (size_t i = 0; i < axes.size(); i++) {
    i64 a = x.axis(axes[i]), more = shape[i] - x.size(a);  // negative: cut; the odd element is at the end
    begin[a] = more / 2;
    end[a] = more - more / 2;
  }
  return x.pad(begin, end);
}

Tensor grid_sample(OnnxNode& n) {
  Tensor x = n[0], grid = n[1];
  i64 r = x.rank() - 2;
  n.require(r >= 1 && grid.rank() == r + 2 && grid.size(-1) == r, "grid ", shape_text(grid.shape()), " for input ", shape_text(x.shape()));
  Sampling s;
  std::string mode = n.attr("mode", n.opset() < 20 ? "bilinear" : "linear"), outside = n.attr("padding_mode", "zeros");
  if (mode == "nearest")
    s.mode = Sampling::Nearest;
  else if (mode == "cubic" || mode == "bicubic")
    s.mode = Sampling::Cubic;
  else
    n.require(mode == "linear" || mode == "bilinear", "mode \"", mode, "\" is unknown");
  if (outside == "border")
    s.outside = Sampling::Border;
  else if (outside == "reflection")
    s.outside = Sampling::Reflection;
  else
    n.require(outside == "zeros", "padding_mode \"", outside, "\" is unknown");
  s.align_corners = n.attr("align_corners", 0);
  DType d = x.is_float() ? x.widen().dtype() : DType(Kind::F32);
  std::vector<Tensor> coords;
  for (i64 a = 0; a < r; a++) {  // grid holds x, y, ..: the last axis first
    Tensor g = grid.widen().cast(d).shrink(-1, r - 1 - a, 1).squeeze(-1) + 1.0;
    Tensor len = g.like(x.dim(a + 2));
    coords.push_back(s.align_corners ? g * ((len - 1.0) / 2.0) : (g * len - 1.0) / 2.0);
  }
  Ints last{0};
  for (i64 a = 0; a < r; a++) last.push_back(a + 2);
  last.push_back(1);
  Ints first(r + 2, 1);
  Tensor batch = Tensor::arange(x.dim(0));
  for (i64 a = 0; a < r; a++) batch = batch.unsqueeze(-1);
  Tensor lead[] = {batch};
  Tensor y = sample(x.cast(d).permute(last), lead, coords, s);  // (N, *out, C)
  Ints back{0, r + 1};
  for (i64 a = 0; a < r; a++) back.push_back(a + 1);
  y = y.permute(back);
  return (x.is_float() ? y : y.round()).cast(x.dtype());
}

// x (N, C, H, W), rois (R, 4) as x1 y1 x2 y2, batch (R); gives (R, C, oh, ow).
Tensor roi_align(OnnxNode& n) {
  Tensor x = n[0], rois = n[1], batch = n[2];
  n.require(x.rank() == 4 && rois.rank() == 2 && rois.size(1) == 4 && batch.rank() == 1,
            "input must be (N, C, H, W), rois (R, 4), batch_indices (R)");
  i64 oh = n.attr("output_height", 1), ow = n.attr("output_width", 1), ratio = n.attr("sampling_ratio", 0);
  f64 scale = n.attr("spatial_scale", 1.0f);
  std::string mode = n.attr("mode", "avg");
  std::string coordinates = n.attr("coordinate_transformation_mode", n.opset() < 16 ? "output_half_pixel" : "half_pixel");
  bool half = coordinates == "half_pixel";
  n.require(half || coordinates == "output_half_pixel", "coordinate_transformation_mode \"", coordinates, "\" is unknown");
  n.require(mode == "avg" || mode == "max", "mode \"", mode, "\" is unknown");
  n.require(ratio > 0,
            "sampling_ratio 0 takes as many samples as a region is large, which is not known at compile time; set sampling_ratio");
  DType d = x.widen().dtype();
  UOp h = x.dim(2), w = x.dim(3);
  Tensor r = rois.widen().cast(d) * scale - (half ? 0.5 : 0.0);
  auto corner = [&](i64 i) { return r.shrink(1, i, 1).reshape(Shape{r.dim(0), idx(1), idx(1), idx(1), idx(1)}); };
  auto coordinate = [&](i64 low, i64 out, i64 out_at, i64 grid_at) {  // (R, oh, ow, gh, gw)
    Tensor start = corner(low), extent = corner(low + 2) - start;
    if (!half) extent = extent.max(extent.like(1));
    Tensor bin = extent / f64(out);
    Ints os(5, 1), gs(5, 1);
    os[out_at] = out, gs[grid_at] = ratio;
    Tensor place = Tensor::arange(out).cast(d).reshape(os), step = (Tensor::arange(ratio).cast(d).reshape(gs) + 0.5) / f64(ratio);
    return start + place * bin + step * bin;
  };
  Tensor y = coordinate(1, oh, 1, 3), xx = coordinate(0, ow, 2, 4);
  // A sample up to one pixel outside counts as one on the border; farther out it is 0.
  Tensor inside = y.ge(y.like(-1)) & y.le(y.like(h)) & xx.ge(xx.like(-1)) & xx.le(xx.like(w));
  Tensor coords[] = {y, xx};
  Tensor lead[] = {batch.reshape(Shape{batch.dim(0), idx(1), idx(1), idx(1), idx(1)})};
  Tensor img = x.widen().permute(Ints{0, 2, 3, 1});
  Tensor v;
  if (mode == "avg") {
    v = sample(img, lead, coords, {Sampling::Linear, Sampling::Border});
    v = where(inside.unsqueeze(-1), v, v.like(0)).sum(Ints{3, 4}) / f64(ratio * ratio);
  } else {
    // The largest of the four weighted neighbours, not of the interpolated values: so ONNX's reference and onnxruntime.
    auto axis_taps = [&](const Tensor& c, UOp len) {
      Tensor k = c.clip(c.like(0), c.like(len - 1)), f = k.floor(), g = (f + 1.0).min(k.like(len - 1));
      return std::array{f, 1.0 - (k - f), g, k - f};
    };
    auto ty = axis_taps(y, h), tx = axis_taps(xx, w);
    for (int a = 0; a < 4; a += 2)
      for (int b = 0; b < 4; b += 2) {
        Tensor all[] = {lead[0], ty[a].cast(Kind::I64), tx[b].cast(Kind::I64), Tensor()};
        Tensor p = img.gather(all) * (ty[a + 1] * tx[b + 1]).unsqueeze(-1);
        v = v ? v.max(p) : p;
      }
    v = where(inside.unsqueeze(-1), v, v.like(0)).max(Ints{3, 4}, false);
  }
  return v.permute(Ints{0, 3, 1, 2}).cast(x.dtype());
}

// x (N, C, H, W), rois (R, 5) as batch x1 y1 x2 y2 with both ends inside; bins of a region are read whole, an empty one is 0.
Tensor max_roi_pool(OnnxNode& n) {
  Tensor x = n[0], rois = n[1];
  Ints pooled = n.attr_ints("pooled_shape");
  f64 scale = n.attr("spatial_scale", 1.0f);
  n.require(x.rank() == 4 && rois.rank() == 2 && rois.size(1) == 5 && pooled.size() == 2,
            "input must be (N, C, H, W), rois (R, 5), pooled_shape two numbers");
  DType d = Kind::F32;
  Tensor r = rois.cast(d);
  auto column = [&](i64 i) { return r.shrink(1, i, 1); };                // (R, 1)
  auto edge = [&](i64 i) { return (column(i) * scale + 0.5).floor(); };  // std::round of what is not negative
  // (R, out, len): the elements of each bin
  auto bins = [&](i64 low, i64 out, UOp len) {
    Tensor start = edge(low), extent = (edge(low + 2) - start + 1.0).max(start.like(1)), bin = extent / f64(out);
    Tensor p = Tensor::arange(out).cast(d).unsqueeze(0);
    Tensor a = ((p * bin).floor() + start).unsqueeze(-1), b = (((p + 1.0) * bin).ceil() + start).unsqueeze(-1);
    Tensor i = Tensor::arange(len).cast(d).reshape(Shape{idx(1), idx(1), len});
    return i.ge(a) & i.lt(b);
  };
  UOp h = x.dim(2), w = x.dim(3);
  Tensor v = x.take(0, column(0).squeeze(1).cast(Kind::I64));  // (R, C, H, W)
  Tensor none = identity(ReduceKind::Max, x.dtype());
  Tensor in_y = bins(2, pooled[0], h), in_x = bins(1, pooled[1], w);
  v = where(in_y.unsqueeze(1).unsqueeze(-1), v.unsqueeze(2), none).max(Ints{3}, false);  // (R, C, oh, W)
  v = where(in_x.unsqueeze(1).unsqueeze(1), v.unsqueeze(3), none).max(Ints{4}, false);   // (R, C, oh, ow)
  auto any = [](const Tensor& m) { return m.cast(Kind::I32).max(Ints{2}, false).ne(Tensor::scalar(Kind::I32, 0)); };
  Tensor filled = any(in_y).unsqueeze(-1) & any(in_x).unsqueeze(1);  // (R, oh, ow)
  return where(filled.unsqueeze(1), v, v.like(0));
}

constexpr OnnxOp kVisionOps[] = {
    {"AffineGrid", 20, affine_grid},
    {"CenterCropPad", 18, center_crop_pad},
    {"GridSample", 16, grid_sample},
    {"ImageDecoder", 20, Refused{"decoding of compressed images is not part of a compiled model; decode before running it"}},
    {"MaxRoiPool", 1, max_roi_pool},
    {"RoiAlign", 10, roi_align},
};

}  // namespace

std::span<const OnnxOp> vision_ops() { return kVisionOps; }

}  // namespace tg
