// y = (sum(x*w) + p)*a + b, with p, a and b constant along all but a few axes, becomes sum(x*w') + b' with w' = w*a and b' = p*a + b: a
// BatchNorm or a scale after a convolution or matmul then costs nothing. The scale may move across the sum by the numeric contract;
// products and sums of constants are done in f64 and rounded once.
#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "driver/fold.h"
#include "driver/narrow.h"
#include "ir/eval.h"

namespace tg::driver {
namespace {

constexpr i64 kMostScales = 1 << 16;

UOp in_f64(UOp u) { return cast(u, Kind::F64); }

// x of shape from, reshaped or permuted as `step` does to a value of that shape.
UOp apply(UOp step, UOp x) {
  if (step.is(Op::Reshape)) return tensor::reshape(x, shape(step));
  return tensor::permute(x, step.arg_ints());
}
// The inverse: x has the shape of `step`, the result that of its source.
UOp undo(UOp step, UOp x) {
  if (step.is(Op::Reshape)) return tensor::reshape(x, shape(step.src(0)));
  Ints back(step.arg_ints().size());
  for (size_t i = 0; i < back.size(); i++) back[size_t(step.arg_ints()[i])] = i64(i);
  return tensor::permute(x, back);
}
bool is_step(UOp u) { return u.is(Op::Reshape) || u.is(Op::Permute); }

// One sum and what follows it.
struct Chain {
  UOp top;                 // the value that is replaced
  UOp sum, x, w;           // sum = REDUCE ADD(x * w), w constant
  std::vector<UOp> steps;  // movement ops from sum to top
  UOp scale;               // f64, at the shape of sum, narrow or a scalar
  UOp offset;              // f64, at the shape of top; null: none
  UOp scaled_w;
};

class Mover {
 public:
  explicit Mover(Graph& g) : g_(g), nodes_(toposort(g.sink)), constant_(constant_nodes(nodes_)) {
    for (UOp u : nodes_)
      for (UOp s : u.src()) uses_[s]++, user_[s] = u;
  }

  i64 run() {
    std::vector<Chain> chains;
    for (UOp u : nodes_)
      if (std::optional<Chain> c = chain_from(u)) chain_at_[c->top] = u32(chains.size() + 1), chains.push_back(std::move(*c));
    if (chains.empty()) return 0;
    Memo<UOp> now;
    for (UOp u : nodes_) {
      if (u32 c = chain_at_[u]) {
        now[u] = rebuilt(chains[c - 1], now);
        continue;
      }
      std::vector<UOp> src;
      for (UOp s : u.src()) src.push_back(now[s]);
      now[u] = src.empty() ? u : std::equal(src.begin(), src.end(), u.src().begin()) ? u : with_src(u, src);
    }
    g_.sink = now[g_.sink];
    return i64(chains.size());
  }

 private:
  bool is_constant(UOp u) { return constant_[u] != 0; }

  std::optional<Chain> chain_from(UOp sum) {
    if (!sum.is(Op::Reduce) || sum.arg<ReduceArg>().kind != ReduceKind::Add || !sum.src(0).is(Op::Mul) || is_constant(sum) ||
        !has_const_shape(sum.src(0)))
      return {};
    if (sum.dtype().kind != Kind::F32 && sum.dtype().kind != Kind::F64) return {};
    Chain c;
    c.sum = sum, c.x = sum.src(0).src(0), c.w = sum.src(0).src(1);
    if (is_constant(c.x)) std::swap(c.x, c.w);
    if (!is_constant(c.w) || is_constant(c.x) || uses_[sum.src(0)] != 1) return {};

    // Upwards while there is one reader: what scales, what is added, what only moves.
    UOp at = sum;
    std::vector<UOp> steps;
    UOp scale, offset;
    bool added_after = false;  // an addition since the last scale: a further one is not merged
    while (uses_[at] == 1) {
      UOp u = user_[at];
      if (is_step(u)) {
        steps.push_back(u);
        if (offset && rank(offset) != 0) offset = narrow(apply(u, widen(offset, shape(at))));
        at = u;
        continue;
      }
      if (u.nsrc() != 2 || u.src(0) == u.src(1) || !(u.is(Op::Mul) || u.is(Op::Add) || u.is(Op::Sub))) break;
      UOp other = u.src(0) == at ? u.src(1) : u.src(0);
      if (!is_constant(other) || (u.is(Op::Sub) && u.src(1) == at)) break;
      UOp k = narrow(in_f64(other));
      if (u.is(Op::Mul)) {
        UOp below = pulled_down(k, at, steps);
        scale = scale ? combine(Op::Mul, scale, below, shape(sum)) : below;
        if (offset) offset = combine(Op::Mul, offset, k, shape(u));
        added_after = false;
      } else {
        if (scale && added_after) break;
        offset = offset ? combine(u.op(), offset, k, shape(u)) : u.is(Op::Sub) ? alu(Op::Neg, {k}) : k;
        added_after = true;
      }
      at = u;
      if (scale) c.top = at, c.steps = steps, c.scale = scale, c.offset = offset;
    }
    if (!c.top || !fits(c)) return {};
    return c;
  }

  // Both constants, of rank 0 or of s's rank with dims of 1 where they repeat.
  static UOp combine(Op op, UOp a, UOp b, const Shape& s) {
    Shape common(s.size(), idx(1));
    for (UOp x : {a, b})
      for (size_t i = 0; i < rank(x); i++)
        if (!shape(x)[i].is_const(1)) common[i] = s[i];
    return alu(op, {widen(a, common), widen(b, common)});
  }

  // k stands at the end of steps, which begin at the sum; `at` is the last value. Gives the same numbers at the sum.
  static UOp pulled_down(UOp k, UOp at, const std::vector<UOp>& steps) {
    if (rank(k) == 0) return k;
    k = widen(k, shape(at));
    for (size_t i = steps.size(); i-- > 0;) k = undo(steps[i], k);
    return narrow(k);
  }

  // The scale goes into w, w' is worth folding and all factors are finite.
  bool fits(Chain& c) {
    UOp a = c.scale;
    if (elems(shape(a)).as_int() > kMostScales) return false;
    Values v = eval(a, {{}, &g_.constants, {}});
    for (i64 i = 0; i < v.elems(); i++)
      if (!std::isfinite(v.number(i))) return false;
    const Shape& product = shape(c.sum.src(0));
    if (rank(a) != 0) {
      Shape with_ones = product;
      for (i64 axis : c.sum.arg<ReduceArg>().axes) with_ones[size_t(axis)] = idx(1);
      a = tensor::expand(tensor::reshape(widen(a, shape(c.sum)), with_ones), product);
    }
    c.scaled_w = scaled(c.w, a);
    return bool(c.scaled_w);
  }

  // w * a, the product as near to w's constants as its movement ops allow; null if it would not be folded, or a varies where w does not. a:
  // w's shape or a scalar.
  UOp scaled(UOp w, UOp a) {
    if (rank(w) == 0) return {};
    if (w.is(Op::Cast) && !is_float(w.src(0).dtype())) return {};  // integers are exact in any float, and shorter
    if (w.is(Op::Cast) && is_float(w.dtype())) {  // how w is kept; the product is rounded in its place
      UOp inner = scaled(w.src(0), a);
      return inner ? cast(inner, w.dtype()) : UOp();
    }
    if (!is_movement(w.op())) {
      UOp product = narrow(cast(alu(Op::Mul, {in_f64(w), a}), w.dtype()));
      return same_shape(shape(product), shape(narrow(w))) && is_worth_folding(product, g_) ? widen(product, shape(w)) : UOp();
    }
    UOp x = w.src(0);
    if (is_step(w)) {
      UOp inner = scaled(x, rank(a) == 0 ? a : undo(w, a));
      return inner ? apply(w, inner) : UOp();
    }
    // Elsewhere a must repeat along the axes that the op changes.
    if (rank(x) != rank(w) || !(w.is(Op::Expand) || w.is(Op::Pad) || w.is(Op::Shrink) || w.is(Op::Flip))) return {};
    if (w.is(Op::Pad) && !w.src(3).is_const(0)) return {};
    if (rank(a) != 0) {
      UOp n = narrow(a);
      for (size_t i = 0; i < rank(w); i++) {
        bool flipped = w.is(Op::Flip) && std::find(w.arg_ints().begin(), w.arg_ints().end(), i64(i)) != w.arg_ints().end();
        if ((shape(x)[i] != shape(w)[i] || flipped) && !shape(n)[i].is_const(1)) return {};
      }
      a = widen(n, shape(x));
    }
    UOp inner = scaled(x, a);
    return inner ? moved(w, inner) : UOp();
  }
  static UOp moved(UOp w, UOp inner) {
    std::vector<UOp> src(w.src().begin(), w.src().end());
    src[0] = inner;
    return with_src(w, src);
  }

  UOp rebuilt(const Chain& c, Memo<UOp>& now) {
    UOp y = tensor::reduce(alu(Op::Mul, {now[c.x], c.scaled_w}), ReduceKind::Add, c.sum.arg<ReduceArg>().axes);
    for (UOp s : c.steps) y = apply(s, y);
    if (c.offset) y = alu(Op::Add, {y, widen(cast(c.offset, y.dtype()), shape(y))});
    return y;
  }

  Graph& g_;
  std::vector<UOp> nodes_;
  Memo<u8> constant_;
  Memo<u32> uses_, chain_at_;
  Memo<UOp> user_;
};

}  // namespace

i64 move_scales(Graph& g) {
  Arena::Scope scope(*g.arena);
  return Mover(g).run();
}

}  // namespace tg::driver
