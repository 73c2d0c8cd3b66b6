#include "schedule/byte_product.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "ir/bounds.h"
#include "ir/eval_scalar.h"
#include "rules/symbolic.h"
#include "schedule/index.h"
#include "schedule/realize.h"
#include "target/dots.h"

namespace tg {
namespace {

constexpr i64 kMostTerms = 60000;   // of 255 * 128 in an i32
constexpr f64 kLargest = 32767;     // a row's largest magnitude becomes this
constexpr f64 kZeroRow = 0x1p-111;  // rows below it are 0, so that 32767 over the largest is finite

bool is_byte(UOp u) { return u.dtype() == DType(Kind::I8) || u.dtype() == DType(Kind::U8); }
bool is_narrow_float(DType d) { return is_float(d) && bits(d) < 32; }
bool moves(UOp u) { return is_movement(u.op()) && !u.is(Op::Concat); }

UOp through(UOp u, Shape* at) {
  for (; moves(u) && !u.is(Op::Pad); u = u.src(0)) {
    UOp valid;
    *at = source_index(u, *at, &valid);
  }
  for (UOp& x : *at) x = simplify(x);
  return u;
}

// The axis that a coordinate is; -1: the coordinate is 0; -2: anything else.
i64 axis_of(UOp coordinate) {
  if (coordinate.is_const(0)) return -1;
  return coordinate.is(Op::Range) ? coordinate.arg<RangeArg>().id : -2;
}
Shape ranges_of(const Shape& dims) {
  Shape at;
  for (size_t i = 0; i < dims.size(); i++) at.push_back(dims[i].is_const(1) ? idx(0) : range(dims[i], {i64(i), 0, 0, AxisKind::Loop}));
  return at;
}

i64 stored_number(const ConstantData& c, i64 at) {
  Kind k = c.dtype.kind;
  u64 v = 0;
  for (i64 i = 0, n = bits(k) / 8; i < n; i++) v |= u64(c.bytes[size_t(at * n + i)]) << (8 * i);
  return i64(from_bits(k, v));
}

// i32(w) - zero, elementwise over the CONSTANT w: reads the zero points.
bool match_difference(UOp u, const Graph& g, ByteProduct* p) {
  if (!u.is(Op::Sub) || u.dtype() != DType(Kind::I32)) return false;
  UOp w = u.src(0), zero = u.src(1);
  if (!w.is(Op::Cast) || !w.src(0).is(Op::Constant) || !is_byte(w.src(0))) return false;
  p->weight = w.src(0);
  const i64 axes = i64(rank(p->weight));
  p->zero_stride.assign(size_t(axes), 0);
  if (zero.is_const()) {
    p->zeros = {i64(zero.as_int())};
    return true;
  }
  Shape at = ranges_of(shape(p->weight));
  if (rank(zero) != at.size()) return false;
  zero = through(zero, &at);
  while (zero.is(Op::Cast)) zero = through(zero.src(0), &at);
  if (zero.is_const()) {
    p->zeros = {i64(zero.as_int())};
    return true;
  }
  if (!zero.is(Op::Constant) || g.constants[size_t(zero.arg_int())].made_of) return false;
  const ConstantData& z = g.constants[size_t(zero.arg_int())];
  if (is_float(z.dtype) || bits(z.dtype) < 8) return false;
  i64 stride = 1;
  for (size_t i = at.size(); i-- > 0;) {
    i64 a = axis_of(at[i]);
    if (a == -2) return false;
    if (a >= 0) p->zero_stride[size_t(a)] += stride;
    stride *= z.dims[i];
  }
  for (i64 i = 0; i < stride; i++) p->zeros.push_back(stored_number(z, i));
  return true;
}

// Every number of the CONSTANT without its zero point, in order: one(place, coordinates, number).
template <class One>
void each_weight(const ByteProduct& p, const ConstantData& w, One one) {
  std::vector<i64> at(w.dims.size(), 0);
  i64 zero = 0;
  for (i64 i = 0; i < i64(w.bytes.size()); i++) {
    i64 v = w.dtype.kind == Kind::I8 ? i64(i8(w.bytes[size_t(i)])) : i64(w.bytes[size_t(i)]);
    one(i, at, p.zeros.empty() ? v : v - p.zeros[size_t(zero)]);
    for (size_t a = at.size(); a-- > 0;) {
      if (!p.zeros.empty()) zero += p.zero_stride[a];
      if (++at[a] < w.dims[a]) break;
      if (!p.zeros.empty()) zero -= p.zero_stride[a] * w.dims[a];
      at[a] = 0;
    }
  }
}

bool fits_i8(const ByteProduct& p, const ConstantData& w) {
  if (p.zeros.empty() && w.dtype.kind == Kind::I8) return true;
  bool fits = true;
  each_weight(p, w, [&](i64, const std::vector<i64>&, i64 v) { fits &= v >= -128 && v <= 127; });
  return fits;
}

}  // namespace

bool multiplies_bytes(const Target& t) {
  for (const DotRow& r : dot_rows(t))
    if (r.a == Kind::U8 && r.b == Kind::I8 && r.sum == Kind::I32 && r.group == 4 && !r.by_parts) return true;
  return false;
}

std::optional<ByteProduct> match_byte_product(UOp u, const Graph& g) {
  if (!u.is(Op::Reduce) || u.dtype() != DType(Kind::F32) || u.arg<ReduceArg>().kind != ReduceKind::Add || !u.src(0).is(Op::Mul)) return {};
  UOp product = u.src(0);
  const Shape& dims = shape(product);
  const Ints axes = u.arg<ReduceArg>().axes;
  auto summed = [&](size_t a) { return std::binary_search(axes.begin(), axes.end(), i64(a)); };
  for (u32 side = 0; side < 2; side++) {
    ByteProduct p;
    p.sum = u, p.x_side = side;
    Shape wi = ranges_of(dims), xi = wi;
    UOp w = through(product.src(1 - side), &wi);
    if (!w.is(Op::Cast)) continue;
    w = through(w.src(0), &wi);
    while (w.is(Op::Cast) && is_int(w.dtype())) w = through(w.src(0), &wi);
    p.integers = w;
    if (w.is(Op::Constant) && is_byte(w)) p.weight = w;
    else if (!match_difference(w, g, &p)) continue;
    if (g.constants[size_t(p.weight.arg_int())].made_of) continue;
    UOp x = through(product.src(side), &xi);
    if (x.in(Op::Constant | Op::Const) || (x.is(Op::Cast) && is_narrow_float(x.src(0).dtype()))) continue;
    std::vector<UOp> seen = ranges_in(xi);
    auto sees = [&](size_t a) { return std::any_of(seen.begin(), seen.end(), [&](UOp r) { return r.arg<RangeArg>().id == i64(a); }); };
    bool fits = true;
    for (UOp i : wi) p.weight_axis.push_back(axis_of(i)), fits &= p.weight_axis.back() != -2;
    auto walks = [&](size_t a) { return std::count(p.weight_axis.begin(), p.weight_axis.end(), i64(a)); };
    p.rows = p.depth = p.columns = 1;
    for (size_t a = 0; a < dims.size() && fits; a++) {
      p.repeated.push_back(!dims[a].is_const(1) && !sees(a));
      if (dims[a].is_const(1)) continue;
      fits &= walks(a) <= 1 && (!walks(a) || dims[a].is_const());
      if (summed(a)) fits &= sees(a) && walks(a) == 1, p.depth *= most(dims[a]);
      else if (p.repeated.back()) fits &= walks(a) == 1, p.columns *= most(dims[a]);
      else p.rows *= most(dims[a]);
    }
    fits &= p.depth > 1 && p.depth <= kMostTerms && p.columns > 1 && p.rows > 0;
    // Each element of x in one row, once.
    fits &= fits && p.rows * p.depth <= most_elems(shape(x)) && fits_i8(p, g.constants[size_t(p.weight.arg_int())]);
    if (fits) return p;
  }
  return {};
}

UOp byte_product_input(const ByteProduct& p) {
  UOp u = p.sum.src(0).src(p.x_side);
  while (moves(u)) u = u.src(0);
  return u;
}

std::optional<ConstantData> centred_weights(const ByteProduct& p, const ConstantData& w) {
  if (p.zeros.empty() && w.dtype.kind == Kind::I8) return {};
  auto bytes = std::make_shared<std::vector<u8>>(w.bytes.size());
  each_weight(p, w, [&](i64 i, const std::vector<i64>&, i64 v) { (*bytes)[size_t(i)] = u8(v); });
  return ConstantData{w.name + " centred", Kind::I8, w.dims, *bytes, bytes, {}};
}

ConstantData weight_sums(const ByteProduct& p, const ConstantData& w) {
  const Shape& dims = shape(p.sum.src(0));
  const Ints axes = p.sum.arg<ReduceArg>().axes;
  // Strides of the product's axes in the result, which has size 1 where the weights do not go.
  std::vector<i64> size, stride(dims.size(), 0);
  i64 all = 1;
  for (size_t a = dims.size(); a-- > 0;) {
    if (std::binary_search(axes.begin(), axes.end(), i64(a))) continue;
    bool walked = std::find(p.weight_axis.begin(), p.weight_axis.end(), i64(a)) != p.weight_axis.end();
    size.push_back(walked ? dims[a].as_int() : 1);
    if (walked) stride[a] = all, all *= size.back();
  }
  std::reverse(size.begin(), size.end());
  auto bytes = std::make_shared<std::vector<u8>>(size_t(all) * 4);
  i32* sums = reinterpret_cast<i32*>(bytes->data());
  each_weight(p, w, [&](i64, const std::vector<i64>& at, i64 v) {
    i64 to = 0;
    for (size_t i = 0; i < at.size(); i++)
      if (p.weight_axis[i] >= 0) to += at[i] * stride[size_t(p.weight_axis[i])];
    sums[to] += i32(128 * v);
  });
  return {w.name + " sums", Kind::I32, size, *bytes, bytes, {}};
}

UOp byte_product(const ByteProduct& p, UOp x, UOp weights, UOp sums, const Target& target) {
  UOp product = p.sum.src(0);
  const Shape& full = shape(product);
  const ReduceArg arg = p.sum.arg<ReduceArg>();
  // x without the axes on which it repeats.
  Shape own = full;
  for (size_t a = 0; a < own.size(); a++)
    if (p.repeated[a]) own[a] = idx(1);
  if (x.is(Op::Expand) && same_shape(shape(x.src(0)), own)) {
    x = x.src(0);
  } else {
    Shape zero(own.size(), idx(0)), one(own.size(), idx(1));
    x = tensor::shrink(x, zero, own, one);
  }
  // The largest magnitude of a row: as integers the bits of magnitudes are in order, NaN above all.
  UOp magnitude = bitcast(x, Kind::I32) & konst(Kind::I32, 0x7fffffff);
  Shape row = own;
  for (i64 a : arg.axes) row[size_t(a)] = idx(1);
  UOp largest = tensor::contiguous(bitcast(tensor::reshape(tensor::reduce(magnitude, ReduceKind::Max, arg.axes), row), Kind::F32));
  // q + 32768 for q = round(x * 32767 / largest), in the low 16 bits of a float whose last place is 1.
  UOp scale = where(le(konst_f(Kind::F32, kZeroRow), largest), konst_f(Kind::F32, kLargest) / largest, konst_f(Kind::F32, 0));
  UOp factor = tensor::expand(scale, own), shift = konst_f(Kind::F32, 0x1p23 + 32768);
  UOp number = bitcast(target.has_fma ? alu(Op::MulAcc, {x, factor, shift}) : x * factor + shift, Kind::U32);
  UOp high = cast(alu(Op::Shr, {number, konst(Kind::U32, 8)}), Kind::U8), low = cast(number, Kind::U8);
  // Both bytes in one buffer, those of a row side by side.
  size_t place_axis = size_t(arg.axes[0]);
  Shape split = own, two = own, ones(own.size() + 1, idx(1));
  split.insert(split.begin() + i64(place_axis), idx(1)), two.insert(two.begin() + i64(place_axis), idx(2)), ones[place_axis] = idx(2);
  UOp place = tensor::expand(tensor::reshape(tensor::iota(idx(2)), ones), two);
  auto both = [&](UOp v) { return tensor::expand(tensor::reshape(v, split), two); };
  UOp digits = where(eq(place, idx(0)), both(high), both(low));
  keep_in_kernel(digits, x), keep_in_kernel(digits, largest);
  digits = tensor::contiguous(digits);

  // The weights as the product has them.
  std::vector<UOp> chain;
  UOp w = product.src(1 - p.x_side);
  for (; w != p.integers; w = w.src(0)) chain.push_back(w);
  w = cast(weights, Kind::I32);
  for (size_t i = chain.size(); i-- > 0;) {
    if (chain[i].is(Op::Cast)) continue;
    std::vector<UOp> src(chain[i].src().begin(), chain[i].src().end());
    src[0] = w;
    w = with_dtype(with_src(chain[i], src), Kind::I32);
  }
  auto sum_of = [&](i64 digit) {
    UOp d = tensor::reshape(tensor::slice(digits, place_axis, idx(digit), idx(digit + 1)), own);
    UOp v = cast(tensor::expand(d, full), Kind::I32);
    return tensor::reduce(p.x_side ? w * v : v * w, ReduceKind::Add, arg.axes);
  };
  UOp h = sum_of(0), l = sum_of(1);
  const Shape& out = shape(p.sum);
  UOp whole = cast(h - tensor::expand(sums, out), Kind::F32), part = cast(l, Kind::F32), c = konst_f(Kind::F32, 256);
  // An infinity leaves nothing of its row.
  UOp step = where(lt(largest, konst_f(Kind::F32, std::numeric_limits<f64>::infinity())), largest * konst_f(Kind::F32, 1 / kLargest),
                   konst_f(Kind::F32, std::numeric_limits<f64>::quiet_NaN()));
  Shape kept;
  for (size_t a = 0; a < row.size(); a++)
    if (!std::binary_search(arg.axes.begin(), arg.axes.end(), i64(a))) kept.push_back(row[a]);
  UOp y = (target.has_fma ? alu(Op::MulAcc, {whole, c, part}) : whole * c + part) * tensor::expand(tensor::reshape(step, kept), out);
  for (UOp below : {h, l, largest}) keep_in_kernel(y, below);
  act_as_contraction(y);
  share_loops({y, h, l});
  return y;
}

}  // namespace tg
