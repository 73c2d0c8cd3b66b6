// Convolutions and what undoes them: Conv, ConvTranspose, Col2Im, DeformConv, CausalConvWithState. https://onnx.ai/onnx/operators/
#include <algorithm>

#include "frontend/dequantized.h"
#include "frontend/sampling.h"
#include "frontend/spatial.h"

namespace tg {
namespace {

Ints kernel_dims(const Tensor& w) {
  Ints k;
  for (i64 i = 2; i < w.rank(); i++) k.push_back(w.size(i));
  return k;
}

// Adds a bias (M) to y (N, M, *out).
Tensor add_bias(OnnxNode& n, const Tensor& y, const Tensor& bias) {
  if (!bias) return y;
  n.require(bias.rank() == 1 && bias.dim(0) == y.dim(1), "bias ", shape_text(bias.shape()), " for ", shape_text({y.dim(1)}), " channels");
  Shape s{bias.dim(0)};
  s.insert(s.end(), y.rank() - 2, idx(1));
  return y + bias.cast(y.dtype()).reshape(s);
}

}  // namespace

Tensor conv_of(OnnxNode& n, const Tensor& x, const Tensor& w, const Tensor& bias) {
  n.require(x.rank() >= 3 && w.rank() == x.rank(), "input ", shape_text(x.shape()), " and weight ", shape_text(w.shape()),
            " must have one rank of 3 or more");
  SpatialArgs s = spatial_args(n, x, kernel_dims(w));
  ConvArgs a = s.conv;
  a.groups = n.attr("group", 1);
  return float_conv(a.pads.empty() ? pad_spatial(x, s.begin, s.end, x.like(0).uop()) : x, w, bias, a);
}

namespace {

// Along an axis of stride s and kernel k, output o = q*s + r - pad takes the taps j*s + r of input q - j: a convolution of stride 1 with
// ceil(k/s) flipped taps and s results a place, which are then interleaved. No inserted zero is multiplied.
Tensor conv_transpose(OnnxNode& n) {
  Tensor x = n[0], w = n[1];
  n.require(x.rank() >= 3 && w.rank() == x.rank(), "input ", shape_text(x.shape()), " and weight ", shape_text(w.shape()),
            " must have one rank of 3 or more");
  i64 axes = x.rank() - 2, groups = n.attr("group", 1);
  Ints k = kernel_dims(w);
  if (n.has_attr("kernel_shape"))
    n.require(n.attr_ints("kernel_shape") == k, "kernel_shape contradicts the weight ", shape_text(w.shape()));
  Ints strides = n.attr("strides", Ints(axes, 1)), dilations = n.attr("dilations", Ints(axes, 1)),
       extra = n.attr("output_padding", Ints(axes, 0));
  Ints pads = n.attr("pads", Ints(2 * axes, 0)), wanted = n.attr("output_shape", Ints{});
  n.require(i64(strides.size()) == axes && i64(dilations.size()) == axes && i64(extra.size()) == axes && i64(pads.size()) == 2 * axes,
            "strides, dilations, output_padding and pads must be given for ", axes, " axes");
  for (i64 i = 0; i < axes; i++)
    n.require(k[i] > 0 && strides[i] > 0 && dilations[i] > 0 && size_bounds(x.dim(i + 2)).lo > 0,
              "kernel, stride, dilation and spatial axes must be positive");
  if (i64(wanted.size()) == axes + 2) wanted.erase(wanted.begin(), wanted.begin() + 2);
  n.require(wanted.empty() || i64(wanted.size()) == axes, "output_shape must have ", axes, " dims");
  n.require(groups > 0 && x.size(1) == w.size(0) && x.size(1) % groups == 0, "weight ", shape_text(w.shape()), " with group=", groups,
            " over input ", shape_text(x.shape()));
  std::string mode = n.attr("auto_pad", "NOTSET");
  bool same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
  if (mode == "VALID") pads.assign(2 * axes, 0);

  // Where the output lies in the full result of each axis.
  Ints begin(axes);
  Shape out(size_t(axes), idx(0));
  for (i64 i = 0; i < axes; i++) {
    UOp full = (x.dim(i + 2) - 1) * strides[i] + (extra[i] + (k[i] - 1) * dilations[i] + 1);
    if (!wanted.empty() || same) {
      out[i] = wanted.empty() ? x.dim(i + 2) * strides[i] : idx(wanted[i]);
      bool given = n.has_attr("pads") && !same;
      UOp over = normal_dim(max(full - out[i], idx(0)));
      n.require(given || over.is_const(), "spatial axis ", i, " of ", shape_text(x.shape()), " is free, and so is how much of the result is cut; give pads");
      begin[i] = given ? pads[i] : split_padding(over.as_int(), mode == "SAME_UPPER").first;
    } else {
      begin[i] = pads[i];
      out[i] = full - (pads[i] + pads[axes + i]);
    }
    out[i] = normal_dim(out[i]);
    n.require(size_bounds(out[i]).lo >= 0, "pads leave no output on spatial axis ", i);
  }

  DType sum = x.widen().dtype();
  i64 c = x.size(1) / groups, m = w.size(1);
  x = x.widen(), w = w.widen();
  Ints taps(axes), ws{groups, c, m}, flip;
  WindowArg win;
  Ints pad(x.rank());
  for (i64 i = 0; i < axes; i++) {
    i64 kk = k[i], d = dilations[i], s = strides[i], a = i + 2;
    if (s > 1 && d > 1) {  // the dilation goes into the weight: the phases of a dilated kernel are not dilated evenly
      Ints apart = w.sizes(), none(w.rank() + 1), gap(w.rank() + 1);
      apart.insert(apart.begin() + a + 1, 1);
      gap[a + 1] = d - 1;
      w = w.reshape(apart).pad(none, gap).flatten(a, a + 1).shrink(a, 0, (kk - 1) * d + 1);
      kk = (kk - 1) * d + 1, d = 1;
    }
    taps[i] = (kk + s - 1) / s;
    Ints none(w.rank()), fill(w.rank());
    fill[a] = taps[i] * s - kk;
    w = w.pad(none, fill);
    ws.push_back(taps[i]), ws.push_back(s);
    flip.push_back(3 + 2 * i);
    pad[a] = (taps[i] - 1) * d;
    win.axes.push_back(a), win.k.push_back(taps[i]), win.stride.push_back(1), win.dilation.push_back(d);
  }
  // x (N, G, 1, C, [Q, 1].., J..), w (G, M, C, [1, S].., J..), summed over C and J.
  Tensor v = x.pad(pad, pad).window(win);
  Ints order{0, 2, 1};
  for (i64 i = 0; i < axes; i++) order.push_back(4 + 2 * i);
  for (i64 i = 0; i < axes; i++) order.push_back(3 + 2 * i);
  w = w.reshape(ws).flip(flip).permute(order);
  Shape xs{x.dim(0), idx(groups), idx(1), idx(c)}, wsh{idx(groups), idx(m), idx(c)};
  for (i64 i = 0; i < axes; i++) {
    xs.push_back(v.dim(i + 2)), xs.push_back(idx(1));
    wsh.push_back(idx(1)), wsh.push_back(idx(strides[i]));
  }
  Ints summed{3};
  for (i64 i = 0; i < axes; i++) {
    xs.push_back(idx(taps[i])), wsh.push_back(idx(taps[i]));
    summed.push_back(4 + 2 * axes + i);
  }
  Tensor y = (v.reshape(xs) * w.reshape(wsh)).reduce(ReduceKind::Add, summed);  // (N, G, M, [Q, S]..)
  Shape ys{x.dim(0), idx(groups * m)};
  for (i64 i = 0; i < axes; i++) ys.push_back(v.dim(i + 2) * strides[i]);
  y = y.reshape(ys);
  Shape cut_begin(size_t(y.rank()), idx(0)), cut_end = cut_begin;
  for (i64 i = 0; i < axes; i++) {
    cut_begin[size_t(i + 2)] = idx(-begin[i]);
    cut_end[size_t(i + 2)] = normal_dim(out[i] - y.dim(i + 2) + begin[i]);
  }
  y = y.pad(cut_begin, cut_end, PadMode::Constant, y.like(0).uop());
  return add_bias(n, y, n.has(2) ? n[2].cast(sum) : Tensor()).cast(n[0].dtype());
}

// (.., K, .., L, ..) at axes ka < la -> the axis la holds sums of data[k, l] at l*stride + k*dilation; ka is removed. Rows are skewed by
// padding them, flattening, and cutting rows that are `dilation` shorter: movement and one sum.
Tensor overlap_add(Tensor x, i64 ka, i64 la, i64 stride, i64 dilation) {
  Ints order = x.all_axes();
  order.erase(order.begin() + la);
  order.erase(order.begin() + ka);
  i64 rest = i64(order.size());
  order.push_back(ka), order.push_back(la);
  x = x.permute(order);  // (rest.., K, L)
  i64 k = x.size(-2), l = x.size(-1), out = (l - 1) * stride + (k - 1) * dilation + 1;
  if (stride > 1) {
    Ints zero(x.rank() + 1), gap(x.rank() + 1);
    gap.back() = stride - 1;
    x = x.unsqueeze(-1).pad(zero, gap).flatten(-2, -1);
    l *= stride;
  }
  i64 row = std::max(out, l) + dilation;
  Ints zero(x.rank()), fill(x.rank());
  fill.back() = row - l;
  x = x.pad(zero, fill).flatten(-2, -1).shrink(-1, 0, k * (row - dilation));
  Shape s(x.shape().begin(), x.shape().end() - 1);
  s.push_back(idx(k)), s.push_back(idx(row - dilation));
  x = x.reshape(s).sum(Ints{rest}).shrink(-1, 0, out);
  // Back to where axis la was, ka being gone.
  Ints back;
  for (i64 i = 0; i < rest; i++) back.push_back(i);
  back.insert(back.begin() + (la - 1), rest);
  return x.permute(back);
}

// (N, C*prod(block), L) -> (N, C, *image)
Tensor col2im(OnnxNode& n) {
  Tensor x = n[0];
  Ints image = n.ints(1), block = n.ints(2);
  i64 axes = i64(image.size());
  n.require(i64(block.size()) == axes && x.rank() == 3, "input must be (N, C, L), image_shape and block_shape of one length");
  Ints dilations = n.attr("dilations", Ints(axes, 1)), pads = n.attr("pads", Ints(2 * axes, 0)), strides = n.attr("strides", Ints(axes, 1));
  n.require(i64(dilations.size()) == axes && i64(pads.size()) == 2 * axes && i64(strides.size()) == axes, "attributes must be given for ",
            axes, " axes");
  for (i64 i = 0; i < axes; i++)
    n.require(image[i] > 0 && block[i] > 0 && strides[i] > 0 && dilations[i] > 0, "image, block, stride and dilation must be positive");
  i64 blocks = 1, places = 1;
  Ints count(axes);
  for (i64 i = 0; i < axes; i++) {
    blocks *= block[i];
    count[i] = (image[i] + pads[i] + pads[axes + i] - dilations[i] * (block[i] - 1) - 1) / strides[i] + 1;
    places *= count[i];
  }
  n.require(blocks > 0 && x.size(1) % blocks == 0 && x.size(2) == places, "input ", shape_text(x.shape()), " does not hold blocks of ",
            join(block), " at ", places, " places");
  Shape s{x.dim(0), idx(x.size(1) / blocks)};
  for (i64 b : block) s.push_back(idx(b));
  for (i64 c : count) s.push_back(idx(c));
  x = x.reshape(s);
  for (i64 i = 0; i < axes; i++) {  // (N, C, blocks left.., places left.., done..)
    i64 left = axes - i, at = 1 + left;
    x = overlap_add(x, 2, 2 + left, strides[i], dilations[i]);
    Ints begin(x.rank()), end(x.rank());
    begin[at] = -pads[i];
    end[at] = pads[i] + image[i] - x.size(at);
    Ints order = x.all_axes();
    order.erase(order.begin() + at);
    order.push_back(at);
    x = x.pad(begin, end).permute(order);
  }
  return x;
}

Tensor deform_conv(OnnxNode& n) {
  Tensor x = n[0], w = n[1], offset = n[2];
  n.require(x.rank() == 4 && w.rank() == 4 && offset.rank() == 4, "only two spatial axes are built");
  SpatialArgs sp = spatial_args(n, x, kernel_dims(w));
  (void)sp.fixed_pads(n);
  i64 groups = n.attr("group", 1), og = n.attr("offset_group", 1), c = x.size(1), m = w.size(0), kh = sp.k[0], kw = sp.k[1];
  n.require(groups > 0 && og > 0 && c % og == 0 && m % groups == 0 && w.size(1) * groups == c, "weight ", shape_text(w.shape()),
            " with group=", groups, ", offset_group=", og, " over input ", shape_text(x.shape()));
  i64 oh = offset.size(2), ow = offset.size(3);
  n.require(offset.size(1) == og * kh * kw * 2, "offset has ", offset.size(1), " channels, expected ", og * kh * kw * 2);
  UOp batch = x.dim(0);
  DType d = x.widen().dtype();
  Tensor off = offset.widen().cast(d).reshape(Shape{batch, idx(og), idx(kh), idx(kw), idx(2), idx(oh), idx(ow)});
  // Coordinates (N, OG, kh, kw, oh, ow): the tap's own place plus the offset.
  auto coordinate = [&](i64 axis, i64 k_at, i64 o_at, i64 k, i64 o) {
    Ints ks(6, 1), os(6, 1);
    ks[k_at] = k, os[o_at] = o;
    Tensor tap = Tensor::arange(k).cast(d).reshape(ks) * f64(sp.conv.dilations[axis]);
    Tensor place = Tensor::arange(o).cast(d).reshape(os) * f64(sp.conv.strides[axis]) - f64(sp.conv.pads[axis]);
    return off.shrink(4, axis, 1).squeeze(4) + (tap + place);
  };
  Tensor y = coordinate(0, 2, 4, kh, oh), xx = coordinate(1, 3, 5, kw, ow);
  // Channels last while sampling: (N, OG, H, W, C/OG) at (n, g, y, x).
  Tensor img = x.widen().reshape(Shape{batch, idx(og), idx(c / og), x.dim(2), x.dim(3)}).permute(Ints{0, 1, 3, 4, 2});
  Tensor lead[] = {Tensor::arange(batch).reshape(Shape{batch, idx(1), idx(1), idx(1), idx(1), idx(1)}),
                   Tensor::arange(og).reshape(Ints{og, 1, 1, 1, 1})};
  Tensor coords[] = {y, xx};
  Tensor v = sample(img, lead, coords);  // (N, OG, kh, kw, oh, ow, C/OG)
  if (n.has(4)) v = v * n[4].widen().cast(d).reshape(Shape{batch, idx(og), idx(kh), idx(kw), idx(oh), idx(ow), idx(1)});
  v = v.permute(Ints{0, 1, 6, 4, 5, 2, 3}).reshape(Shape{batch, idx(groups), idx(1), idx(c / groups), idx(oh), idx(ow), idx(kh), idx(kw)});
  Tensor wt = w.widen().reshape(Ints{groups, m / groups, c / groups, 1, 1, kh, kw});
  Tensor r = (v * wt).reduce(ReduceKind::Add, Ints{3, 6, 7}).reshape(Shape{batch, idx(m), idx(oh), idx(ow)});
  return add_bias(n, r, n.opt(3)).cast(x.dtype());
}

// input (B, C, L), weight (C, 1, k), bias (C), past (B, C, k-1): a depthwise convolution over past and input; gives (output, last k-1
// columns).
Tensors causal_conv(OnnxNode& n) {
  Tensor x = n[0], w = n[1];
  n.require(x.rank() == 3 && w.rank() == 3 && w.size(1) == 1, "input must be (B, C, L), weight (C, 1, k)");
  i64 k = w.size(2);
  Ints zero(3), front(3);
  front[2] = k - 1;
  Tensor all = n.has(3) ? Tensor::concat({n[3], x}, 2) : x.pad(front, zero);
  ConvArgs a;
  a.groups = x.size(1);
  Tensor y = all.conv(w, n.opt(2), a);
  std::string act = n.attr("activation", "none");
  if (act == "silu" || act == "swish")
    y = y.widen().silu().cast(y.dtype());
  else
    n.require(act == "none", "activation \"", act, "\" is unknown");
  return {y, all.shrink(2, all.size(2) - (k - 1), k - 1)};
}

constexpr OnnxOp kConvOps[] = {
    {"CausalConvWithState", 27, causal_conv},
    {"Col2Im", 18, col2im},
    {"Conv", 1, [](OnnxNode& n) { return conv_of(n, n[0], n[1], n.opt(2)); }},
    {"ConvTranspose", 1, conv_transpose},
    {"DeformConv", 19, deform_conv},
};

}  // namespace

std::span<const OnnxOp> conv_ops() { return kConvOps; }

}  // namespace tg
