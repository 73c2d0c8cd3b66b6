#include "frontend/pool.h"

#include <algorithm>

#include "base/error.h"
#include "base/hash.h"

namespace tg {
namespace {
thread_local Pool* t_pool = nullptr;

bool all_same(const Values& v) {
  return !v.v.empty() && std::all_of(v.v.begin(), v.v.end(), [&](u64 x) { return x == v.v[0]; });
}

// Rebuilds the expression u in the arena of the calling thread, so that eval's tables are as small as the expression.
UOp copy(UOp root) {
  std::vector<UOp> order = toposort(root);
  std::unordered_map<u32, UOp> to;
  std::vector<UOp> src;
  for (UOp u : order) {
    src.clear();
    for (UOp s : u.src()) src.push_back(to[s.id()]);
    Arg a = u.node()->arg;
    if (info(u.op()).arg == ArgKind::Ints) a = Arena::current().ints(u.arg_ints());
    if (info(u.op()).arg == ArgKind::Str) a = Arena::current().str(u.arg_str());
    to[u.id()] = Arena::current().make(u.op(), u.dtype(), src, a);
  }
  return to[root.id()];
}
}  // namespace

Pool::Scope::Scope(Pool& p) : before_(t_pool) { t_pool = &p; }
Pool::Scope::~Scope() { t_pool = before_; }
Pool& Pool::current() {
  TG_CHECK(t_pool, "a constant is made outside any Pool::Scope");
  return *t_pool;
}

i64 known_elems(const Shape& s) {
  constexpr i64 kMost = i64(1) << 48;
  i64 n = 1;
  bool empty = false;
  for (UOp d : s) {
    if (!d.is_const() || d.as_int() < 0) return -1;
    empty |= d.as_int() == 0;
    if (__builtin_mul_overflow(n, d.as_int(), &n) || n > kMost) {
      if (!empty && std::none_of(s.begin(), s.end(), [](UOp e) { return e.is_const(0); })) return -1;
      n = 0;
    }
  }
  return n;
}

UOp splat(UOp u) {
  while (u.is(Op::Reshape) || u.is(Op::Expand)) u = u.src(0);
  return u.is_const() ? u : UOp();
}

UOp full(const Shape& s, UOp c) {
  TG_CHECK(c.is_const(), "a splat of ", c.str());
  return s.empty() ? c : tensor::broadcast_to(c, s);
}

UOp Pool::add(const Values& v, std::string name) {
  if (all_same(v)) return full(tg::dims(v.dims), konst_bits(v.dtype, v.v[0]));
  auto bytes = std::make_shared<std::vector<u8>>(encode(v));
  ConstantData c{std::move(name), v.dtype, v.dims, *bytes, bytes};
  return add(std::move(c));
}

UOp Pool::add(ConstantData c) {
  i64 n = count(c.dims);
  if (n > 0 && n <= kFoldElems) {
    Values v = decode(c.dtype, c.dims, c.bytes);
    if (all_same(v)) return full(tg::dims(c.dims), konst_bits(v.dtype, v.v[0]));
  }
  // Equal constants are one. Weights, which are large, differ or are rare enough not to matter.
  if (n <= kFoldWork) {
    u64 h = mix(hash64(c.bytes.data(), c.bytes.size()), u64(c.dtype.kind));
    for (i64 d : c.dims) h = mix(h, u64(d));
    std::vector<i64>& same = by_content_[h];
    for (i64 i : same) {
      const ConstantData& o = constants_[i];
      if (o.dtype == c.dtype && o.dims == c.dims && std::ranges::equal(o.bytes, c.bytes))
        return tensor::constant(i, o.dtype, tg::dims(o.dims));
    }
    same.push_back(i64(constants_.size()));
  }
  UOp u = tensor::constant(i64(constants_.size()), c.dtype, tg::dims(std::span<const i64>(c.dims)));
  constants_.push_back(std::move(c));
  return u;
}

bool Pool::foldable(UOp root) {
  std::vector<std::pair<UOp, u32>> stack{{root, 0}};
  auto decide = [&](UOp u) {
    if (u.in(Op::Param | Op::Var | Op::Carry | Op::Step)) return false;
    for (UOp s : u.src())
      if (foldable_[s] == 1) return false;
    if (u.is(Op::Stack) || u.is(Op::Placeholder) || u.is(Op::Fold)) return true;
    i64 n = known_elems(shape(u));
    return n >= 0 && n <= kFoldWork;
  };
  while (!stack.empty()) {
    auto& [u, next] = stack.back();
    if (foldable_[u]) {
      stack.pop_back();
    } else if (next < u.nsrc()) {
      UOp s = u.src(next++);
      if (foldable_[s] == 1)
        foldable_[u] = 1;
      else if (!foldable_[s])
        stack.push_back({s, 0});
    } else {
      UOp x = u;
      u8 d = decide(x) ? 2 : 1;
      foldable_[x] = d;
      stack.pop_back();
    }
  }
  return foldable_[root] == 2;
}

const Values* Pool::value(UOp u) {
  if (auto it = values_.find(u.id()); it != values_.end()) return &it->second;
  if (!foldable(u)) return nullptr;
  if (known_elems(shape(u)) > kFoldElems) return nullptr;
  Values v;
  if (u.is(Op::Constant)) {
    const ConstantData& c = constants_[u.arg_int()];
    v = decode(c.dtype, c.dims, c.bytes);
  } else {
    Arena scratch;
    Arena::Scope scope(scratch);
    EvalEnv env;
    env.constants = &constants_;
    v = eval(copy(u), env);
  }
  return &(values_[u.id()] = std::move(v));
}

UOp Pool::fold(UOp u) {
  if (u.is(Op::Constant) || splat(u)) return u;
  const Values* v = value(u);
  if (!v) return u;
  UOp r = add(*v);
  if (r.is(Op::Constant)) values_[r.id()] = *v;
  return r;
}

}  // namespace tg
