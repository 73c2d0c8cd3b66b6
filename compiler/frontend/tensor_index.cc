// Reading and writing by index, and the search for the place of an extremum.
#include <algorithm>

#include "frontend/dequantized.h"
#include "frontend/size_list.h"
#include "frontend/pool.h"
#include "frontend/tensor.h"

namespace tg {
namespace {

// 0 <= result < n as an index dtype: negative ones count from the end; constants out of range are an Error, others are clamped.
Tensor normal_index(const Tensor& i, UOp n) {
  if (!is_int(i.dtype())) fail("an index must be an integer, not ", name(i.dtype()));
  if (i.uop().is(Op::Iota) && i.shape()[0] == n) return i.cast(Kind::Index);
  if (const Values* v = Pool::current().value(i.uop()); v && n.is_const()) {
    bool negative = false;
    for (u64 x : v->v) {
      if (i64(x) < -n.as_int() || i64(x) >= n.as_int()) fail("index ", i64(x), " is out of range for an axis of ", n.as_int());
      negative |= i64(x) < 0;
    }
    return negative ? where(i.lt(i.like(0)), i + Tensor(cast(n, i.dtype())), i).cast(Kind::Index) : i.cast(Kind::Index);
  }
  Tensor x = is_uint(i.dtype()) || bits(i.dtype()) < 32 ? i.cast(Kind::I64) : i;
  Tensor size = cast(n, x.dtype());
  if (!is_uint(i.dtype())) x = where(x.lt(x.like(0)), x + size, x);
  return x.clip(x.like(0), size - 1.0).cast(Kind::Index);
}

}  // namespace

// Arithmetic on a large table of constants is done on what is read of it.
static UOp read_table(UOp x, const std::vector<UOp>& index) {
  constexpr i64 kLarge = i64(1) << 18;
  const Shape& out = shape(index[0]);
  i64 n = known_elems(out), all = known_elems(shape(x));
  if (!is_elementwise(x.op()) || all < kLarge || n < 0 || n >= all || !made_of_constants(Tensor(x))) return tensor::gather(x, index);
  std::vector<UOp> src;
  for (UOp s : x.src()) {
    UOp c = splat(s);
    src.push_back(rank(s) == 0 ? s : c ? tg::full(out, c) : read_table(s, index));
  }
  return with_src(x, src);
}

Tensor Tensor::gather(std::span<const Tensor> indices) const {
  TG_CHECK(i64(indices.size()) == rank(), "an index per axis");
  // Axes before the first present index and after the last keep their place around the indices' shape.
  i64 lo = 0, hi = rank();
  while (lo < rank() && !indices[lo]) lo++;
  while (hi > lo && !indices[hi - 1]) hi--;
  if (lo == hi) return *this;
  std::vector<const Shape*> shapes;
  for (i64 a = lo; a < hi; a++) {
    TG_CHECK(indices[a], "the present indices of a gather are one run");
    shapes.push_back(&indices[a].shape());
  }
  Shape mid = broadcast(shapes), out(shape().begin(), shape().begin() + lo);
  out.insert(out.end(), mid.begin(), mid.end());
  out.insert(out.end(), shape().begin() + hi, shape().end());
  for (i64 a = lo; a < hi; a++)
    if (shape()[a].is_const(0) && !elems(mid).is_const(0)) fail("gather from an empty axis ", a);
  TG_CHECK(!out.empty() || !mid.size(), "shape of a gather");
  if (UOp c = splat(u_)) return tg::full(out, c);
  std::vector<UOp> index;
  i64 after = i64(out.size()) - rank() + hi;  // where the axes after the indices begin
  for (i64 a = 0; a < rank(); a++) {
    Tensor i = a >= lo && a < hi ? normal_index(indices[a], shape()[a]) : Tensor(tensor::iota(shape()[a]));
    i64 at = a < lo ? a : a < hi ? after - i.rank() : after + a - hi;
    Shape s(out.size(), idx(1));
    for (i64 d = 0; d < i.rank(); d++) s[at + d] = i.shape()[d];
    index.push_back(i.reshape(s).expand(out).uop());
  }
  return read_table(u_, index);
}

Tensor Tensor::take(i64 a, const Tensor& index) const {
  std::vector<Tensor> all(rank());
  a = axis(a);
  // A single index that is known, if only as an expression of sizes, is a slice.
  if (const std::vector<UOp>* v = tg::is_int(index.dtype()) ? size_list(index.uop()) : nullptr; v && v->size() == 1) {
    UOp n = shape()[a], i = (*v)[0];
    if (always_lt(i, -n) || always_le(n, i)) fail("index ", i.str(), " is out of range for an axis of ", n.str());
    i = normal_dim(tg::where(tg::lt(i, idx(0)), i + n, i));
    if (size_bounds(i).lo >= 0 && always_lt(i, n)) {
      Shape s(shape().begin(), shape().begin() + a);
      s.insert(s.end(), index.shape().begin(), index.shape().end());
      s.insert(s.end(), shape().begin() + a + 1, shape().end());
      return shrink(a, i, idx(1)).reshape(s);
    }
  }
  all[a] = index;
  return gather(all);
}

Tensor Tensor::take_along(i64 a, const Tensor& index) const {
  if (index.rank() != rank()) fail("an index of rank ", index.rank(), " for a tensor of rank ", rank());
  a = axis(a);
  std::vector<UOp> all;
  const Shape& out = index.shape();
  for (i64 i = 0; i < rank(); i++) {
    if (i != a && out[i].is_const() && shape()[i].is_const() && out[i].as_int() > shape()[i].as_int())
      fail("an index of shape ", shape_text(out), " reaches outside ", shape_text(shape()));
    Tensor x = i == a ? normal_index(index, shape()[i]) : Tensor(tensor::iota(out[i]));
    if (i != a) {
      Shape s(rank(), idx(1));
      s[i] = out[i];
      x = x.reshape(s);
    }
    all.push_back(x.expand(out).uop());
  }
  if (UOp c = splat(u_)) return tg::full(out, c);
  return tensor::gather(u_, all);
}

Tensor Tensor::scatter(std::span<const Tensor> indices, const Tensor& updates, ScatterKind k) const {
  TG_CHECK(i64(indices.size()) == rank(), "an index per axis");
  if (updates.dtype() != dtype()) fail("updates are ", name(updates.dtype()), ", the data is ", name(dtype()));
  std::vector<UOp> all;
  for (i64 a = 0; a < rank(); a++) all.push_back(normal_index(indices[a], shape()[a]).expand(updates.shape()).uop());
  return tensor::scatter(u_, updates.uop(), all, k);
}

namespace {
std::pair<Tensor, Tensor> arg_extremum(const Tensor& x, i64 axis, bool last, bool max) {
  i64 number = Pool::current().next_fold();
  DType d = x.dtype();
  Tensor position = Tensor(tensor::iota(x.shape()[axis], Kind::I64));
  Shape s(x.rank(), idx(1));
  s[axis] = x.shape()[axis];
  position = position.reshape(s).expand(x.shape());
  auto ph = [&](PlaceholderArg::Role r, i64 i, DType t) { return tensor::placeholder({r, i, number}, t); };
  // a beats b: larger (or NaN where b is none); of equals the first, or the last.
  auto beats = [&](UOp a, UOp ia, UOp b, UOp ib) {
    UOp better = max ? lt(b, a) : lt(a, b), equal = eq(a, b);
    if (is_float(d)) {
      UOp nan_a = ne(a, a), nan_b = ne(b, b);
      better = better | (nan_a & logical_not(nan_b));
      equal = equal | (nan_a & nan_b);
    }
    return better | (equal & (last ? lt(ib, ia) : lt(ia, ib)));
  };
  UOp worst = identity(max ? ReduceKind::Max : ReduceKind::Min, d);
  // The index of "nothing yet" loses to every real one among equals.
  UOp none = konst(Kind::I64, last ? -1 : int_max(Kind::I64));
  UOp v = ph(PlaceholderArg::Input, 0, d), i = ph(PlaceholderArg::Input, 1, Kind::I64);
  UOp sv = ph(PlaceholderArg::State, 0, d), si = ph(PlaceholderArg::State, 1, Kind::I64);
  UOp av = ph(PlaceholderArg::Side0, 0, d), ai = ph(PlaceholderArg::Side0, 1, Kind::I64);
  UOp bv = ph(PlaceholderArg::Side1, 0, d), bi = ph(PlaceholderArg::Side1, 1, Kind::I64);
  UOp step = beats(v, i, sv, si), merge = beats(av, ai, bv, bi);
  UOp inputs[] = {x.uop(), position.uop()}, inits[] = {worst, none};
  UOp steps[] = {where(step, v, sv), where(step, i, si)}, merges[] = {where(merge, av, bv), where(merge, ai, bi)};
  UOp f = tensor::fold(inputs, inits, steps, merges, {axis});
  return {tensor::get(f, 1), tensor::get(f, 0)};
}
}  // namespace

std::pair<Tensor, Tensor> Tensor::argmax(i64 a, bool last) const { return arg_extremum(*this, axis(a), last, true); }
std::pair<Tensor, Tensor> Tensor::argmin(i64 a, bool last) const { return arg_extremum(*this, axis(a), last, false); }

}  // namespace tg
