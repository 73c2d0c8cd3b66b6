// Random numbers: element i of a node is made of counter i under a key from the node's seed, so every run and every device gives the same
// ones. A node without a seed takes one from its name. https://onnx.ai/onnx/operators/
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>

#include "base/hash.h"
#include "frontend/onnx_op.h"
#include "frontend/random.h"

namespace tg {

RandomBits threefry(Tensor x, Tensor y, u64 seed) {
  constexpr u32 kRotate[8] = {13, 15, 26, 6, 17, 29, 16, 24};
  u32 key[3] = {u32(seed), u32(seed >> 32), 0};
  key[2] = 0x1BD11BDA ^ key[0] ^ key[1];
  auto k = [](u32 v) { return Tensor::integer(Kind::U32, i64(v)); };
  x = x + k(key[0]), y = y + k(key[1]);
  for (u32 round = 0; round < 20; round++) {
    u32 r = kRotate[round % 8];
    x = x + y;
    y = (y.binary(Op::Shl, k(r)) | y.binary(Op::Shr, k(32 - r))) ^ x;
    if (round % 4 == 3) {
      u32 i = round / 4 + 1;
      x = x + k(key[i % 3]);
      y = y + k(key[(i + 1) % 3] + i);
    }
  }
  return {x, y};
}

namespace {

// Element i has the counter (i, 0).
RandomBits numbers(const Shape& s, u64 seed) {
  RandomBits r = threefry(Tensor::arange(elems(s), Kind::U32), Tensor::full(Shape{elems(s)}, Kind::U32, 0), seed);
  return {r.a.reshape(s), r.b.reshape(s)};
}

u64 seed_of(OnnxNode& n) {
  if (n.op() == "Dropout" && n.has_attr("seed")) return mix(u64(n.attr("seed", 0)), hash64(n.op().data(), n.op().size()));
  u64 s = n.has_attr("seed") ? u64(std::bit_cast<u32>(n.attr("seed", 0.0f))) : mix(hash64(n.name().data(), n.name().size()), 0x7467616f74);
  return mix(s, hash64(n.op().data(), n.op().size()));
}

// In [0, 1): 24 bits of the number.
Tensor unit(const Tensor& bits, DType d) { return bits.binary(Op::Shr, Tensor::integer(Kind::U32, 8)).cast(d) * std::exp2(-24); }

DType wide_of(DType d) { return d.kind == Kind::F64 ? DType(Kind::F64) : DType(Kind::F32); }

Tensor uniform(OnnxNode& n, const Shape& s, DType d) {
  f64 low = n.attr("low", 0.0f), high = n.attr("high", 1.0f);
  return (unit(numbers(s, seed_of(n)).a, wide_of(d)) * (high - low) + low).cast(d);
}

// Box and Muller: 1 - u lies in (0, 1], so its logarithm is finite.
Tensor normal(OnnxNode& n, const Shape& s, DType d) {
  RandomBits r = numbers(s, seed_of(n));
  DType w = wide_of(d);
  Tensor radius = ((1.0 - unit(r.a, w)).log() * -2.0).sqrt(), angle = unit(r.b, w) * (2 * std::numbers::pi);
  return (radius * angle.cos() * f64(n.attr("scale", 1.0f)) + f64(n.attr("mean", 0.0f))).cast(d);
}

Shape shape_attr(OnnxNode& n) {
  Ints s = n.attr_ints("shape");
  return dims(IntSpan(s));
}
DType like_dtype(OnnxNode& n) {
  DType d = n.attr_dtype("dtype", n[0].dtype());
  n.require(is_float(d), "random numbers of ", name(d), " are not defined");
  return d;
}

Tensor bernoulli(OnnxNode& n) {
  Tensor p = n[0].widen();
  return unit(numbers(p.shape(), seed_of(n)).a, p.dtype()).lt(p).cast(n.attr_dtype("dtype", n[0].dtype()));
}

// x (B, classes): unnormalized log probabilities. The largest of x - log(-log u) is a draw (Gumbel).
Tensor multinomial(OnnxNode& n) {
  Tensor x = n[0].widen();
  n.require(x.rank() == 2, "input ", shape_text(x.shape()), " must be (batch, classes)");
  i64 count = n.attr("sample_size", 1);
  Shape s{x.dim(0), idx(count), x.dim(1)};
  Tensor u = unit(numbers(s, seed_of(n)).a, x.dtype()) + std::exp2(-25);
  Tensor score = x.unsqueeze(1) - (-u.log()).log();
  return score.argmax(2).first.cast(n.attr_dtype("dtype", Kind::I32));
}

// The mask is drawn only where training_mode is, or at run time may be, on. It was of x's dtype before opset 10.
Tensors dropout(OnnxNode& n) {
  Tensor x = n[0];
  DType mask_dtype = n.opset() < 10 ? x.dtype() : DType(Kind::Bool);
  auto unchanged = [&] { return Tensors{x, n.wants(1) ? Tensor::full(x.shape(), mask_dtype, 1) : Tensor()}; };
  if (n.opset() < 12 || !n.has(2) || (n.is_constant(2) && !n.integer(2))) return unchanged();
  if (n.is_constant(1) && n.number(1) == 0) return unchanged();
  Tensor ratio = n.has(1) ? n[1].reshape(Shape{}).widen() : Tensor::scalar(Kind::F32, 0.5);
  Tensor training = n[2].reshape(Shape{}), wide = x.widen();
  n.require(training.dtype() == DType(Kind::Bool), "training_mode is ", name(training.dtype()), ", not bool");
  Tensor keep = ratio.le(unit(numbers(x.shape(), seed_of(n)).a, ratio.dtype()));
  Tensor scaled = where(keep, wide * (1.0 - ratio).recip().cast(wide.dtype()), wide.like(0)).cast(x.dtype());
  return {where(training, scaled, x), keep | training.logical_not()};
}

constexpr OnnxOp kRandomOps[] = {
    {"Bernoulli", 15, bernoulli},
    {"Dropout", 6, dropout},
    {"Multinomial", 7, multinomial},
    {"RandomNormal", 1, [](OnnxNode& n) { return normal(n, shape_attr(n), n.attr_dtype("dtype", Kind::F32)); }},
    {"RandomNormalLike", 1, [](OnnxNode& n) { return normal(n, n[0].shape(), like_dtype(n)); }},
    {"RandomUniform", 1, [](OnnxNode& n) { return uniform(n, shape_attr(n), n.attr_dtype("dtype", Kind::F32)); }},
    {"RandomUniformLike", 1, [](OnnxNode& n) { return uniform(n, n[0].shape(), like_dtype(n)); }},
};

}  // namespace

std::span<const OnnxOp> random_ops() { return kRandomOps; }

}  // namespace tg
