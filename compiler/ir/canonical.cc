#include "ir/canonical.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "base/error.h"
#include "ir/loops.h"
#include "ir/text.h"

namespace tg {
namespace {

// The argument without the number that only tells this node from its likes.
u64 hash_arg(UOp u) {
  switch (u.op()) {
    case Op::Param:
    case Op::Var:
    case Op::Reg:
    case Op::Barrier: return 0;
    default: break;
  }
  switch (info(u.op()).arg) {
    case ArgKind::None: return 0;
    case ArgKind::Int:
    case ArgKind::Bits: return u.arg_bits();
    case ArgKind::Str: return hash64(u.arg_str());
    case ArgKind::Ints: break;
  }
  Ints v(u.arg_ints().begin(), u.arg_ints().end());
  if (u.is(Op::Range) || u.is(Op::Row) || u.is(Op::Local)) v[0] = 0;
  if (u.is(Op::Placeholder)) v[2] = 0;
  return hash64(v.data(), v.size() * sizeof(i64));
}

// The sources in canonical order; constants stay right, where alu() puts them.
std::vector<UOp> sorted_src(UOp u, Memo<u64>& hash) {
  std::vector<UOp> s(u.src().begin(), u.src().end());
  if (kCommutative.has(u.op()))
    std::stable_sort(s.begin(), s.end(), [&](UOp a, UOp b) { return std::pair(a.is_const(), hash[a]) < std::pair(b.is_const(), hash[b]); });
  return s;
}

// New numbers by old ones, in the order of first use.
class Numbers {
 public:
  i64 operator()(i64 old) {
    auto [it, fresh] = new_of_.try_emplace(old, i64(old_of.size()));
    if (fresh) old_of.push_back(old);
    return it->second;
  }
  std::vector<i64> old_of;

 private:
  std::map<i64, i64> new_of_;
};

}  // namespace

i64 var_number(UOp var) {
  std::string_view s = var.arg_str();
  i64 n = -1;
  if (s.size() > 1 && s[0] == 'v') {
    auto [end, ec] = std::from_chars(s.data() + 1, s.data() + s.size(), n);
    if (ec != std::errc() || end != s.data() + s.size()) n = -1;
  }
  TG_CHECK(n >= 0, "a VAR without number: ", s);
  return n;
}

Canonical canonical(UOp ast) {
  Memo<u64> hash;
  for (UOp u : toposort(ast)) {
    u64 h = mix(u64(u.op()) | u64(u.dtype().kind) << 8 | u64(u.dtype().lanes) << 16, hash_arg(u));
    for (UOp s : sorted_src(u, hash)) h = mix(h, hash[s]);
    hash[u] = h;
  }

  // The order of traversal of the sorted graph.
  std::vector<UOp> order;
  Memo<std::vector<UOp>> src;
  Memo<u8> seen;
  std::vector<std::pair<UOp, u32>> stack{{ast, 0}};
  seen[ast] = 1;
  while (!stack.empty()) {
    auto& [u, next] = stack.back();
    if (next == 0) src[u] = sorted_src(u, hash);
    if (next == u.nsrc()) {
      order.push_back(u);
      stack.pop_back();
      continue;
    }
    UOp s = src[u][next++];
    if (seen[s]) continue;
    seen[s] = 1;
    stack.push_back({s, 0});
  }

  Numbers slots, axes, rows, locals, regs, barriers, folds;
  std::vector<UOp> closed, others;
  for (UOp u : order) {
    if (u.is(Op::Store)) {
      UOp to = memory_of(u.src(0));
      if (to.is(Op::Param)) slots(to.arg_int());
      for (UOp s : u.src().subspan(2))
        if (s.is(Op::Range)) closed.push_back(s);
    }
    if (u.is(Op::Range)) others.push_back(u);
  }
  std::vector<UOp> ranges = closed;
  ranges.insert(ranges.end(), others.begin(), others.end());
  std::stable_sort(ranges.begin(), ranges.end(), [](UOp a, UOp b) { return a.arg<RangeArg>().phase < b.arg<RangeArg>().phase; });
  for (UOp r : ranges) axes(r.arg<RangeArg>().id);

  Canonical c;
  c.arena = std::make_shared<Arena>();
  Arena::Scope scope(*c.arena);
  Memo<UOp> to;
  std::vector<UOp> s;
  for (UOp u : order) {
    s.clear();
    for (UOp x : src[u]) s.push_back(to[x]);
    Arg a = u.node()->arg;
    if (info(u.op()).arg == ArgKind::Str) a = c.arena->str(u.arg_str());
    if (u.is(Op::Var)) {
      a = c.arena->str(tg::str("v", c.var_of.size()));
      c.var_of.push_back(u);
    }
    if (info(u.op()).arg == ArgKind::Ints) {
      Ints v(u.arg_ints().begin(), u.arg_ints().end());
      if (u.is(Op::Range)) v[0] = axes(v[0]);
      if (u.is(Op::Row)) v[0] = rows(v[0]);
      if (u.is(Op::Local)) v[0] = locals(v[0]);
      if (u.is(Op::Placeholder)) v[2] = folds(v[2]);
      a = c.arena->ints(v);
    }
    if (u.is(Op::Param)) a.i = slots(a.i);
    if (u.is(Op::Reg)) a.i = regs(a.i);
    if (u.is(Op::Barrier)) a.i = barriers(a.i);
    to[u] = c.arena->make(u.op(), u.dtype(), s, a);
  }
  c.ast = to[ast];
  c.digest = digest(print(c.ast));
  c.slot_of = std::move(slots.old_of);
  c.axis_of = std::move(axes.old_of);
  return c;
}

}  // namespace tg
