// Normalizations and softmax. Means, variances and sums of f16 and bf16 are kept in f32. https://onnx.ai/onnx/operators/
#include <cmath>

#include "frontend/norm.h"
#include "frontend/onnx_op.h"
#include "frontend/pool.h"

namespace tg {

Normalized normalize(const Tensor& x, const Ints& axes, f64 epsilon) {
  Tensor mean = x.mean(axes, true), d = x - mean;
  Tensor inv = (d.square().mean(axes, true) + epsilon).sqrt().recip();
  return {d * inv, mean, inv};
}

Tensor rms_inverse(const Tensor& x, const Ints& axes, f64 epsilon) { return (x.square().mean(axes, true) + epsilon).sqrt().recip(); }

Ints axes_from(const Tensor& x, i64 axis) {
  Ints a = x.all_axes();
  return Ints(a.begin() + x.axis(axis), a.end());
}

Tensor per_channel(const Tensor& v, i64 rank) {
  if (v.rank() > rank - 1) fail("a value per channel of shape ", shape_text(v.shape()), " for a tensor of rank ", rank);
  Shape s = v.shape();
  s.insert(s.end(), rank - 1 - v.rank(), idx(1));
  return v.reshape(s);
}

namespace {

// y = x*a + b with a = scale / sqrt(var + eps), b = bias - mean*a: computed here in f64 when all four are constants.
Tensor batch_norm(OnnxNode& n, f64 epsilon, const Tensor& x, const Tensor& mean, const Tensor& var) {
  DType d = x.widen().dtype();
  Tensor scale = n[1], bias = n[2], y;
  const Values* v[4] = {};
  const Tensor parts[] = {scale, bias, mean, var};
  bool known = true;
  for (int i = 0; i < 4; i++) known &= (v[i] = Pool::current().value(parts[i].uop())) != nullptr;
  if (known) {
    i64 c = v[0]->elems();
    for (const Values* w : v) n.require(w->elems() == c, "scale, bias, mean and variance differ in length");
    std::vector<f64> a(c), b(c);
    for (i64 i = 0; i < c; i++) {
      a[i] = v[0]->number(i) / std::sqrt(v[3]->number(i) + epsilon);
      b[i] = v[1]->number(i) - v[2]->number(i) * a[i];
    }
    const Ints& s = v[0]->dims;
    y = x.widen() * per_channel(Tensor::of(d, s, a), x.rank()) + per_channel(Tensor::of(d, s, b), x.rank());
  } else {
    auto wide = [&](const Tensor& t) { return per_channel(t.widen().cast(d), x.rank()); };
    y = (x.widen() - wide(mean)) * (wide(scale) / (wide(var) + epsilon).sqrt()) + wide(bias);
  }
  return y.cast(x.dtype());
}

Tensors batch_normalization(OnnxNode& n) {
  Tensor x = n[0];
  n.require(x.rank() >= 2, "input ", shape_text(x.shape()), " has no channels");
  f64 epsilon = n.attr("epsilon", 1e-5f), momentum = n.attr("momentum", 0.9f);
  n.require(n.opset() >= 7 || n.attr("is_test", 0),
            "is_test=0 trains, which is not supported at this opset; export the model for inference");
  // spatial=0 (opset < 9) normalizes every element of (C, *spatial) by itself: scale and the like have that shape.
  if (n.opset() < 14 || !n.attr("training_mode", 0)) {
    n.require(n.opset() >= 14 || !(n.wants(1) || n.wants(2)), "outputs of training are not supported at this opset");
    return {batch_norm(n, epsilon, x, n[3], n[4])};
  }
  Ints axes = x.all_axes();
  axes.erase(axes.begin() + 1);
  Tensor wide = x.widen(), mean = wide.mean(axes, true), var = (wide - mean).square().mean(axes, true);
  mean = mean.squeeze(axes), var = var.squeeze(axes);
  auto running = [&](const Tensor& old, const Tensor& now) {
    return (old.widen().cast(now.dtype()) * momentum + now * (1.0 - momentum)).cast(old.dtype());
  };
  return {batch_norm(n, epsilon, x, mean, var), running(n[3], mean), running(n[4], var)};
}

Tensor instance_norm(OnnxNode& n) {
  Tensor x = n[0].widen();
  n.require(x.rank() >= 3, "input ", shape_text(x.shape()), " has no spatial axes");
  Tensor y = normalize(x, axes_from(x, 2), n.attr("epsilon", 1e-5f)).y;
  return (y * per_channel(n[1].widen(), x.rank()) + per_channel(n[2].widen(), x.rank())).cast(n[0].dtype());
}

Tensor group_norm(OnnxNode& n) {
  Tensor x = n[0];
  i64 groups = n.attr_int("num_groups");
  n.require(x.rank() >= 2 && groups > 0 && x.size(1) % groups == 0, "num_groups=", groups, " does not divide the channels of ",
            shape_text(x.shape()));
  Shape s{x.dim(0), idx(groups), idx(x.size(1) / groups)};
  s.insert(s.end(), x.shape().begin() + 2, x.shape().end());
  Tensor g = x.reshape(s);
  DType d = n.attr("stash_type", 1) == 1 ? g.widen().dtype() : g.dtype();
  Tensor y = normalize(g.cast(d), axes_from(g, 2), n.attr("epsilon", 1e-5f)).y;
  auto affine = [&](size_t i) {  // opset 18: per group; 21: per channel
    if (n.opset() < 21) return per_channel(n[i].cast(d), y.rank());
    return per_channel(n[i].cast(d).reshape(Ints{groups, -1}), y.rank());
  };
  return (y * affine(1) + affine(2)).reshape(x.shape()).cast(x.dtype());
}

Tensors layer_norm(OnnxNode& n) {
  Tensor x = n[0];
  DType d = n.attr_dtype("stash_type", Kind::F32);
  if (x.dtype().kind == Kind::F64) d = Kind::F64;
  Ints axes = axes_from(x, n.attr("axis", -1));
  Normalized r = normalize(x.cast(d), axes, n.attr("epsilon", 1e-5f));
  Tensor y = r.y * n[1].cast(d);
  if (n.has(2)) y = y + n[2].cast(d);
  return {y.cast(x.dtype()), r.mean, r.inv};
}

Tensors rms_norm(OnnxNode& n) {
  Tensor x = n[0];
  DType d = n.attr_dtype("stash_type", Kind::F32);
  if (x.dtype().kind == Kind::F64) d = Kind::F64;
  Tensor w = x.cast(d), inv = rms_inverse(w, axes_from(x, n.attr("axis", -1)), n.attr("epsilon", 1e-5f));
  return {(w * inv * n[1].cast(d)).cast(n[1].dtype()), inv};
}

Tensor mean_variance_norm(OnnxNode& n) {
  Tensor x = n[0].widen();
  Ints axes = x.axes(n.attr("axes", Ints{0, 2, 3}));
  // ONNX's function body: (x - mean) / (sqrt(E[x^2] - E[x]^2) + 1e-9)
  Tensor d = x - x.mean(axes, true);
  return (d / (d.square().mean(axes, true).sqrt() + 1e-9)).cast(n[0].dtype());
}

Tensor lrn(OnnxNode& n) {
  Tensor x = n[0].widen();
  i64 size = n.attr_int("size");
  f64 alpha = n.attr("alpha", 0.0001f), beta = n.attr("beta", 0.75f), bias = n.attr("bias", 1.0f);
  n.require(x.rank() >= 2 && size > 0, "input ", shape_text(x.shape()), " and size ", size);
  Ints begin(x.rank()), end(x.rank());
  begin[1] = (size - 1) / 2, end[1] = size - 1 - begin[1];
  Tensor sum = x.square().pad(begin, end).window({{1}, {size}, {1}, {1}}).sum(Ints{x.rank()});
  return (x / (sum * (alpha / f64(size)) + bias).pow(x.like(beta))).cast(n[0].dtype());
}

// Before opset 13 the input counts as a matrix of all axes before `axis` and all from it on.
Tensor over_axis(OnnxNode& n, Tensor (*f)(const Tensor&, i64)) {
  Tensor x = n[0];
  if (n.opset() >= 13) return f(x, x.axis(n.attr("axis", -1)));
  i64 axis = n.attr("axis", 1);
  if (axis == x.rank()) return f(x.unsqueeze(-1), x.rank()).reshape(x.shape());
  axis = x.axis(axis);
  if (axis == x.rank() - 1) return f(x, axis);
  return f(x.flatten(axis), axis).reshape(x.shape());
}

Tensor hardmax(const Tensor& x, i64 axis) {
  Tensor at = x.argmax(axis).first.unsqueeze(axis);
  Shape places(x.rank(), idx(1));
  places[axis] = x.dim(axis);
  return Tensor::arange(x.dim(axis)).reshape(places).eq(at).cast(x.dtype());
}

constexpr OnnxOp kNormOps[] = {
    {"BatchNormalization", 6, batch_normalization},
    {"GroupNormalization", 18, group_norm},
    {"Hardmax", 1, [](OnnxNode& n) { return over_axis(n, hardmax); }},
    {"InstanceNormalization", 1, instance_norm},
    {"LRN", 1, lrn},
    {"LayerNormalization", 1, layer_norm},  // from 17; exporters of onnxruntime's optimizer write it earlier
    {"LogSoftmax", 1, [](OnnxNode& n) { return over_axis(n, [](const Tensor& x, i64 a) { return x.log_softmax(a); }); }},
    {"MeanVarianceNormalization", 9, mean_variance_norm},
    {"RMSNormalization", 23, rms_norm},
    {"SimplifiedLayerNormalization", 1, rms_norm},  // onnxruntime's name, in ONNX's domain
    {"Softmax", 1, [](OnnxNode& n) { return over_axis(n, [](const Tensor& x, i64 a) { return x.softmax(a); }); }},
};

}  // namespace

std::span<const OnnxOp> norm_ops() { return kNormOps; }

}  // namespace tg
