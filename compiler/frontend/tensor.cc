// Elementwise ops, movement, reductions and products. Indexing is in tensor_index.cc, the making of constants in pool.cc.
#include "frontend/tensor.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "frontend/default_float.h"
#include "frontend/size_list.h"
#include "frontend/pool.h"
#include "ir/eval_scalar.h"
#include "rules/symbolic.h"

namespace tg {
namespace {

std::string text(const Tensor& t) { return str(name(t.dtype()), shape_text(t.shape())); }

Shape without(const Shape& s, const Ints& axes) {
  Shape r;
  for (size_t i = 0; i < s.size(); i++)
    if (!std::binary_search(axes.begin(), axes.end(), i64(i))) r.push_back(s[i]);
  return r;
}

}  // namespace

i64 constant_dim(UOp d) {
  if (!d.is_const())
    fail("dimension ", d.is(Op::Var) ? std::string(d.arg_str()) : d.str(),
         " is variable, but must be fixed here; give it a size with --shape");
  return d.as_int();
}

namespace {
// Variables that are multiples of m as m times a variable, so that x and x/m are seen to have a factor in common; and the way back.
struct Units {
  std::vector<std::pair<UOp, UOp>> to, from;
  Units(UOp a, UOp b) {
    UOp both[] = {a, b};
    for (UOp v : toposort(both)) {
      if (!v.is(Op::Var) || v.src(2).is_const(1)) continue;
      i64 m = v.src(2).as_int();
      UOp unit = var(str(v.arg_str(), "/", m), v.src(0).as_int() / m, v.src(1).as_int() / m);
      to.push_back({v / m, unit}), to.push_back({v, unit * m}), from.push_back({unit, v / m});
    }
  }
};
}  // namespace

std::optional<UOp> whole_quotient(UOp n, UOp d) {
  n = normal_dim(n), d = normal_dim(d);
  if (n.is_const(0)) return n;
  if (Units units(n, d); !units.to.empty()) {
    auto q = whole_quotient(substitute(n, units.to), substitute(d, units.to));
    return q ? std::optional(normal_dim(substitute(*q, units.from))) : q;
  }
  // Factor by factor where d is a product, so that sizes that may be 0 cancel too.
  Sum s = sum_of(n), by = sum_of(d), q;
  if (d.is_const()) by.terms.clear(), by.c = d.as_int();
  bool ok = by.terms.size() + (by.c != 0) == 1;
  if (ok && by.c) {
    if (auto e = divide_exact(n, by.c)) return normal_dim(*e);
  } else if (ok) {
    std::vector<UOp> fd = factors(by.terms[0].x);
    ok = s.c == 0;
    for (const Term& t : s.terms) {
      std::vector<UOp> f = factors(t.x), left;
      std::set_difference(f.begin(), f.end(), fd.begin(), fd.end(), std::back_inserter(left), structural_less);
      ok = ok && t.a % by.terms[0].a == 0 && left.size() + fd.size() == f.size();
      if (!ok) break;
      if (left.empty()) q.c += t.a / by.terms[0].a;
      else q.add(sum_of(product(left)), t.a / by.terms[0].a);
    }
    if (ok) return normal_dim(q.uop());
  }
  if (size_bounds(d).lo <= 0 || !simplify(n % d).is_const(0)) return {};
  return normal_dim(n / d);
}

Shape broadcast(std::span<const Shape* const> shapes) {
  size_t rank = 0;
  for (const Shape* s : shapes) rank = std::max(rank, s->size());
  Shape r(rank, idx(1));
  for (const Shape* s : shapes)
    for (size_t i = 0; i < s->size(); i++) {
      UOp& d = r[rank - s->size() + i];
      UOp e = (*s)[i];
      if (e.is_const(1) || e == d) continue;
      if (!d.is_const(1))
        fail("shapes ", join(shapes, " and ", [](const Shape* x) { return shape_text(*x); }), " do not broadcast",
             d.is_const() && e.is_const() ? "" : str(": ", shape_text({d}), " and ", shape_text({e}), " are not the same for all sizes"));
      d = e;
    }
  return r;
}

// --- facts ------------------------------------------------------------------------------------------------------------------------------
i64 Tensor::axis(i64 a) const {
  if (a < -rank() || a >= rank()) fail("axis ", a, " is out of range for ", text(*this));
  return a < 0 ? a + rank() : a;
}
Ints Tensor::axes(IntSpan a) const {
  Ints r;
  for (i64 x : a) r.push_back(axis(x));
  std::sort(r.begin(), r.end());
  if (auto twice = std::adjacent_find(r.begin(), r.end()); twice != r.end()) fail("axis ", *twice, " is given twice");
  return r;
}
Ints Tensor::all_axes() const {
  Ints r(rank());
  std::iota(r.begin(), r.end(), 0);
  return r;
}
i64 Tensor::size(i64 a) const { return constant_dim(dim(a)); }
Ints Tensor::sizes() const {
  Ints r;
  for (UOp d : shape()) r.push_back(constant_dim(d));
  return r;
}
i64 Tensor::numel() const {
  i64 n = 1;
  for (i64 d : sizes()) n *= d;
  return n;
}

// --- making -----------------------------------------------------------------------------------------------------------------------------
Tensor Tensor::scalar(DType d, f64 v) {
  if (tg::is_float(d)) return konst_f(d, v);
  if (!(v == std::trunc(v) && std::abs(v) < 9e15)) fail(v, " is no ", name(d));
  return konst(d, i64(v));
}
Tensor Tensor::integer(DType d, i64 v) { return konst(d, v); }
Tensor Tensor::full(const Shape& s, DType d, f64 v) { return tg::full(s, scalar(d, v).uop()); }
Tensor Tensor::full(const Shape& s, UOp c) { return tg::full(s, c); }
Tensor Tensor::sizes_as_ints(std::span<const UOp> v) {
  return of_elements(Kind::I64, Ints{i64(v.size())}, std::vector<UOp>(v.begin(), v.end()));
}
Tensor Tensor::arange(UOp n, DType d) { return tensor::iota(n, d); }
void check_table(i64 a, i64 b) {
  constexpr i64 kMost = 1 << 24;
  i64 n;
  if (a < 0 || b < 0 || __builtin_mul_overflow(a, b, &n) || n > kMost) fail("this needs a table of ", a, " x ", b, " elements; at most ", kMost, " are allowed");
}

Tensor Tensor::of(DType d, IntSpan sizes, std::span<const f64> v) {
  Values x{d, Ints(sizes.begin(), sizes.end()), {}};
  for (f64 e : v)
    x.v.push_back(tg::is_float(d) ? std::bit_cast<u64>(is_storage(d.kind) ? e : round_float(d.kind, e)) : u64(wrap_int(d.kind, i64(e))));
  return Pool::current().add(x);
}
Tensor Tensor::of_ints(DType d, IntSpan sizes, IntSpan v) {
  Values x{d, Ints(sizes.begin(), sizes.end()), {}};
  for (i64 e : v) x.v.push_back(tg::is_float(d) ? std::bit_cast<u64>(f64(e)) : u64(wrap_int(d.kind, e)));
  return Pool::current().add(x);
}

// --- elementwise ------------------------------------------------------------------------------------------------------------------------
Tensor Tensor::elementwise(Op op, std::initializer_list<Tensor> src) {
  UOp s[3];
  const Shape* shapes[3];
  size_t n = 0;
  for (const Tensor& t : src) {
    shapes[n] = &t.shape();
    s[n++] = t.uop();
  }
  DType d = s[op == Op::Where ? 1 : 0].dtype();
  if (n > 1 && s[n - 1].dtype() != d) fail("dtypes ", name(d), " and ", name(s[n - 1].dtype()), " differ");
  if (op == Op::Where && s[0].dtype() != DType(Kind::Bool)) fail("the condition is ", name(s[0].dtype()), ", not bool");
  if (is_storage(d.kind) && op != Op::Where) fail(info(op).name, " is not defined on ", name(d));
  const Shape out = broadcast(std::span(shapes, n));
  for (size_t i = 0; i < n; i++) {
    if (UOp c = splat(s[i]))
      s[i] = c;
    else if (tg::rank(s[i]) == 0 && (is_uniform(s[i]) || (s[i].is(Op::Cast) && is_uniform(s[i].src(0)))))
      continue;  // a size as a number: the same for every element, like a constant
    else
      s[i] = tensor::broadcast_to(s[i], out);
  }
  UOp r = alu(op, std::span<const UOp>(s, n));
  return same_shape(tg::shape(r), out) ? r : tensor::broadcast_to(r, out);  // constants only, or folded to one
}

Tensor where(const Tensor& c, const Tensor& a, const Tensor& b) { return Tensor::elementwise(Op::Where, {c, a, b}); }

Tensor Tensor::leaky_relu(f64 alpha) const { return where(lt(like(0)), *this * alpha, *this); }
// What is made of several operations is computed in f32 for halves and rounded once.
Tensor Tensor::sigmoid() const { return (1.0 / (1.0 + widen().neg().exp())).cast(dtype()); }
// max(x, 0) + log(1 + exp(-|x|)): exp never overflows.
Tensor Tensor::softplus() const {
  Tensor x = widen();
  return (x.relu() + (1.0 + x.abs().neg().exp()).log()).cast(dtype());
}
Tensor Tensor::gelu(bool tanh_form) const {
  if (is_half()) return widen().gelu(tanh_form).cast(dtype());
  if (tanh_form) {
    Tensor inner = (*this + square() * *this * 0.044715) * std::sqrt(2 / std::numbers::pi);
    return *this * 0.5 * (1.0 + inner.tanh());
  }
  return *this * 0.5 * (1.0 + (*this * std::sqrt(0.5)).erf());
}
Tensor Tensor::silu() const { return (widen() * widen().sigmoid()).cast(dtype()); }
Tensor Tensor::hard_sigmoid(f64 alpha, f64 beta) const {
  Tensor x = widen();
  return (x * alpha + beta).max(x.like(0)).min(x.like(1)).cast(dtype());
}
Tensor Tensor::clip(const Tensor& lo, const Tensor& hi) const {
  Tensor r = *this;
  if (lo) r = r.max(lo);
  if (hi) r = r.min(hi);
  return r;
}
Tensor Tensor::floor_div(const Tensor& b) const { return is_float() ? (*this / b).floor() : binary(Op::FloorDiv, b); }
Tensor Tensor::floor_mod(const Tensor& b) const {
  if (!is_float()) return binary(Op::FloorMod, b);
  Tensor r = rem(b);  // the remainder's sign is the dividend's: one more b where the signs differ
  Tensor differs = r.ne(r.like(0)) & (r.lt(r.like(0)) ^ b.lt(b.like(0)));
  return where(differs, r + b, r);
}
Tensor Tensor::cast(DType d) const {
  if (UOp c = splat(u_)) return tg::full(shape(), konst_bits(d, eval_cast(d.kind, c.dtype().kind, c.arg_bits())));
  return tg::cast(u_, d);
}
Tensor Tensor::bitcast(DType d) const {
  if (bits(dtype()) != bits(d)) fail("a bit cast of ", name(dtype()), " to ", name(d), " changes the size");
  return tg::bitcast(u_, d);
}

// --- movement ---------------------------------------------------------------------------------------------------------------------------
// A splat stays a splat: its shape changes and nothing moves.
#define TG_SPLAT(new_shape) \
  if (UOp c = splat(u_)) return tg::full(new_shape, c)

Tensor Tensor::reshape(const Shape& s) const {
  UOp a = elems(shape()), b = elems(s);
  if (a != b)
    fail("cannot reshape ", text(*this), " to ", shape_text(s),
         a.is_const() && b.is_const() ? "" : ": not the same number of elements for all sizes");
  TG_SPLAT(s);
  return tensor::reshape(u_, s);
}
Tensor Tensor::reshape(const Ints& s) const {
  Shape d = dims(IntSpan(s));
  auto rest = std::find(s.begin(), s.end(), -1);
  if (rest == s.end()) return reshape(d);
  if (std::count(s.begin(), s.end(), -1) > 1) fail("reshape to ", join(s), ": more than one -1");
  return reshape(d, rest - s.begin());
}
Tensor Tensor::reshape(Shape s, i64 rest) const {
  s[size_t(rest)] = idx(1);
  UOp n = elems(shape()), others = elems(s);
  s[size_t(rest)] = idx(-1);  // as messages show it
  if (others.is_const(0)) fail("reshape of ", text(*this), " to ", shape_text(s), ": -1 beside a dimension of 0");
  auto q = whole_quotient(n, others);
  if (!q)
    fail("cannot reshape ", text(*this), " to ", shape_text(s),
         n.is_const() && others.is_const() ? "" : str(": ", n.str(), " elements are not a multiple of ", others.str(), " for all sizes; give the size a multiple, --var NAME=MIN..MAX:MULTIPLE"));
  s[size_t(rest)] = *q;
  return reshape(s);
}
Tensor Tensor::flatten(i64 from, i64 to) const {
  from = axis(from), to = axis(to);
  Shape s(shape().begin(), shape().begin() + from);
  s.push_back(elems(Shape(shape().begin() + from, shape().begin() + to + 1)));
  s.insert(s.end(), shape().begin() + to + 1, shape().end());
  return reshape(s);
}
Tensor Tensor::permute(IntSpan order) const {
  Ints o;
  for (i64 a : order) o.push_back(axis(a));
  Ints sorted = o;
  std::sort(sorted.begin(), sorted.end());
  if (sorted != all_axes()) fail("(", join(o), ") is no permutation of the axes of ", text(*this));
  Shape s;
  for (i64 a : o) s.push_back(shape()[a]);
  TG_SPLAT(s);
  return tensor::permute(u_, o);
}
Tensor Tensor::transpose(i64 a, i64 b) const {
  Ints o = all_axes();
  std::swap(o[axis(a)], o[axis(b)]);
  return permute(o);
}
Tensor Tensor::expand(const Shape& s) const {
  const Shape* both[] = {&shape(), &s};
  if (!same_shape(broadcast(both), s)) fail(text(*this), " does not broadcast to ", shape_text(s));
  TG_SPLAT(s);
  return tensor::broadcast_to(u_, s);
}
Tensor Tensor::unsqueeze(IntSpan axes) const {
  i64 r = rank() + i64(axes.size());
  std::vector<u8> added(r);
  for (i64 a : axes) {
    if (a < -r || a >= r) fail("axis ", a, " is out of range for a result of rank ", r);
    u8& at = added[a < 0 ? a + r : a];
    if (at) fail("axis ", a, " is given twice");
    at = 1;
  }
  Shape s;
  for (i64 i = 0, k = 0; i < r; i++) s.push_back(added[i] ? idx(1) : shape()[k++]);
  return reshape(s);
}
Tensor Tensor::squeeze(IntSpan a) const {
  Ints x = axes(a);
  for (i64 i : x)
    if (!shape()[i].is_const(1)) fail("axis ", i, " of ", text(*this), " is not 1 and cannot be squeezed");
  return reshape(without(shape(), x));
}
Tensor Tensor::flip(IntSpan a) const {
  if (splat(u_)) return *this;
  return tensor::flip(u_, axes(a));
}

Tensor Tensor::slice(i64 a, i64 begin, i64 end, i64 step) const { return slice(a, idx(begin), idx(end), step); }

// Numbers that models give as "to the end" are beyond any size.
static UOp below_limits(UOp v) {
  constexpr i64 most = i64(1) << 48;
  return v.is_const() ? idx(std::clamp(v.as_int(), -most, most)) : v;
}

Tensor Tensor::slice(i64 a, UOp begin, UOp end, i64 step) const {
  a = axis(a);
  if (step == 0) fail("a slice of step 0");
  UOp n = dim(a);
  auto clamp = [&](UOp v, UOp lo, UOp hi) {
    v = below_limits(v);
    return normal_dim(tg::min(tg::max(tg::where(tg::lt(v, idx(0)), v + n, v), lo), hi));
  };
  UOp b, e;
  if (step > 0) {
    b = clamp(begin, idx(0), n), e = normal_dim(tg::max(b, clamp(end, idx(0), n)));
  } else {  // elements b, b+step .. above e: of the flipped axis, n-1-b, n-1-b-step .. below n-1-e
    UOp last = n - 1;
    b = normal_dim(last - clamp(begin, idx(-1), last)), e = normal_dim(tg::max(b, last - clamp(end, idx(-1), last)));
  }
  UOp count = normal_dim(e - b);
  Tensor x = *this;
  if (step < 0) {
    if (step == std::numeric_limits<i64>::min()) step++;  // beyond any axis all the same
    x = count.is_const(0) ? x : x.flip(Ints{a});
    step = -step;
  }
  step = std::clamp<i64>(step, 1, std::max<i64>(1, size_bounds(count).hi));
  Shape sb(rank(), idx(0)), se = shape(), st(rank(), idx(1));
  sb[a] = b, se[a] = e, st[a] = idx(step);
  if (UOp c = splat(u_)) {
    Shape s = shape();
    s[a] = normal_dim((count + (step - 1)) / step);
    return tg::full(s, c);
  }
  return tensor::shrink(x.u_, sb, se, st);
}
Tensor Tensor::shrink(i64 a, UOp begin, UOp count) const {
  begin = normal_dim(begin), count = normal_dim(count);
  UOp end = normal_dim(begin + count);
  if (size_bounds(begin).lo < 0 || size_bounds(count).lo < 0 || (!(end == dim(a)) && !always_le(end, dim(a))))
    fail("elements ", begin.str(), "..", end.str(), " of axis ", a, " of ", text(*this),
         begin.is_const() && end.is_const() && dim(a).is_const() ? "" : " are not inside for all sizes");
  if (UOp c = splat(u_)) {
    Shape s = shape();
    s[axis(a)] = count;
    return tg::full(s, c);
  }
  return tensor::slice(u_, axis(a), begin, end);
}
Tensor padding_index(const Tensor& i, UOp n, PadMode mode) {
  switch (mode) {
    case PadMode::Edge: return i.clip(i.like(0), i.like(n - 1));
    case PadMode::Wrap: return i.floor_mod(i.like(n));
    case PadMode::Reflect: {  // a triangle wave of period 2(n-1)
      if (n.is_const(1)) return i * 0.0;
      // For a single element any period does: all comes to 0.
      UOp period = simplify(tg::max((n - 1) * 2, idx(1)));
      Tensor r = i.floor_mod(i.like(period));
      return r.min(i.like(period) - r);
    }
    default: return i;
  }
}

Tensor Tensor::pad(IntSpan begin, IntSpan end, f64 value) const { return pad(begin, end, PadMode::Constant, scalar(dtype(), value).uop()); }
Tensor Tensor::pad(IntSpan begin, IntSpan end, PadMode mode, UOp value) const { return pad(dims(begin), dims(end), mode, value); }

Tensor Tensor::pad(const Shape& begin, const Shape& end, PadMode mode, UOp value) const {
  if (i64(begin.size()) != rank() || i64(end.size()) != rank()) fail("padding of ", begin.size(), " axes for ", text(*this));
  Tensor x = *this;
  for (const Shape* s : {&begin, &end})
    for (UOp p : *s)
      if (size_bounds(p).hi > (i64(1) << 48) || size_bounds(p).lo < -(i64(1) << 48)) fail("padding of ", p.str(), " elements");
  for (i64 a = 0; a < rank(); a++)  // negative amounts cut
    if (size_bounds(begin[a]).lo < 0 || size_bounds(end[a]).lo < 0) {
      for (UOp p : {begin[a], end[a]})
        if (size_bounds(p).lo < 0 && size_bounds(p).hi > 0) fail("padding of ", p.str(), " of axis ", a, " of ", text(*this), " cuts for some sizes and adds for others");
      UOp n = dim(a), zero = idx(0), b = size_bounds(begin[a]).lo < 0 ? simplify(-begin[a]) : zero, e = size_bounds(end[a]).lo < 0 ? simplify(n + end[a]) : n;
      // What one side cuts beyond the other end comes off the other side's padding.
      if (!always_le(b, n) || size_bounds(e).lo < 0 || !always_le(b, e)) {
        UOp left = simplify(n + begin[a] + end[a]);
        if (size_bounds(left).lo < 0)
          fail("padding of ", begin[a].str(), " and ", end[a].str(), " leaves less than nothing of axis ", a, " of ", text(*this));
        if (mode != PadMode::Constant || !n.is_const() || !left.is_const())
          fail("padding of ", begin[a].str(), " and ", end[a].str(), " cuts more than axis ", a, " of ", text(*this), " has");
        Shape s = shape(), nb = begin, ne = end;
        s[a] = left;
        nb[a] = ne[a] = zero;
        return Tensor(tg::full(s, value)).pad(nb, ne, mode, value);
      }
      x = x.shrink(a, b, normal_dim(e - b));
    }
  Shape pb, pe;
  for (i64 a = 0; a < rank(); a++) pb.push_back(normal_dim(tg::max(begin[a], idx(0)))), pe.push_back(normal_dim(tg::max(end[a], idx(0))));
  if (mode == PadMode::Constant) {
    if (UOp c = splat(x.u_); c && c == value) {
      Shape s = x.shape();
      for (i64 a = 0; a < rank(); a++) s[a] = s[a] + (pb[a] + pe[a]);
      return tg::full(s, c);
    }
    return tensor::pad(x.u_, pb, pe, value);
  }
  for (i64 a = 0; a < rank(); a++) {
    if (pb[a].is_const(0) && pe[a].is_const(0)) continue;
    UOp n = x.dim(a);
    if (size_bounds(n).lo == 0) fail("axis ", a, " of ", text(*this), n.is_const() ? " is empty" : " may be empty", " and has nothing to pad with");
    Tensor i = arange(normal_dim(n + pb[a] + pe[a]), Kind::I64);
    i = padding_index(i - i.like(pb[a]), n, mode);
    x = x.take(a, i);
  }
  return x;
}

Tensor Tensor::window(const WindowArg& w) const {
  Shape s = shape();
  for (size_t i = 0; i < w.axes.size(); i++) {
    i64 reach = w.dilation[i] * (w.k[i] - 1) + 1;
    UOp& n = s[w.axes[i]];
    if (size_bounds(n).lo < reach) fail("a window of ", reach, " elements does not fit axis ", w.axes[i], " of ", text(*this), n.is_const() ? "" : " for all sizes; raise the smallest");
    n = (n - reach) / idx(w.stride[i]) + 1;
  }
  for (i64 k : w.k) s.push_back(idx(k));
  TG_SPLAT(s);
  return tensor::window(u_, w);
}

Tensor Tensor::concat(std::span<const Tensor> xs, i64 a) {
  if (xs.empty()) fail("concatenation of nothing");
  a = xs[0].axis(a);
  std::vector<UOp> us;
  UOp same = splat(xs[0].u_);
  for (const Tensor& x : xs) {
    bool ok = x.dtype() == xs[0].dtype() && x.rank() == xs[0].rank();
    bool fixed = true;
    for (i64 i = 0; ok && i < x.rank(); i++) {
      ok = i == a || x.shape()[i] == xs[0].shape()[i];
      fixed = fixed && x.shape()[i].is_const() && xs[0].shape()[i].is_const();
    }
    if (!ok)
      fail("cannot concatenate ", text(xs[0]), " and ", text(x), " along axis ", a,
           fixed || x.rank() != xs[0].rank() ? "" : ": their other axes are not the same for all sizes");
    us.push_back(x.u_);
    if (splat(x.u_) != same) same = {};
  }
  if (same) {
    Shape s = xs[0].shape();
    for (size_t i = 1; i < xs.size(); i++) s[a] = s[a] + xs[i].shape()[a];
    return tg::full(s, same);
  }
  return tensor::concat(us, a);
}

std::vector<Tensor> Tensor::split(i64 a, IntSpan parts) const { return split(a, dims(parts)); }
std::vector<Tensor> Tensor::split(i64 a, const Shape& parts) const {
  UOp at = idx(0);
  std::vector<Tensor> r;
  for (UOp n : parts) {
    if (size_bounds(n).lo < 0) fail("a part of ", n.str(), " elements");
    r.push_back(shrink(a, at, n));
    at = normal_dim(at + n);
  }
  if (at != dim(a)) fail("parts of ", shape_text(parts), " elements do not add up to axis ", a, " of ", text(*this));
  return r;
}

Tensor Tensor::repeat(i64 a, UOp n) const {
  a = axis(a);
  if (size_bounds(n).lo < 0) fail("a repeat count of ", n.str());
  Shape s = shape();
  s.insert(s.begin() + a, idx(1));
  Tensor x = reshape(s);
  s[a] = n;
  return x.expand(s).flatten(a, a + 1);
}

// --- reductions -------------------------------------------------------------------------------------------------------------------------
Tensor Tensor::reduce(ReduceKind k, IntSpan a, bool keepdims) const {
  Ints x = axes(a);
  Tensor r = tensor::reduce(u_, k, x);
  return keepdims ? r.unsqueeze(x) : r;
}
Tensor Tensor::sum(IntSpan a, bool keepdims) const { return widen().reduce(ReduceKind::Add, a, keepdims).cast(dtype()); }
Tensor Tensor::prod(IntSpan a, bool keepdims) const { return widen().reduce(ReduceKind::Mul, a, keepdims).cast(dtype()); }
Tensor Tensor::mean(IntSpan a, bool keepdims) const {
  Tensor x = widen();
  UOp n = idx(1);
  for (i64 i : axes(a)) n = n * shape()[i];
  Tensor s = x.reduce(ReduceKind::Add, a, keepdims), count = tg::cast(normal_dim(n), x.dtype());
  return (s / count).cast(dtype());
}
Tensor Tensor::softmax(i64 a) const {
  Tensor x = widen();
  Ints ax{axis(a)};
  Tensor e = (x - x.max(ax, true)).exp();
  return (e / e.sum(ax, true)).cast(dtype());
}
Tensor Tensor::log_softmax(i64 a) const {
  Tensor x = widen();
  Ints ax{axis(a)};
  Tensor y = x - x.max(ax, true);
  return (y - y.exp().sum(ax, true).log()).cast(dtype());
}
Tensor Tensor::cumsum(i64 a, bool exclusive, bool reverse) const {
  return Tensor(tensor::scan(widen().u_, {ReduceKind::Add, axis(a), exclusive, reverse})).cast(dtype());
}

// --- products ---------------------------------------------------------------------------------------------------------------------------
// What the factors of a sum of f32 products are read in.
static DType product_dtype(const Tensor& a, const Tensor& b) {
  DType d = Pool::current().default_float;
  return a.dtype() == DType(Kind::F32) && b.dtype() == DType(Kind::F32) && bits(d) < 32 ? d : a.dtype();
}

Tensor Tensor::matmul(const Tensor& other, std::optional<DType> acc) const {
  Tensor a = *this, b = other;
  if (!a.rank() || !b.rank()) fail("matmul of ", text(a), " and ", text(b), ": a scalar has no rows");
  if (!acc && a.dtype() != b.dtype()) fail("matmul of ", text(a), " and ", text(b), ": dtypes differ");
  DType out = acc ? *acc : a.dtype();
  DType sum = acc ? *acc : a.is_half() ? DType(Kind::F32) : a.dtype();
  bool row = a.rank() == 1, column = b.rank() == 1;
  if (row) a = a.unsqueeze(0);
  if (column) b = b.unsqueeze(1);
  if (a.dim(-1) != b.dim(-2)) fail("matmul of ", text(*this), " and ", text(other), ": inner dimensions differ");
  if (DType d = product_dtype(a, b); d != a.dtype()) a = narrowed(a, d), b = narrowed(b, d);
  // (.., m, 1, k) * (.., 1, n, k)
  Tensor p = a.cast(sum).unsqueeze(-2) * b.cast(sum).transpose().unsqueeze(-3);
  Tensor r = tensor::reduce(p.u_, ReduceKind::Add, Ints{p.rank() - 1});
  if (row && column)
    r = r.reshape(Shape(r.shape().begin(), r.shape().end() - 2));
  else if (row)
    r = r.squeeze(-2);
  else if (column)
    r = r.squeeze(-1);
  return r.cast(out);
}

Tensor Tensor::pool_windows(IntSpan k, const ConvArgs& c, UOp value) const {
  i64 n = i64(k.size());
  if (rank() != n + 2) fail(text(*this), " for a window of ", n, " axes");
  Ints begin(rank()), end(rank());
  WindowArg w;
  for (i64 i = 0; i < n; i++) {
    if (!c.pads.empty()) begin[i + 2] = c.pads[i], end[i + 2] = c.pads[n + i];
    w.axes.push_back(i + 2);
    w.k.push_back(k[i]);
    w.stride.push_back(c.strides.empty() ? 1 : c.strides[i]);
    w.dilation.push_back(c.dilations.empty() ? 1 : c.dilations[i]);
    if (w.k[i] < 1 || w.stride[i] < 1 || w.dilation[i] < 1)
      fail("kernel ", w.k[i], ", stride ", w.stride[i], ", dilation ", w.dilation[i], " must be positive");
  }
  return pad(begin, end, PadMode::Constant, value).window(w);
}

Tensor Tensor::conv(const Tensor& w, const Tensor& bias, const ConvArgs& c, std::optional<DType> acc) const {
  i64 n = rank() - 2;
  if (n < 1 || w.rank() != rank()) fail("convolution of ", text(*this), " with weight ", text(w));
  for (const Ints* p : {&c.strides, &c.dilations})
    if (!p->empty() && i64(p->size()) != n) fail("strides or dilations of ", p->size(), " axes, the input has ", n);
  if (!c.pads.empty() && i64(c.pads.size()) != 2 * n) fail("pads of ", c.pads.size(), " numbers, the input has ", n, " spatial axes");
  if (!acc && dtype() != w.dtype()) fail("convolution of ", text(*this), " with weight ", text(w), ": dtypes differ");
  UOp cin = shape()[1], m = w.shape()[0], per_group = w.shape()[1];
  if (c.groups < 1 || normal_dim(per_group * c.groups) != cin || (m.is_const() && m.as_int() % c.groups))
    fail("weight ", text(w), " with groups=", c.groups, " over input ", text(*this), ": needs ",
         constant_dim(cin) / std::max<i64>(1, c.groups), " channels in, and outputs divisible by groups");
  DType out = acc ? *acc : dtype(), sum = acc ? *acc : is_half() ? DType(Kind::F32) : dtype();
  Ints k;
  for (i64 i = 0; i < n; i++) k.push_back(w.size(i + 2));
  Tensor x = *this, weight = w;
  if (DType d = product_dtype(x, w); d != x.dtype()) x = narrowed(x, d), weight = narrowed(w, d);
  Tensor v = x.pool_windows(k, c, konst(x.dtype(), 0)).cast(sum);  // (N, C, *out, *k)
  // x (N, [G], 1, [C/G], *out, *k) * w ([G], M/G, [C/G], 1.., *k), summed over C/G and k. [G] is there with groups, [C/G] unless it is 1.
  bool grouped = c.groups > 1, summed = !grouped || !per_group.is_const(1);
  Shape xs{shape()[0]}, ws;
  if (grouped) xs.push_back(idx(c.groups)), ws.push_back(idx(c.groups));
  xs.push_back(idx(1)), ws.push_back(m / idx(c.groups));
  i64 first = i64(xs.size());
  if (summed) xs.push_back(per_group), ws.push_back(per_group);
  i64 spatial = i64(xs.size());
  for (i64 i = 0; i < n; i++) xs.push_back(v.shape()[2 + i]), ws.push_back(idx(1));
  for (i64 i = 0; i < n; i++) xs.push_back(idx(k[i])), ws.push_back(idx(k[i]));
  Tensor p = v.reshape(xs) * weight.cast(sum).reshape(ws);
  Ints axes;
  if (summed) axes.push_back(first);
  for (i64 i = 0; i < n; i++) axes.push_back(spatial + n + i);
  Tensor r = tensor::reduce(p.u_, ReduceKind::Add, axes);
  if (grouped) r = r.flatten(1, 2);
  if (bias) {
    if (bias.rank() != 1 || bias.dim(0) != m) fail("bias ", text(bias), " for ", shape_text({m}), " channels");
    Shape bs{m};
    bs.insert(bs.end(), n, idx(1));
    r = r + bias.cast(sum).reshape(bs);
  }
  return r.cast(out);
}

}  // namespace tg
