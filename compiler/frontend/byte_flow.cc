#include "frontend/byte_flow.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "frontend/pool.h"
#include "frontend/quant.h"

namespace tg {
namespace {

constexpr int kDeepest = 200;                  // operators between a value and the bytes that it is made of
constexpr i64 kMostSummed = (i64(1) << 31) / 256;  // bytes in an i32

// What a u8 stands for: (q - zero) * scale, in f32.
struct Scale {
  f32 scale = 1;
  i64 zero = 0;
  bool operator==(const Scale&) const = default;
  f32 number(i64 byte) const { return f32(byte - zero) * scale; }
  i64 byte(f32 v) const { return i64(std::clamp(std::nearbyint(v / scale) + f32(zero), 0.f, 255.f)); }
};

// The product with this is what `from` stands for, divided by the scale of `to`: for all bytes the number that rounds alike. 0: there is none.
f32 exact_factor(const Scale& from, const Scale& to) {
  f32 f = from.scale / to.scale;
  for (i64 b = 0; b < 256; b++)
    if (std::nearbyint(f32(b - from.zero) * f) != std::nearbyint(from.number(b) / to.scale)) return 0;
  return f;
}

class Flow {
 public:
  explicit Flow(const Scale* to) : to_(to) {}

  struct Bytes {
    UOp u8;  // null: x is not made of bytes alone
    Scale scale;
  };
  Bytes of(UOp u, int depth = 0) {
    if (auto it = known_.find(u.id()); it != known_.end()) return it->second;
    Bytes b = depth < kDeepest ? made(u, depth + 1) : Bytes{};
    return known_[u.id()] = b;
  }
  Bytes finished(const Bytes& b) const {
    if (!b.u8 || !to_ || b.scale == *to_) return b;
    Tensor x = (Tensor(b.u8).cast(Kind::I32) - f64(b.scale.zero)).cast(Kind::F32);
    f32 factor = exact_factor(b.scale, *to_);
    Tensor r = factor != 0 ? x * f64(factor) : x * f64(b.scale.scale) / f64(to_->scale);
    return {(r.round() + f64(to_->zero)).cast(Kind::U8).uop(), *to_};
  }

 private:
  Bytes made(UOp u, int depth) {
    if (u.dtype() != DType(Kind::F32)) return {};
    switch (u.op()) {
      case Op::Mul: return leaf(u);
      case Op::Reshape: case Op::Expand: case Op::Shrink: case Op::Permute: case Op::Flip: case Op::Window: case Op::Gather:
        return over(u, of(u.src(0), depth));
      case Op::Pad: return joined(u, {u.src(0), u.src(3)}, {0, 3}, depth);
      case Op::Concat: {
        std::vector<size_t> at;
        for (size_t i = 0; i < u.nsrc(); i++) at.push_back(i);
        return joined(u, {u.src().begin(), u.src().end()}, at, depth);
      }
      case Op::Max: case Op::Min: return joined(u, {u.src(0), u.src(1)}, {0, 1}, depth);
      case Op::Where: return joined(u, {u.src(1), u.src(2)}, {1, 2}, depth);
      case Op::Reduce: {
        ReduceKind k = u.arg<ReduceArg>().kind;
        return k == ReduceKind::Max || k == ReduceKind::Min ? over(u, of(u.src(0), depth)) : Bytes{};
      }
      default: return {};
    }
  }

  static Bytes leaf(UOp u) {
    std::optional<Dequantized> d = dequantized(Tensor(u));
    if (!d || !same_shape(shape(d->q.uop()), shape(u))) return {};
    UOp s = splat(d->scale.uop()), z = d->zero ? splat(d->zero.uop()) : konst(Kind::I32, 0);
    if (!s || !z || !z.is_const() || !(s.as_float() > 0) || !std::isfinite(s.as_float())) return {};
    i64 zero = z.as_int() + (d->q.dtype().kind == Kind::I8 ? 128 : 0);
    if (zero < 0 || zero > 255) return {};
    return {as_u8(d->q).uop(), {f32(s.as_float()), zero}};
  }

  // u over bytes in place of its sources at `at`.
  static UOp over(UOp u, std::span<const UOp> bytes, const std::vector<size_t>& at) {
    std::vector<UOp> src(u.src().begin(), u.src().end());
    for (size_t i = 0; i < at.size(); i++) src[at[i]] = bytes[i];
    if (is_elementwise(u.op())) return alu(u.op(), src);
    if (u.is(Op::Reduce)) return tensor::reduce(src[0], u.arg<ReduceArg>().kind, u.arg<ReduceArg>().axes);
    if (u.in(Op::Permute | Op::Flip | Op::Window)) return node(u.op(), Kind::U8, src, u.arg_ints());
    if (u.is(Op::Concat)) return node(u.op(), Kind::U8, src, u.arg_int());
    return node(u.op(), Kind::U8, src);
  }
  static Bytes over(UOp u, const Bytes& b) {
    if (!b.u8) return {};
    UOp src[] = {b.u8};
    return {over(u, src, {0}), b.scale};
  }

  // Sources that meet: as they are if all have one scale, and constants are exact in it; else each is brought to the scale that is asked for.
  Bytes joined(UOp u, const std::vector<UOp>& sources, const std::vector<size_t>& at, int depth) {
    std::vector<Bytes> in;
    std::vector<UOp> constants;
    const Bytes* first = nullptr;
    in.reserve(sources.size());
    for (UOp s : sources) {
      constants.push_back(splat(s));
      in.push_back(constants.back() ? Bytes{} : of(s, depth));
      if (constants.back()) continue;
      if (!in.back().u8) return {};
      if (!first) first = &in.back();
    }
    if (!first) return {};
    Scale scale = first->scale;
    bool same = true;
    for (size_t i = 0; i < in.size(); i++) {
      if (!constants[i]) {
        same &= in[i].scale == scale;
        continue;
      }
      f32 c = f32(constants[i].as_float());
      if (std::isnan(c)) return {};
      same &= scale.number(scale.byte(c)) == c || (to_ && *to_ == scale);
    }
    if (!same && !to_) return {};
    if (!same) scale = *to_;
    std::vector<UOp> bytes;
    for (size_t i = 0; i < in.size(); i++) {
      if (!constants[i]) {
        bytes.push_back(same ? in[i].u8 : finished(in[i]).u8);
        continue;
      }
      UOp c = konst(Kind::U8, scale.byte(f32(constants[i].as_float())));
      bool bare = sources[i].is_const();  // stands for any shape
      bytes.push_back(bare ? c : full(shape(sources[i]), c));
    }
    return {over(u, bytes, at), scale};
  }

  const Scale* to_;
  std::map<u32, Bytes> known_;
};

}  // namespace

Tensor as_u8(const Tensor& x) {
  if (x.dtype().kind == Kind::U8) return x;
  Tensor turn = Tensor::integer(Kind::U8, 128);
  UOp u = x.uop();
  // Made that way just before: taken back.
  if (u.is(Op::Bitcast) && u.src(0).dtype().kind == Kind::U8) {
    UOp v = u.src(0);
    if (v.is(Op::Xor) && splat(v.src(1)) && (splat(v.src(1)).as_int() & 255) == 128) return v.src(0);
  }
  return x.bitcast(Kind::U8).binary(Op::Xor, turn);
}

Tensor as_i8(const Tensor& u8) { return u8.binary(Op::Xor, Tensor::integer(Kind::U8, 128)).bitcast(Kind::I8); }

std::optional<Dequantized> dequantized_below(const Tensor& x) {
  if (std::optional<Dequantized> d = dequantized(x)) return d;
  Flow::Bytes b = Flow(nullptr).of(x.uop());
  if (!b.u8) return {};
  Tensor zero = b.scale.zero ? Tensor::scalar(Kind::I32, f64(b.scale.zero)) : Tensor(), q(b.u8);
  return Dequantized{q, zero, Tensor::scalar(Kind::F32, b.scale.scale), centred(q, zero).cast(Kind::F32)};
}

Tensor requantized(const Tensor& x, f64 scale, i64 zero, Kind q) {
  bool i8 = q == Kind::I8;
  Scale to{f32(scale), zero + (i8 ? 128 : 0)};
  Flow flow(&to);
  Flow::Bytes b = flow.finished(flow.of(x.uop()));
  if (!b.u8) return {};
  return i8 ? as_i8(Tensor(b.u8)) : Tensor(b.u8);
}

namespace {
// The sum of bytes less their zero point, and the scale behind it; null if x is something else.
struct Summed {
  Tensor sum;  // f32, of whole numbers
  f64 scale = 1, count = 1;
};
std::optional<Summed> summed(const Tensor& x, const Ints& axes, bool keepdims) {
  i64 n = 1;
  for (i64 a : axes) n = x.dim(a).is_const() && n < kMostSummed ? n * x.size(a) : kMostSummed;
  if (n >= kMostSummed) return {};
  std::optional<Dequantized> d = dequantized_below(x);
  UOp scale = d ? splat(d->scale.uop()) : UOp();
  if (!scale || (d->zero && d->zero.rank()) || made_of_constants(x)) return {};
  Tensor sum = d->q.cast(Kind::I32).reduce(ReduceKind::Add, axes, keepdims);
  if (d->zero) sum = sum - d->zero * f64(n);
  return Summed{sum.cast(Kind::F32), scale.as_float(), f64(n)};
}
}  // namespace

Tensor sum_of(const Tensor& x, const Ints& axes, bool keepdims) {
  if (std::optional<Summed> s = summed(x, axes, keepdims)) return s->sum * s->scale;
  return x.reduce(ReduceKind::Add, axes, keepdims);
}

Tensor mean_of(const Tensor& x, const Ints& axes, bool keepdims) {
  if (std::optional<Summed> s = summed(x, axes, keepdims)) return s->sum * (s->scale / s->count);
  return x.mean(axes, keepdims);
}

}  // namespace tg
