#include "frontend/spatial.h"

#include <algorithm>

namespace tg {

std::pair<i64, i64> split_padding(i64 total, bool upper) {
  i64 small = total / 2, large = total - small;
  return upper ? std::pair(small, large) : std::pair(large, small);
}

SpatialArgs spatial_args(const OnnxNode& n, const Tensor& x, Ints k) {
  SpatialArgs s;
  if (n.has_attr("kernel_shape")) {
    Ints given = n.attr_ints("kernel_shape");
    n.require(k.empty() || given == k, "kernel_shape (", join(given), ") contradicts the weight's (", join(k), ")");
    k = given;
  }
  n.require(!k.empty(), "kernel_shape is missing");
  i64 axes = i64(k.size());
  n.require(x.rank() == axes + 2, "input ", shape_text(x.shape()), " for a window of ", axes, " axes");
  s.k = k;
  s.conv.strides = n.attr("strides", Ints(axes, 1));
  s.conv.dilations = n.attr("dilations", Ints(axes, 1));
  s.conv.pads = n.attr("pads", Ints(2 * axes, 0));
  n.require(i64(s.conv.strides.size()) == axes && i64(s.conv.dilations.size()) == axes && i64(s.conv.pads.size()) == 2 * axes,
            "strides, dilations and pads must be given for ", axes, " axes");
  constexpr i64 kMost = i64(1) << 31;  // their products with sizes stay far from overflow
  for (i64 i = 0; i < axes; i++) {
    n.require(k[i] > 0 && s.conv.strides[i] > 0 && s.conv.dilations[i] > 0, "kernel, stride and dilation must be positive");
    n.require(std::max({k[i], s.conv.strides[i], s.conv.dilations[i]}) < kMost, "kernel ", k[i], ", stride ", s.conv.strides[i], " or dilation ",
              s.conv.dilations[i], " is too large");
  }
  for (i64 p : s.conv.pads) n.require(-kMost < p && p < kMost, "padding of ", p);
  std::string mode = n.attr("auto_pad", "NOTSET");
  for (i64 i = 0; i < axes; i++) s.begin.push_back(idx(s.conv.pads[i])), s.end.push_back(idx(s.conv.pads[axes + i]));
  if (mode == "VALID") {
    s.conv.pads.assign(2 * axes, 0);
    s.begin.assign(size_t(axes), idx(0)), s.end = s.begin;
  } else if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
    for (size_t i = 0; i < size_t(axes); i++) {
      UOp in = x.dim(i64(i) + 2), out = (in + (s.conv.strides[i] - 1)) / s.conv.strides[i];
      UOp total = normal_dim(max((out - 1) * s.conv.strides[i] + ((k[i] - 1) * s.conv.dilations[i] + 1) - in, idx(0)));
      s.begin[i] = normal_dim((total + (mode == "SAME_UPPER" ? 0 : 1)) / 2), s.end[i] = normal_dim(total - s.begin[i]);
    }
    s.conv.pads.clear();
    auto fixed = [](const Shape& p) { return std::ranges::all_of(p, [](UOp e) { return e.is_const(); }); };
    if (fixed(s.begin) && fixed(s.end))
      for (const Shape* side : {&s.begin, &s.end})
        for (UOp p : *side) s.conv.pads.push_back(p.as_int());
  } else {
    n.require(mode == "NOTSET" || mode.empty(), "auto_pad \"", mode, "\" is unknown");
  }
  return s;
}

Tensor pad_spatial(const Tensor& x, const Shape& begin, const Shape& end, UOp value) {
  Shape b(2, idx(0)), e(2, idx(0));
  b.insert(b.end(), begin.begin(), begin.end()), e.insert(e.end(), end.begin(), end.end());
  return x.pad(b, e, PadMode::Constant, value);
}

}  // namespace tg
