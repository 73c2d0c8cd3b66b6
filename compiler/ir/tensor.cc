#include "ir/tensor.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "ir/sum.h"

namespace tg {
namespace {

UOp (*normal_form)(UOp) = nullptr;

Shape as_written(UOp u) {
  auto s = [&](size_t i) -> const Shape& { return shape(u.src(i)); };
  switch (u.op()) {
    case Op::Const:
    case Op::Placeholder:
    case Op::Step:
    case Op::Loop:
    case Op::Recur:
    case Op::Branch:
    case Op::Var: return {};
    case Op::Range: return {};
    case Op::Param:
    case Op::Constant:
    case Op::Carry:
    case Op::Stack: return Shape(u.src().begin(), u.src().end());
    case Op::Iota: return {u.src(0)};
    case Op::Reshape:
    case Op::Expand: return Shape(u.src(1).src().begin(), u.src(1).src().end());
    case Op::Permute: {
      Shape r;
      for (i64 a : u.arg_ints()) r.push_back(s(0)[a]);
      return r;
    }
    case Op::Pad: {
      Shape r = s(0);
      for (size_t i = 0; i < r.size(); i++) r[i] = r[i] + u.src(1).src(i) + u.src(2).src(i);
      return r;
    }
    case Op::Shrink: {
      Shape r;
      for (size_t i = 0; i < s(0).size(); i++) {
        UOp b = u.src(1).src(i), e = u.src(2).src(i), st = u.src(3).src(i), n = e - b;
        // From a place that varies, as the round of a loop does, a number of elements that does not.
        if (!n.is_const() && !b.is_const()) {
          Sum d = sum_of(e);
          d.add(sum_of(b), -1);
          if (d.is_const()) n = idx(d.c);
        }
        r.push_back((n + (st - 1)) / st);
      }
      return r;
    }
    case Op::Window: {
      WindowArg w = u.arg<WindowArg>();
      Shape r = s(0);
      for (size_t i = 0; i < w.axes.size(); i++) {
        UOp& n = r[w.axes[i]];
        n = (n - (w.dilation[i] * (w.k[i] - 1) + 1)) / idx(w.stride[i]) + 1;
      }
      for (i64 k : w.k) r.push_back(idx(k));
      return r;
    }
    case Op::Concat: {
      Shape r = s(0);
      for (size_t i = 1; i < u.nsrc(); i++) r[u.arg_int()] = r[u.arg_int()] + shape(u.src(i))[u.arg_int()];
      return r;
    }
    case Op::Reduce:
    case Op::Fold: {
      Ints axes = u.op() == Op::Reduce ? u.arg<ReduceArg>().axes : u.arg<FoldArg>().axes;
      Shape r;
      for (size_t i = 0; i < s(0).size(); i++)
        if (!std::binary_search(axes.begin(), axes.end(), i64(i))) r.push_back(s(0)[i]);
      return r;
    }
    case Op::Gather: return s(1);
    case Op::Flip:
    case Op::Scatter:
    case Op::Sort:
    case Op::Scan:
    case Op::Contiguous: return s(0);
    case Op::Get: {
      UOp from = u.src(0);
      if (from.is(Op::Branch)) return shape(from.src(size_t(1 + u.arg_int())));
      if (from.is(Op::Recur)) return shape(from.src(size_t(1 + u.arg_int())));
      if (!from.is(Op::Loop)) return s(0);
      LoopArg a = from.arg<LoopArg>();
      if (u.arg_int() < a.carried) return shape(from.src(a.init(u.arg_int())));
      Shape r{from.src(0)};
      for (UOp d : shape(from.src(a.scan(u.arg_int() - a.carried)))) r.push_back(d);
      return r;
    }
    case Op::Sink: return {};
    default:
      TG_CHECK(is_elementwise(u.op()), info(u.op()).name, " has no tensor shape");
      Shape r;
      for (UOp x : u.src()) {
        const Shape& t = shape(x);
        if (t.empty()) continue;
        if (r.empty()) r = t;
        else TG_CHECK(same_shape(r, t), info(u.op()).name, " of shapes ", shape_text(r), " and ", shape_text(t));
      }
      return r;
  }
}

Shape normal(Shape s) {
  for (UOp& d : s) d = normal_dim(d);
  return s;
}
Shape compute(UOp u) { return normal(as_written(u)); }

}  // namespace

UOp normal_dim(UOp d) { return d.is_const() || d.is(Op::Var) || !normal_form ? d : normal_form(d); }
void set_normal_dim(UOp (*f)(UOp)) { normal_form = f; }

const Shape& shape(UOp u) {
  auto& table = Arena::current().shapes();
  auto known = [&](UOp x) { return x.id() < table.size() && table[x.id()]; };
  if (known(u)) return *table[u.id()];
  // Sources first, without recursion: a graph may be thousands of nodes deep.
  std::vector<std::pair<UOp, u32>> stack{{u, 0}};
  while (!stack.empty()) {
    auto& [x, next] = stack.back();
    if (next < x.nsrc()) {
      UOp s = x.src(next++);
      if (!known(s)) stack.push_back({s, 0});
      continue;
    }
    if (!known(x)) {
      auto r = std::make_unique<Shape>(compute(x));
      if (x.id() >= table.size()) table.resize(std::max<size_t>(Arena::current().size() + 64, table.size() * 2));
      table[x.id()] = std::move(r);
    }
    stack.pop_back();
  }
  return *table[u.id()];
}

bool has_const_shape(UOp u) {
  const Shape& s = shape(u);
  return std::all_of(s.begin(), s.end(), [](UOp d) { return d.is_const(); });
}
std::vector<i64> const_shape(UOp u) {
  std::vector<i64> r;
  for (UOp d : shape(u)) r.push_back(d.as_int());
  return r;
}
bool same_shape(const Shape& a, const Shape& b) { return a == b; }
UOp elems(const Shape& s) {
  UOp n = idx(1);
  for (UOp d : s) n = n * d;
  return normal_dim(n);
}
Shape dims(std::span<const i64> v) {
  Shape s;
  for (i64 d : v) s.push_back(idx(d));
  return s;
}
Shape dims(std::initializer_list<i64> v) { return dims(std::span(v.begin(), v.size())); }
std::string shape_text(const Shape& s) {
  return str("(", join(s, ", ", [](UOp d) { return d.is_const() ? str(d.as_int()) : d.is(Op::Var) ? std::string(d.arg_str()) : d.str(); }), ")");
}

namespace tensor {

UOp param(i64 slot, DType d, const Shape& s) { return node(Op::Param, d, std::span<const UOp>(s), slot); }
UOp constant(i64 index, DType d, const Shape& s) { return node(Op::Constant, d, std::span<const UOp>(s), index); }
UOp iota(UOp n, DType d) {
  if (n.is_const(1)) return reshape(konst(d, 0), {n});
  return node(Op::Iota, d, {n});
}

UOp reshape(UOp x, const Shape& given) {
  Shape s = normal(given);
  while (x.is(Op::Reshape)) x = x.src(0);
  if (same_shape(shape(x), s)) return x;
  UOp a = elems(shape(x)), b = elems(s);
  TG_CHECK(a == b || !a.is_const() || !b.is_const(), "reshape of ", shape_text(shape(x)), " to ", shape_text(s));
  return node(Op::Reshape, x.dtype(), {x, stack(s)});
}

UOp permute(UOp x, IntSpan order) {
  TG_CHECK(order.size() == rank(x), "permute of ", shape_text(shape(x)), " with ", order.size(), " axes");
  Ints o(order.begin(), order.end());
  if (x.is(Op::Permute)) {
    for (i64& a : o) a = x.arg_ints()[a];
    x = x.src(0);
  }
  for (size_t i = 0; i < o.size(); i++)
    if (o[i] != i64(i)) return node(Op::Permute, x.dtype(), {x}, o);
  return x;
}

UOp expand(UOp x, const Shape& given) {
  Shape s = normal(given);
  const Shape& from = shape(x);
  TG_CHECK(from.size() == s.size(), "expand of ", shape_text(from), " to ", shape_text(s));
  if (same_shape(from, s)) return x;
  for (size_t i = 0; i < s.size(); i++)
    TG_CHECK(from[i] == s[i] || from[i].is_const(1), "expand of ", shape_text(from), " to ", shape_text(s));
  return node(Op::Expand, x.dtype(), {x, stack(s)});
}

UOp broadcast_to(UOp x, const Shape& s) {
  Shape mid = shape(x);
  TG_CHECK(mid.size() <= s.size(), "broadcast of ", shape_text(mid), " to ", shape_text(s));
  mid.insert(mid.begin(), s.size() - mid.size(), idx(1));
  return expand(reshape(x, mid), s);
}

UOp pad(UOp x, const Shape& begin, const Shape& end, UOp value) {
  TG_CHECK(begin.size() == rank(x) && end.size() == rank(x) && value.is_const() && value.dtype() == x.dtype(), "pad of ", shape_text(shape(x)));
  auto zero = [](const Shape& s) { return std::all_of(s.begin(), s.end(), [](UOp d) { return d.is_const(0); }); };
  if (zero(begin) && zero(end)) return x;
  return node(Op::Pad, x.dtype(), {x, stack(begin), stack(end), value});
}

UOp shrink(UOp x, const Shape& begin, const Shape& end, const Shape& step) {
  const Shape& s = shape(x);
  TG_CHECK(begin.size() == s.size() && end.size() == s.size() && step.size() == s.size(), "shrink of ", shape_text(s));
  bool whole = true;
  for (size_t i = 0; i < s.size(); i++) whole &= begin[i].is_const(0) && normal_dim(end[i]) == s[i] && step[i].is_const(1);
  return whole ? x : node(Op::Shrink, x.dtype(), {x, stack(begin), stack(end), stack(step)});
}

UOp slice(UOp x, size_t axis, UOp begin, UOp end) {
  Shape b(rank(x), idx(0)), e = shape(x), st(rank(x), idx(1));
  b[axis] = begin, e[axis] = end;
  return shrink(x, b, e, st);
}

UOp flip(UOp x, IntSpan axes) {
  Ints a(axes.begin(), axes.end());
  std::sort(a.begin(), a.end());
  std::erase_if(a, [&](i64 i) { return shape(x)[i].is_const(1); });
  return a.empty() ? x : node(Op::Flip, x.dtype(), {x}, a);
}

UOp window(UOp x, const WindowArg& w) {
  TG_CHECK(w.axes.size() == w.k.size() && w.k.size() == w.stride.size() && w.stride.size() == w.dilation.size(), "window arguments");
  for (size_t i = 0; i < w.axes.size(); i++)
    TG_CHECK(w.axes[i] >= 0 && w.axes[i] < i64(rank(x)) && w.k[i] > 0 && w.stride[i] > 0 && w.dilation[i] > 0, "window of ", shape_text(shape(x)));
  return node(Op::Window, x.dtype(), {x}, w.ints());
}

UOp concat(std::span<const UOp> xs, size_t axis) {
  TG_CHECK(!xs.empty() && axis < rank(xs[0]), "concat along axis ", axis);
  std::vector<UOp> keep;
  for (UOp x : xs) {
    TG_CHECK(x.dtype() == xs[0].dtype() && rank(x) == rank(xs[0]), "concat of ", shape_text(shape(xs[0])), " and ", shape_text(shape(x)));
    for (size_t i = 0; i < rank(x); i++)
      TG_CHECK(i == axis || shape(x)[i] == shape(xs[0])[i], "concat of ", shape_text(shape(xs[0])), " and ", shape_text(shape(x)));
    if (!shape(x)[axis].is_const(0)) keep.push_back(x);
  }
  if (keep.empty()) return xs[0];
  if (keep.size() == 1) return keep[0];
  return node(Op::Concat, xs[0].dtype(), std::span<const UOp>(keep), i64(axis));
}

UOp reduce(UOp x, ReduceKind k, Ints axes) {
  std::sort(axes.begin(), axes.end());
  TG_CHECK(std::adjacent_find(axes.begin(), axes.end()) == axes.end() && (axes.empty() || (axes[0] >= 0 && axes.back() < i64(rank(x)))), "reduce axes");
  if (axes.empty()) return x;
  return node(Op::Reduce, x.dtype(), {x}, ReduceArg{k, axes}.ints());
}

UOp fold(std::span<const UOp> inputs, std::span<const UOp> inits, std::span<const UOp> steps, std::span<const UOp> merges, Ints axes) {
  std::sort(axes.begin(), axes.end());
  TG_CHECK(!inputs.empty() && !inits.empty() && inits.size() == steps.size() && steps.size() == merges.size() && !axes.empty(), "fold arguments");
  for (UOp x : inputs) TG_CHECK(same_shape(shape(x), shape(inputs[0])), "fold inputs of one shape");
  std::vector<UOp> src(inputs.begin(), inputs.end());
  for (auto part : {inits, steps, merges}) src.insert(src.end(), part.begin(), part.end());
  return node(Op::Fold, Kind::Void, std::span<const UOp>(src), FoldArg{i64(inputs.size()), i64(inits.size()), axes}.ints());
}
UOp placeholder(PlaceholderArg a, DType d) { return node(Op::Placeholder, d, {}, a.ints()); }
UOp get(UOp f, i64 state) {
  if (f.is(Op::Branch)) {
    TG_CHECK(state >= 0 && state < f.arg_int(), "result ", state, " of a BRANCH");
    return node(Op::Get, f.src(size_t(1 + state)).dtype(), {f}, state);
  }
  if (f.is(Op::Loop)) {
    LoopArg l = f.arg<LoopArg>();
    TG_CHECK(state >= 0 && state < l.carried + l.scans, "result ", state, " of a LOOP");
    return node(Op::Get, f.src(state < l.carried ? l.init(state) : l.scan(state - l.carried)).dtype(), {f}, state);
  }
  FoldArg a = f.arg<FoldArg>();
  TG_CHECK(f.is(Op::Fold) && state >= 0 && state < a.states, "state ", state, " of a FOLD");
  return node(Op::Get, f.src(a.inputs + state).dtype(), {f}, state);
}

UOp loop(i64 id, UOp count, UOp go, std::span<const UOp> inits, UOp next_go, std::span<const UOp> nexts, std::span<const UOp> scans) {
  TG_CHECK(inits.size() == nexts.size(), "a LOOP with ", inits.size(), " initial values and ", nexts.size(), " next ones");
  for (size_t i = 0; i < inits.size(); i++)
    TG_CHECK(inits[i].dtype() == nexts[i].dtype() && same_shape(shape(inits[i]), shape(nexts[i])), "carried value ", i, " of a LOOP is ",
             name(inits[i].dtype()), shape_text(shape(inits[i])), ", then ", name(nexts[i].dtype()), shape_text(shape(nexts[i])));
  std::vector<UOp> src{count, go};
  src.insert(src.end(), inits.begin(), inits.end());
  src.push_back(next_go);
  for (auto part : {nexts, scans}) src.insert(src.end(), part.begin(), part.end());
  return node(Op::Loop, Kind::Void, std::span<const UOp>(src), LoopArg{id, i64(inits.size()), i64(scans.size())}.ints());
}
UOp carry(CarryArg a, DType d, const Shape& s) { return node(Op::Carry, d, std::span<const UOp>(s), a.ints()); }
UOp step(i64 loop, UOp most) { return node(Op::Step, Kind::Index, {most}, loop); }

UOp branch(UOp cond, std::span<const UOp> yes, std::span<const UOp> no) {
  TG_CHECK(yes.size() == no.size() && !yes.empty(), "a BRANCH with ", yes.size(), " and ", no.size(), " values");
  for (size_t i = 0; i < yes.size(); i++)
    TG_CHECK(yes[i].dtype() == no[i].dtype() && same_shape(shape(yes[i]), shape(no[i])), "value ", i, " of a BRANCH is ", name(yes[i].dtype()),
             shape_text(shape(yes[i])), " or ", name(no[i].dtype()), shape_text(shape(no[i])));
  std::vector<UOp> src{cond};
  for (auto part : {yes, no}) src.insert(src.end(), part.begin(), part.end());
  return node(Op::Branch, Kind::Void, std::span<const UOp>(src), i64(yes.size()));
}

UOp gather(UOp x, std::span<const UOp> indices) {
  TG_CHECK(indices.size() == rank(x) && !indices.empty(), "gather from ", shape_text(shape(x)), " with ", indices.size(), " indices");
  std::vector<UOp> src{x};
  for (UOp i : indices) {
    TG_CHECK(is_int(i.dtype()) && same_shape(shape(i), shape(indices[0])), "gather indices of one shape");
    src.push_back(i);
  }
  return node(Op::Gather, x.dtype(), std::span<const UOp>(src));
}

UOp scatter(UOp x, UOp updates, std::span<const UOp> indices, ScatterKind k) {
  TG_CHECK(indices.size() == rank(x) && !indices.empty() && updates.dtype() == x.dtype(), "scatter into ", shape_text(shape(x)));
  std::vector<UOp> src{x, updates};
  for (UOp i : indices) {
    TG_CHECK(is_int(i.dtype()) && same_shape(shape(i), shape(updates)), "scatter indices of the updates' shape");
    src.push_back(i);
  }
  return node(Op::Scatter, x.dtype(), std::span<const UOp>(src), i64(k));
}

UOp sort(UOp x, const SortArg& a) {
  TG_CHECK(a.axis >= 0 && a.axis < i64(rank(x)), "sort axis ", a.axis);
  return node(Op::Sort, Kind::I64, {x}, a.ints());
}
UOp scan(UOp x, const ScanArg& a) {
  TG_CHECK(a.axis >= 0 && a.axis < i64(rank(x)), "scan axis ", a.axis);
  return node(Op::Scan, x.dtype(), {x}, a.ints());
}
UOp contiguous(UOp x) { return x.is(Op::Contiguous) ? x : node(Op::Contiguous, x.dtype(), {x}); }

}  // namespace tensor
}  // namespace tg
