// com.microsoft quantized operators: QLinear*, products of 8-bit integers, weights of 2, 4 and 8 bits.
// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
#include "frontend/byte_flow.h"
#include "frontend/ms.h"
#include "frontend/norm.h"
#include "frontend/pool.h"
#include "frontend/quant.h"
#include "frontend/spatial.h"

namespace tg {
namespace {

Tensor single(const Tensor& p) { return p ? p.reshape(Shape{}) : p; }

// Inputs i, i+1, i+2 are a tensor, its scale and zero point (which may be absent): as f32.
Tensor real(OnnxNode& n, size_t i) { return dequantize(n[i], single(n[i + 1]), single(n.opt(i + 2)), Kind::F32); }
// y as the dtype of the zero point at input `scale` + 1, or d without one.
Tensor back(OnnxNode& n, const Tensor& y, size_t scale, DType d) {
  return quantize(y, single(n[scale]), single(n.opt(scale + 1)), n.has(scale + 1) ? n[scale + 1].dtype() : d);
}

Tensor qlinear_average_pool(OnnxNode& n) {
  bool last = n.attr("channels_last", 0);
  Tensor x = real(n, 0), y = average_pool_of(n, last ? channels_first(x) : x);
  return back(n, last ? channels_last(y) : y, 3, n[0].dtype());
}
Tensor qlinear_global_average_pool(OnnxNode& n) {
  bool last = n.attr("channels_last", 0);
  Tensor x = n[0];
  Ints axes;
  for (i64 a = 0; a < x.rank() - 2; a++) axes.push_back(a + (last ? 1 : 2));
  return back(n, mean_of(real(n, 0), axes, true), 3, x.dtype());
}
Tensor qlinear_concat(OnnxNode& n) {
  n.require(n.inputs() > 2 && (n.inputs() - 2) % 3 == 0, n.inputs(), " inputs are no scale, zero point and triples");
  std::vector<Tensor> xs;
  for (size_t i = 2; i < n.inputs(); i += 3) xs.push_back(back(n, real(n, i), 0, n[i].dtype()));
  return Tensor::concat(xs, n.attr_int("axis"));
}
Tensor qlinear_reduce_mean(OnnxNode& n) {
  Tensor x = real(n, 0);
  return back(n, mean_of(x, n.attr("axes", x.all_axes()), n.attr("keepdims", 1)), 3, n[0].dtype());
}
Tensor qlinear_softmax(OnnxNode& n) {
  Tensor x = real(n, 0);
  i64 axis = x.axis(n.attr("axis", -1));
  bool matrix = n.attr("opset", 13) < 13 && axis != x.rank() - 1;
  Tensor y = matrix ? x.flatten(axis).softmax(axis).reshape(x.shape()) : x.softmax(axis);
  return back(n, y, 3, n[0].dtype());
}
Tensor qlinear_where(OnnxNode& n) { return where(n[0], back(n, real(n, 1), 7, n[1].dtype()), back(n, real(n, 4), 7, n[4].dtype())); }
Tensor qlinear_conv(OnnxNode& n) {
  bool last = n.attr("channels_last", 0);
  Tensor y = qlinear_conv_of(n, last ? channels_first(n[0]) : n[0]);
  return last ? channels_last(y) : y;
}

// A b: scales and zero points of b are numbers or one a column.
Tensor dynamic_quantize_matmul(OnnxNode& n) {
  Dynamic a = dynamic_quantize(n[0]);
  Tensor y = integer_matmul(a.y, a.zero, n[1], n.opt(3)).cast(Kind::F32) * (a.scale * n[2]);
  return n.has(4) ? y + n[4] : y;
}
Tensor matmul_integer_to_float(OnnxNode& n) {
  Tensor y =
      integer_matmul(n[0], row_parameter(n.opt(4)), n[1], n.opt(5)).cast(n[2].dtype()) * (row_parameter(n[2]) * n[3]);
  return n.has(6) ? y + n[6] : y;
}
Tensor q_gemm(OnnxNode& n) {
  Tensor a = n.attr("transA", 0) ? n[0].transpose() : n[0], b = n.attr("transB", 0) ? n[3].transpose() : n[3];
  Tensor acc = integer_matmul(a, single(n.opt(2)), b, n.opt(5));  // b's: one zero point a column of what is multiplied
  if (n.has(6)) acc = acc + n[6];
  Tensor factor = single(n[1]) * n[4];
  f64 alpha = n.attr("alpha", 1.0f);
  if (alpha != 1) factor = factor * alpha;
  if (!n.has(7)) return acc.cast(factor.dtype()) * factor;
  return requantize(acc, factor / single(n[7]), single(n.opt(8)), n.has(8) ? n[8].dtype() : n[0].dtype());
}

// u8 (.., bytes) holding 8/bits numbers each, the first in the low bits, as `bits`-bit numbers (.., bytes*8/bits). A weight is only seen as
// another kind; anything else is shifted apart.
Tensor unpack(OnnxNode& n, const Tensor& x, i64 bits) {
  n.require(bits == 2 || bits == 4 || bits == 8, bits, " bits are not supported; known: 2, 4, 8");
  n.require(x.dtype().kind == Kind::U8, "packed numbers must be u8, not ", name(x.dtype()));
  if (bits == 8) return x;
  i64 each = 8 / bits;
  if (x.uop().is(Op::Constant)) {
    ConstantData c = Pool::current().constants()[x.uop().arg_int()];
    c.dtype = bits == 4 ? Kind::U4 : Kind::U2;
    c.dims.back() *= each;
    return Pool::current().add(std::move(c));
  }
  Tensor low = Tensor::integer(Kind::U8, (1 << bits) - 1);
  std::vector<Tensor> parts;
  for (i64 i = 0; i < each; i++) parts.push_back((x.binary(Op::Shr, Tensor::integer(Kind::U8, i * bits)) & low).unsqueeze(-1));
  return Tensor::concat(parts, -1).flatten(-2, -1);
}

// y = a * dequantized(b)^T: b (N, blocks, bytes a block), a scale and zero point a block.
Tensor matmul_nbits(OnnxNode& n) {
  Tensor a = n[0];
  i64 k = n.attr_int("K"), rows = n.attr_int("N"), bits = n.attr("bits", 4), block = n.attr_int("block_size");
  n.require(n.attr("weight_prepacked", 0) == 0, "weight_prepacked is not supported");
  n.require(k > 0 && rows > 0 && block > 0, "K, N and block_size must be positive");
  i64 blocks = (k + block - 1) / block;
  Tensor q = unpack(n, n[1], bits).reshape(Ints{rows, blocks, block});
  DType d = a.widen().dtype(), whole = bits < 8 ? Kind::I8 : Kind::I32;  // that holds a number less a zero point
  Tensor w = q.cast(whole);
  // A scale or zero point a block; with g_idx each column names its block.
  auto of_blocks = [&](const Tensor& p) {
    if (!n.has(4)) return p.reshape(Ints{rows, blocks, 1});
    Tensor one = p.reshape(Ints{rows, blocks}).take(1, n[4]);
    n.require(n[4].rank() == 1 && (n[4].size(0) == k || n[4].size(0) == blocks * block), "g_idx ", shape_text(n[4].shape()), " for K=", k);
    if (n[4].size(0) < blocks * block) one = one.pad(Ints{0, 0}, Ints{0, blocks * block - k});
    return one.reshape(Ints{rows, blocks, block});
  };
  Tensor scale = of_blocks(n[2].widen().cast(d));
  if (!n.has(3)) {
    w = (w - f64(1 << (bits - 1))).cast(d);
  } else if (n[3].dtype().kind == Kind::U8) {  // packed by rows
    i64 bytes = (blocks * bits + 7) / 8;
    Tensor z = unpack(n, n[3].reshape(Ints{rows, bytes}), bits).shrink(1, 0, blocks);
    w = (w - of_blocks(z).cast(whole)).cast(d);
  } else {
    w = w.cast(d) - of_blocks(n[3].widen().cast(d));
  }
  Tensor b = (w * scale).flatten(1, 2).shrink(1, 0, k);
  Tensor y = a.cast(d).matmul(b.transpose());
  if (n.has(5)) y = y + n[5].widen().cast(d);
  return y.cast(a.dtype());
}

// y = a * dequantized(b)^T: b holds N rows of K numbers of 4 bits, the first of a pair in the high ones, that stand for values of a table; a
// scale for each block of them.
Tensor matmul_bnb4(OnnxNode& n) {
  constexpr f64 kFp4[] = {0,  5.208333333e-03, 0.66666667, 1,  0.33333333, 0.5,  0.16666667, 0.25,
                          -0., -5.208333333e-03, -0.66666667, -1, -0.33333333, -0.5, -0.16666667, -0.25};
  constexpr f64 kNf4[] = {-1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
                          -0.09105003625154495, 0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
                          0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1};
  Tensor a = n[0];
  i64 k = n.attr_int("K"), rows = n.attr_int("N"), block = n.attr_int("block_size"), type = n.attr_int("quant_type");
  n.require(k > 0 && rows > 0 && block > 0 && (k * rows) % 2 == 0 && (type == 0 || type == 1), "K=", k, ", N=", rows, ", block_size=", block, ", quant_type=", type);
  n.require(n.attr("transB", 1) == 1 && !n.attr("training_mode", 0), "transB 0 and training_mode are not supported");
  DType d = a.widen().dtype();
  Tensor q = unpack(n, n[1].reshape(Ints{rows * k / 2, 1}), 4).flip(Ints{1}).reshape(Ints{rows * k});
  Tensor table = Tensor::of(d, Ints{16}, type ? kNf4 : kFp4);
  i64 blocks = (rows * k + block - 1) / block;
  Tensor scale = n[2].widen().cast(d).reshape(Ints{blocks, 1}).expand(Ints{blocks, block}).reshape(Ints{-1}).shrink(0, 0, rows * k);
  Tensor w = (table.take(0, q.cast(Kind::I32)) * scale).reshape(Ints{rows, k});
  return a.cast(d).matmul(w.transpose()).cast(a.dtype());
}

// EmbedLayerNormalization with tables of bytes.
Tensors q_embed_layer_norm(OnnxNode& n) {
  Tensor ids = n[0];
  n.require(ids.rank() == 2, "input_ids ", shape_text(ids.shape()), " must be (batch, sequence)");
  auto table = [&](size_t i, size_t scale, size_t zero) { return dequantize(n[i], single(n[scale]), single(n[zero]), Kind::F32); };
  Tensor sum = table(2, 8, 13).take(0, ids) + table(3, 9, 14).take(0, Tensor::arange(ids.dim(1)).unsqueeze(0));
  if (n.has(1)) sum = sum + table(4, 10, 15).take(0, n[1]);
  Tensor y = normalize(sum, Ints{2}, n.attr("epsilon", 1e-12f)).y * table(5, 11, 16) + table(6, 12, 17);
  Tensor mask = n.has(7) ? n[7].ne(n[7].like(0)).cast(Kind::I32).sum(Ints{1}) : Tensor::full(Shape{ids.dim(0)}, Kind::I32, 0);
  return {y, mask};
}

Tensor gather_block_quantized(OnnxNode& n) {
  Tensor x = n[0];
  i64 bits = n.attr("bits", 4), block = n.attr("block_size", 128);
  if (x.dtype().kind == Kind::U8) x = unpack(n, x, bits);  // packed along the last axis
  i64 q_axis = x.axis(n.attr("quantize_axis", 1)), g_axis = x.axis(n.attr("gather_axis", 0));
  n.require(block > 0, "block_size ", block, " is not supported");
  DType d = n[2].widen().dtype();
  Tensor scale = spread_parameter(n[2], x, q_axis, block), zero;
  if (n.has(3)) {
    Tensor z = n[3].dtype().kind == Kind::U8 && n[0].dtype().kind == Kind::U8 ? unpack(n, n[3], bits).shrink(-1, 0, n[2].size(-1)) : n[3];
    zero = spread_parameter(z, x, q_axis, block);
  } else if (n[0].dtype().kind == Kind::U8) {
    zero = Tensor::scalar(Kind::I32, f64(1 << (bits - 1)));
  }
  return dequantize(x, scale.widen(), zero, d).cast(n[2].dtype()).take(g_axis, n[1]);
}

constexpr OnnxOp kMsQuantOps[] = {
    {"DequantizeLinear", 1, [](OnnxNode& n) { return as_onnx(n, "DequantizeLinear", 21); }},
    {"DynamicQuantizeMatMul", 1, dynamic_quantize_matmul},
    {"GatherBlockQuantized", 1, gather_block_quantized},
    {"MatMulBnb4", 1, matmul_bnb4},
    {"MatMulInteger16", 1, [](OnnxNode& n) { return n[0].cast(Kind::I32).matmul(n[1].cast(Kind::I32)); }},
    {"MatMulIntegerToFloat", 1, matmul_integer_to_float},
    {"MatMulNBits", 1, matmul_nbits},
    {"QEmbedLayerNormalization", 1, q_embed_layer_norm},
    {"QGemm", 1, q_gemm},
    {"QLinearAdd", 1, [](OnnxNode& n) { return back(n, real(n, 0) + real(n, 3), 6, n[0].dtype()); }},
    {"QLinearAveragePool", 1, qlinear_average_pool},
    {"QLinearConcat", 1, qlinear_concat},
    {"QLinearConv", 1, qlinear_conv},
    {"QLinearGlobalAveragePool", 1, qlinear_global_average_pool},
    {"QLinearLeakyRelu", 1, [](OnnxNode& n) { return back(n, real(n, 0).leaky_relu(n.attr("alpha", 0.01f)), 3, n[0].dtype()); }},
    {"QLinearMul", 1, [](OnnxNode& n) { return back(n, real(n, 0) * real(n, 3), 6, n[0].dtype()); }},
    {"QLinearReduceMean", 1, qlinear_reduce_mean},
    {"QLinearSigmoid", 1, [](OnnxNode& n) { return back(n, real(n, 0).sigmoid(), 3, n[0].dtype()); }},
    {"QLinearSoftmax", 1, qlinear_softmax},
    {"QLinearWhere", 1, qlinear_where},
    {"QuantizeLinear", 1, [](OnnxNode& n) { return as_onnx(n, "QuantizeLinear", 21); }},
};

}  // namespace

std::span<const OnnxOp> ms_quant_ops() { return kMsQuantOps; }

}  // namespace tg
