#include "layer_gen.h"

#include <algorithm>
#include <random>

#include "base/error.h"
#include "base/settings.h"

namespace tg::fuzz {
namespace {

constexpr i64 kMostWork = 300000;   // products of one contraction
constexpr i64 kMostElems = 12000;   // of one value
constexpr f64 kClamp = 4;           // values go no further between layers

class Layers {
 public:
  explicit Layers(u64 seed) : rng_(seed * 0x9e3779b97f4a7c15ull + 1) {
    c_.graph.arena = std::make_shared<Arena>();
  }

  Case run() {
    Arena::Scope scope(*c_.graph.arena);
    if (chance(70)) add(input({1, any({1, 3, 4, 8, 16, 17}), any({4, 5, 7, 8, 14}), any({4, 6, 8, 9, 16})}));
    else add(input({any({1, 2}), any({4, 7, 16, 32}), any({8, 12, 16, 24, 32, 33})}));
    i64 layers = pick(2, 6);
    for (i64 made = 0, tries = 0; made < layers && tries < 100; tries++) made += grow();
    std::vector<UOp> out;
    for (size_t i = pool_.size(); i-- > 0 && out.size() < 3;)
      if (!pool_[i].read && !pool_[i].u.is(Op::Param)) output(out, pool_[i].u);
    if (out.empty()) output(out, pool_.back().u);
    c_.graph.sink = node(Op::Sink, Kind::Void, std::span<const UOp>(out));
    for (size_t i = 0; i < c_.storage.size(); i++) c_.graph.constants[i].bytes = c_.storage[i];
    return std::move(c_);
  }

 private:
  struct Val {
    UOp u;
    bool read = false;
  };

  // --- chance ---------------------------------------------------------------------------------------------------------------------------
  i64 pick(i64 lo, i64 hi) { return lo + i64(rng_() % u64(hi - lo + 1)); }
  bool chance(int percent) { return pick(1, 100) <= percent; }
  i64 any(std::initializer_list<i64> v) { return v.begin()[pick(0, i64(v.size()) - 1)]; }
  Val& some(size_t want_rank) {
    std::vector<size_t> fit;
    for (size_t i = 0; i < pool_.size(); i++)
      if (rank(pool_[i].u) == want_rank) fit.push_back(i);
    static Val none;
    if (fit.empty()) return none = {};
    // Newer values more often: networks are deep.
    size_t i = fit[size_t(std::max(pick(0, i64(fit.size()) - 1), pick(0, i64(fit.size()) - 1)))];
    return pool_[i];
  }

  // --- values ---------------------------------------------------------------------------------------------------------------------------
  Values numbers(const std::vector<i64>& d, Kind k) {
    std::vector<f64> v;
    for (i64 i = count(d); i > 0; i--) v.push_back(f64(pick(-3, 3)));
    return values(k, d, v);
  }
  UOp input(const std::vector<i64>& d, Kind k = Kind::F32) {
    UOp u = tensor::param(i64(c_.inputs.size()), k, dims(std::span<const i64>(d)));
    c_.graph.inputs.push_back({str("x", c_.inputs.size()), k, shape(u)});
    c_.inputs.push_back(numbers(d, k));
    return u;
  }
  UOp weight(const std::vector<i64>& d, Kind k = Kind::F32) {
    if (chance(12)) return input(d, k);
    c_.storage.push_back(encode(numbers(d, k)));
    c_.graph.constants.push_back({str("w", c_.storage.size() - 1), k, d, {}, nullptr});
    return tensor::constant(i64(c_.storage.size()) - 1, k, dims(std::span<const i64>(d)));
  }
  void add(UOp u) { pool_.push_back({u}); }
  bool put(Val& from, UOp u) {
    if (!u || count(const_shape(u)) > kMostElems || count(const_shape(u)) == 0) return false;
    from.read = true;  // before the pool moves
    add(u);
    return true;
  }
  void output(std::vector<UOp>& out, UOp u) {
    out.push_back(u);
    c_.graph.outputs.push_back({str("y", out.size() - 1), u.dtype(), shape(u)});
    c_.error.push_back(0);
  }
  static UOp number(f64 v) { return konst_f(Kind::F32, v); }
  static UOp clamp(UOp x) { return max(min(x, number(kClamp)), number(-kClamp)); }

  // What stands behind a contraction: bias, activation, a value of the same shape, another activation.
  UOp epilogue(UOp y, size_t channels) {
    Shape one(rank(y), idx(1));
    one[channels] = shape(y)[channels];
    if (chance(60)) y = y + tensor::expand(tensor::reshape(weight({one[channels].as_int()}), one), shape(y));
    if (chance(20)) y = y * tensor::expand(tensor::reshape(weight({one[channels].as_int()}), one), shape(y));
    y = clamp(y);
    if (chance(40)) y = max(y, number(0));
    if (chance(30))
      for (Val& v : pool_)
        if (same_shape(shape(v.u), shape(y)) && v.u.dtype() == y.dtype()) {
          v.read = true;
          y = clamp(y + v.u);
          break;
        }
    return y;
  }

  // --- layers ---------------------------------------------------------------------------------------------------------------------------
  bool grow() {
    switch (pick(0, 16)) {
      case 0: case 1: case 2: case 3: return conv();
      case 4: return pool();
      case 5: case 6: return matmul();
      case 7: return batch_matmul();
      case 8: return concat();
      case 9: return rows();
      case 10: return move();
      case 11: return turn();
      case 12: return elementwise();
      case 13: return pad();
      case 14: return one_hot();
      case 15: return recurrent();
      default: return globally();
    }
  }

  // A LOOP over axis 1 of x (a, steps, k) that carries rows (a, n): each round multiplies them by weights, of all rows or a matrix for each.
  bool recurrent() {
    Val& x = some(3);
    if (!x.u) return false;
    std::vector<i64> d = const_shape(x.u);
    i64 n = any({1, 3, 4, 8, 16, 17, 24}), id = i64(pool_.size()), steps = d[1];
    if (steps > 20 || d[0] * steps * n * (2 * n + d[2]) > kMostWork) return false;
    UOp count = idx(steps), t = tensor::step(id, count);
    UOp w = tensor::expand(tensor::reshape(weight({2 * n, d[2]}), dims({1, 2 * n, d[2]})), dims({d[0], 2 * n, d[2]}));
    UOp in = product(x.u, w);  // (a, steps, 2n)
    UOp at = chance(50) ? t : count - 1 - t;
    UOp now = tensor::reshape(tensor::slice(in, 1, at, at + 1), dims({d[0], 2 * n}));
    UOp h = tensor::carry({id, 0}, Kind::F32, dims({d[0], n})), c = tensor::carry({id, 1}, Kind::F32, dims({d[0], n}));
    UOp r = chance(50) ? weight({d[0], 2 * n, n}) : tensor::expand(tensor::reshape(weight({2 * n, n}), dims({1, 2 * n, n})), dims({d[0], 2 * n, n}));
    UOp from = chance(20) ? tensor::flip(h, Ints{i64(pick(0, 1))}) : h;
    UOp g = now + tensor::reshape(product(tensor::reshape(from, dims({d[0], 1, n})), r), dims({d[0], 2 * n}));
    g = clamp(g);
    if (chance(70)) g = tensor::contiguous(g);
    UOp a = tensor::slice(g, 1, idx(0), idx(n)), b = tensor::slice(g, 1, idx(n), idx(2 * n));
    UOp next_c = clamp(max(a, number(0)) * c + b), next_h = clamp(next_c + a * number(2));
    if (chance(30)) next_h = clamp(next_h - tensor::expand(tensor::reshape(tensor::reduce(next_c, ReduceKind::Max, {1}), dims({d[0], 1})), shape(next_c)));
    if (chance(30)) next_h = where(lt(cast(t, Kind::F32), number(f64(pick(0, steps)))), next_h, h);
    if (chance(10)) next_c = h;
    UOp first = chance(50) ? input({d[0], n}) : tensor::expand(tensor::reshape(number(1), dims({1, 1})), dims({d[0], n}));
    UOp yes = konst(Kind::Bool, 1);
    std::vector<UOp> init{first, chance(50) ? first : input({d[0], n})}, next{next_h, next_c}, scans{next_h};
    if (chance(30)) scans.push_back(c);
    UOp l = tensor::loop(id, count, yes, init, yes, next, scans);
    x.read = true;
    add(tensor::permute(tensor::get(l, 2), Ints{1, 0, 2}));
    if (scans.size() > 1) add(tensor::get(l, 3));
    if (chance(60)) add(tensor::reshape(tensor::get(l, 0), dims({1, d[0], n})));
    if (chance(60)) add(tensor::reshape(tensor::get(l, 1), dims({d[0], 1, n})));
    return true;
  }

  // Rows of a table by a product with a one-hot matrix, as some exporters write an embedding: (1, n) integers to (1, n, m).
  bool one_hot() {
    i64 n = pick(1, 40), k = pick(2, 12), m = any({1, 4, 8, 16, 17}), first = pick(-1, 2);
    std::vector<i64> full{1, n, k};
    UOp i = input({1, n}, chance(50) ? Kind::I32 : Kind::I64);
    std::vector<f64> counts;
    for (i64 j = 0; j < k; j++) counts.push_back(f64(first + j));
    c_.storage.push_back(encode(values(i.dtype().kind, {1, 1, k}, counts)));
    c_.graph.constants.push_back({str("w", c_.storage.size() - 1), i.dtype(), {1, 1, k}, {}, nullptr});
    UOp c = tensor::constant(i64(c_.storage.size()) - 1, i.dtype(), dims({1, 1, k}));
    UOp hot = cast(eq(tensor::expand(tensor::reshape(i, dims({1, n, 1})), dims(full)), tensor::expand(c, dims(full))), Kind::F32);
    full.push_back(m);
    UOp w = tensor::expand(tensor::reshape(weight({k, m}), dims({1, 1, k, m})), dims(full));
    add(tensor::reduce(tensor::expand(tensor::reshape(hot, dims({1, n, k, 1})), dims(full)) * w, ReduceKind::Add, {2}));
    return true;
  }

  bool conv() {
    Val& x = some(4);
    if (!x.u) return false;
    std::vector<i64> d = const_shape(x.u);
    i64 c = d[1], kh = any({1, 1, 2, 3, 3, 5}), kw = chance(80) ? kh : any({1, 3, 4});
    i64 groups = chance(60) ? 1 : chance(70) ? c : any({2, 3, 4});
    if (c % groups) return false;
    i64 m = groups * (groups == c ? any({1, 1, 1, 2}) : chance(50) ? any({1, 2, 3}) : std::max<i64>(1, any({4, 8, 12, 16, 24, 33}) / groups));
    i64 s = any({1, 1, 1, 2, 3}), dil = kh * kw > 1 ? any({1, 1, 1, 2}) : 1;
    std::vector<i64> pads{0, 0, 0, 0};
    if (chance(60)) pads = {dil * (kh / 2), dil * (kw / 2), dil * (kh / 2), dil * (kw / 2)};
    if (chance(20)) pads[size_t(pick(0, 3))]++;
    UOp p = tensor::pad(x.u, dims({0, 0, pads[0], pads[1]}), dims({0, 0, pads[2], pads[3]}), number(0));
    std::vector<i64> e = const_shape(p);
    if (e[2] < dil * (kh - 1) + 1 || e[3] < dil * (kw - 1) + 1) return false;
    UOp v = tensor::window(p, {{2, 3}, {kh, kw}, {s, s}, {dil, dil}});
    std::vector<i64> w = const_shape(v);
    i64 per = c / groups, out = m / groups;
    if (d[0] * m * w[2] * w[3] * per * kh * kw > kMostWork || d[0] * m * w[2] * w[3] > kMostElems) return false;
    std::vector<i64> full{d[0], groups, out, per, w[2], w[3], kh, kw};
    Factors f = factors();
    Kind k = f == Factors::Wide || f == Factors::Bytes ? Kind::I32 : Kind::F32;
    UOp a = tensor::expand(tensor::reshape(v, dims({d[0], groups, 1, per, w[2], w[3], kh, kw})), dims(std::span<const i64>(full)));
    a = left(a, f);
    UOp b = weight({m, per, kh, kw}, k == Kind::I32 ? Kind::I8 : f == Factors::Half ? Kind::BF16 : chance(10) ? Kind::F16 : chance(15) ? Kind::I8 : Kind::F32);
    b = tensor::expand(tensor::reshape(cast(b, k), dims({1, groups, out, per, 1, 1, kh, kw})), dims(std::span<const i64>(full)));
    UOp y = tensor::reduce(cast(a, k) * b, ReduceKind::Add, {3, 6, 7});
    y = cast(tensor::reshape(y, dims({d[0], m, w[2], w[3]})), Kind::F32);
    return put(x, epilogue(y, 1));
  }
  bool pool() {
    Val& x = some(4);
    if (!x.u) return false;
    std::vector<i64> d = const_shape(x.u);
    i64 k = any({2, 2, 3}), s = any({1, 2, 2, 3}), p = chance(40) ? 1 : 0;
    bool max_pool = chance(60);
    UOp y = tensor::pad(x.u, dims({0, 0, p, p}), dims({0, 0, p, p}), max_pool ? identity(ReduceKind::Max, Kind::F32) : number(0));
    if (d[2] + 2 * p < k || d[3] + 2 * p < k) return false;
    y = tensor::reduce(tensor::window(y, {{2, 3}, {k, k}, {s, s}, {1, 1}}), max_pool ? ReduceKind::Max : ReduceKind::Add, {4, 5});
    return put(x, max_pool ? y : clamp(y));
  }
  bool globally() {
    Val& x = some(4);
    if (!x.u) return false;
    std::vector<i64> d = const_shape(x.u);
    UOp y = clamp(tensor::reduce(x.u, chance(50) ? ReduceKind::Add : ReduceKind::Max, {2, 3}));
    if (chance(50)) {  // squeeze and excite
      UOp g = tensor::expand(tensor::reshape(y, dims({d[0], d[1], 1, 1})), shape(x.u));
      return put(x, clamp(x.u * g));
    }
    return put(x, tensor::reshape(y, dims({1, d[0], d[1]})));
  }
  // What the factors of a sum are kept in: small integers are exact in all of them.
  enum class Factors { Float, Wide, Bytes, Half };
  Factors factors() { return Factors(any({0, 0, 0, 0, 0, 1, 2, 2, 3, 3})); }
  static UOp left(UOp u, Factors f) { return f == Factors::Bytes ? cast(u, Kind::U8) : f == Factors::Half ? cast(u, Kind::BF16) : u; }
  static UOp right(UOp u, Factors f) { return f == Factors::Bytes ? cast(u, Kind::I8) : f == Factors::Half ? cast(u, Kind::BF16) : u; }
  UOp product(UOp a, UOp b) {  // (.., M, K) and (.., N, K): the last axis is summed
    Factors f = factors();
    Kind k = f == Factors::Wide || f == Factors::Bytes ? Kind::I32 : Kind::F32;
    return cast(product(cast(left(a, f), k), cast(right(b, f), k), 0), Kind::F32);
  }
  static UOp product(UOp a, UOp b, int) {
    std::vector<i64> d = const_shape(a), e = const_shape(b), x = d, y = e, full = d;
    x.insert(x.end() - 1, 1), y.insert(y.end() - 2, 1), full.insert(full.end() - 1, e[e.size() - 2]);
    auto to = [&](UOp u, std::vector<i64>& s) { return tensor::expand(tensor::reshape(u, dims(std::span<const i64>(s))), dims(std::span<const i64>(full))); };
    return tensor::reduce(to(a, x) * to(b, y), ReduceKind::Add, {i64(full.size()) - 1});
  }
  UOp widened(const std::vector<i64>& d) {  // weights kept in bytes, some with zero points
    if (chance(60)) return cast(weight(d, Kind::I8), Kind::F32);
    c_.storage.push_back(encode(values(Kind::U8, d, [&] {
      std::vector<f64> v;
      for (i64 i = count(d); i > 0; i--) v.push_back(f64(pick(125, 131)));
      return v;
    }())));
    c_.graph.constants.push_back({str("w", c_.storage.size() - 1), Kind::U8, d, {}, nullptr});
    UOp w = cast(tensor::constant(i64(c_.storage.size()) - 1, Kind::U8, dims(std::span<const i64>(d))), Kind::I32);
    return cast(w - konst(Kind::I32, 128), Kind::F32);
  }
  // Products of one value with several weights; other seeds mean what they did without JOIN=1.
  bool products_of_one() {
    Val& x = some(3);
    if (!x.u) return false;
    UOp from = x.u;
    std::vector<i64> d = const_shape(from);
    bool bytes = chance(30), turned = chance(60), biased = chance(60);
    i64 made = 0;
    for (i64 n : {any({1, 3, 8, 16, 24}), any({2, 5, 16, 17, 40}), any({0, 3, 8})}) {
      if (n == 0 || d[0] * d[1] * d[2] * n > kMostWork || d[0] * d[1] * n > kMostElems) continue;
      std::vector<i64> wd = turned ? std::vector<i64>{d[2], n} : std::vector<i64>{n, d[2]};
      UOp w = bytes ? cast(weight(wd, Kind::I8), Kind::F32) : weight(wd);
      if (turned) w = tensor::permute(w, Ints{1, 0});
      UOp b = tensor::expand(tensor::reshape(w, dims({1, n, d[2]})), dims({d[0], n, d[2]}));
      UOp y = product(from, b, 0);
      if (biased && chance(80)) y = y + tensor::expand(tensor::reshape(weight({n}), dims({1, 1, n})), shape(y));
      y = clamp(y);
      if (chance(30)) y = max(y, number(0));
      for (Val& v : pool_) v.read |= v.u == from;
      add(y);
      made++;
    }
    return made > 0;
  }
  bool matmul() {
    if (settings::JOIN() == 1 && chance(70)) return products_of_one();
    Val& x = some(3);
    if (!x.u) return false;
    std::vector<i64> d = const_shape(x.u);
    i64 n = any({1, 3, 8, 16, 24, 32, 40, 65});
    if (d[0] * d[1] * d[2] * n > kMostWork) return false;
    bool by_rows = chance(70);
    std::vector<i64> wd = by_rows ? std::vector<i64>{d[2], n} : std::vector<i64>{n, d[2]};
    UOp w = chance(35) ? widened(wd) : weight(wd);
    if (by_rows) w = tensor::permute(w, Ints{1, 0});
    UOp b = tensor::expand(tensor::reshape(w, dims({1, n, d[2]})), dims({d[0], n, d[2]}));
    return put(x, epilogue(product(x.u, b), 2));
  }
  bool batch_matmul() {  // of two values: scores, then their use
    Val& x = some(3);
    if (!x.u) return false;
    std::vector<i64> d = const_shape(x.u);
    for (Val& y : pool_) {
      if (rank(y.u) != 3) continue;
      std::vector<i64> e = const_shape(y.u);
      if (d[0] != e[0] || d[0] * d[1] * d[2] * std::max(e[1], e[2]) > kMostWork) continue;
      UOp b = d[2] == e[2] ? y.u : d[2] == e[1] ? tensor::permute(y.u, Ints{0, 2, 1}) : UOp{};
      if (!b) continue;
      y.read = true;
      return put(x, clamp(product(x.u, b)));
    }
    return false;
  }
  bool concat() {
    size_t r = chance(60) ? 4 : 3;
    Val& x = some(r);
    if (!x.u) return false;
    size_t axis = size_t(pick(0, i64(r) - 1));
    std::vector<UOp> parts{x.u};
    for (Val& v : pool_) {
      if (parts.size() > 3 || rank(v.u) != r || (v.u == x.u && chance(80))) continue;
      bool fit = true;
      for (size_t a = 0; a < r; a++) fit &= a == axis || shape(v.u)[a] == shape(x.u)[a];
      if (fit) v.read = true, parts.push_back(v.u);
    }
    return parts.size() > 1 && put(x, tensor::concat(parts, axis));
  }
  bool rows() {  // x less the largest (or the sum) of its row
    size_t r = chance(50) ? 4 : 3;
    Val& x = some(r);
    if (!x.u) return false;
    i64 axis = chance(60) ? i64(r) - 1 : pick(0, i64(r) - 1);
    Shape one = shape(x.u);
    one[size_t(axis)] = idx(1);
    UOp y = clamp(x.u - tensor::expand(tensor::reshape(tensor::reduce(x.u, chance(50) ? ReduceKind::Max : ReduceKind::Add, {axis}), one), shape(x.u)));
    if (chance(40)) y = clamp(y * tensor::expand(tensor::reshape(tensor::reduce(y, ReduceKind::Add, {axis}), one), shape(y)));
    return put(x, y);
  }
  bool move() {  // half of an axis, every second element, backwards, or each element twice
    size_t r = chance(60) ? 4 : 3;
    Val& x = some(r);
    if (!x.u) return false;
    size_t a = size_t(pick(0, i64(r) - 1));
    std::vector<i64> d = const_shape(x.u);
    switch (pick(0, 3)) {
      case 0: return d[a] >= 2 && put(x, tensor::slice(x.u, a, idx(d[a] / 2), idx(d[a])));
      case 1: {
        Shape b(r, idx(0)), e = shape(x.u), st(r, idx(1));
        st[a] = idx(2);
        return put(x, tensor::shrink(x.u, b, e, st));
      }
      case 2: return put(x, tensor::flip(x.u, Ints{i64(a)}));
      default: {
        std::vector<i64> s = d, t = d;
        s.insert(s.begin() + i64(a) + 1, 1), t.insert(t.begin() + i64(a) + 1, 2), d[a] *= 2;
        return put(x, tensor::reshape(tensor::expand(tensor::reshape(x.u, dims(std::span<const i64>(s))), dims(std::span<const i64>(t))), dims(std::span<const i64>(d))));
      }
    }
  }
  bool turn() {  // between maps and rows, and transposes
    if (chance(50)) {
      Val& x = some(4);
      if (!x.u) return false;
      std::vector<i64> d = const_shape(x.u);
      UOp y = tensor::reshape(x.u, dims({d[0], d[1], d[2] * d[3]}));
      if (chance(60)) y = tensor::permute(y, Ints{0, 2, 1});
      return put(x, y);
    }
    Val& x = some(3);
    if (!x.u) return false;
    std::vector<i64> d = const_shape(x.u);
    if (chance(50)) return put(x, tensor::permute(x.u, Ints{0, 2, 1}));
    i64 heads = any({2, 4});  // (B, S, H*D) to (B*H, S, D)
    if (d[2] % heads) return false;
    UOp y = tensor::permute(tensor::reshape(x.u, dims({d[0], d[1], heads, d[2] / heads})), Ints{0, 2, 1, 3});
    return put(x, chance(50) ? y : tensor::reshape(y, dims({d[0] * heads, d[1], d[2] / heads})));
  }
  bool elementwise() {
    Val& x = some(chance(60) ? 4 : 3);
    if (!x.u) return false;
    for (Val& v : pool_)
      if (v.u != x.u && same_shape(shape(v.u), shape(x.u))) {
        v.read = true;
        return put(x, clamp(chance(50) ? x.u + v.u : x.u * v.u));
      }
    return put(x, where(lt(x.u, number(0)), x.u * number(2), x.u));
  }
  bool pad() {
    Val& x = some(4);
    if (!x.u) return false;
    return put(x, tensor::pad(x.u, dims({0, 0, pick(0, 2), pick(0, 1)}), dims({0, 0, pick(0, 1), pick(0, 2)}), number(f64(any({0, 0, 0, 1})))));
  }

  std::mt19937_64 rng_;
  Case c_;
  std::vector<Val> pool_;
};

}  // namespace

Case generate_layers(u64 seed) { return Layers(seed).run(); }

}  // namespace tg::fuzz
