#include "graph_gen.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "base/error.h"
#include "ir/eval_scalar.h"
#include "ir/tensor.h"

namespace tg::fuzz {
namespace {

constexpr f64 kInf = std::numeric_limits<f64>::infinity();

f64 unit_of(Kind k) {  // half an ulp of 1
  switch (k) {
    case Kind::F64: return 0x1p-53;
    case Kind::F32: return 0x1p-24;
    case Kind::F16: return 0x1p-11;
    case Kind::BF16: return 0x1p-8;
    default: return 0;
  }
}
bool is_half(Kind k) { return k == Kind::F16 || k == Kind::BF16; }

// What is known of a value beside its node. Integers are exact; floats have a bound on finite numbers, a grain (all numbers are multiples of
// it; 0: unknown) and an error bound. Ops that could turn a small difference into a large one take values of error 0 alone.
struct Val {
  UOp u;
  f64 most = 0, grain = 0, err = 0;
  int users = 0;
};

// f(x) on [lo, hi]: steepest slope, largest result.
struct Curve {
  Op op;
  f64 lo, hi, slope, most;
};
constexpr Curve kCurves[] = {
    {Op::Exp, -20, 5, 150, 150},   {Op::Exp2, -20, 6, 45, 64},     {Op::Log, 0.125, 100, 8, 5},     {Op::Log2, 0.125, 100, 12, 7},
    {Op::Sin, -50, 50, 1, 1},      {Op::Cos, -50, 50, 1, 1},       {Op::Tan, -1, 1, 3.5, 1.6},      {Op::Asin, -0.875, 0.875, 2.1, 1.1},
    {Op::Acos, -0.875, 0.875, 2.1, 2.7}, {Op::Atan, -30, 30, 1, 1.6}, {Op::Sinh, -5, 5, 75, 75},    {Op::Cosh, -5, 5, 75, 75},
    {Op::Tanh, -30, 30, 1, 1},     {Op::Asinh, -30, 30, 1, 4.2},   {Op::Acosh, 1.25, 50, 1.4, 4.7}, {Op::Atanh, -0.875, 0.875, 4.3, 1.4},
    {Op::Erf, -30, 30, 1.2, 1},
};

class Generator {
 public:
  explicit Generator(const Options& o) : o_(o), rng_(o.seed * 0x9e3779b97f4a7c15ull + 1) {}

  Case run() {
    c_.graph.arena = std::make_shared<Arena>();
    Arena::Scope scope(*c_.graph.arena);
    if (o_.free_sizes) {
      constexpr i64 kFree[] = {0, 1, 2, 3, 5, 7, 8, 9, 13, 16, 21, 33, 64};
      free_size_ = any(kFree);
      if (o_.size >= 0) free_size_ = o_.size;
      c_.vars = {{"v0", free_size_}};
    }
    for (i64 i = pick(1, 3); i > 0; i--) input();
    for (int made = 0, tries = 0; made < o_.ops && tries < o_.ops * 50; tries++) made += grow();
    std::vector<UOp> out;
    for (size_t i = pool_.size(); i-- > 0 && out.size() < 3;)
      if (pool_[i].users == 0 && !is_input(pool_[i].u)) output(out, pool_[i]);
    if (out.empty()) output(out, pool_.back());
    c_.graph.sink = node(Op::Sink, Kind::Void, std::span<const UOp>(out));
    for (size_t i = 0; i < c_.storage.size(); i++) c_.graph.constants[i].bytes = c_.storage[i];
    return std::move(c_);
  }

 private:
  // --- chance ---------------------------------------------------------------------------------------------------------------------------
  i64 pick(i64 lo, i64 hi) { return lo + i64(rng_() % u64(hi - lo + 1)); }
  bool chance(int percent) { return pick(1, 100) <= percent; }
  template <class T, size_t N>
  const T& any(const T (&v)[N]) { return v[pick(0, N - 1)]; }
  template <class T>
  const T& any(const std::vector<T>& v) { return v[pick(0, i64(v.size()) - 1)]; }

  i64 size() {
    constexpr i64 kSizes[] = {1, 1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 31, 33, 64, 67};
    return chance(2) ? 0 : any(kSizes);
  }
  std::vector<i64> some_dims() {
    std::vector<i64> d;
    i64 n = 1;
    for (i64 r = pick(0, 4); r > 0; r--) {
      i64 s = size();
      if (n * s > o_.max_elems) s = pick(1, 3);
      if (n * s > o_.max_elems) s = 1;
      d.push_back(s), n *= s;
    }
    return d;
  }
  Kind some_kind() {
    if (chance(55)) return Kind::F32;
    std::vector<Kind> k{Kind::I8, Kind::I16, Kind::I32, Kind::I64, Kind::U8, Kind::U16, Kind::U32, Kind::U64, Kind::Bool, Kind::I32, Kind::I64};
    if (o_.half) k.insert(k.end(), {Kind::F16, Kind::BF16});
    if (o_.wide) k.push_back(Kind::F64);
    return any(k);
  }

  // --- numbers --------------------------------------------------------------------------------------------------------------------------
  static constexpr f64 kGrain = 0.125, kMost = 8;
  u64 number(Kind k) {
    if (is_float(k)) {
      constexpr f64 kSpecial[] = {std::numeric_limits<f64>::quiet_NaN(), kInf, -kInf, -0.0};
      if (o_.special && special_now_ && !is_storage(k) && chance(4)) return from_f64(any(kSpecial));
      f64 x = f64(pick(-64, 64)) * kGrain;
      if (k == Kind::F8E8M0) x = std::ldexp(1.0, int(pick(-3, 3)));
      return from_f64(round_to(k, x));
    }
    if (chance(5)) return u64(chance(50) ? int_min(k) : k == Kind::U64 ? -1 : int_max(k));
    return u64(wrap_int(k, pick(is_uint(k) ? 0 : -20, 20)));
  }
  Values numbers(Kind k, std::vector<i64> dims) {
    Values v{k, dims, {}};
    special_now_ = chance(30);
    for (i64 i = count(dims); i > 0; i--) v.v.push_back(number(k));
    return v;
  }
  Val known(UOp u) {
    Val v{u};
    if (is_float(u.dtype())) v.most = kMost, v.grain = kGrain;
    return v;
  }

  Shape free_dims(const std::vector<i64>& d) {
    Shape s;
    for (i64 n : d) s.push_back(o_.free_sizes && n == free_size_ ? var("v0", 0, 64) : idx(n));
    return s;
  }
  void input() {
    Kind k = some_kind();
    if (o_.storage && chance(12)) {
      constexpr Kind kStored[] = {Kind::I4, Kind::U4, Kind::I2, Kind::U2, Kind::F8E4M3FN, Kind::F8E5M2, Kind::F8E4M3FNUZ, Kind::F8E5M2FNUZ, Kind::F4E2M1, Kind::F8E8M0};
      k = any(kStored);
    }
    std::vector<i64> d = some_dims();
    if (o_.free_sizes && !d.empty()) d[pick(0, i64(d.size()) - 1)] = free_size_;
    Shape s = free_dims(d);
    UOp u;
    if (chance(25) && !o_.free_sizes) {
      c_.storage.push_back(encode(numbers(k, d)));
      c_.graph.constants.push_back({str("c", c_.storage.size() - 1), k, d, {}, nullptr});
      u = tensor::constant(i64(c_.storage.size()) - 1, k, s);
    } else {
      u = tensor::param(i64(c_.inputs.size()), k, s);
      c_.graph.inputs.push_back({str("x", c_.inputs.size()), k, s});
      c_.inputs.push_back(numbers(k, d));
    }
    if (!is_storage(k)) return add(known(u));
    add(known(cast(u, is_float(k) ? Kind::F32 : Kind::I32)));
  }
  static bool is_input(UOp u) { return u.in(Op::Param | Op::Constant); }

  void output(std::vector<UOp>& out, const Val& v) {
    out.push_back(v.u);
    c_.graph.outputs.push_back({str("y", out.size() - 1), v.u.dtype(), shape(v.u)});
    c_.error.push_back(v.err * 4);
  }

  // --- the pool of values ---------------------------------------------------------------------------------------------------------------
  void add(Val v) { pool_.push_back(v); }
  Val& some() {
    // Late values more often: graphs grow deep rather than wide.
    i64 n = i64(pool_.size()), i = chance(60) ? pick(std::max<i64>(0, n - 3), n - 1) : pick(0, n - 1);
    return pool_[size_t(i)];
  }
  Kind kind(const Val& v) { return v.u.dtype().kind; }
  bool exact(const Val& v) { return v.err == 0; }
  std::vector<i64> dims_of(const Val& v) {
    EvalEnv env;
    env.vars = c_.vars;
    std::vector<i64> r;
    for (UOp d : shape(v.u)) r.push_back(eval_index(d, env));
    return r;
  }
  bool fixed(const Val& v) { return has_const_shape(v.u); }
  bool put(Val& from, UOp u) {  // movement: what is known stays
    if (u == from.u) return false;
    Val v = from;
    v.u = u, v.users = 0;
    from.users++;
    add(v);
    return true;
  }
  bool put_new(UOp u, f64 most, f64 grain, f64 err, std::initializer_list<Val*> used) {
    Kind k = u.dtype().kind;
    if (is_float(k)) {
      f64 top = k == Kind::F16 ? 3e4 : 1e30;
      if (!(most < top) || err > 1e-2 * std::max(1.0, most)) return false;
    }
    for (Val* p : used) p->users++;
    add({u, most, is_float(k) ? grain : 0, is_float(k) ? err : 0});
    return true;
  }
  // A second operand of x's dtype and shape.
  UOp second(Val& x, Val* out) {
    const Shape& s = shape(x.u);
    std::vector<size_t> fits;
    for (size_t i = 0; i < pool_.size(); i++) {
      const Shape& t = shape(pool_[i].u);
      if (pool_[i].u.dtype() != x.u.dtype() || t.size() > s.size()) continue;
      bool ok = true;
      for (size_t a = 0; a < t.size(); a++) ok &= t[a] == s[s.size() - t.size() + a] || t[a].is_const(1);
      if (ok) fits.push_back(i);
    }
    if (!fits.empty() && chance(70)) {
      Val& y = pool_[any(fits)];
      y.users++;
      *out = y;
      return tensor::broadcast_to(y.u, s);
    }
    *out = {};
    if (is_float(x.u.dtype())) {
      f64 v = f64(pick(-32, 32)) * kGrain;
      *out = {konst_f(x.u.dtype(), v), std::abs(v), kGrain};
    } else {
      out->u = konst(x.u.dtype(), i64(number(kind(x))));
    }
    return out->u;
  }

  // --- op groups ------------------------------------------------------------------------------------------------------------------------
  using Fn = bool (Generator::*)();
  struct Group {
    const char* name;
    int weight;
    Fn fn;
  };
  static const Group kGroups[];

  bool grow() {
    int total = 0;
    auto on = [&](const Group& g) { return o_.only.empty() ? g.fn != &Generator::list : ("," + o_.only + ",").find(str(",", g.name, ",")) != std::string::npos; };
    for (size_t i = 0; kGroups[i].fn; i++) total += on(kGroups[i]) ? kGroups[i].weight : 0;
    TG_CHECK(total > 0, "no op group is called ", o_.only);
    i64 at = pick(0, total - 1);
    for (size_t i = 0;; i++) {
      if (!on(kGroups[i])) continue;
      if ((at -= kGroups[i].weight) < 0) return (this->*kGroups[i].fn)();
    }
  }

  bool reshape() {
    Val& x = some();
    if (!fixed(x)) return false;
    i64 n = count(dims_of(x));
    std::vector<i64> d;
    if (n == 0) d = {0, pick(1, 3)};
    else
      for (i64 rest = n; rest > 1 || chance(20);) {
        std::vector<i64> f{1};
        for (i64 k = 2; k <= std::min<i64>(rest, 70); k++)
          if (rest % k == 0) f.push_back(k), f.push_back(k);
        i64 k = d.size() == 4 ? rest : any(f);
        d.push_back(k), rest /= k;
        if (d.size() == 5) break;
      }
    return count(d) == n && put(x, tensor::reshape(x.u, dims(d)));
  }
  bool permute() {
    Val& x = some();
    Ints o(rank(x.u));
    for (size_t i = 0; i < o.size(); i++) o[i] = i64(i);
    for (size_t i = o.size(); i-- > 1;) std::swap(o[i], o[pick(0, i64(i))]);
    return put(x, tensor::permute(x.u, o));
  }
  bool expand() {
    Val& x = some();
    Shape s = shape(x.u);
    i64 n = count(dims_of(x));
    for (UOp& d : s)
      if (d.is_const(1) && chance(60)) {
        i64 k = pick(1, 9);
        if (n * k <= o_.max_elems) d = idx(k), n *= k;
      }
    while (s.size() < 5 && chance(30)) s.insert(s.begin(), idx(n * 3 <= o_.max_elems ? pick(1, 3) : 1)), n *= s[0].as_int();
    return put(x, tensor::broadcast_to(x.u, s));
  }
  bool pad() {
    Val& x = some();
    if (count(dims_of(x)) > o_.max_elems / 2 || rank(x.u) == 0) return false;
    Shape b, e;
    for (size_t i = 0; i < rank(x.u); i++) b.push_back(idx(chance(40) ? pick(0, 2) : 0)), e.push_back(idx(chance(40) ? pick(0, 2) : 0));
    UOp v = is_float(x.u.dtype()) ? konst_f(x.u.dtype(), chance(70) ? 0 : chance(30) ? -kInf : 1.5) : konst(x.u.dtype(), chance(70) ? 0 : i64(number(kind(x))));
    Val y = x;
    y.most = std::max(y.most, 1.5);
    y.grain = y.grain == 0 ? 0 : std::min(y.grain, kGrain);
    y.u = tensor::pad(x.u, b, e, v), y.users = 0;
    if (y.u == x.u || count(dims_of(y)) > o_.max_elems) return false;
    x.users++;
    add(y);
    return true;
  }
  bool shrink() {
    Val& x = some();
    std::vector<i64> d = dims_of(x);
    Shape b, e, st;
    for (size_t i = 0; i < d.size(); i++) {
      if (!shape(x.u)[i].is_const() || chance(40)) {
        b.push_back(idx(0)), e.push_back(shape(x.u)[i]), st.push_back(idx(1));
        continue;
      }
      i64 from = pick(0, d[i]), to = pick(from, d[i]);
      if (from == to && chance(90)) from = 0, to = d[i];
      b.push_back(idx(from)), e.push_back(idx(to)), st.push_back(idx(chance(60) ? 1 : pick(1, 3)));
    }
    return put(x, tensor::shrink(x.u, b, e, st));
  }
  bool flip() {
    Val& x = some();
    Ints a;
    for (size_t i = 0; i < rank(x.u); i++)
      if (chance(40)) a.push_back(i64(i));
    return put(x, tensor::flip(x.u, a));
  }
  bool window() {
    Val& x = some();
    std::vector<i64> d = dims_of(x);
    if (d.size() > 4) return false;
    WindowArg w;
    i64 n = count(d);
    for (size_t i = 0; i < d.size(); i++) {
      if (w.axes.size() == 2 || chance(40) || !shape(x.u)[i].is_const()) continue;
      i64 k = pick(1, 4), dil = chance(70) ? 1 : 2, s = chance(60) ? 1 : pick(2, 3);
      if (dil * (k - 1) + 1 > d[i] || n * k > o_.max_elems) continue;
      w.axes.push_back(i64(i)), w.k.push_back(k), w.stride.push_back(s), w.dilation.push_back(dil);
      n *= k;
    }
    return !w.axes.empty() && put(x, tensor::window(x.u, w));
  }
  bool concat() {
    Val& x = some();
    if (rank(x.u) == 0) return false;
    size_t axis = size_t(pick(0, i64(rank(x.u)) - 1));
    if (!shape(x.u)[axis].is_const()) return false;
    std::vector<UOp> parts{x.u};
    Val y = x;
    for (Val& v : pool_) {
      if (parts.size() == 3 || v.u.dtype() != x.u.dtype() || rank(v.u) != rank(x.u) || v.u == x.u) continue;
      bool ok = true;
      for (size_t a = 0; a < rank(x.u); a++) ok &= a == axis ? shape(v.u)[a].is_const() : shape(v.u)[a] == shape(x.u)[a];
      if (!ok) continue;
      parts.push_back(v.u);
      v.users++;
      y.most = std::max(y.most, v.most), y.err = std::max(y.err, v.err), y.grain = y.grain == 0 || v.grain == 0 ? 0 : std::min(y.grain, v.grain);
    }
    if (parts.size() == 1) parts.push_back(x.u);
    y.u = tensor::concat(parts, axis), y.users = 0;
    if (count(dims_of(y)) > o_.max_elems) return false;
    x.users++;
    add(y);
    return true;
  }

  UOp clamp(UOp x, f64 lo, f64 hi) { return max(min(x, konst_f(x.dtype(), hi)), konst_f(x.dtype(), lo)); }

  bool curve() {
    Val& x = some();
    Kind k = kind(x);
    if (!is_float(k)) return false;
    const Curve& f = any(kCurves);
    UOp y = alu(f.op, {clamp(x.u, f.lo, f.hi)});
    return put_new(y, f.most, 0, f.slope * x.err + 4 * unit_of(k) * f.most, {&x});
  }
  bool unary() {
    Val& x = some();
    Kind k = kind(x);
    if (!is_float(k)) {
      if (k == Kind::Bool) return put_new(logical_not(x.u), 0, 0, 0, {&x});
      constexpr Op kInt[] = {Op::Neg, Op::Not, Op::Abs};
      return put_new(alu(any(kInt), {x.u}), 0, 0, 0, {&x});
    }
    constexpr Op kFloat[] = {Op::Neg, Op::Abs, Op::Sqrt, Op::Recip, Op::Floor, Op::Ceil, Op::Trunc, Op::Round};
    Op op = any(kFloat);
    switch (op) {
      case Op::Neg:
      case Op::Abs: return put_new(alu(op, {x.u}), x.most, x.grain, x.err, {&x});
      case Op::Sqrt:
        // Rounded correctly: exact in, exact out.
        if (exact(x)) return put_new(alu(op, {x.u}), std::sqrt(x.most) + 1, 0, 0, {&x});
        return put_new(alu(op, {clamp(x.u, 0.25, 1e4)}), 100, 0, x.err + unit_of(kind(x)) * 100, {&x});
      case Op::Recip: return put_new(alu(op, {clamp(x.u, 0.5, 1e4)}), 2, 0, exact(x) ? 0 : 4 * x.err + unit_of(k) * 2, {&x});
      default:
        if (!exact(x)) return false;
        return put_new(alu(op, {x.u}), x.most + 1, 1, 0, {&x});
    }
  }
  bool binary() {
    Val& x = some();
    if (x.u.dtype().kind == Kind::Bool) {
      Val y;
      UOp b = second(x, &y);
      constexpr Op kBool[] = {Op::And, Op::Or, Op::Xor, Op::Eq, Op::Ne};
      return put_new(alu(any(kBool), {x.u, b}), 0, 0, 0, {&x});
    }
    Kind k = kind(x);
    Val y;
    UOp a = x.u, b = second(x, &y);
    if (!is_float(k)) {
      constexpr Op kInt[] = {Op::Add, Op::Sub, Op::Mul, Op::Max, Op::Min, Op::And, Op::Or, Op::Xor, Op::Shl, Op::Shr, Op::Div, Op::Rem, Op::FloorDiv, Op::FloorMod, Op::Lt, Op::Le, Op::Eq, Op::Ne};
      Op op = any(kInt);
      if (op == Op::Shl || op == Op::Shr) b = b & konst(k, bits(k) - 1);
      if (op == Op::Div || op == Op::Rem || op == Op::FloorDiv || op == Op::FloorMod) b = (b & konst(k, 15)) + 1;
      return put_new(alu(op, {a, b}), 0, 0, 0, {&x});
    }
    constexpr Op kFloat[] = {Op::Add, Op::Add, Op::Sub, Op::Mul, Op::Mul, Op::Div, Op::Max, Op::Min, Op::Rem, Op::Pow, Op::Lt, Op::Le, Op::Eq, Op::Ne};
    Op op = any(kFloat);
    f64 u = unit_of(k), e = x.err + y.err, grain = x.grain == 0 || y.grain == 0 ? 0 : std::min(x.grain, y.grain);
    bool ok = exact(x) && exact(y);
    switch (op) {
      case Op::Add:
      case Op::Sub: return put_new(alu(op, {a, b}), x.most + y.most, grain, ok ? 0 : e + u * (x.most + y.most), {&x});
      case Op::Mul:
        return put_new(a * b, x.most * y.most, x.grain * y.grain, ok ? 0 : x.most * y.err + y.most * x.err + x.err * y.err + u * x.most * y.most, {&x});
      case Op::Div: {
        f64 most = 2 * x.most;
        return put_new(a / clamp(b, 0.5, 100), most, 0, ok ? 0 : 2 * x.err + 4 * x.most * y.err + u * most, {&x});
      }
      case Op::Max:
      case Op::Min: return put_new(alu(op, {a, b}), std::max(x.most, y.most), grain, std::max(x.err, y.err), {&x});
      case Op::Rem:
        if (!ok) return false;
        return put_new(alu(op, {a, clamp(b, 0.5, 100)}), 100, 0, 0, {&x});
      case Op::Pow:
        if (!ok) return false;
        return put_new(alu(op, {clamp(a, 0.25, 4), clamp(b, -3, 3)}), 64, 0, 8 * u * 64, {&x});
      default: return ok && put_new(alu(op, {a, b}), 0, 0, 0, {&x});
    }
  }
  bool ternary() {
    Val& x = some();
    Val y, z;
    UOp b = second(x, &y);
    f64 grain = x.grain == 0 || y.grain == 0 ? 0 : std::min(x.grain, y.grain);
    if (chance(40) && kind(x) != Kind::Bool) {
      UOp c = second(x, &z);
      f64 most = x.most * y.most + z.most;
      bool ok = exact(x) && exact(y) && exact(z);
      return put_new(alu(Op::MulAcc, {x.u, b, c}), most, 0, ok ? 0 : x.most * y.err + y.most * x.err + x.err * y.err + z.err + unit_of(kind(x)) * most, {&x});
    }
    if (!exact(x)) return false;
    UOp c = lt(x.u, is_float(x.u.dtype()) ? konst_f(x.u.dtype(), 0.5) : konst(x.u.dtype(), 1));
    return put_new(where(c, x.u, b), std::max(x.most, y.most), grain, y.err, {&x});
  }
  bool convert() {
    Val& x = some();
    Kind from = kind(x), to = some_kind();
    if (from == to) return false;
    if (is_float(from) && !is_float(to)) return exact(x) && put_new(cast(x.u, to), 0, 0, 0, {&x});
    if (is_float(from)) {
      f64 u = unit_of(to);
      if (exact(x)) return put_new(cast(x.u, to), x.most, x.grain, 0, {&x});
      return put_new(cast(x.u, to), x.most, 0, x.err + u * x.most, {&x});
    }
    if (is_float(to)) {
      f64 most = std::ldexp(1.0, from == Kind::Bool ? 0 : bits(from) - (is_uint(from) ? 0 : 1));
      // 64 bits to a half would be rounded twice by most machines.
      if (is_half(to) && bits(from) > 16) return false;
      return put_new(cast(x.u, to), most, 1, 0, {&x});
    }
    return put_new(cast(x.u, to), 0, 0, 0, {&x});
  }
  bool bits_of() {
    Val& x = some();
    if (is_float(kind(x)) || kind(x) == Kind::Bool) return false;
    std::vector<Kind> same;
    for (Kind k : {Kind::I8, Kind::U8, Kind::I16, Kind::U16, Kind::I32, Kind::U32, Kind::I64, Kind::U64})
      if (bits(k) == bits(kind(x)) && k != kind(x)) same.push_back(k);
    return put_new(bitcast(x.u, any(same)), 0, 0, 0, {&x});
  }
  // Through a stored kind and back.
  bool narrow() {
    Val& x = some();
    Kind k = kind(x);
    if (!o_.storage || !exact(x)) return false;
    if (k == Kind::F32) {
      constexpr Kind kF[] = {Kind::F8E4M3FN, Kind::F8E5M2, Kind::F8E4M3FNUZ, Kind::F8E5M2FNUZ, Kind::F4E2M1};
      return put_new(cast(cast(x.u, any(kF)), k), 57344, 0, 0, {&x});
    }
    if (k != Kind::I32) return false;
    constexpr Kind kI[] = {Kind::I4, Kind::U4, Kind::I2, Kind::U2};
    return put_new(cast(cast(x.u, any(kI)), k), 0, 0, 0, {&x});
  }

  Ints some_axes(Val& x) {
    Ints a;
    for (size_t i = 0; i < rank(x.u); i++)
      if (chance(50)) a.push_back(i64(i));
    return a;
  }
  i64 elems_over(Val& x, const Ints& axes) {
    std::vector<i64> d = dims_of(x);
    i64 n = 1;
    for (i64 a : axes) n *= d[size_t(a)];
    return n;
  }
  // Error of a sum of n numbers below `most`, in any order; halves may be rounded several times.
  f64 sum_error(Val& x, i64 n) {
    Kind k = kind(x);
    f64 total = f64(n) * x.most, acc = is_half(k) ? 0x1p-24 : unit_of(k);
    if (x.err == 0 && x.grain > 0 && total <= x.grain / unit_of(k)) return 0;  // every partial sum is exact
    bool sum_exact = x.err == 0 && x.grain > 0 && total <= x.grain / acc;
    return f64(n) * x.err + (sum_exact ? 0 : f64(n) * acc * total) + (is_half(k) ? 2 * unit_of(k) * total : 0);
  }
  bool reduce() {
    Val& x = some();
    Kind k = kind(x);
    Ints axes = some_axes(x);
    if (axes.empty()) return false;
    i64 n = elems_over(x, axes);
    if (!is_float(k)) {
      constexpr ReduceKind kAll[] = {ReduceKind::Add, ReduceKind::Mul, ReduceKind::Max, ReduceKind::Min, ReduceKind::And, ReduceKind::Or};
      constexpr ReduceKind kBool[] = {ReduceKind::Max, ReduceKind::Min, ReduceKind::And, ReduceKind::Or};
      return put_new(tensor::reduce(x.u, k == Kind::Bool ? any(kBool) : any(kAll), axes), 0, 0, 0, {&x});
    }
    constexpr ReduceKind kFloat[] = {ReduceKind::Add, ReduceKind::Add, ReduceKind::Max, ReduceKind::Min, ReduceKind::Mul};
    ReduceKind r = any(kFloat);
    if (r == ReduceKind::Mul) {
      if (n > 4 || x.most > 100) return false;
      f64 most = std::pow(std::max(1.0, x.most), f64(std::max<i64>(n, 1)));
      return put_new(tensor::reduce(x.u, r, axes), most, 0, f64(n) * (x.err * most + unit_of(k) * most), {&x});
    }
    if (r == ReduceKind::Add) return put_new(tensor::reduce(x.u, r, axes), std::max(1.0, f64(n) * x.most), x.grain, sum_error(x, n), {&x});
    return put_new(tensor::reduce(x.u, r, axes), x.most, x.grain, x.err, {&x});
  }
  // A product that only a sum reads: matmuls, convolutions.
  bool contraction() {
    Val& x = some();
    if (!is_float(kind(x)) && kind(x) == Kind::Bool) return false;
    Val y;
    UOp b = second(x, &y);
    Ints axes = some_axes(x);
    if (axes.empty()) return false;
    Val p = x;
    p.u = x.u * b, p.most = x.most * y.most, p.grain = x.grain * y.grain;
    if (rank(p.u) != rank(x.u)) return false;  // x * 0 became the scalar 0
    p.err = exact(x) && exact(y) && p.grain > 0 && p.most <= p.grain / unit_of(kind(x)) ? 0 : x.most * y.err + y.most * x.err + x.err * y.err + unit_of(kind(x)) * p.most;
    i64 n = elems_over(x, axes);
    return put_new(tensor::reduce(p.u, ReduceKind::Add, axes), std::max(1.0, f64(n) * p.most), p.grain, is_float(kind(x)) ? sum_error(p, n) : 0, {&x});
  }
  bool softmax() {
    Val& x = some();
    if (!is_float(kind(x)) || rank(x.u) == 0 || is_half(kind(x))) return false;
    i64 axis = pick(0, i64(rank(x.u)) - 1);
    if (dims_of(x)[size_t(axis)] == 0) return false;
    const Shape& s = shape(x.u);
    auto keep = [&](UOp r) {
      Shape one = s;
      one[size_t(axis)] = idx(1);
      return tensor::expand(tensor::reshape(r, one), s);
    };
    // Not further than 30 below 0, so that small results do not vanish on one side alone.
    UOp c = clamp(x.u, -8, 8), e = alu(Op::Exp, {c - keep(tensor::reduce(c, ReduceKind::Max, {axis}))});
    UOp y = e / keep(tensor::reduce(e, ReduceKind::Add, {axis}));
    return put_new(y, 1, 0, 4 * x.err + 200 * unit_of(kind(x)), {&x});
  }
  // x against another value of its shape: scores, their softmax, and the sum of rows of either of the two.
  bool attention() {
    Val& x = some();
    if ((kind(x) != Kind::F32 && kind(x) != Kind::F64) || rank(x.u) < 2) return false;
    std::vector<i64> d = dims_of(x);
    i64 n = d.back(), rows = d[d.size() - 2];
    if (n == 0 || rows == 0 || elems_over(x, {i64(d.size()) - 2}) == 0) return false;
    Val y;
    UOp b = second(x, &y);
    if (rank(b) != rank(x.u) || !has_const_shape(b)) return false;
    auto pair = [&](UOp u, bool queries) {  // (.., rows, n) as (.., rows, 1, n) or (.., 1, rows, n), over all pairs
      Shape one(shape(u).begin(), shape(u).end() - 2), full = one;
      for (i64 i : {queries ? rows : 1, queries ? 1 : rows, n}) one.push_back(idx(i));
      for (i64 i : {rows, rows, n}) full.push_back(idx(i));
      return tensor::expand(tensor::reshape(u, one), full);
    };
    Val p = x;
    p.u = pair(x.u, true) * pair(b, false), p.most = x.most * y.most, p.grain = x.grain * y.grain;
    if (!has_const_shape(p.u) || rank(p.u) != d.size() + 1) return false;
    p.err = exact(x) && exact(y) && p.grain > 0 && p.most <= p.grain / unit_of(kind(x)) ? 0 : x.most * y.err + y.most * x.err + x.err * y.err + unit_of(kind(x)) * p.most;
    f64 scores_err = sum_error(p, n);
    UOp scores = tensor::reduce(p.u, ReduceKind::Add, {i64(d.size())});
    if (chance(60)) {  // a mask: later rows are not seen, or seen less
      Shape one(rank(scores), idx(1)), other = one;
      one[rank(scores) - 2] = idx(rows), other[rank(scores) - 1] = idx(rows);
      UOp i = tensor::expand(tensor::reshape(tensor::iota(idx(rows), Kind::I64), one), shape(scores));
      UOp j = tensor::expand(tensor::reshape(tensor::iota(idx(rows), Kind::I64), other), shape(scores));
      scores = chance(50) ? where(lt(i, j), konst_f(kind(x), -6), scores) : scores - cast(j, kind(x));
    }
    UOp c = clamp(scores, -8, 8);
    auto keep = [&](UOp r) {
      Shape one = shape(c);
      one.back() = idx(1);
      return tensor::expand(tensor::reshape(r, one), shape(c));
    };
    i64 last = i64(rank(c)) - 1;
    UOp e = alu(Op::Exp, {c - keep(tensor::reduce(c, ReduceKind::Max, {last}))});
    UOp s = e / keep(tensor::reduce(e, ReduceKind::Add, {last}));
    f64 s_err = 4 * scores_err + (200 + f64(rows)) * unit_of(kind(x));
    const Val& v = chance(50) ? x : y;
    UOp vu = &v == &x ? x.u : b;
    Shape pos(shape(s).begin(), shape(s).end()), vs(shape(vu).begin(), shape(vu).end() - 2), full;  // (.., i, n, j)
    pos.insert(pos.end() - 1, idx(1));
    for (UOp q : {idx(1), idx(n), idx(rows)}) vs.push_back(q);
    full = pos;
    full[full.size() - 2] = idx(n);
    Ints turn;
    for (size_t a = 0; a < rank(vu); a++) turn.push_back(i64(a));
    std::swap(turn[turn.size() - 1], turn[turn.size() - 2]);
    UOp out = tensor::reduce(tensor::expand(tensor::reshape(s, pos), full) * tensor::expand(tensor::reshape(tensor::permute(vu, turn), vs), full), ReduceKind::Add, {i64(full.size()) - 1});
    f64 err = f64(rows) * (s_err * v.most + v.err * (1 + s_err)) + 4 * f64(rows) * unit_of(kind(x)) * v.most;
    return put_new(out, v.most, 0, err, {&x});
  }
  bool fold() {
    Val& x = some();
    Ints axes = some_axes(x);
    if (axes.empty() || !exact(x) || kind(x) == Kind::Bool || elems_over(x, axes) == 0) return false;
    using P = PlaceholderArg;
    Kind k = kind(x);
    i64 number = folds_++;
    auto ph = [&](P::Role r, i64 i, DType d) { return tensor::placeholder({r, i, number}, d); };
    if (axes.size() == 1 && chance(60)) {
      // Largest and its first index.
      UOp n = shape(x.u)[size_t(axes[0])];
      Shape one(rank(x.u), idx(1));
      one[size_t(axes[0])] = n;
      UOp i = tensor::expand(tensor::reshape(tensor::iota(n, Kind::I64), one), shape(x.u));
      UOp v = ph(P::Input, 0, k), at = ph(P::Input, 1, Kind::I64), m = ph(P::State, 0, k), mi = ph(P::State, 1, Kind::I64);
      UOp m0 = ph(P::Side0, 0, k), i0 = ph(P::Side0, 1, Kind::I64), m1 = ph(P::Side1, 0, k), i1 = ph(P::Side1, 1, Kind::I64);
      UOp far = konst(Kind::I64, int_max(Kind::I64));
      // Ties, NaN left out, go to the smaller index, so that the order does not matter.
      UOp better = lt(m, v) | (eq(m, v) & lt(at, mi)), side = lt(m0, m1) | (eq(m0, m1) & lt(i1, i0));
      UOp in[] = {x.u, i}, init[] = {identity(ReduceKind::Max, k), far};
      UOp step[] = {where(better, v, m), where(better, at, mi)}, merge[] = {where(side, m1, m0), where(side, i1, i0)};
      UOp f = tensor::fold(in, init, step, merge, axes);
      return chance(50) ? put_new(tensor::get(f, 1), 0, 0, 0, {&x}) : put_new(tensor::get(f, 0), x.most, x.grain, 0, {&x});
    }
    if (k != Kind::F32 && k != Kind::F64) return false;
    // Sum and sum of squares in one pass.
    UOp v = ph(P::Input, 0, k), s = ph(P::State, 0, k), q = ph(P::State, 1, k);
    UOp in[] = {x.u}, init[] = {konst_f(k, 0), konst_f(k, 0)}, step[] = {s + v, q + v * v};
    UOp merge[] = {ph(P::Side0, 0, k) + ph(P::Side1, 0, k), ph(P::Side0, 1, k) + ph(P::Side1, 1, k)};
    UOp f = tensor::fold(in, init, step, merge, axes);
    i64 n = elems_over(x, axes);
    Val sq = x;
    sq.most *= sq.most, sq.grain *= sq.grain;
    if (chance(50)) return put_new(tensor::get(f, 0), f64(n) * x.most, x.grain, sum_error(x, n), {&x});
    return put_new(tensor::get(f, 1), f64(n) * sq.most, sq.grain, sum_error(sq, n), {&x});
  }

  // An index tensor for an axis of n elements: integers of the pool brought into range, or counted.
  UOp index_for(i64 n, const Shape& s, bool distinct) {
    std::vector<size_t> fits;
    for (size_t i = 0; i < pool_.size(); i++)
      if ((kind(pool_[i]) == Kind::I64 || kind(pool_[i]) == Kind::I32) && shape(pool_[i].u) == s) fits.push_back(i);
    if (!fits.empty() && !distinct && chance(70)) {
      Val& v = pool_[any(fits)];
      v.users++;
      return alu(Op::FloorMod, {v.u, konst(v.u.dtype(), n)});
    }
    UOp flat = konst(Kind::I64, 0);
    i64 step = 1;
    for (size_t a = s.size(); a-- > 0;) {
      Shape one(s.size(), idx(1));
      one[a] = s[a];
      UOp i = tensor::expand(tensor::reshape(tensor::iota(s[a], Kind::I64), one), s);
      flat = flat.is_const() ? i : flat + i * konst(Kind::I64, step);
      step *= s[a].as_int();
    }
    i64 mul = distinct ? 1 : pick(1, 7);
    return alu(Op::FloorMod, {flat * konst(Kind::I64, mul) + konst(Kind::I64, distinct ? 0 : pick(0, 5)), konst(Kind::I64, n)});
  }
  bool gather() {
    Val& x = some();
    std::vector<i64> d = dims_of(x);
    if (d.empty() || count(d) == 0 || !fixed(x)) return false;
    Val& like = some();
    Shape s = chance(60) && fixed(like) && rank(like.u) > 0 ? shape(like.u) : dims(some_dims());
    if (s.empty()) s = dims({3});
    std::vector<UOp> index;
    for (i64 n : d) index.push_back(index_for(n, s, false));
    return put(x, tensor::gather(x.u, index));
  }
  bool scatter() {
    Val& x = some();
    std::vector<i64> d = dims_of(x);
    if (d.empty() || count(d) == 0 || !fixed(x) || kind(x) == Kind::Bool) return false;
    Val up;
    std::vector<size_t> fits;
    for (size_t i = 0; i < pool_.size(); i++)
      if (pool_[i].u.dtype() == x.u.dtype() && rank(pool_[i].u) > 0 && fixed(pool_[i])) fits.push_back(i);
    if (fits.empty()) return false;
    Val& y = pool_[any(fits)];
    const Shape& s = shape(y.u);
    std::vector<UOp> index;
    for (i64 n : d) index.push_back(index_for(n, s, false));
    ScatterKind k = ScatterKind(pick(0, i64(ScatterKind::Min)));
    if (k == ScatterKind::Mul && is_float(x.u.dtype())) k = ScatterKind::Add;
    i64 n = count(dims_of(y)) + 1;
    f64 most = std::max(x.most, y.most), grain = x.grain == 0 || y.grain == 0 ? 0 : std::min(x.grain, y.grain);
    f64 err = std::max(x.err, y.err);
    if (k == ScatterKind::Add) {
      // Added one after another in the order of the updates, rounded each time: exact in, exact out.
      f64 total = x.most + f64(n) * y.most;
      err = err == 0 ? 0 : f64(n) * (err + unit_of(kind(x)) * total);
      most = total;
    }
    UOp u = tensor::scatter(x.u, y.u, index, k);
    y.users++;
    return put_new(u, most, grain, err, {&x});
  }
  bool sort() {
    Val& x = some();
    if (rank(x.u) == 0 || !exact(x) || !fixed(x)) return false;
    i64 axis = pick(0, i64(rank(x.u)) - 1);
    return put_new(tensor::sort(x.u, {axis, chance(50)}), 0, 0, 0, {&x});
  }
  bool scan() {
    Val& x = some();
    if (rank(x.u) == 0 || kind(x) == Kind::Bool) return false;
    i64 axis = pick(0, i64(rank(x.u)) - 1), n = dims_of(x)[size_t(axis)];
    bool fl = is_float(kind(x));
    ScanArg a{chance(60) ? ReduceKind::Add : chance(50) ? ReduceKind::Max : ReduceKind::Min, axis, chance(30), chance(30)};
    if (!fl && chance(30)) a.kind = ReduceKind::Mul;
    if (a.kind != ReduceKind::Add) return put_new(tensor::scan(x.u, a), x.most, x.grain, x.err, {&x});
    f64 err = fl ? sum_error(x, n) : 0;
    if (is_half(kind(x)) && err > 0) err += f64(n) * unit_of(kind(x)) * f64(n) * x.most;  // halves may be rounded at every step
    return put_new(tensor::scan(x.u, a), std::max(1.0, f64(n) * x.most), x.grain, err, {&x});
  }
  // --- control flow ---------------------------------------------------------------------------------------------------------------------
  // Runs `make` with a pool of its own: some of the values here, and `more`.
  template <class F>
  void inside(std::vector<Val> more, F make) {
    std::vector<Val> before = pool_;
    std::vector<Val> mine;
    for (size_t i = before.size() > 4 ? before.size() - 4 : 0; i < before.size(); i++) mine.push_back(before[i]);
    mine.insert(mine.end(), more.begin(), more.end());
    pool_ = mine, depth_++;
    for (int made = 0, want = int(pick(1, 5)), tries = 0; made < want && tries < 60; tries++) made += grow();
    make();
    pool_ = before, depth_--;
  }
  // The latest value that can stand for x.
  Val latest_like(const Val& x, bool want_exact) {
    for (size_t i = pool_.size(); i-- > 0;)
      if (pool_[i].u.dtype() == x.u.dtype() && same_shape(shape(pool_[i].u), shape(x.u)) && (!want_exact || exact(pool_[i]))) return pool_[i];
    return x;
  }
  // A bool of shape () from an exact value.
  UOp condition() {
    for (int tries = 0; tries < 20; tries++) {
      Val& x = some();
      if (!exact(x) || kind(x) == Kind::Bool || !fixed(x) || count(dims_of(x)) == 0) continue;
      Ints all(rank(x.u));
      for (size_t i = 0; i < all.size(); i++) all[i] = i64(i);
      x.users++;
      return lt(tensor::reduce(x.u, ReduceKind::Max, all), is_float(kind(x)) ? konst_f(x.u.dtype(), f64(pick(-4, 9))) : konst(x.u.dtype(), pick(0, 25)));
    }
    return konst(Kind::Bool, pick(0, 1));
  }
  bool branch() {
    Val x = some();
    if (depth_ > 2 || x.u.is_const()) return false;
    UOp c = condition();
    std::vector<UOp> sides[2];
    Val results[2] = {x, x};
    for (int side = 0; side < 2; side++)
      inside({x}, [&] {
        results[side] = latest_like(x, false);
        sides[side].push_back(results[side].u);
      });
    if (sides[0][0].is_const() || sides[1][0].is_const()) return false;
    const Val &a = results[0], &b = results[1];
    add({tensor::get(tensor::branch(c, sides[0], sides[1]), 0), std::max(a.most, b.most), a.grain == 0 || b.grain == 0 ? 0 : std::min(a.grain, b.grain),
         std::max(a.err, b.err)});
    return true;
  }
  bool loop() {
    if (o_.seed % 4 == 2) return list();
    Val x = some();
    bool fl = is_float(kind(x));
    if (depth_ > 2 || !exact(x) || x.u.is_const() || (fl && x.most > 1e4)) return false;
    i64 id = loops_++;
    UOp rounds = o_.free_sizes && chance(40) ? var("v0", 0, 64) : idx(pick(0, 6));
    if (!rounds.is_const() && free_size_ > 9) rounds = idx(3);
    f64 most = fl ? std::max(x.most, kMost) : 0;
    Val carry{tensor::carry({id, 0}, x.u.dtype(), shape(x.u)), most, 0, 0}, step{cast(tensor::step(id, rounds), Kind::I64)};
    std::vector<Val> more{carry, step};
    // Round t's part of a value with an element for each round.
    for (Val& v : pool_)
      if (rounds.is_const() && rank(v.u) > 0 && shape(v.u)[0].is_const() && shape(v.u)[0].as_int() >= std::max<i64>(rounds.as_int(), 1) && chance(40)) {
        UOp at = tensor::step(id, rounds);
        Val part = v;
        part.u = tensor::slice(v.u, 0, at, at + 1), part.users = 0;
        more.push_back(part);
        break;
      }
    UOp next, go = konst(Kind::Bool, 1);
    std::vector<UOp> scans;
    Val scanned;
    inside(more, [&] {
      Val n = latest_like(carry, true);
      next = n.u;
      // Its bound and its exactness hold in every round.
      if (fl) next = min(max(next, konst_f(next.dtype(), -most)), konst_f(next.dtype(), most));
      if (chance(30)) go = condition();
      scanned = pool_[size_t(pick(i64(pool_.size()) / 2, i64(pool_.size()) - 1))];
    });
    // The part of an ended loop that never ran has no value.
    bool scan = go.is_const(1) && !scanned.u.is_const() && count(dims_of(scanned)) * 64 <= o_.max_elems * 4 && chance(60);
    if (scan) scans.push_back(scanned.u);
    UOp l = tensor::loop(id, rounds, konst(Kind::Bool, 1), std::vector<UOp>{x.u}, go, std::vector<UOp>{next}, scans);
    add({tensor::get(l, 0), most, 0, 0});
    if (scan) add({tensor::get(l, 1), scanned.most, scanned.grain, scanned.err});
    return true;
  }
  bool own_buffer() {
    Val& x = some();
    return put(x, tensor::contiguous(x.u));
  }
  bool iota() {
    Kind k = chance(50) ? Kind::I64 : Kind::I32;
    add({tensor::iota(idx(std::max<i64>(1, size())), k)});
    return true;
  }

  const Options& o_;
  std::mt19937_64 rng_;
  Case c_;
  std::vector<Val> pool_;
  // A carried value that grows or shrinks by the round, in a buffer of the largest shape.
  bool list() {
    Val x = some();
    Kind k = kind(x);
    if (loops_ > 2 || rank(x.u) == 0 || !fixed(x) || x.u.is_const() || !exact(x) || !(is_float(k) ? bits(x.u.dtype()) >= 32 : is_int(x.u.dtype())) || bits(x.u.dtype()) < 8 || is_storage(k)) return false;
    size_t axis = size_t(pick(0, i64(rank(x.u)) - 1));
    i64 first = dims_of(x)[axis], n = pick(1, 4), by = pick(1, 2);
    bool shrinks = first > 1 && chance(25);
    if (shrinks) n = std::min(n, first), by = -1;
    i64 most = std::max(first, first + by * n);
    if (first == 0 || count(dims_of(x)) / first * most > o_.max_elems * 2) return false;
    i64 id = loops_++;
    UOp rounds = o_.free_sizes && chance(20) ? var("v0", 0, 64) : idx(n), step = tensor::step(id, rounds);
    if (!rounds.is_const() && (shrinks || count(dims_of(x)) > 200)) rounds = idx(n), step = tensor::step(id, rounds);
    UOp bound = shrinks ? idx(first) : normal_dim(rounds * by + first);
    Shape none(rank(x.u), idx(0)), all = shape(x.u), more = none;
    all[axis] = bound;
    more[axis] = normal_dim(bound - first);
    UOp init = tensor::pad(x.u, none, more, konst(x.u.dtype(), 0)), kept = tensor::carry({id, 0}, x.u.dtype(), all);
    UOp now = normal_dim(step * by + first), after = normal_dim((step + 1) * by + first), view = tensor::slice(kept, axis, idx(0), now), next, made;
    Shape one = shape(x.u);
    one[axis] = idx(1);
    UOp row = tensor::reshape(tensor::reduce(view, chance(50) ? ReduceKind::Max : ReduceKind::Min, {i64(axis)}), one);
    if (shrinks) {
      made = tensor::slice(view, axis, idx(1), now);
    } else {
      std::vector<UOp> parts{view};
      for (i64 i = 0; i < by; i++) parts.push_back(i ? tensor::slice(view, axis, idx(0), idx(1)) : row);
      if (chance(25)) std::rotate(parts.begin(), parts.begin() + 1, parts.end());
      if (parts[0] == view && chance(80)) {
        parts.push_back(tensor::slice(kept, axis, after, bound));
        next = tensor::concat(parts, axis);
        made = tensor::slice(next, axis, idx(0), after);
      } else {
        made = tensor::concat(parts, axis);
      }
    }
    more[axis] = normal_dim(bound - after);
    if (!next) next = tensor::pad(made, none, more, konst(x.u.dtype(), 0));
    if (shape(next) != all) return false;
    std::vector<UOp> scans;
    if (chance(60)) scans.push_back(chance(50) ? row : tensor::reduce(made, ReduceKind::Min, {i64(axis)}));
    if (shrinks && !scans.empty() && scans[0] != row) scans = {row};
    UOp go = konst(Kind::Bool, 1);
    UOp l = tensor::loop(id, rounds, go, std::vector<UOp>{init}, go, std::vector<UOp>{next}, scans);
    Val y = x;
    y.users = 0, y.most = std::max(x.most, 0.0);
    y.u = tensor::slice(tensor::get(l, 0), axis, idx(0), normal_dim(rounds * by + first));
    if (count(dims_of(y)) <= o_.max_elems * 4) add(y);
    if (!scans.empty()) y.u = tensor::get(l, 1), add(y);
    return true;
  }
  bool special_now_ = false;
  i64 free_size_ = 0, folds_ = 0, loops_ = 0, depth_ = 0;
};

const Generator::Group Generator::kGroups[] = {
    {"reshape", 6, &Generator::reshape}, {"permute", 6, &Generator::permute},   {"expand", 6, &Generator::expand},
    {"pad", 4, &Generator::pad},         {"shrink", 5, &Generator::shrink},     {"flip", 3, &Generator::flip},
    {"window", 4, &Generator::window},   {"concat", 4, &Generator::concat},     {"curve", 8, &Generator::curve},
    {"unary", 6, &Generator::unary},     {"binary", 14, &Generator::binary},    {"ternary", 5, &Generator::ternary},
    {"cast", 5, &Generator::convert},    {"bitcast", 2, &Generator::bits_of},   {"narrow", 3, &Generator::narrow},
    {"reduce", 8, &Generator::reduce},   {"contraction", 7, &Generator::contraction}, {"softmax", 2, &Generator::softmax},
    {"attention", 3, &Generator::attention},
    {"fold", 4, &Generator::fold},       {"gather", 4, &Generator::gather},     {"scatter", 3, &Generator::scatter},
    {"sort", 2, &Generator::sort},       {"scan", 3, &Generator::scan},         {"contiguous", 2, &Generator::own_buffer},
    {"iota", 1, &Generator::iota},       {"branch", 2, &Generator::branch},     {"loop", 2, &Generator::loop},
    {"list", 1, &Generator::list},
    {nullptr, 0, nullptr},
};

}  // namespace

Case generate(const Options& o) { return Generator(o).run(); }

std::string difference(const Values& got, const Values& want, f64 error) {
  if (got.dtype != want.dtype || got.dims != want.dims)
    return str(name(got.dtype), "(", join(got.dims), ") in place of ", name(want.dtype), "(", join(want.dims), ")");
  i64 bad = 0, first = 0;
  f64 worst = 0;
  for (i64 i = 0; i < want.elems(); i++) {
    if (got.v[i] == want.v[i]) continue;
    f64 g = got.number(i), w = want.number(i), d = std::abs(g - w);
    if (is_float(want.dtype) && (g == w || (std::isnan(g) && std::isnan(w)) || d <= error)) continue;
    if (!bad++) first = i;
    worst = std::max(worst, std::isnan(d) ? kInf : d);
  }
  if (!bad) return "";
  return str(bad, " of ", want.elems(), " elements are wrong; element ", first, " is ", got.number(first), ", expected ", want.number(first), " +- ", error,
             "; largest difference ", worst);
}

}  // namespace tg::fuzz
