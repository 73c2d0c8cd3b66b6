#include "frontend/dequantized.h"

#include <cmath>

#include "frontend/byte_flow.h"
#include "frontend/pool.h"
#include "frontend/quant.h"

namespace tg {
namespace {

constexpr i64 kMostTerms = 60000;  // of 255 * 127 in an i32

bool is_byte(UOp u) { return u.dtype().kind == Kind::U8 || u.dtype().kind == Kind::I8; }

UOp bytes_below(UOp u) { return u.is(Op::Cast) && is_byte(u.src(0)) && is_int(u.dtype()) ? u.src(0) : u; }

// A parameter before it was repeated: a number, or dims of 1 where it repeats.
UOp narrow(UOp u) {
  if (UOp c = splat(u)) return c;
  while (u.is(Op::Expand)) u = u.src(0);
  if (known_elems(shape(u)) == 1) return tensor::reshape(u, Shape{});
  return u;
}
// 1 along the axis, counted from the end; numbers are.
bool repeats(const Tensor& p, i64 axis) { return !p || p.rank() == 0 || (p.rank() >= axis && p.dim(-axis).is_const(1)); }
bool number(const Tensor& p) { return !p || p.rank() == 0; }

// (M, 1, 1..) of weights to (1, M, 1..) of what they make; nothing if it is another shape.
std::optional<Tensor> of_channels(const Tensor& p, i64 rank) {
  if (!p || p.rank() == 0) return p;
  if (p.rank() != rank) return {};
  for (i64 i = 1; i < rank; i++)
    if (!p.dim(i).is_const(1)) return {};
  return channel_parameter(p.reshape(Shape{p.dim(0)}), rank);
}

// A bias that is whole multiples of the sums' scale, as quantizers store it: as those, in i32. Null if it is something else.
Tensor whole_steps(const Tensor& bias, const Tensor& factor, i64 terms) {
  const i64 kMost = (i64(1) << 31) - 1 - terms * 255 * 128;
  Tensor f = factor.rank() ? factor.flatten() : factor;
  const Values *b = Pool::current().value(bias.uop()), *s = Pool::current().value(f.uop());
  if (!b || !s || bias.rank() != 1) return {};
  Ints steps;
  for (i64 i = 0; i < b->elems(); i++) {
    f32 scale = f32(s->number(s->elems() == 1 ? 0 : i)), n = std::nearbyint(f32(b->number(i)) / scale);
    if (!(std::abs(n) <= f32(kMost)) || n * scale != f32(b->number(i))) return {};
    steps.push_back(i64(n));
  }
  return Tensor::of_ints(Kind::I32, Ints{i64(steps.size())}, steps);
}

// q - zero in f32, of one CONSTANT of bytes if its numbers fit.
Tensor numbers(const Dequantized& d) {
  UOp q = d.q.uop();
  if (!q.is(Op::Permute)) {
    Tensor i8 = centred_i8(d.q, d.zero);
    return i8 ? i8.cast(Kind::F32) : d.centred;
  }
  Ints order(q.arg_ints().begin(), q.arg_ints().end()), back(order.size());
  for (size_t i = 0; i < order.size(); i++) back[size_t(order[i])] = i64(i);
  Tensor i8 = centred_i8(Tensor(q.src(0)), d.zero && d.zero.rank() ? d.zero.permute(back) : d.zero);
  return i8 ? i8.permute(order).cast(Kind::F32) : d.centred;
}

}  // namespace

bool made_of_constants(const Tensor& x) {
  for (UOp u : toposort(x.uop()))
    if (u.in(Op::Param | Op::Var | Op::Carry | Op::Step)) return false;
  return true;
}

std::optional<Dequantized> dequantized(const Tensor& x) {
  UOp u = x.uop();
  if (u.is(Op::Permute)) {
    std::optional<Dequantized> d = dequantized(Tensor(u.src(0)));
    if (!d) return {};
    for (Tensor* t : {&d->q, &d->zero, &d->scale, &d->centred})
      if (*t && t->rank()) *t = t->permute(u.arg_ints());
    return d;
  }
  if (!u.is(Op::Mul) || u.dtype() != DType(Kind::F32)) return {};
  for (int side = 0; side < 2; side++) {
    UOp v = u.src(size_t(side)), scale = u.src(size_t(1 - side));
    if (!v.is(Op::Cast)) continue;
    UOp e = bytes_below(v.src(0));
    if (is_byte(e)) return Dequantized{Tensor(e), {}, Tensor(narrow(scale)), Tensor(v)};
    if (!e.is(Op::Sub) || e.dtype() != DType(Kind::I32) || !is_byte(bytes_below(e.src(0)))) continue;
    return Dequantized{Tensor(bytes_below(e.src(0))), Tensor(narrow(e.src(1))), Tensor(narrow(scale)), Tensor(v)};
  }
  return {};
}

Tensor float_matmul(const Tensor& a, const Tensor& b) {
  if (a.rank() < 2 || b.rank() < 2) return a.matmul(b);
  std::optional<Dequantized> x = dequantized_below(a), y = dequantized_below(b);
  if (x && !repeats(x->scale, 1)) x.reset();
  if (y && !repeats(y->scale, 2)) y.reset();
  UOp k = a.dim(-1);
  bool exact = k.is_const() && k.as_int() <= kMostTerms;
  if (x && y && exact && repeats(x->zero, 1) && repeats(y->zero, 2) && made_of_constants(a) != made_of_constants(b))
    return integer_matmul(x->q, x->zero, y->q, y->zero).cast(Kind::F32) * (x->scale * y->scale);
  if (y && made_of_constants(b)) return a.matmul(numbers(*y)) * y->scale;
  if (x && made_of_constants(a)) return numbers(*x).matmul(b) * x->scale;
  return a.matmul(b);
}

Tensor float_conv(const Tensor& x, const Tensor& w, const Tensor& bias, const ConvArgs& args) {
  std::optional<Dequantized> a = dequantized_below(x), b = dequantized_below(w);
  if (!b || !made_of_constants(w)) return x.conv(w, bias, args);
  i64 rank = x.rank(), terms = 1;
  for (i64 i = 1; i < w.rank(); i++) terms *= w.size(i);
  std::optional<Tensor> scale = of_channels(b->scale, rank);
  if (!scale) return x.conv(w, bias, args);
  Tensor y, left = bias;
  if (a && number(a->scale) && number(a->zero) && terms <= kMostTerms && !made_of_constants(x) && of_channels(b->zero, rank)) {
    Tensor factor = a->scale * *scale, whole = bias ? whole_steps(bias, factor, terms) : Tensor();
    if (whole) left = {};
    y = integer_conv(a->q, a->zero, b->q, b->zero, whole, args).cast(Kind::F32) * factor;
  } else {
    bool single = true;  // a matrix: it may stay bytes
    for (i64 i = 2; i < w.rank(); i++) single &= w.dim(i).is_const(1);
    y = x.conv(single ? numbers(*b) : b->centred, {}, args) * *scale;
  }
  return left ? y + channel_parameter(left, rank) : y;
}

}  // namespace tg
