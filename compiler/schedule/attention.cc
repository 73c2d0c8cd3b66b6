#include "schedule/attention.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "ir/tensor.h"
#include "rules/symbolic.h"
#include "schedule/index.h"
#include "schedule/realize.h"

namespace tg {
namespace {

constexpr i64 kMostKeys = 1 << 16;  // rows of a tile are on the stack

bool moves(UOp u) { return u.in(Op::Reshape | Op::Permute | Op::Expand); }
UOp below_movement(UOp u) {
  while (moves(u)) u = u.src(0);
  return u;
}
bool reduces_last(UOp u, ReduceKind kind) {
  if (!u.is(Op::Reduce)) return false;
  ReduceArg a = u.arg<ReduceArg>();
  return a.kind == kind && a.axes.size() == 1 && a.axes[0] + 1 == i64(rank(u.src(0)));
}
bool sums_products(UOp u) { return u.is(Op::Reduce) && u.dtype() == DType(Kind::F32) && u.arg<ReduceArg>().kind == ReduceKind::Add && u.src(0).is(Op::Mul); }

// exp, scores and total of exp(scores - max) / total over the last axis.
bool match_softmax(UOp u, Attention* a) {
  if (!u.is(Op::Div) || u.dtype() != DType(Kind::F32) || !u.src(0).is(Op::Exp)) return false;
  UOp e = u.src(0), total = below_movement(u.src(1));
  if (!reduces_last(total, ReduceKind::Add) || total.src(0) != e || !e.src(0).is(Op::Sub)) return false;
  UOp s = e.src(0).src(0), m = below_movement(e.src(0).src(1));
  if (!reduces_last(m, ReduceKind::Max) || m.src(0) != s) return false;
  a->quotient = u, a->exp = e, a->total = total, a->scores = s;
  return true;
}

// Where the factor reads the probabilities: the last coordinate is the summed axis, which no other coordinate sees.
bool reads_rows(const Attention& a, UOp factor, i64 axis) {
  Shape at;
  const Shape& dims = shape(factor);
  for (size_t i = 0; i < dims.size(); i++) at.push_back(dims[i].is_const(1) ? idx(0) : range(dims[i], {i64(i), 0, 0, AxisKind::Loop}));
  UOp j = at[size_t(axis)];
  for (UOp m : a.chain) at = source_index(m, at, nullptr);
  if (simplify(at.back()) != j) return false;
  at.pop_back();
  for (UOp& x : at) x = simplify(x);
  std::vector<UOp> used = ranges_in(at);
  return std::find(used.begin(), used.end(), j) == used.end();
}

// The one sum of products that the scores are made of by movement and arithmetic.
UOp product_below(UOp scores) {
  UOp found;
  for (std::vector<UOp> todo{scores}; !todo.empty();) {
    UOp u = todo.back();
    todo.pop_back();
    if (sums_products(u)) {
      if (found && found != u) return {};
      found = u;
    } else if (moves(u)) {
      todo.push_back(u.src(0));
    } else if (is_elementwise(u.op())) {
      todo.insert(todo.end(), u.src().begin(), u.src().end());
    }
  }
  return found;
}

// Nothing but what leads to the sum reads the nodes from the product upwards.
bool read_here_only(const Attention& a, Memo<std::vector<UOp>>& users) {
  UOp top = a.sum.src(0);
  Memo<u8> inside;
  inside[top] = inside[a.product] = 1;
  std::vector<UOp> order = toposort(top);
  for (UOp u : order)
    for (UOp s : u.src()) inside[u] |= inside[s] && s != top;
  for (UOp u : order)
    if (inside[u])
      for (UOp x : users[u])
        if (u == top ? x != a.sum : !inside[x]) return false;
  return true;
}

f64 fma_per_cycle(const Target& t) { return f64(t.fma_per_cycle_bytes) / 4; }
f64 vectors(i64 n, const Target& t) { return std::ceil(f64(n) * 4 / f64(t.vector_bytes)); }

// Measured on Zen 4, in cycles.
constexpr f64 kSoftmax = 16;         // a vector of a row
constexpr i64 kWide = 256;           // from where keys and values of a place do not stay near while a few queries pass over them
constexpr f64 kKernel = 3000;        // to start a kernel and warm up
constexpr f64 kNearBytes = 64, kMiddleBytes = 32, kFarBytes = 8;  // a cycle, of a matrix that the core's own cache holds easily, just, or not

}  // namespace

std::optional<Attention> match_attention(UOp u, Memo<std::vector<UOp>>& users) {
  if (!sums_products(u) || u.arg<ReduceArg>().axes.size() != 1 || !has_const_shape(u.src(0))) return {};
  Attention a;
  a.sum = u;
  i64 axis = u.arg<ReduceArg>().axes[0];
  for (a.side = 0; a.side < 2; a.side++) {
    a.chain.clear();
    UOp x = u.src(0).src(a.side);
    for (; moves(x); x = x.src(0)) a.chain.push_back(x);
    if (match_softmax(x, &a)) break;
  }
  if (a.side == 2 || !has_const_shape(a.scores) || !reads_rows(a, u.src(0).src(a.side), axis)) return {};
  a.product = product_below(a.scores);
  if (!a.product || !has_const_shape(a.product.src(0)) || elems(shape(a.product)) != elems(shape(a.scores))) return {};
  if (!read_here_only(a, users)) return {};
  std::vector<i64> rows = const_shape(a.scores);
  a.keys = rows.back();
  i64 places = 1;  // of rows
  for (size_t i = 0; i + 1 < rows.size(); i++) places *= rows[i];
  a.depth = elems(shape(a.product.src(0))).as_int() / std::max<i64>(1, elems(shape(a.product)).as_int());
  a.width = elems(shape(u)).as_int() / std::max<i64>(1, places);
  std::vector<i64> pairs = const_shape(a.product);  // .., queries, keys
  a.queries = std::max<i64>(pairs.size() > 1 ? pairs[pairs.size() - 2] : 1, 1);
  a.batch = places / a.queries;
  if (a.keys < 2 || a.keys > kMostKeys || a.width < 1 || a.width * places != elems(shape(u)).as_int()) return {};
  return a;
}

f64 split_attention_cycles(const Attention& a, const Target& t) {
  f64 rows = f64(a.batch * a.queries), lanes = f64(t.vector_bytes) / 4;
  f64 fma = rows * (f64(a.depth) * vectors(a.keys, t) + f64(a.keys) * vectors(a.width, t)) * lanes / 0.92;
  f64 bytes = 4 * rows * f64(a.keys), l2 = f64(t.l2_bytes);  // of the matrix of scores, which is written twice and read three times
  return fma / fma_per_cycle(t) + rows * vectors(a.keys, t) * kSoftmax + 5 * bytes / (bytes < l2 / 3 ? kNearBytes : bytes < l2 ? kMiddleBytes : kFarBytes) + 3 * kKernel;
}

f64 joined_attention_cycles(const Attention& a, const Target& t) {
  f64 rows = f64(a.batch * a.queries), lanes = f64(t.vector_bytes) / 4;
  f64 fma = rows * (f64(a.depth) * vectors(a.keys, t) + f64(a.keys) * vectors(a.width, t)) * lanes / 0.88;
  if (std::max(a.depth, a.width) > kWide) fma *= 1.3;
  return fma / fma_per_cycle(t) + rows * vectors(a.keys, t) * kSoftmax + kKernel;
}

namespace {

// The product with its keys where they may lie as the scores want them, keys side by side: an input, or what is one of the graph's outputs, is copied.
UOp with_free_keys(const Attention& a, Memo<UOp>& to, const std::function<bool(UOp)>& fixed) {
  UOp sum = to[a.product], products = sum.src(0);
  const Shape& dims = shape(products);
  // The keys' axis of the scores, as the product has it, is the last of its own axes.
  std::vector<UOp> src(products.src().begin(), products.src().end());
  bool changed = false;
  for (UOp& x : src) {
    std::vector<UOp> chain;
    UOp base = x;
    for (; moves(base); base = base.src(0)) chain.push_back(base);
    if (!fixed(base)) continue;
    Shape at;
    for (size_t i = 0; i < dims.size(); i++) at.push_back(dims[i].is_const(1) ? idx(0) : range(dims[i], {i64(i), 0, 0, AxisKind::Loop}));
    size_t last = dims.size();  // the keys: the last axis that the sum keeps
    Ints axes = sum.arg<ReduceArg>().axes;
    while (last > 0 && std::find(axes.begin(), axes.end(), i64(last - 1)) != axes.end()) last--;
    UOp j = last ? at[last - 1] : idx(0);
    for (UOp m : chain) at = source_index(m, at, nullptr);
    std::vector<UOp> used = ranges_in(at);
    std::vector<UOp> inner = at.empty() ? used : ranges_in(std::span(&at.back(), 1));
    bool moved = std::find(used.begin(), used.end(), j) != used.end(), neighbours = std::find(inner.begin(), inner.end(), j) != inner.end();
    if (!moved || neighbours) continue;
    UOp y = tensor::contiguous(base);
    for (size_t i = chain.size(); i-- > 0;) {
      std::vector<UOp> s(chain[i].src().begin(), chain[i].src().end());
      s[0] = y;
      y = with_src(chain[i], s);
    }
    x = y, changed = true;
  }
  if (!changed) return sum;
  UOp product = with_src(products, src);
  return with_src(sum, std::span(&product, 1));
}

}  // namespace

UOp joined_attention(const Attention& a, Memo<UOp>& to, const std::function<bool(UOp)>& fixed) {
  // The softmax again, over a product that may have been changed.
  UOp product = with_free_keys(a, to, fixed);
  if (product != to[a.product]) {
    Memo<u8> above;
    above[a.sum], above[a.product] = 1;
    to[a.product] = product;
    for (UOp u : toposort(a.sum.src(0))) {
      for (UOp s : u.src()) above[u] |= above[s];
      if (!above[u] || u == a.product) continue;
      std::vector<UOp> src;
      for (UOp s : u.src()) src.push_back(to[s]);
      to[u] = with_src(u, src);
    }
  }
  Asked& ask = asked();
  ask.row[to[a.scores]] = Asked::Kept, ask.row[to[a.exp]] = Asked::Summed;
  auto factor = [&](UOp x) {
    for (size_t i = a.chain.size(); i-- > 0;) {
      std::vector<UOp> src(a.chain[i].src().begin(), a.chain[i].src().end());
      src[0] = x;
      x = with_src(a.chain[i], src);
    }
    return x;
  };
  // Divided after the sum, once an element of the result.
  UOp products = a.sum.src(0), other = to[products.src(1 - a.side)], e = factor(to[a.exp]);
  UOp sum = node(Op::Mul, products.dtype(), {a.side ? other : e, a.side ? e : other});
  sum = with_src(a.sum, std::span(&sum, 1));
  UOp total = factor(to[a.quotient.src(1)]);
  total = tensor::slice(total, size_t(a.sum.arg<ReduceArg>().axes[0]), idx(0), idx(1));
  UOp root = tensor::contiguous(sum / tensor::reshape(total, shape(sum)));
  ask.phases[root] = 1;
  keep_in_kernel(root.src(0), to[a.product]);
  ask.inlined[to[a.product]] = 1;
  return root;
}

}  // namespace tg
