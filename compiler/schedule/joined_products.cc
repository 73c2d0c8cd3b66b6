#include "schedule/joined_products.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>

#include "ir/bounds.h"
#include "ir/loops.h"
#include "ir/regions.h"
#include "rules/symbolic.h"
#include "schedule/cone.h"
#include "schedule/index.h"
#include "schedule/realize.h"
#include "schedule/winograd.h"

namespace tg {
namespace {

constexpr size_t kMostSteps = 4;
constexpr i64 kSmallBytes = 16 << 10;  // of constants that are stored, not made at open
// Measured on Zen 4, in cycles.
constexpr f64 kKernelCycles = 300, kSharedCycles = 1500;  // to start a kernel: on one core, on several
constexpr f64 kTaskCycles = 8000;
constexpr f64 kNearBytes = 60, kFarBytes = 20, kPassBytes = 16;  // a cycle
constexpr f64 kPartCycles = 0.5;  // an element of a part that a product reads: its rows lie apart, and it has no layout of its own

bool moves(UOp u) { return u.in(Op::Reshape | Op::Permute | Op::Expand | Op::Shrink); }

// What a value is made of by movement and arithmetic on constants, seen through the movement above it.
struct View {
  UOp base;                // null: zeros
  std::vector<UOp> chain;  // of movement, the last op first
};
View peeled(View v) {
  for (; v.base && moves(v.base); v.base = v.base.src(0)) v.chain.push_back(v.base);
  return v;
}
UOp through(const View& v, UOp x) {
  for (size_t i = v.chain.size(); i-- > 0;) {
    std::vector<UOp> src(v.chain[i].src().begin(), v.chain[i].src().end());
    src[0] = x;
    x = with_src(v.chain[i], src);
  }
  return x;
}

// Where element (r0, r1 ..) of a view of this shape lies in its constant: steps along the axes; nothing where they are not even.
struct Walk {
  Ints step;
  i64 first = 0;
};
std::optional<Walk> walk_of(const View& v, const std::vector<i64>& size) {
  Shape at;
  for (size_t i = 0; i < size.size(); i++) at.push_back(size[i] == 1 ? idx(0) : range(idx(size[i]), {i64(i), 0, 0, AxisKind::Loop}));
  Shape ranges = at;
  for (UOp m : v.chain) at = source_index(m, at, nullptr);
  UOp offset = idx(0);
  for (size_t i = 0; i < at.size(); i++) offset = offset * shape(v.base)[i] + at[i];
  offset = simplify(offset);
  Walk w;
  for (UOp r : ranges) {
    if (!r.is(Op::Range)) {
      w.step.push_back(0);
      continue;
    }
    auto l = linear_in(offset, r);
    if (!l) return {};
    w.step.push_back(l->factor), offset = simplify(l->rest);
  }
  if (!offset.is_const()) return {};
  w.first = offset.as_int();
  return w;
}

// Values of one shape but for one axis, side by side along it.
class Joiner {
 public:
  // size: of a member, but for the axis.
  Joiner(const Graph& g, std::vector<i64> size, size_t axis, std::vector<i64> columns)
      : g_(g), size_(std::move(size)), axis_(axis), columns_(std::move(columns)) {
    for (i64 n : columns_) all_ += n;
  }

  // add, derive: as joined_products() has them; without `add` it only looks: whatever is not null then means that it can be done.
  UOp join(std::vector<View> v, const std::function<UOp(ConstantData)>* add, bool derive) {
    UOp first;
    bool constants = true, numbers = true, zeros = false;
    for (View& x : v) {
      x = peeled(x);
      zeros |= !x.base;
      if (!x.base) continue;
      if (!first) first = x.base;
      if (x.base.op() != first.op() || x.base.dtype() != first.dtype()) return {};
      constants &= x.base.is(Op::Constant), numbers &= x.base == first && x.base.is_const();
    }
    if (!first || (numbers && !zeros)) return first;
    if (constants) return leaf(v, first.dtype(), add, derive);
    if (zeros || !is_elementwise(first.op())) return {};
    std::vector<UOp> src;
    for (size_t s = 0; s < first.nsrc(); s++) {
      std::vector<View> below;
      for (const View& x : v) {
        if (x.base.nsrc() != first.nsrc()) return {};
        below.push_back({x.base.src(s), x.chain});
      }
      src.push_back(join(below, add, derive));
      if (!src.back()) return {};
    }
    return add ? node(first.op(), first.dtype(), std::span<const UOp>(src)) : first;
  }

 private:
  std::vector<i64> sized(i64 n) const {
    std::vector<i64> d = size_;
    d[axis_] = n;
    return d;
  }

  UOp leaf(const std::vector<View>& v, DType dtype, const std::function<UOp(ConstantData)>* add, bool derive) {
    if (bits(dtype) < 8) return {};
    std::vector<Walk> walks(v.size());
    std::vector<u8> seen(size_.size());
    for (size_t m = 0; m < v.size(); m++) {
      if (!v[m].base) continue;
      const ConstantData& c = g_.constants[size_t(v[m].base.arg_int())];
      if (c.made_of || !has_const_shape(v[m].base)) return {};
      auto w = walk_of(v[m], sized(columns_[m]));
      if (!w) return {};
      walks[m] = *w;
      for (size_t a = 0; a < seen.size(); a++) seen[a] |= a != axis_ && w->step[a];
      // A vector along other axes, repeated for each column, would grow.
      if (columns_[m] > 1 && !w->step[axis_] && elems(shape(v[m].base)).as_int() > 1) return {};
    }
    if (!add) return v[0].base ? v[0].base : v[1].base ? v[1].base : idx(0);
    ConstantData made{"", dtype, {}, {}, {}, {}};
    i64 count = 1;
    for (size_t a = 0; a < size_.size(); a++) made.dims.push_back(a == axis_ ? all_ : seen[a] ? size_[a] : 1), count *= made.dims.back();
    for (const View& x : v)
      if (x.base) made.name += (made.name.empty() ? "" : "+") + g_.constants[size_t(x.base.arg_int())].name;
    if (derive && byte_size(dtype.kind, count) > kSmallBytes)
      made.made_of = side_by_side(v, dtype, made.dims);
    else
      copy(v, walks, count, &made);
    return tensor::expand((*add)(made), dims(sized(all_)));
  }

  // As a value: of each column, what its member has there.
  UOp side_by_side(const std::vector<View>& v, DType dtype, const std::vector<i64>& d) const {
    Shape full = dims(d), ones(d.size(), idx(1)), none(d.size(), idx(0));
    ones[axis_] = idx(all_);
    UOp place = tensor::expand(tensor::reshape(tensor::iota(idx(all_)), ones), full), out;
    for (i64 m = i64(v.size()), end = all_; m-- > 0; end -= columns_[size_t(m)]) {
      i64 begin = end - columns_[size_t(m)];
      UOp x = konst(dtype, 0);
      if (v[size_t(m)].base) {
        x = through(v[size_t(m)], v[size_t(m)].base);
        for (size_t a = 0; a < d.size(); a++)
          if (a != axis_ && d[a] == 1 && size_[a] != 1) x = tensor::slice(x, a, idx(0), idx(1));
        Shape before = none, after = none;
        before[axis_] = idx(begin), after[axis_] = idx(all_ - end);
        x = tensor::pad(x, before, after, konst(dtype, 0));
      } else {
        x = tensor::expand(tensor::reshape(x, Shape(d.size(), idx(1))), full);
      }
      out = out ? where(lt(place, idx(end)), x, out) : x;
    }
    return out;
  }

  void copy(const std::vector<View>& v, const std::vector<Walk>& walks, i64 count, ConstantData* to) const {
    const size_t size = size_t(byte_size(to->dtype.kind, 1)), rank = to->dims.size();
    std::shared_ptr<u8[]> owner(new u8[size_t(count) * size]());
    std::vector<i64> at(rank);
    for (i64 i = 0; i < count; i++) {
      size_t m = 0;
      i64 column = at[axis_];
      while (column >= columns_[m]) column -= columns_[m++];
      if (v[m].base) {
        i64 from = walks[m].first + column * walks[m].step[axis_];
        for (size_t a = 0; a < rank; a++)
          if (a != axis_) from += at[a] * walks[m].step[a];
        std::memcpy(owner.get() + size_t(i) * size, g_.constants[size_t(v[m].base.arg_int())].bytes.data() + size_t(from) * size, size);
      }
      for (size_t a = rank; a-- > 0;) {
        if (++at[a] < to->dims[a]) break;
        at[a] = 0;
      }
    }
    to->bytes = std::span(owner.get(), size_t(count) * size);
    to->owner = owner;
  }

  const Graph& g_;
  std::vector<i64> size_;
  size_t axis_;
  std::vector<i64> columns_;
  i64 all_ = 0;
};

// The axis of the sum that the members' columns are.
size_t kept_axis(const JoinedProducts& p) {
  Ints axes = p.sums[0].arg<ReduceArg>().axes;
  return size_t(p.axis - std::count_if(axes.begin(), axes.end(), [&](i64 a) { return a < p.axis; }));
}
Joiner of_weights(const JoinedProducts& p, const Graph& g) { return Joiner(g, const_shape(p.sums[0].src(0)), size_t(p.axis), p.columns); }
Joiner of_results(const JoinedProducts& p, const Graph& g) { return Joiner(g, const_shape(p.sums[0]), kept_axis(p), p.columns); }
std::vector<View> views(const std::vector<UOp>& v) {
  std::vector<View> out;
  for (UOp u : v) out.push_back({u, {}});
  return out;
}
std::vector<UOp> weights(const JoinedProducts& p) {
  std::vector<UOp> w;
  for (UOp s : p.sums) w.push_back(s.src(0).src(1 - p.side));
  return w;
}

bool of_constants(UOp u, Memo<u8>& known) {
  if (known[u]) return known[u] == 1;
  bool all = u.in(Op::Constant | Op::Const);
  if (!all && (moves(u) || is_elementwise(u.op()))) {
    all = true;
    for (UOp s : u.src())
      if (!s.is(Op::Stack)) all &= of_constants(s, known);
  }
  known[u] = all ? 1 : 2;
  return all;
}

// What a step behind each member has in common: op and side. Biases may be missing.
std::optional<JoinedProducts::Step> next_step(const std::vector<UOp>& tops, Memo<std::vector<UOp>>& users, Memo<u8>& constants) {
  std::optional<JoinedProducts::Step> step;
  std::vector<UOp> others;
  bool missing = false;
  for (UOp t : tops) {
    UOp user = users[t].size() == 1 ? users[t][0] : UOp();
    size_t side = user && user.nsrc() == 2 && user.src(0) == t ? 1 : 0;
    if (!user || !user.in(Op::Add | Op::Mul | Op::Sub | Op::Max | Op::Min) || user.src(0) == user.src(1) ||
        !same_shape(shape(user), shape(t)) || !of_constants(user.src(side), constants)) {
      missing = true, others.push_back({});
      continue;
    }
    if (!step) step = JoinedProducts::Step{user.op(), side, {}};
    if (user.op() != step->op || (user.is(Op::Sub) && side != step->side)) return {};
    others.push_back(user.src(side));
  }
  if (!step || (missing && step->op != Op::Add)) return {};
  step->others = others;
  return step;
}

// Cycles that a member loses as a part: what would have been done as it is stored becomes a kernel of its own. Infinite for keys of an
// attention: they want to lie along the keys, and queries and values do not. Nor for what a reader of free size takes.
f64 lost_cycles(UOp top, Memo<std::vector<UOp>>& users) {
  UOp u = top;
  std::vector<UOp> chain;
  while (users[u].size() == 1 && moves(users[u][0])) chain.push_back(u = users[u][0]);
  f64 pass = kKernelCycles + 8 * f64(elems(shape(top)).as_int()) / kPassBytes;
  if (users[u].size() > 1) return std::any_of(users[u].begin(), users[u].end(), [](UOp x) { return x.is(Op::Sink); }) ? pass : 0;
  UOp reader = users[u][0];
  if (!reader.is(Op::Mul) || users[reader].size() != 1 || !users[reader][0].is(Op::Reduce)) return pass;
  UOp sum = users[reader][0];
  if (!has_const_shape(reader)) return INFINITY;
  Ints axes = sum.arg<ReduceArg>().axes;
  std::vector<i64> size = const_shape(reader);
  Shape at;
  for (size_t i = 0; i < size.size(); i++) at.push_back(size[i] == 1 ? idx(0) : range(idx(size[i]), {i64(i), 0, 0, AxisKind::Loop}));
  size_t last = size.size();
  while (last > 0 && (std::binary_search(axes.begin(), axes.end(), i64(last - 1)) || size[last - 1] == 1)) last--;
  if (!last) return 0;
  UOp lane = at[last - 1];
  for (size_t i = chain.size(); i-- > 0;) at = source_index(chain[i], at, nullptr);
  auto sees = [&](std::span<const UOp> x) {
    std::vector<UOp> r = ranges_in(x);
    return std::find(r.begin(), r.end(), lane) != r.end();
  };
  return sees(at) && !sees(std::span(&at.back(), 1)) ? INFINITY : kPartCycles * f64(elems(shape(top)).as_int());
}

// On one core, and the mean over a few, which share what takes longer than a task.
struct Cycles {
  f64 alone = 0, mean = 0;
  void add(f64 work) {
    alone += work + kKernelCycles;
    for (f64 threads : {1.0, 1.0, 2.0, 4.0}) {
      f64 tasks = std::clamp(std::floor(work / kTaskCycles), 1.0, threads);
      mean += (work / tasks + (tasks > 1 ? kSharedCycles : kKernelCycles)) / 4;
    }
  }
};

f64 product_cycles(const JoinedProducts& p, i64 columns, f64 bytes, bool near, const Target& t) {
  f64 lanes = f64(t.vector_bytes) / 4, filled = std::ceil(f64(columns) / lanes) * lanes;
  if (p.rows > 4 * i64(lanes)) filled = std::min(filled, f64(columns) * 1.05);  // lanes along the rows as well
  return std::max(f64(p.rows * p.depth) * filled / (f64(t.fma_per_cycle_bytes) / 4), bytes / (near ? kNearBytes : kFarBytes));
}

void estimate(JoinedProducts* p, const std::vector<f64>& lost, const Target& t, const Graph& g) {
  i64 all = 0, columns = 0;
  for (const ConstantData& c : g.constants) all += i64(c.bytes.size());
  bool near = all < t.l2_bytes / 2;
  f64 sum = 0;
  Cycles apart, joined;
  for (size_t m = 0; m < p->sums.size(); m++) {
    f64 b = 0;
    for (UOp u : toposort(p->sums[m].src(0).src(1 - p->side)))
      if (u.is(Op::Constant)) b += f64(byte_size(u.dtype().kind, elems(shape(u)).as_int()));
    sum += b, columns += p->columns[m];
    apart.add(product_cycles(*p, p->columns[m], b, near, t));
    f64 more = lost[m];
    joined.alone += more, joined.mean += more;
  }
  joined.add(product_cycles(*p, columns, sum, near, t));
  p->apart_cycles = apart.mean, p->joined_cycles = joined.mean, p->apart_alone = apart.alone, p->joined_alone = joined.alone;
}

// Steps that all members have in common, as far as they go.
void add_steps(JoinedProducts* p, const Graph& g, Memo<std::vector<UOp>>& users, Memo<u8>& constants) {
  p->tops = p->sums;
  while (p->steps.size() < kMostSteps) {
    auto step = next_step(p->tops, users, constants);
    if (!step || !of_results(*p, g).join(views(step->others), nullptr, false)) break;
    for (size_t m = 0; m < p->tops.size(); m++)
      if (step->others[m]) p->tops[m] = users[p->tops[m]][0];
    p->steps.push_back(std::move(*step));
  }
}

}  // namespace

std::vector<JoinedProducts> find_joined_products(const Graph& g, const Target& target, Memo<std::vector<UOp>>& users, Memo<u8>& taken) {
  std::vector<UOp> order = toposort(g.sink);
  Memo<u8> constants;
  Regions in = regions(order, std::span(&g.sink, 1));
  std::map<std::vector<i64>, JoinedProducts> found;
  std::vector<std::vector<i64>> keys;
  for (UOp u : order) {
    if (!u.is(Op::Reduce) || taken[u] || in.of[u] || u.arg<ReduceArg>().kind != ReduceKind::Add || !u.src(0).is(Op::Mul) ||
        !has_const_shape(u.src(0)))
      continue;
    if (u.dtype() != DType(Kind::F32) && u.dtype() != DType(Kind::I32)) continue;
    UOp product = u.src(0);
    size_t side = of_constants(product.src(0), constants) ? 1 : 0;
    UOp factor = product.src(side), weight = product.src(1 - side);
    if (!factor.is(Op::Expand) || of_constants(factor, constants) || !of_constants(weight, constants) || match_conv3(u)) continue;
    if (peeled({weight, {}}).base.is_const()) continue;  // a number
    std::vector<i64> size = const_shape(product), own = const_shape(factor.src(0));
    Ints axes = u.arg<ReduceArg>().axes;
    i64 axis = -1, more = 0;
    for (size_t a = 0; a < size.size(); a++)
      if (own[a] != size[a]) axis = i64(a), more++;
    if (more != 1 || std::binary_search(axes.begin(), axes.end(), axis)) continue;
    std::vector<i64> key{i64(factor.src(0).id()), i64(side), axis, i64(u.dtype().kind)};
    key.insert(key.end(), axes.begin(), axes.end());
    JoinedProducts& p = found[key];
    if (p.sums.empty()) {
      keys.push_back(key);
      p.side = side, p.axis = axis;
      for (size_t a = 0; a < size.size(); a++)
        if (i64(a) != axis) (std::binary_search(axes.begin(), axes.end(), i64(a)) ? p.depth : p.rows) *= size[a];
    }
    p.sums.push_back(u), p.columns.push_back(size[size_t(axis)]);
  }
  std::vector<JoinedProducts> out;
  for (const auto& key : keys) {
    JoinedProducts& p = found[key];
    if (p.sums.size() < 2 || !of_weights(p, g).join(views(weights(p)), nullptr, false)) continue;
    add_steps(&p, g, users, constants);
    std::vector<f64> lost;
    for (UOp t : p.tops) lost.push_back(lost_cycles(t, users));
    if (std::any_of(lost.begin(), lost.end(), [](f64 x) { return std::isinf(x); })) {
      JoinedProducts rest = p;
      rest.sums.clear(), rest.columns.clear(), rest.steps.clear();
      std::vector<f64> of_rest;
      for (size_t m = 0; m < lost.size(); m++)
        if (!std::isinf(lost[m])) rest.sums.push_back(p.sums[m]), rest.columns.push_back(p.columns[m]), of_rest.push_back(lost[m]);
      if (rest.sums.size() < 2) continue;
      p = std::move(rest), lost = std::move(of_rest);
      add_steps(&p, g, users, constants);
    }
    estimate(&p, lost, target, g);
    out.push_back(std::move(p));
  }
  return out;
}

UOp joined_products(const JoinedProducts& p, const Graph& g, Memo<UOp>& to, const std::function<UOp(ConstantData)>& add, bool derive) {
  UOp product = p.sums[0].src(0), w = of_weights(p, g).join(views(weights(p)), &add, derive);
  UOp x = tensor::expand(to[product.src(p.side).src(0)], shape(w));
  UOp y = tensor::reduce(p.side ? w * x : x * w, ReduceKind::Add, p.sums[0].arg<ReduceArg>().axes);
  for (const JoinedProducts::Step& s : p.steps) {
    UOp c = of_results(p, g).join(views(s.others), &add, derive);
    y = s.side ? alu(s.op, {y, c}) : alu(s.op, {c, y});
  }
  return tensor::contiguous(y);
}

UOp part(const JoinedProducts& p, UOp joined, size_t member) {
  i64 begin = 0;
  for (size_t m = 0; m < member; m++) begin += p.columns[m];
  return tensor::slice(joined, kept_axis(p), idx(begin), idx(begin + p.columns[member]));
}

}  // namespace tg
