#include "codegen/patterns.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "codegen/transcendental.h"
#include "ir/sum.h"

namespace tg {
namespace {

bool is_number(UOp u, f64 v) { return u.is_const() && u.dtype().kind == Kind::F32 && std::abs(u.as_float() - v) <= 1e-6 * std::abs(v); }

// A guard that PADTO puts around an element: a loop below a size. A mask of the model is none.
bool is_padding(UOp gate) {
  if (!gate.is(Op::Lt) || !is_uniform(gate.src(1))) return false;
  for (UOp u : toposort(gate))
    if (!u.in(Op::Range | Op::Const | Op::Add | Op::Mul | Op::Lt) && !is_uniform(u)) return false;
  return true;
}
// x without that guard: where it fails nobody reads the result.
UOp inner(UOp x) {
  if (x.is(Op::Where) && x.src(2).is_const() && is_padding(x.src(0))) x = x.src(1);
  if (x.is(Op::Load) && x.nsrc() == 3) x = node(Op::Load, x.dtype(), {x.src(0)});
  return x;
}

// m is the maximum over a row of what x is an element of, so x - m <= 0: the loops of the reduce, renamed to those of the same axis around x,
// make its value x.
bool row_maximum(UOp m, UOp x) {
  if (!m.is(Op::Reduce) || m.arg<ReduceArg>().kind != ReduceKind::Max) return false;
  std::vector<UOp> loops;
  for (UOp u : toposort(x))
    if (u.is(Op::Range)) loops.push_back(u);
  std::vector<std::pair<UOp, UOp>> rename;
  for (size_t i = 1; i < m.nsrc(); i++) {
    UOp r = m.src(i);
    if (!r.is(Op::Range)) return false;
    RangeArg a = r.arg<RangeArg>();
    UOp found;
    for (UOp l : loops) {
      RangeArg b = l.arg<RangeArg>();
      if (a.id == b.id && a.part == b.part && r.src(0) == l.src(0)) found = l;
    }
    if (!found) return false;
    rename.push_back({r, found});
  }
  return inner(substitute(m.src(0), rename)) == inner(x);
}

// The operand of f, if u is 1 + f(operand).
std::optional<UOp> plus_one(UOp u, Op f) {
  return u.is(Op::Add) && is_number(u.src(1), 1) && u.src(0).is(f) ? std::optional(u.src(0).src(0)) : std::nullopt;
}
// x, if u is 1 / (1 + exp(-x)).
std::optional<UOp> sigmoid_operand(UOp u) {
  if (!u.is(Op::Recip) && !(u.is(Op::Div) && is_number(u.src(0), 1))) return {};
  std::optional<UOp> e = plus_one(u.src(u.nsrc() - 1), Op::Exp);
  return e && e->is(Op::Neg) ? std::optional(e->src(0)) : std::nullopt;
}
// x and y, if u is x * 0.5 * (1 + tanh(y)): x * sigmoid(2y). x is nothing where it is multiplied later.
std::optional<std::pair<UOp, UOp>> half_tanh_operands(UOp u) {
  if (!u.is(Op::Mul)) return {};
  if (is_number(u.src(1), 0.5))
    if (std::optional<UOp> y = plus_one(u.src(0), Op::Tanh)) return std::pair(UOp{}, *y);
  for (int i : {0, 1}) {
    UOp half = u.src(size_t(i));
    std::optional<UOp> y = plus_one(u.src(size_t(1 - i)), Op::Tanh);
    if (y && half.is(Op::Mul) && is_number(half.src(1), 0.5)) return std::pair(half.src(0), *y);
  }
  return {};
}

// m, if u is exp(x - m) with m the maximum of x's row.
UOp maximum_below(UOp u) {
  bool is = u.is(Op::Exp) && u.src(0).is(Op::Sub) && row_maximum(u.src(0).src(1), u.src(0).src(0));
  return is ? u.src(0).src(1) : UOp{};
}
// m, if s is the sum of exp(x - m) over the row: from 1 to the length of the row, since the largest element adds exp(0).
UOp softmax_maximum(UOp s) { return s.is(Op::Reduce) && s.arg<ReduceArg>().kind == ReduceKind::Add ? maximum_below(inner(s.src(0))) : UOp{}; }

// Maxima m that are read as exp(x - m) alone, by every output through the sum of these over the row: a NaN of the row makes that sum NaN, so m need
// not hold it.
std::vector<UOp> maxima_of_softmaxes(UOp sink, std::span<const UOp> topo) {
  auto maximum = [](UOp u) { return u.is(Op::Reduce) && u.dtype() == DType(Kind::F32) && u.arg<ReduceArg>().kind == ReduceKind::Max; };
  if (std::none_of(topo.begin(), topo.end(), maximum)) return {};
  Memo<std::vector<UOp>> users;
  users[sink];
  for (UOp u : topo)
    for (UOp s : u.src()) users[s].push_back(u);
  std::vector<UOp> found;
  for (UOp m : topo) {
    if (!maximum(m)) continue;
    bool ok = true;
    Memo<u8> sees, sums;  // m; such a sum
    sees[sink], sums[sink];
    for (UOp u : users[m])
      for (UOp e : users[u]) ok &= maximum_below(e) == m;
    for (UOp u : topo) {
      sees[u] = u == m;
      for (UOp s : u.src()) sees[u] |= sees[s], sums[u] |= sums[s];
      sums[u] |= softmax_maximum(u) == m;
    }
    for (UOp st : sink.src()) ok &= st.is(Op::Store) && (!sees[st.src(1)] || sums[st.src(1)]);
    if (ok) found.push_back(m);
  }
  return found;
}

// x, if u is x * 0.5 * (1 + erf(x / sqrt 2)) in any of its orders.
std::optional<UOp> gelu_operand(UOp u) {
  auto erf_part = [](UOp g, UOp x) {  // g = erf(x / sqrt 2) + 1
    if (!g.is(Op::Add) || !is_number(g.src(1), 1) || !g.src(0).is(Op::Erf)) return false;
    UOp y = g.src(0).src(0);
    return y.nsrc() == 2 && y.src(0) == x && ((y.is(Op::Mul) && is_number(y.src(1), std::sqrt(0.5))) || (y.is(Op::Div) && is_number(y.src(1), std::sqrt(2.0))));
  };
  auto half_of = [](UOp p) { return p.is(Op::Mul) && is_number(p.src(1), 0.5) ? std::optional(p.src(0)) : std::nullopt; };
  if (!u.is(Op::Mul)) return {};
  UOp p = u.src(0), q = u.src(1);
  if (is_number(q, 0.5) && p.is(Op::Mul)) {
    if (erf_part(p.src(1), p.src(0))) return p.src(0);
    if (erf_part(p.src(0), p.src(1))) return p.src(1);
    return {};
  }
  for (auto [a, b] : {std::pair(p, q), std::pair(q, p)}) {
    std::optional<UOp> h = half_of(a);
    if (h && erf_part(b, *h)) return h;
    if (h && erf_part(*h, b)) return b;
  }
  return {};
}

}  // namespace

UOp lower_patterns(UOp ast, bool tables) {
  Memo<UOp> to;
  std::vector<UOp> src, topo = toposort(ast);
  std::vector<UOp> any = ast.is(Op::Sink) ? maxima_of_softmaxes(ast, topo) : std::vector<UOp>{};
  for (UOp u : topo) {
    if (u.dtype() == DType(Kind::F32)) {
      if (maximum_below(u)) {
        to[u] = exp_fast(to[u.src(0)], tables);
        continue;
      }
      if (u.is(Op::Div) && softmax_maximum(u.src(1))) {
        to[u] = to[u.src(0)] * (konst_f(Kind::F32, 1) / to[u.src(1)]);  // one division a row
        continue;
      }
      if (std::optional<UOp> x = sigmoid_operand(u)) {
        to[u] = sigmoid_fast(to[*x], tables);
        continue;
      }
      if (auto xy = half_tanh_operands(u)) {
        UOp half = sigmoid_fast(to[xy->second] + to[xy->second], tables);
        to[u] = xy->first ? to[xy->first] * half : half;
        continue;
      }
      if (std::optional<UOp> x = gelu_operand(u)) {
        to[u] = gelu_erf(to[*x]);
        continue;
      }
    }
    src.clear();
    bool same = true;
    for (UOp s : u.src()) src.push_back(to[s]), same &= to[s] == s;
    if (std::find(any.begin(), any.end(), u) != any.end()) to[u] = node(Op::Reduce, u.dtype(), std::span<const UOp>(src), ReduceArg{ReduceKind::MaxAny, {}}.ints());
    else to[u] = same ? u : with_src(u, src);
  }
  return to[ast];
}

}  // namespace tg
