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
  if (mode == "VALID") {
    s.conv.pads.assign(2 * axes, 0);
  } else if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
    for (i64 i = 0; i < axes; i++) {
      i64 in = x.size(i + 2), out = (in + s.conv.strides[i] - 1) / s.conv.strides[i];
      i64 total = (out - 1) * s.conv.strides[i] + (k[i] - 1) * s.conv.dilations[i] + 1 - in;
      std::tie(s.conv.pads[i], s.conv.pads[axes + i]) = split_padding(std::max<i64>(0, total), mode == "SAME_UPPER");
    }
  } else {
    n.require(mode == "NOTSET" || mode.empty(), "auto_pad \"", mode, "\" is unknown");
  }
  return s;
}

}  // namespace tg
