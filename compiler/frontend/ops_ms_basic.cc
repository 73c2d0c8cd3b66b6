// com.microsoft: small operators of their own meaning, and older copies of ONNX's. Those that fuse are in ops_ms.cc.
// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
#include <cmath>
#include <limits>

#include "frontend/ms.h"
#include "frontend/norm.h"
#include "frontend/spatial.h"

namespace tg {
namespace {

// x (.., m, m): Gauss and Jordan with row exchanges, unrolled over the columns; both sides as one matrix (.., m, 2m).
Tensor inverse(OnnxNode& n) {
  Tensor x = n[0].widen();
  n.require(x.rank() >= 2 && x.size(-1) == x.size(-2), "input ", shape_text(x.shape()), " is not square");
  i64 m = x.size(-1), row = x.rank() - 2;
  n.require(m <= 16, "an inverse of ", m, "x", m, "; up to 16x16 is supported");
  Tensor i = Tensor::arange(m), unit = i.unsqueeze(1).eq(i.unsqueeze(0)).cast(x.dtype()).expand(x.shape());
  Tensor a = Tensor::concat({x, unit}, -1);
  for (i64 k = 0; k < m; k++) {
    Tensor column = a.shrink(-1, k, 1).squeeze(-1);  // (.., m)
    Tensor candidates = where(i.lt(i.like(f64(k))), column.like(-1), column.abs());
    Tensor best = candidates.argmax(-1).first.unsqueeze(-1);                               // (.., 1)
    Tensor here = i.eq(i.like(f64(k))), order = where(here, best, where(i.eq(best), i.like(f64(k)), i));  // rows k and best exchanged
    a = a.take_along(row, order.unsqueeze(-1).expand(a.shape())).contiguous();
    Tensor pivot_row = a.shrink(row, k, 1) / a.shrink(row, k, 1).shrink(-1, k, 1);
    a = where(here.unsqueeze(-1), pivot_row, a - a.shrink(-1, k, 1) * pivot_row).contiguous();
  }
  return a.shrink(-1, m, m).cast(n[0].dtype());
}

// X (N, C, H, W), rois (R, 4) of y1, x1, y2, x2 in parts of H-1 and W-1, the picture of each; (R, C, h, w).
Tensor crop_and_resize(OnnxNode& n) {
  Tensor x = n[0], rois = n[1], batch = n[2];
  Ints size = n.ints(3);
  std::string mode = n.attr("mode", "bilinear");
  n.require(x.rank() == 4 && rois.rank() == 2 && rois.size(1) == 4 && size.size() == 2 && size[0] > 0 && size[1] > 0, "X ",
            shape_text(x.shape()), ", rois ", shape_text(rois.shape()), ", crop_size (", join(size), ")");
  n.require(mode == "bilinear" || mode == "nearest", "mode must be bilinear or nearest, not ", mode);
  UOp count = rois.dim(0);
  Tensor inside, low[2], high[2], part[2];
  for (i64 d = 0; d < 2; d++) {
    i64 out = size[size_t(d)];
    f64 last = f64(x.size(2 + d) - 1);
    Tensor a = rois.shrink(1, d, 1), b = rois.shrink(1, d + 2, 1);  // (R, 1)
    Tensor at = out > 1 ? a * last + Tensor::arange(out, Kind::I64).cast(x.dtype()).unsqueeze(0) * ((b - a) * last / f64(out - 1)) : (a + b) * (0.5 * last);
    Shape s = d ? Shape{count, idx(1), idx(out)} : Shape{count, idx(out), idx(1)};
    at = at.reshape(s);
    Tensor in = at.ge(at.like(0)) & at.le(at.like(last));
    inside = inside ? inside & in : in;
    if (mode == "nearest") at = (at + 0.5).floor();  // halves go up, as roundf of numbers from 0 on
    Tensor f = at.floor();
    low[d] = f.cast(Kind::I64), high[d] = at.ceil().cast(Kind::I64), part[d] = at - f;
  }
  Tensor pictures = batch.reshape(Ints{-1, 1, 1});
  Tensor pixels = x.permute(Ints{0, 2, 3, 1});  // (N, H, W, C)
  auto read = [&](const Tensor& y, const Tensor& z) {
    Tensor at[] = {pictures, y, z, Tensor()};
    return pixels.gather(at);  // (R, h, w, C)
  };
  Tensor y;
  if (mode == "nearest") {
    y = read(low[0], low[1]);
  } else {
    Tensor fy = part[0].unsqueeze(-1), fx = part[1].unsqueeze(-1);
    Tensor top = read(low[0], low[1]), bottom = read(high[0], low[1]);
    top = top + (read(low[0], high[1]) - top) * fx;
    bottom = bottom + (read(high[0], high[1]) - bottom) * fx;
    y = top + (bottom - top) * fy;
  }
  return where(inside.unsqueeze(-1), y, y.like(n.attr("extrapolation_value", 0.0f))).permute(Ints{0, 3, 1, 2});
}

// -inf for each token that would repeat an n-gram of the ids when it came next.
Tensor ngram_repeat_block(OnnxNode& n) {
  Tensor ids = n[0].cast(Kind::I64), scores = n[1];
  i64 size = n.attr_int("ngram_size"), steps = ids.rank() == 2 ? ids.size(1) : 0;
  n.require(ids.rank() == 2 && scores.rank() == 2 && ids.dim(0) == scores.dim(0) && size > 0, "input_ids ", shape_text(n[0].shape()), ", scores ",
            shape_text(scores.shape()), ", ngram_size ", size);
  i64 places = steps - size + 1;
  if (places <= 0) return scores;
  Tensor banned = Tensor::full(Shape{ids.dim(0), idx(places)}, Kind::Bool, 1);
  for (i64 k = 0; k + 1 < size; k++) banned = banned & ids.shrink(1, k, places).eq(ids.shrink(1, steps - size + 1 + k, 1));
  Tensor row = Tensor::arange(ids.dim(0)).unsqueeze(1).expand(banned.shape());
  Tensor hits = Tensor::full(scores.shape(), Kind::I32, 0).scatter(std::vector<Tensor>{row, ids.shrink(1, size - 1, places)}, banned.cast(Kind::I32), ScatterKind::Max);
  return where(hits.gt(hits.like(0)), scores.like(-std::numeric_limits<f64>::infinity()), scores);
}

// --- spectra: pairs of real and imaginary parts along the last axis
Tensor complex_mul(OnnxNode& n, f64 sign) {
  auto part = [](const Tensor& t, i64 i) { return t.shrink(-1, i, 1); };
  Tensor a = n[0], b = n[1];
  n.require(a.size(-1) == 2 && b.size(-1) == 2, "the last axes must hold real and imaginary parts");
  Tensor ar = part(a, 0), ai = part(a, 1), br = part(b, 0), bi = part(b, 1) * sign;
  return Tensor::concat({ar * br - ai * bi, ar * bi + ai * br}, -1);
}

// --- relative positions
// The bucket of each distance, as T5 has them: exact below half of the buckets, logarithmic above.
Tensor relative_position_bias(OnnxNode& n) {
  Tensor table = n[0];  // (buckets, heads)
  i64 queries = n.integer(1), keys = n.integer(2), buckets = table.size(0), most = n.attr_int("max_distance");
  bool both = n.attr("is_bidirectional", 0);
  n.require(queries > 0 && keys > 0 && most > 0 && buckets >= 4, "a bias of ", queries, " x ", keys, " from ", buckets, " buckets up to ", most);
  check_table(queries, keys);
  i64 half = both ? buckets / 2 : buckets, exact = half / 2;
  Ints at;
  for (i64 q = 0; q < queries; q++)
    for (i64 k = 0; k < keys; k++) {
      i64 d = q - k, base = both && d < 0 ? half : 0;
      d = both ? std::abs(d) : std::max<i64>(0, d);
      if (d >= exact) {
        f32 far = std::log(f32(d) / f32(exact)) / std::log(f32(most) / f32(exact)) * f32(half - exact);
        d = std::min(half - 1, exact + i64(far));
      }
      at.push_back(base + d);
    }
  return table.take(0, Tensor::of_ints(Kind::I64, Ints{queries, keys}, at)).permute(Ints{2, 0, 1}).unsqueeze(0);
}

// rel_pos (1, heads, S, S) times a gate that each query makes of itself.
Tensor gated_relative_position_bias(OnnxNode& n) {
  n.require(!n.has(6), "token_offset (padding removed) is not supported");
  Tensor x = n[0] + n[1], rel = n[2];  // x (B, S, heads*D)
  i64 heads = n.attr_int("num_heads"), size = x.size(2) / heads;
  Tensor q = x.reshape(Shape{x.dim(0), x.dim(1), idx(heads), idx(size)}).permute(Ints{0, 2, 1, 3});
  Tensor g = q.matmul(n[3]) + n[4];  // (B, heads, S, D)
  i64 half = g.size(3) / 2;
  auto gate = [&](i64 i) { return g.shrink(3, i * half, half).sum(Ints{3}, true).sigmoid(); };
  return (gate(0) * (gate(1) * n[5].reshape(Ints{1, heads, 1, 1}) - 1.0) + 2.0) * rel;
}

// --- gates
Tensor swiglu(OnnxNode& n) {
  Tensor gate = n[0].widen(), up;
  if (n.has(1)) {
    up = n[1].widen();
  } else {  // the two interleaved
    Shape s = gate.shape();
    s.back() = idx(gate.size(-1) / 2), s.push_back(idx(2));
    Tensor both = gate.reshape(s);
    gate = both.shrink(-1, 0, 1).squeeze(-1), up = both.shrink(-1, 1, 1).squeeze(-1);
  }
  n.require(!n.attr("round_activation", 0), "round_activation is not supported");
  f64 limit = n.attr("limit", 0.0f);
  if (limit > 0) gate = gate.min(gate.like(limit)), up = up.clip(up.like(-limit), up.like(limit));
  return (gate * (gate * f64(n.attr("activation_alpha", 1.0f))).sigmoid() * (up + f64(n.attr("activation_beta", 0.0f)))).cast(n[0].dtype());
}
Tensor gated_rms_norm(OnnxNode& n) {
  Tensor x = n[0].widen(), scale = n[1].widen(), z = n[2].widen();
  std::string a = n.attr("activation", "silu");
  n.require(a == "silu" || a == "swish" || a == "sigmoid", "activation \"", a, "\" is not supported; known: silu, swish, sigmoid");
  i64 c = scale.size(0);
  n.require(x.size(-1) % c == 0, "rows of ", x.size(-1), " for a scale of ", c);
  Shape s = x.shape();
  s.back() = idx(x.size(-1) / c), s.push_back(idx(c));
  Tensor rows = x.reshape(s), y = (rows * rms_inverse(rows, Ints{rows.rank() - 1}, n.attr("epsilon", 1e-5f)) * scale).reshape(x.shape());
  return (y * (a == "sigmoid" ? z.sigmoid() : z.silu())).cast(n[0].dtype());
}

Tensor pad(OnnxNode& n) { return as_onnx(n, "Pad", 13)[0]; }
Tensor range(OnnxNode& n) {
  if (n.has(2)) return as_onnx(n, "Range", 11)[0];
  f64 start = n.number(0), limit = n.number(1), count = std::ceil(limit - start);
  n.require(count <= f64(1 << 22), "a range of ", count, " elements");
  Tensor i = Tensor::arange(count > 0 ? i64(count) : 0).cast(n[0].dtype());
  return i + start;
}

// Several tensors: whether no element is infinite or NaN, or by attribute only one of these.
Tensor is_all_finite(OnnxNode& n) {
  bool only_inf = n.attr("isinf_only", 0), only_nan = n.attr("isnan_only", 0);
  Tensor all;
  for (size_t i = 0; i < n.inputs(); i++) {
    Tensor x = n[i], inf = x.abs().eq(x.like(std::numeric_limits<f64>::infinity()));
    Tensor bad = only_inf ? inf : only_nan ? x.is_nan() : inf | x.is_nan();
    Tensor ok = bad.reduce(ReduceKind::Or, bad.all_axes()).logical_not();
    all = all ? all & ok : ok;
  }
  return all;
}

Tensors bias_dropout(OnnxNode& n) {
  n.require(!n.has(4) || (n.is_constant(4) && !n.integer(4)), "training_mode drops elements at random, which is not supported here; export the model for inference");
  Tensor y = n[0] + n[1];
  return {n.has(2) ? y + n[2] : y, n.wants(1) ? Tensor::full(y.shape(), Kind::Bool, 1) : Tensor()};
}

Tensor unfold(OnnxNode& n) {
  Tensor x = n[0];
  i64 axis = x.axis(n.attr("dim", -1)), size = n.attr_int("size"), step = n.attr("step", 1);
  n.require(size > 0 && step > 0 && size <= x.size(axis), "slices of ", size, " by ", step, " from an axis of ", x.size(axis));
  return x.window({{axis}, {size}, {step}, {1}});
}

Tensor mul_integer(OnnxNode& n) {
  auto operand = [&](size_t i) { return n.has(i + 1) ? n[i].cast(Kind::I32) - n[i + 1].cast(Kind::I32) : n[i].cast(Kind::I32); };
  return operand(0) * operand(2);
}

// clang-format off
constexpr OnnxOp kMsBasicOps[] = {
  {"BiasDropout",               1, bias_dropout},
  {"ComplexMul",                1, [](OnnxNode& n) { return complex_mul(n, 1); }},
  {"ComplexMulConj",            1, [](OnnxNode& n) { return complex_mul(n, -1); }},
  {"CropAndResize",             1, crop_and_resize},
  {"GatedRMSNorm",              1, gated_rms_norm},
  {"GatedRelativePositionBias", 1, gated_relative_position_bias},
  {"GatherND",                  1, [](OnnxNode& n) { return as_onnx(n, "GatherND", 12); }},
  {"Inverse",                   1, inverse},
  {"IsAllFinite",               1, is_all_finite},
  {"MulInteger",                1, mul_integer},
  {"NGramRepeatBlock",          1, ngram_repeat_block},
  {"NhwcMaxPool",               1, [](OnnxNode& n) { return channels_last(max_pool_of(n, channels_first(n[0]))[0]); }},
  {"Pad",                       1, pad},
  {"Range",                     1, range},
  {"ReduceSumInteger",          1, [](OnnxNode& n) { return n[0].cast(Kind::I32).sum(n.attr_ints("axes"), n.attr("keepdims", 1)); }},
  {"RelativePositionBias",      1, relative_position_bias},
  {"SampleOp",                  1, [](OnnxNode& n) { return n[0]; }},
  {"ScaledSiLU",                1, [](OnnxNode& n) { Tensor z = n.has(1) ? n[0] * n[1].reshape(Shape{}) : n[0] * f64(n.attr("alpha", 1.0f));
                                                     return z * z.widen().sigmoid().cast(z.dtype()); }},
  {"SwiGLU",                    1, swiglu},
  {"TorchEmbedding",            1, [](OnnxNode& n) { return n[0].take(0, n[1]); }},
  {"UnfoldTensor",              1, unfold},
};
// clang-format on

}  // namespace

std::span<const OnnxOp> ms_basic_ops() { return kMsBasicOps; }

}  // namespace tg
