// One walk from the sources up, a list of elements a node. Casts to floats and back are followed as long as each number is a fraction of a power
// of two that the float holds exactly: exporters scale sizes that way.
#include "frontend/size_list.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "frontend/pool.h"
#include "rules/sizes.h"
#include "rules/symbolic.h"

namespace tg {
namespace {

using Dims = std::vector<i64>;

// num / den, where den is a power of two (1 but for floats); a bool is a Bool expression over 1.
struct Number {
  UOp num;
  i64 den = 1;
};
using Numbers = std::vector<Number>;
using Maybe = std::optional<Numbers>;

i64 count_of(const Dims& d) {
  i64 n = 1;
  for (i64 x : d) n *= x;
  return n;
}

std::optional<Dims> dims_of(UOp u) {
  if (!has_const_shape(u)) return {};
  if (i64 n = known_elems(shape(u)); n < 0 || n > kMostElements) return {};
  return const_shape(u);
}

// Calls f(position in the result, coordinates).
template <class F>
void each(const Dims& dims, F f) {
  Dims at(dims.size());
  for (i64 n = count_of(dims), i = 0; i < n; i++) {
    f(i, at);
    for (size_t a = dims.size(); a-- > 0;) {
      if (++at[a] < dims[a]) break;
      at[a] = 0;
    }
  }
}
i64 offset(const Dims& dims, const Dims& at) {
  i64 o = 0;
  for (size_t a = 0; a < dims.size(); a++) o = o * dims[a] + at[a];
  return o;
}

// Whole numbers up to 2^bits are exact in a float of this kind.
int whole_bits(Kind k) { return k == Kind::F64 ? 53 : k == Kind::F32 ? 24 : k == Kind::F16 ? 11 : k == Kind::BF16 ? 8 : 0; }

bool holds(DType d, Number x) {
  if (d.kind == Kind::Bool || d.kind == Kind::Index) return true;
  Bounds b = size_bounds(x.num);
  if (is_float(d)) {
    i64 most = i64(1) << whole_bits(d.kind);
    return b.lo >= -most && b.hi <= most;
  }
  return b.lo >= int_min(d.kind) && b.hi <= int_max(d.kind);
}

std::optional<Number> constant(DType d, u64 bits) {
  if (!is_float(d)) return Number{konst(d.kind == Kind::Bool ? Kind::Bool : Kind::Index, i64(bits))};
  f64 v = std::bit_cast<f64>(bits);
  for (i64 den = 1; den <= i64(1) << 20; den *= 2) {
    f64 n = v * f64(den);
    if (!(n > -9e15 && n < 9e15)) return {};
    if (n == f64(i64(n))) return Number{idx(i64(n)), den};
  }
  return {};
}

Number reduced(Number x) {
  x.num = simplify(x.num);
  while (x.den > 1) {
    auto half = divide_exact(x.num, 2);
    if (!half) break;
    x = {simplify(*half), x.den / 2};
  }
  return x;
}

// Both over one denominator.
void common(Number& a, Number& b) {
  if (a.den == b.den) return;
  i64 den = std::max(a.den, b.den);
  a = {a.num * (den / a.den), den}, b = {b.num * (den / b.den), den};
}

std::optional<Number> quotient(Number a, Number b, bool whole) {
  if (b.num.is_const() && b.num.as_int() < 0) a.num = -a.num, b.num = -b.num;
  if (whole) {  // towards zero
    if (size_bounds(b.num).lo <= 0) return {};
    if (size_bounds(a.num).lo >= 0) return Number{a.num / b.num};
    if (size_bounds(a.num).hi <= 0) return Number{-(-a.num / b.num)};
    return {};
  }
  // (an/ad) / (bn/bd) = an*bd / (ad*bn): bn must go into it, but for powers of two.
  UOp n = simplify(a.num * b.den);
  if (!b.num.is_const()) {
    if (size_bounds(b.num).lo <= 0 || !simplify(n % b.num).is_const(0)) return {};
    return Number{n / b.num, a.den};
  }
  i64 c = b.num.as_int();
  if (c <= 0) return {};
  i64 odd = c, two = 1;
  while (odd % 2 == 0) odd /= 2, two *= 2;
  if (auto q = divide_exact(n, odd)) return Number{*q, a.den * two};
  return {};
}

std::optional<Number> alu_of(Op op, DType d, const Number* x) {
  bool boolean = x[0].num.dtype().kind == Kind::Bool, fraction = is_float(d);
  Number a = x[0], b = x[1];
  auto whole = [](UOp n) { return Number{n}; };
  switch (op) {
    case Op::Neg: return Number{-a.num, a.den};
    case Op::Abs: return Number{max(a.num, -a.num), a.den};
    case Op::Floor: return whole(a.num / a.den);
    case Op::Ceil: return whole(-(-a.num / a.den));
    case Op::Trunc: return quotient({a.num}, {idx(a.den)}, true);
    case Op::Round: return a.den == 1 ? std::optional(a) : std::nullopt;
    case Op::Not: return boolean ? std::optional(whole(logical_not(a.num))) : std::nullopt;
    case Op::Add: return common(a, b), Number{a.num + b.num, a.den};
    case Op::Sub: return common(a, b), Number{a.num - b.num, a.den};
    case Op::Mul: return Number{a.num * b.num, a.den * b.den};
    case Op::Max: return common(a, b), Number{max(a.num, b.num), a.den};
    case Op::Min: return common(a, b), Number{min(a.num, b.num), a.den};
    case Op::Div: return quotient(a, b, !fraction);
    case Op::FloorDiv: return size_bounds(b.num).lo > 0 ? std::optional(whole(a.num / b.num)) : std::nullopt;
    case Op::FloorMod: return size_bounds(b.num).lo > 0 ? std::optional(whole(a.num % b.num)) : std::nullopt;
    case Op::Rem:
      return !fraction && size_bounds(b.num).lo > 0 && size_bounds(a.num).lo >= 0 ? std::optional(whole(a.num % b.num)) : std::nullopt;
    case Op::And: return boolean ? std::optional(whole(a.num & b.num)) : std::nullopt;
    case Op::Or: return boolean ? std::optional(whole(a.num | b.num)) : std::nullopt;
    case Op::Xor: return boolean ? std::optional(whole(a.num ^ b.num)) : std::nullopt;
    case Op::Lt: return common(a, b), whole(lt(a.num, b.num));
    case Op::Le: return common(a, b), whole(le(a.num, b.num));
    case Op::Eq: return common(a, b), whole(eq(a.num, b.num));
    case Op::Ne: return common(a, b), whole(ne(a.num, b.num));
    case Op::Where: {
      Number p = x[1], q = x[2];
      common(p, q);
      return Number{where(x[0].num, p.num, q.num), p.den};
    }
    default: return {};
  }
}

Number cast_to(DType d, DType from, Number x) {
  bool was_bool = from.kind == Kind::Bool;
  if (d.kind == Kind::Bool) return was_bool ? x : Number{ne(x.num, idx(0))};
  if (was_bool) return {where(x.num, idx(1), idx(0))};
  if (is_float(d) || x.den == 1) return x;
  if (auto q = quotient({x.num}, {idx(x.den)}, true)) return *q;  // a float to an integer: towards zero
  return {};
}

class Reader {
 public:
  explicit Reader(std::unordered_map<u32, Maybe>& known) : known_(known) {}

  const Maybe& read(UOp root) {
    std::vector<std::pair<UOp, u32>> stack{{root, 0}};
    while (!stack.empty()) {
      auto [u, next] = stack.back();
      if (known_.count(u.id())) {
        stack.pop_back();
      } else if (!next && !worth(u)) {
        known_[u.id()] = {};
        stack.pop_back();
      } else if (next < u.nsrc() && !u.in(Op::Var | Op::Step)) {
        stack.back().second++;
        stack.push_back({u.src(next), 0});
      } else {
        Maybe r = number_of(u);
        if (r)
          for (Number& x : *r) {
            x = reduced(x);
            if (!holds(u.dtype(), x)) {
              r = {};
              break;
            }
          }
        known_[u.id()] = std::move(r);
        stack.pop_back();
      }
    }
    return known_[root.id()];
  }

 private:
  // Sources of other nodes are not even looked at: a graph's whole past stands behind them.
  static bool worth(UOp u) {
    switch (u.op()) {
      case Op::Param:
      case Op::Placeholder:
      case Op::Fold:
      case Op::Sort:
      case Op::Window: return false;
      case Op::Stack: return true;
      default: return dims_of(u).has_value();
    }
  }
  // Of constants alone and small; the pool has the value.
  Maybe folded(UOp u) {
    const Values* v = Pool::current().value(u);
    if (!v || v->elems() > kMostElements || is_storage(v->dtype.kind)) return {};
    Numbers r;
    for (u64 x : v->v) {
      auto n = constant(v->dtype, x);
      if (!n) return {};
      r.push_back(*n);
    }
    return r;
  }
  static Number at(const Numbers& v, i64 i) { return v.size() == 1 ? v[0] : v[size_t(i)]; }  // a CONST stands for any shape

  Maybe number_of(UOp u) {
    if (u.is(Op::Stack)) {
      Numbers r;
      for (UOp s : u.src()) {
        const Maybe& x = known_[s.id()];
        if (!x) return {};
        r.push_back((*x)[0]);
      }
      return r;
    }
    if (u.in(Op::Var | Op::Step)) return Numbers{{u}};
    if (u.is_const() || u.is(Op::Constant)) return folded(u);
    for (UOp s : u.src())
      if (!known_[s.id()]) return {};
    auto src = [&](size_t i) -> const Numbers& { return *known_[u.src(i).id()]; };
    Dims dims = *dims_of(u);
    Numbers r(size_t(count_of(dims)));
    // Element i of the result is element of(coordinates) of the first source.
    auto moved = [&](auto of) {
      each(dims, [&](i64 i, const Dims& p) { r[size_t(i)] = at(src(0), of(p)); });
      return r;
    };
    auto number = [&](size_t i, size_t k) { return src(i)[k].num; };
    Dims from = u.nsrc() && !u.src(0).is(Op::Stack) && dims_of(u.src(0)) ? *dims_of(u.src(0)) : Dims{};
    switch (u.op()) {
      case Op::Iota:
        for (size_t i = 0; i < r.size(); i++) r[i] = {idx(i64(i))};
        return r;
      case Op::Reshape:
      case Op::Contiguous:
        for (size_t i = 0; i < r.size(); i++) r[i] = at(src(0), i64(i));
        return r;
      case Op::Expand:
        return moved([&](Dims p) {
          for (size_t a = 0; a < p.size(); a++)
            if (from[a] == 1) p[a] = 0;
          return offset(from, p);
        });
      case Op::Permute:
        return moved([&](const Dims& p) {
          Dims q(p.size());
          for (size_t a = 0; a < p.size(); a++) q[size_t(u.arg_ints()[a])] = p[a];
          return offset(from, q);
        });
      case Op::Flip:
        return moved([&](Dims p) {
          for (i64 a : u.arg_ints()) p[size_t(a)] = dims[size_t(a)] - 1 - p[size_t(a)];
          return offset(from, p);
        });
      case Op::Shrink: {
        for (size_t a = 0; a < from.size(); a++)
          if (!number(1, a).is_const() || !number(3, a).is_const()) return {};
        return moved([&](Dims p) {
          for (size_t a = 0; a < p.size(); a++) p[a] = number(1, a).as_int() + p[a] * number(3, a).as_int();
          return offset(from, p);
        });
      }
      case Op::Pad: {
        for (size_t a = 0; a < from.size(); a++)
          if (!number(1, a).is_const()) return {};
        each(dims, [&](i64 i, Dims p) {
          bool inside = true;
          for (size_t a = 0; a < p.size(); a++) {
            p[a] -= number(1, a).as_int();
            inside = inside && p[a] >= 0 && p[a] < from[a];
          }
          r[size_t(i)] = inside ? at(src(0), offset(from, p)) : src(3)[0];
        });
        return r;
      }
      case Op::Concat: {
        size_t axis = size_t(u.arg_int());
        each(dims, [&](i64 i, Dims p) {
          size_t k = 0;
          Dims part = *dims_of(u.src(0));
          while (p[axis] >= part[axis]) {
            p[axis] -= part[axis];
            part = *dims_of(u.src(++k));
          }
          r[size_t(i)] = src(k)[size_t(offset(part, p))];
        });
        return r;
      }
      case Op::Gather: {
        for (size_t a = 0; a < from.size(); a++)
          for (const Number& n : src(a + 1))
            if (!n.num.is_const()) return {};
        each(dims, [&](i64 i, const Dims&) {
          Dims q(from.size());
          for (size_t a = 0; a < q.size(); a++) q[a] = at(src(a + 1), i).num.as_int();
          r[size_t(i)] = at(src(0), offset(from, q));
        });
        return r;
      }
      case Op::Scatter: {
        if (ScatterKind(u.arg_int()) != ScatterKind::Set) return {};
        each(dims, [&](i64 i, const Dims&) { r[size_t(i)] = at(src(0), i); });
        Dims updates = *dims_of(u.src(1));
        for (i64 k = 0; k < count_of(updates); k++) {
          Dims q(from.size());
          for (size_t a = 0; a < q.size(); a++) {
            UOp n = at(src(a + 2), k).num;
            if (!n.is_const()) return {};
            q[a] = n.as_int();
          }
          r[size_t(offset(from, q))] = at(src(1), k);
        }
        return r;
      }
      case Op::Reduce: {
        ReduceArg a = u.arg<ReduceArg>();
        if (is_float(u.dtype()) || a.kind == ReduceKind::MaxAny) return {};
        std::vector<u8> fresh(r.size(), 1);
        bool ok = true;
        each(from, [&](i64 i, const Dims& p) {
          Dims q;
          for (size_t k = 0; k < p.size(); k++)
            if (!std::binary_search(a.axes.begin(), a.axes.end(), i64(k))) q.push_back(p[k]);
          size_t o = size_t(offset(dims, q));
          Number pair[2] = {r[o], at(src(0), i)};
          auto both = fresh[o] ? std::optional(pair[1]) : alu_of(alu_op(a.kind), u.dtype(), pair);
          fresh[o] = 0;
          if (both) r[o] = *both;
          else ok = false;
        });
        for (u8 f : fresh) ok = ok && !f;
        return ok ? Maybe(r) : Maybe();
      }
      case Op::Cast:
        for (size_t i = 0; i < r.size(); i++) {
          r[i] = cast_to(u.dtype(), u.src(0).dtype(), at(src(0), i64(i)));
          if (!r[i].num) return {};
        }
        return r;
      default: {
        if (!is_alu(u.op())) return {};
        DType of = u.src(u.is(Op::Where) ? 1 : 0).dtype();
        for (size_t i = 0; i < r.size(); i++) {
          Number x[3];
          for (size_t k = 0; k < u.nsrc(); k++) x[k] = at(src(k), i64(i));
          auto y = alu_of(u.op(), of, x);
          if (!y) return {};
          r[i] = *y;
        }
        return r;
      }
    }
  }

  std::unordered_map<u32, Maybe>& known_;
};

// What has been read and made in this arena.
struct Known {
  std::unordered_map<u32, Maybe> numbers;
  std::unordered_map<u32, std::vector<UOp>> whole;
};

}  // namespace

const std::vector<UOp>* size_list(UOp u) {
  Known& k = Arena::current().side<Known>();
  if (auto it = k.whole.find(u.id()); it != k.whole.end()) return &it->second;
  const Maybe& m = Reader(k.numbers).read(u);
  if (!m) return nullptr;
  i64 n = known_elems(shape(u));
  std::vector<UOp> r;
  for (i64 i = 0; i < n; i++) {
    const Number& x = m->size() == 1 ? (*m)[0] : (*m)[size_t(i)];
    if (x.den != 1) return nullptr;
    r.push_back(x.num);
  }
  return &(k.whole[u.id()] = std::move(r));
}

UOp size_at(UOp u, i64 i) {
  if (const std::vector<UOp>* v = size_list(u)) return v->at(size_t(i));
  if (rank(u) != 1) return {};
  if (u.is(Op::Cast) && is_int(u.dtype()) && is_int(u.src(0).dtype())) return size_at(u.src(0), i);
  if (!u.is(Op::Concat)) return {};
  for (UOp part : u.src()) {
    if (!shape(part)[0].is_const()) return {};
    i64 n = shape(part)[0].as_int();
    if (i < n) return size_at(part, i);
    i -= n;
  }
  return {};
}

UOp of_elements(DType d, const std::vector<i64>& dims, const std::vector<UOp>& v) {
  TG_CHECK(i64(v.size()) == count_of(dims), v.size(), " elements for dims ", join(dims));
  if (std::all_of(v.begin(), v.end(), [](UOp x) { return x.is_const(); })) {
    Values x{d, dims, {}};
    for (UOp e : v) x.v.push_back(u64(e.as_int()));
    return Pool::current().add(x);
  }
  // Where each element stands is compared, so that the values are arithmetic of whichever kernel reads them.
  UOp at = tensor::iota(idx(i64(v.size()))), r = cast(v.back(), d);
  for (size_t i = v.size() - 1; i-- > 0;)
    if (v[i] != v[i + 1] || !r.is_const())
      r = where(eq(at, idx(i64(i))), cast(v[i], d), r);
  r = tensor::reshape(rank(r) ? r : tensor::broadcast_to(r, {idx(i64(v.size()))}), tg::dims(std::span<const i64>(dims)));
  Known& k = Arena::current().side<Known>();
  Numbers n;
  for (UOp e : v) n.push_back({e});
  k.numbers[r.id()] = n;
  return r;
}

}  // namespace tg
