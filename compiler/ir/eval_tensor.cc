// The interpreter of the tensor form. Movement ops make views of their source's numbers; every other op makes numbers of its own, which are
// freed after their last reader. A LOOP runs the nodes of its region once a round, a BRANCH those of the side that it takes.
#include <algorithm>
#include <map>
#include <memory>
#include <numeric>

#include "base/error.h"
#include "ir/eval.h"
#include "ir/eval_fold.h"
#include "ir/eval_scalar.h"
#include "ir/regions.h"

namespace tg {
namespace {

using Dims = std::vector<i64>;

struct View {
  DType dtype;
  Dims dims, strides;
  i64 offset = 0;
  std::shared_ptr<const std::vector<u64>> data;
  const u64* base() const { return data->data() + offset; }
  u64 first() const { return *base(); }
};

Dims dense_strides(const Dims& dims) {
  Dims s(dims.size());
  i64 n = 1;
  for (size_t i = dims.size(); i-- > 0;) s[i] = n, n *= dims[i];
  return s;
}
View view_of(DType d, Dims dims, std::vector<u64> v) {
  Dims s = dense_strides(dims);
  return {d, std::move(dims), std::move(s), 0, std::make_shared<const std::vector<u64>>(std::move(v))};
}
View view_of(Values x) { return view_of(x.dtype, std::move(x.dims), std::move(x.v)); }

// Calls row(offsets, n) for every run along the last of `dims`, row-major; offsets[k] is where operand k (with strides[k]) begins.
template <class F>
void each_row(const Dims& dims, std::span<const Dims* const> strides, F row) {
  size_t rank = dims.size(), ops = strides.size();
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return;
  std::vector<i64> at(ops, 0);
  if (rank == 0) return row(at.data(), i64(1));
  Dims pos(rank, 0);
  while (true) {
    row(at.data(), dims[rank - 1]);
    size_t a = rank - 1;
    while (true) {
      if (a == 0) return;
      a--;
      for (size_t k = 0; k < ops; k++) at[k] += (*strides[k])[a];
      if (++pos[a] < dims[a]) break;
      for (size_t k = 0; k < ops; k++) at[k] -= (*strides[k])[a] * dims[a];
      pos[a] = 0;
    }
  }
}
i64 last(const Dims& s) { return s.empty() ? 0 : s.back(); }

std::vector<u64> dense(const View& x) {
  i64 n = count(x.dims);
  std::vector<u64> out(n);
  if (n == 0) return out;
  const Dims* st[] = {&x.strides};
  u64* o = out.data();
  each_row(x.dims, st, [&](const i64* at, i64 len) {
    const u64* p = x.base() + at[0];
    i64 s = last(x.strides);
    for (i64 i = 0; i < len; i++) *o++ = p[i * s];
  });
  return out;
}
View contiguous(const View& x) {
  if (x.offset == 0 && x.strides == dense_strides(x.dims) && i64(x.data->size()) == count(x.dims)) return x;
  return view_of(x.dtype, x.dims, dense(x));
}

// An operand of a node of shape `dims`: a value of shape () stands for any shape.
Dims strides_in(const View& x, const Dims& dims) { return x.dims.empty() ? Dims(dims.size(), 0) : x.strides; }

// An elementwise node ready to run along rows: one of the sources' views each, and the function.
struct Elementwise {
  DType dtype;
  Dims dims;
  std::vector<View> x;
  std::vector<Dims> strides;
  ScalarFn fn = nullptr;
  Kind kind = Kind::Void;  // what fn takes; Cast and Bitcast: the source's
  Op op;

  void run(const i64* at, i64 n, u64* out) const {
    const u64* p[3] = {};
    i64 s[3] = {};
    for (size_t k = 0; k < x.size(); k++) p[k] = x[k].base() + at[k], s[k] = last(strides[k]);
    if (op == Op::Cast)
      for (i64 i = 0; i < n; i++) out[i] = eval_cast(dtype.kind, kind, p[0][i * s[0]]);
    else if (op == Op::Bitcast)
      for (i64 i = 0; i < n; i++) out[i] = eval_bitcast(dtype.kind, kind, p[0][i * s[0]]);
    else if (x.size() == 1)
      for (i64 i = 0; i < n; i++) out[i] = fn(kind, p[0][i * s[0]], 0, 0);
    else if (x.size() == 2)
      for (i64 i = 0; i < n; i++) out[i] = fn(kind, p[0][i * s[0]], p[1][i * s[1]], 0);
    else
      for (i64 i = 0; i < n; i++) out[i] = fn(kind, p[0][i * s[0]], p[1][i * s[1]], p[2][i * s[2]]);
  }
  std::vector<const Dims*> stride_list() const {
    std::vector<const Dims*> r;
    for (const Dims& s : strides) r.push_back(&s);
    return r;
  }
};

class Evaluator {
 public:
  explicit Evaluator(const EvalEnv& env) : env_(env) {}

  std::vector<Values> run(std::span<const UOp> roots) {
    std::vector<UOp> order = toposort(roots);
    // Bodies of FOLDs are run by the FOLD: they are not values of their own.
    Memo<u8> body;
    for (UOp u : order)
      if (u.is(Op::Placeholder)) body[u] = 1;
      else if (!u.is(Op::Fold))
        for (UOp s : u.src())
          if (body[s]) body[u] = 1;
    for (UOp u : order) {
      views_[u];  // grown once, so that references stay
      for (UOp s : u.src()) uses_[s]++;
      if (!body[u]) continue;
      for (UOp r : roots) TG_CHECK(r != u, "a value that depends on a placeholder: ", u.str());
    }
    for (UOp r : roots) uses_[r]++;
    regions_ = regions(order, roots);
    inside_.resize(regions_.list.size());
    for (UOp u : order) {
      if (body[u]) continue;
      if (u.is(Op::Carry)) of_loop_[u.arg<CarryArg>().loop].push_back(u);
      if (u.is(Op::Step)) of_loop_[u.arg_int()].push_back(u);
      if (u32 r = regions_.of[u]) {
        inside_[r].push_back(u);
        continue;
      }
      // A product that only a reduce reads is made row by row inside it.
      if (!(is_alu(u.op()) && uses_[u] == 1 && read_by_reduce(order, u))) compute(u);
      for (UOp s : u.src()) release(s, u);
    }
    std::vector<Values> out;
    for (UOp r : roots) {
      const View& x = get(r);
      out.push_back({x.dtype, x.dims, dense(x)});
    }
    return out;
  }

 private:
  // The nodes of a region, whose values of an earlier round are forgotten.
  void run_region(u32 region) {
    for (UOp u : inside_[region])
      if (!u.in(Op::Carry | Op::Step)) views_[u].clear();
    for (UOp u : inside_[region])
      if (!u.in(Op::Carry | Op::Step)) compute(u);
  }

  void loop(UOp u) {
    LoopArg a = u.arg<LoopArg>();
    u32 region = regions_.inside(u);
    i64 most = i64(get(u.src(0)).first()), round = 0;
    std::vector<View> now;
    std::vector<std::vector<u64>> scanned(size_t(a.scans));
    for (i64 i = 0; i < a.carried; i++) now.push_back(get(u.src(a.init(i))));
    bool go = get(u.src(1)).first();
    for (; go && round < most; round++) {
      for (UOp c : of_loop_[a.id]) views_[c] = {c.is(Op::Step) ? view_of(Kind::Index, {}, {u64(round)}) : now[size_t(c.arg<CarryArg>().index)]};
      run_region(region);
      go = get(u.src(a.next_go())).first();
      for (i64 i = 0; i < a.carried; i++) {
        View x = get(u.src(a.next(i)));
        if (x.dims != now[size_t(i)].dims) fail("carried value ", i, " is (", join(now[size_t(i)].dims), "), then (", join(x.dims), ") in ", u.str());
        now[size_t(i)] = contiguous(x);
      }
      for (i64 i = 0; i < a.scans; i++) {
        std::vector<u64> v = dense(get(u.src(a.scan(i))));
        scanned[size_t(i)].insert(scanned[size_t(i)].end(), v.begin(), v.end());
      }
    }
    for (i64 i = 0; i < a.scans; i++) {
      UOp s = u.src(a.scan(i));
      Dims d{std::max<i64>(most, 0)};
      for (UOp x : shape(s)) d.push_back(views_[x].empty() ? eval_index(x, env_) : i64(get(x).first()));
      scanned[size_t(i)].resize(size_t(count(d)));  // of rounds that did not run
      now.push_back(view_of(s.dtype(), d, std::move(scanned[size_t(i)])));
    }
    views_[u] = std::move(now);
  }

  void branch(UOp u) {
    i64 n = u.arg_int();
    bool yes = get(u.src(0)).first();
    run_region(regions_.inside(u, yes ? 0 : 1));
    std::vector<View> r;
    for (i64 i = 0; i < n; i++) r.push_back(get(u.src(size_t(1 + i + (yes ? 0 : n)))));
    views_[u] = std::move(r);
  }

  bool read_by_reduce(std::span<const UOp> order, UOp u) {
    if (readers_.empty()) {
      readers_.resize(order.back().id() + 1);
      for (UOp r : order)
        for (UOp s : r.src()) {
          if (s.id() >= readers_.size()) readers_.resize(s.id() + 1);
          readers_[s.id()] = r;
        }
    }
    bool yes = u.id() < readers_.size() && readers_[u.id()] && readers_[u.id()].is(Op::Reduce) && !regions_.of[readers_[u.id()]];
    if (yes) deferred_[u] = 1;
    return yes;
  }
  void release(UOp s, UOp reader) {
    if (deferred_[reader] && !reader.is(Op::Reduce)) return;  // its sources are read when the reduce runs
    drop(s);
    if (deferred_[s])
      for (UOp t : s.src()) drop(t);
  }
  void drop(UOp s) {
    if (--uses_[s] == 0) views_[s].clear();
  }

  const View& get(UOp u, size_t i = 0) {
    TG_CHECK(i < views_[u].size(), "no value of ", u.str());
    return views_[u][i];
  }
  Dims ints_of(UOp stack) {
    const View& x = get(stack);
    return Dims(x.base(), x.base() + x.dims[0]);
  }

  Elementwise elementwise(UOp u) {
    Elementwise e{.dtype = u.dtype(), .op = u.op()};
    for (UOp s : u.src()) {
      e.x.push_back(get(s));
      const Dims& d = e.x.back().dims;
      if (d.empty()) continue;
      if (e.dims.empty()) e.dims = d;
      else if (e.dims != d) fail("dims (", join(e.dims), ") and (", join(d), ") meet in ", u.str());
    }
    for (const View& x : e.x) e.strides.push_back(strides_in(x, e.dims));
    e.kind = u.src(u.is(Op::Where) ? 1 : 0).dtype().kind;
    if (is_alu(u.op())) e.fn = scalar_fn(u.op(), e.kind);
    return e;
  }

  void compute(UOp u) {
    std::vector<View>& out = views_[u];
    auto one = [&](View x) { out.push_back(std::move(x)); };
    auto scalar = [&](u64 v) { one(view_of(u.dtype(), {}, {v})); };
    switch (u.op()) {
      case Op::Const: return scalar(u.arg_bits());
      case Op::Var: {
        for (auto& [name, v] : env_.vars)
          if (name == u.arg_str()) return scalar(u64(v));
        fail("the interpreter needs a value for the free size ", u.arg_str());
      }
      case Op::Stack: {
        std::vector<u64> v;
        for (UOp s : u.src()) v.push_back(get(s).first());
        Dims d{i64(v.size())};
        return one(view_of(Kind::Index, d, std::move(v)));
      }
      case Op::Sink:
      case Op::Group: return one(view_of(Kind::Void, {}, {0}));
      case Op::Param: {
        if (u.arg_int() < 0 || u.arg_int() >= i64(env_.params.size())) fail("no value is given for ", u.str());
        const Values& x = env_.params[u.arg_int()];
        check_dims(u, x.dims, x.dtype);
        return one(view_of(x));
      }
      case Op::Constant: {
        if (!env_.constants || u.arg_int() >= i64(env_.constants->size())) fail("no data is given for ", u.str());
        const ConstantData& c = (*env_.constants)[u.arg_int()];
        check_dims(u, c.dims, c.dtype);
        return one(view_of(decode(c.dtype, c.dims, c.bytes)));
      }
      case Op::Iota: {
        std::vector<u64> v(std::max<i64>(0, i64(get(u.src(0)).first())));
        for (size_t i = 0; i < v.size(); i++) v[i] = u64(wrap_int(u.dtype().kind, i64(i)));
        Dims d{i64(v.size())};
        return one(view_of(u.dtype(), d, std::move(v)));
      }
      case Op::Reduce: return one(reduce(u));
      case Op::Fold: return fold(u);
      case Op::Get: return one(get(u.src(0), u.arg_int()));
      case Op::Loop: return loop(u);
      case Op::Branch: return branch(u);
      case Op::Gather: return one(gather(u));
      case Op::Scatter: return one(scatter(u));
      case Op::Sort: return one(sort(u));
      case Op::Scan: return one(scan(u));
      case Op::Contiguous: return one(get(u.src(0)));
      default: break;
    }
    if (is_movement(u.op())) return one(move(u));
    if (!is_elementwise(u.op())) fail("the interpreter of the tensor form has no ", info(u.op()).name, ": ", u.str());
    Elementwise e = elementwise(u);
    std::vector<u64> v(count(e.dims));
    u64* o = v.data();
    if (!v.empty()) each_row(e.dims, e.stride_list(), [&](const i64* at, i64 n) { e.run(at, n, o), o += n; });
    one(view_of(u.dtype(), e.dims, std::move(v)));
  }

  void check_dims(UOp u, const Dims& got, DType dtype) {
    Dims want;
    for (UOp s : u.src()) want.push_back(i64(get(s).first()));
    if (want != got || dtype != u.dtype())
      fail(u.str(), " needs ", name(u.dtype()), "(", join(want), "), got ", name(dtype), "(", join(got), ")");
  }

  View move(UOp u) {
    View x = get(u.src(0));
    switch (u.op()) {
      case Op::Reshape: {
        Dims to = ints_of(u.src(1));
        if (count(to) != count(x.dims)) fail("(", join(x.dims), ") to (", join(to), ") in ", u.str());
        // Dims of 1 come and go without a copy.
        Dims strides;
        size_t i = 0;
        bool easy = true;
        for (i64 d : to) {
          while (i < x.dims.size() && x.dims[i] == 1 && d != 1) i++;
          if (d == 1) strides.push_back(0);
          else if (i < x.dims.size() && x.dims[i] == d) strides.push_back(x.strides[i++]);
          else easy = false;
        }
        if (!easy) x = contiguous(x), strides = dense_strides(to);
        x.dims = to, x.strides = strides;
        return x;
      }
      case Op::Permute: {
        View r = x;
        for (size_t i = 0; i < x.dims.size(); i++) r.dims[i] = x.dims[u.arg_ints()[i]], r.strides[i] = x.strides[u.arg_ints()[i]];
        return r;
      }
      case Op::Expand: {
        Dims to = ints_of(u.src(1));
        for (size_t i = 0; i < to.size(); i++) {
          if (to[i] == x.dims[i]) continue;
          if (x.dims[i] != 1) fail("(", join(x.dims), ") to (", join(to), ") in ", u.str());
          x.strides[i] = 0;
        }
        x.dims = to;
        return x;
      }
      case Op::Shrink: {
        Dims b = ints_of(u.src(1)), e = ints_of(u.src(2)), st = ints_of(u.src(3));
        for (size_t i = 0; i < x.dims.size(); i++) {
          if (b[i] < 0 || e[i] > x.dims[i] || st[i] <= 0 || b[i] > e[i]) fail("part ", b[i], ":", e[i], ":", st[i], " of ", x.dims[i], " in ", u.str());
          x.dims[i] = (e[i] - b[i] + st[i] - 1) / st[i];
          if (x.dims[i] > 0) x.offset += b[i] * x.strides[i];
          x.strides[i] *= st[i];
        }
        return x;
      }
      case Op::Flip:
        for (i64 a : u.arg_ints()) {
          if (x.dims[a] > 0) x.offset += (x.dims[a] - 1) * x.strides[a];
          x.strides[a] = -x.strides[a];
        }
        return x;
      case Op::Window: {
        WindowArg w = u.arg<WindowArg>();
        for (size_t i = 0; i < w.axes.size(); i++) {
          i64 a = w.axes[i], span = w.dilation[i] * (w.k[i] - 1) + 1;
          x.dims.push_back(w.k[i]);
          x.strides.push_back(x.strides[a] * w.dilation[i]);
          if (x.dims[a] < span) fail("a window of ", span, " on an axis of ", x.dims[a], " in ", u.str());
          x.dims[a] = (x.dims[a] - span) / w.stride[i] + 1;
          x.strides[a] *= w.stride[i];
        }
        return x;
      }
      case Op::Pad: {
        Dims b = ints_of(u.src(1)), e = ints_of(u.src(2)), dims = x.dims;
        for (size_t i = 0; i < dims.size(); i++) {
          if (b[i] < 0 || e[i] < 0) fail("a negative pad in ", u.str());
          dims[i] += b[i] + e[i];
        }
        std::vector<u64> v(count(dims), get(u.src(3)).first());
        put(v, dims, b, x);
        return view_of(u.dtype(), dims, std::move(v));
      }
      case Op::Concat: {
        i64 axis = u.arg_int();
        Dims dims = x.dims, at(x.dims.size(), 0);
        for (size_t i = 1; i < u.nsrc(); i++) dims[axis] += get(u.src(i)).dims[axis];
        std::vector<u64> v(count(dims));
        for (UOp s : u.src()) {
          const View& p = get(s);
          for (size_t i = 0; i < dims.size(); i++)
            if (i64(i) != axis && p.dims[i] != dims[i]) fail("(", join(p.dims), ") beside (", join(x.dims), ") in ", u.str());
          put(v, dims, at, p);
          at[axis] += p.dims[axis];
        }
        return view_of(u.dtype(), dims, std::move(v));
      }
      default: TG_CHECK(false, u.str()); return x;
    }
  }

  // Writes x into the box of `out` that begins at `begin`.
  static void put(std::vector<u64>& out, const Dims& dims, const Dims& begin, const View& x) {
    Dims st = dense_strides(dims);
    i64 at0 = 0;
    for (size_t i = 0; i < dims.size(); i++) at0 += begin[i] * st[i];
    const Dims* strides[] = {&x.strides, &st};
    each_row(x.dims, strides, [&](const i64* at, i64 n) {
      for (i64 i = 0; i < n; i++) out[at0 + at[1] + i * last(st)] = x.base()[at[0] + i * last(x.strides)];
    });
  }

  // dims and strides with `axes` taken out, and those axes alone.
  static std::pair<Dims, Dims> split(const Dims& v, const Ints& axes) {
    std::pair<Dims, Dims> r;
    for (size_t i = 0; i < v.size(); i++) (std::binary_search(axes.begin(), axes.end(), i64(i)) ? r.second : r.first).push_back(v[i]);
    return r;
  }
  static void check_axes(UOp u, const Dims& dims, const Ints& axes) {
    for (i64 a : axes)
      if (a < 0 || a >= i64(dims.size())) fail("axis ", a, " of (", join(dims), ") in ", u.str());
  }

  View reduce(UOp u) {
    ReduceArg arg = u.arg<ReduceArg>();
    UOp s = u.src(0);
    Elementwise e;
    if (deferred_[s]) e = elementwise(s);
    else {
      e.dtype = s.dtype(), e.op = s.op(), e.x = {get(s)};
      e.dims = e.x[0].dims, e.strides = {e.x[0].strides};
    }
    check_axes(u, e.dims, arg.axes);
    bool made = deferred_[s];
    auto [keep, gone] = split(e.dims, arg.axes);
    std::vector<Dims> keep_st, gone_st;
    for (const Dims& st : e.strides) {
      auto [a, b] = split(st, arg.axes);
      keep_st.push_back(a), gone_st.push_back(b);
    }
    // The longest axis last: rows of a 3x3 filter are short, and the order of a reduce's terms is free.
    if (!gone.empty()) {
      size_t longest = std::max_element(gone.begin(), gone.end()) - gone.begin();
      std::swap(gone[longest], gone.back());
      for (Dims& d : gone_st) std::swap(d[longest], d.back());
    }
    e.strides = gone_st;
    std::vector<const Dims*> outer, inner = e.stride_list();
    for (const Dims& d : keep_st) outer.push_back(&d);
    std::vector<u64> out(count(keep)), row(gone.empty() ? 1 : std::max<i64>(1, gone.back()));
    u64* o = out.data();
    i64 ops = i64(e.x.size());
    if (!out.empty())
      each_row(keep, outer, [&](const i64* at, i64 n) {
        std::vector<i64> here(ops);
        for (i64 j = 0; j < n; j++) {
          Reducer r(arg.kind, u.dtype().kind);
          each_row(gone, inner, [&](const i64* in, i64 m) {
            for (i64 k = 0; k < ops; k++) here[k] = at[k] + j * last(keep_st[k]) + in[k];
            const u64* p = row.data();
            i64 step = 1;
            if (made) e.run(here.data(), m, row.data());
            else p = e.x[0].base() + here[0], step = last(gone_st[0]);
            for (i64 i = 0; i < m; i++) r.add(p[i * step]);
          });
          *o++ = r.done();
        }
      });
    return view_of(u.dtype(), keep, std::move(out));
  }

  void fold(UOp u) {
    FoldArg arg = u.arg<FoldArg>();
    std::vector<View> x;
    for (i64 i = 0; i < arg.inputs; i++) x.push_back(get(u.src(i)));
    check_axes(u, x[0].dims, arg.axes);
    std::vector<Dims> keep_st, gone_st;
    Dims keep, gone;
    std::tie(keep, gone) = split(x[0].dims, arg.axes);
    for (const View& v : x) {
      if (v.dims != x[0].dims) fail("inputs of (", join(x[0].dims), ") and (", join(v.dims), ") in ", u.str());
      auto [a, b] = split(v.strides, arg.axes);
      keep_st.push_back(a), gone_st.push_back(b);
    }
    std::vector<const Dims*> outer, inner;
    for (const Dims& d : keep_st) outer.push_back(&d);
    for (const Dims& d : gone_st) inner.push_back(&d);
    FoldBody body(u);
    std::vector<u64> init;
    for (i64 i = 0; i < arg.states; i++) init.push_back(get(u.src(arg.inputs + i)).first());
    std::vector<std::vector<u64>> out(arg.states);
    std::vector<u64> state, in(x.size());
    if (count(keep) > 0)
      each_row(keep, outer, [&](const i64* at, i64 n) {
        for (i64 j = 0; j < n; j++) {
          state = init;
          each_row(gone, inner, [&](const i64* off, i64 m) {
            for (i64 i = 0; i < m; i++) {
              for (size_t k = 0; k < x.size(); k++) in[k] = x[k].base()[at[k] + j * last(keep_st[k]) + off[k] + i * last(gone_st[k])];
              body.step(in, state);
            }
          });
          for (i64 s = 0; s < arg.states; s++) out[s].push_back(state[s]);
        }
      });
    for (i64 s = 0; s < arg.states; s++) views_[u].push_back(view_of(u.src(arg.inputs + s).dtype(), keep, std::move(out[s])));
  }

  // Row-major position of element p of `index` tensors in an array of `dims`.
  static i64 position(UOp u, const Dims& dims, const std::vector<std::vector<u64>>& index, i64 p) {
    i64 at = 0;
    for (size_t a = 0; a < dims.size(); a++) {
      i64 i = i64(index[a][p]);
      if (i < 0 || i >= dims[a]) fail("index ", i, " on axis ", a, " of size ", dims[a], " in ", u.str());
      at = at * dims[a] + i;
    }
    return at;
  }
  std::vector<std::vector<u64>> indices(UOp u, size_t from, Dims& shape) {
    bool first = true;
    for (size_t i = from; i < u.nsrc(); i++) {
      const Dims& d = get(u.src(i)).dims;
      if (first) shape = d, first = false;
      else if (d != shape) fail("indices of (", join(shape), ") and (", join(d), ") in ", u.str());
    }
    std::vector<std::vector<u64>> r;
    for (size_t i = from; i < u.nsrc(); i++) r.push_back(dense(get(u.src(i))));
    return r;
  }

  View gather(UOp u) {
    View x = contiguous(get(u.src(0)));
    Dims shape;
    auto index = indices(u, 1, shape);
    if (index.size() != x.dims.size()) fail(index.size(), " indices into (", join(x.dims), ") in ", u.str());
    std::vector<u64> v(count(shape));
    for (i64 p = 0; p < i64(v.size()); p++) v[p] = (*x.data)[position(u, x.dims, index, p)];
    return view_of(u.dtype(), shape, std::move(v));
  }

  View scatter(UOp u) {
    const View& x = get(u.src(0));
    std::vector<u64> v = dense(x), up = dense(get(u.src(1)));
    Dims shape;
    auto index = indices(u, 2, shape);
    if (index.size() != x.dims.size() || shape != get(u.src(1)).dims) fail("indices of (", join(shape), ") in ", u.str());
    constexpr Op kOp[] = {Op::Sink, Op::Add, Op::Mul, Op::Max, Op::Min};
    ScatterKind kind = ScatterKind(u.arg_int());
    Kind k = u.dtype().kind;
    ScalarFn fn = kind == ScatterKind::Set ? nullptr : scalar_fn(kOp[int(kind)], k);
    for (i64 p = 0; p < i64(up.size()); p++) {
      u64& at = v[position(u, x.dims, index, p)];
      at = fn ? fn(k, at, up[p], 0) : up[p];
    }
    return view_of(u.dtype(), x.dims, std::move(v));
  }

  // Calls fn(first, stride, n) for every line along `axis` of dense dims.
  template <class F>
  static void each_line(const Dims& dims, i64 axis, F fn) {
    i64 n = dims[axis], inner = count(std::span(dims).subspan(axis + 1)), outer = count(std::span(dims).first(axis));
    for (i64 o = 0; o < outer; o++)
      for (i64 i = 0; i < inner; i++) fn(o * n * inner + i, inner, n);
  }

  View sort(UOp u) {
    SortArg arg = u.arg<SortArg>();
    const View& x = get(u.src(0));
    check_axes(u, x.dims, {arg.axis});
    std::vector<u64> v = dense(x), out(v.size());
    Kind k = x.dtype.kind;
    std::vector<i64> order;
    each_line(x.dims, arg.axis, [&](i64 first, i64 stride, i64 n) {
      order.resize(n);
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](i64 a, i64 b) {
        if (arg.descending) std::swap(a, b);
        return sorts_before(k, v[first + a * stride], v[first + b * stride]);
      });
      for (i64 i = 0; i < n; i++) out[first + i * stride] = u64(order[i]);
    });
    return view_of(u.dtype(), x.dims, std::move(out));
  }

  View scan(UOp u) {
    ScanArg arg = u.arg<ScanArg>();
    const View& x = get(u.src(0));
    check_axes(u, x.dims, {arg.axis});
    std::vector<u64> v = dense(x);
    each_line(x.dims, arg.axis, [&](i64 first, i64 stride, i64 n) {
      Reducer r(arg.kind, u.dtype().kind);
      for (i64 i = 0; i < n; i++) {
        u64& at = v[first + (arg.reverse ? n - 1 - i : i) * stride];
        u64 before = r.done();
        r.add(at);
        at = arg.exclusive ? before : r.done();
      }
    });
    return view_of(u.dtype(), x.dims, std::move(v));
  }

  const EvalEnv& env_;
  Memo<i64> uses_;
  Memo<u8> deferred_;
  Memo<std::vector<View>> views_;
  std::vector<UOp> readers_;
  Regions regions_;
  std::vector<std::vector<UOp>> inside_;      // nodes by region
  std::map<i64, std::vector<UOp>> of_loop_;   // CARRYs and STEPs by LOOP
};

}  // namespace

std::vector<Values> eval(std::span<const UOp> roots, const EvalEnv& env) { return Evaluator(env).run(roots); }
Values eval(UOp u, const EvalEnv& env) { return std::move(Evaluator(env).run(std::span(&u, 1))[0]); }

i64 eval_index(UOp u, const EvalEnv& env) {
  if (u.is_const()) return u.as_int();
  Values v = eval(u, env);
  TG_CHECK(v.dims.empty() && !is_float(v.dtype), "not an integer: ", u.str());
  return i64(v.v[0]);
}

std::vector<Values> eval_graph(const Graph& g, std::span<const Values> inputs, std::vector<std::pair<std::string, i64>> vars) {
  Arena::Scope scope(*g.arena);
  EvalEnv env{std::vector<Values>(inputs.begin(), inputs.end()), &g.constants, std::move(vars)};
  if (inputs.size() != g.inputs.size()) fail("the graph has ", g.inputs.size(), " inputs, got ", inputs.size());
  for (size_t i = 0; i < inputs.size(); i++)
    for (size_t a = 0; a < g.inputs[i].dims.size() && a < inputs[i].dims.size(); a++) {
      UOp d = g.inputs[i].dims[a];
      if (!d.is(Op::Var)) continue;
      bool known = std::any_of(env.vars.begin(), env.vars.end(), [&](auto& v) { return v.first == d.arg_str(); });
      if (!known) env.vars.push_back({std::string(d.arg_str()), inputs[i].dims[a]});
    }
  size_t outputs = g.sink.nsrc() - g.measured.size();
  for (size_t i = 0; i < g.measured.size(); i++) {
    i64 n = i64(eval(g.sink.src(outputs + i), env).v[0]);
    const MeasuredSize& m = g.measured[i];
    if (n < m.min || n > m.max || n % m.multiple) fail("the size ", m.name, " is ", n, ", outside its bounds ", m.min, "..", m.max, ":", m.multiple);
    env.vars.push_back({m.name, n});
  }
  return eval(g.sink.src().first(outputs), env);
}

}  // namespace tg
