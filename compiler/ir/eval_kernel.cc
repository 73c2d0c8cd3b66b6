#include "ir/eval_kernel.h"

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "ir/bounds.h"
#include "ir/eval_fold.h"
#include "ir/eval_memory.h"
#include "ir/eval_scalar.h"
#include "ir/loops.h"

namespace tg {
namespace {

using Set = std::vector<UOp>;  // of RANGEs, by id
Set united(const Set& a, const Set& b) {
  Set r;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(r), [](UOp x, UOp y) { return x.id() < y.id(); });
  return r;
}
void take_out(Set& s, std::span<const UOp> gone) {
  std::erase_if(s, [&](UOp u) { return std::find(gone.begin(), gone.end(), u) != gone.end(); });
}
bool holds(std::span<const UOp> s, UOp u) { return std::find(s.begin(), s.end(), u) != s.end(); }

// The RANGEs that a node runs or closes itself: its last sources.
std::span<const UOp> own_ranges(UOp u) {
  size_t from = u.nsrc();
  if (u.is(Op::Reduce))
    for (from = 1; from < u.nsrc() && !u.src(from).is(Op::Range);) from++;
  if (u.is(Op::Fold)) from = u.arg<FoldArg>().inputs + 3 * u.arg<FoldArg>().states;
  if (u.is(Op::Store)) from = u.nsrc() > 2 && u.src(2).dtype().kind == Kind::Bool ? 3 : 2;
  return u.src().subspan(std::min(from, u.nsrc()));
}

class Kernel {
 public:
  Kernel(UOp sink, std::vector<Values>& buffers, const Vars& vars) : memory_(buffers), vars_(vars) {
    order_ = toposort(sink);
    UOp last = *std::max_element(order_.begin(), order_.end(), [](UOp a, UOp b) { return a.id() < b.id(); });
    value_[last], valid_[last], free_[last], effects_[last], nest_[last], dependents_[last], states_[last], volatile_[last], bodies_[last];
    for (UOp u : order_) analyse(u);
    order_stores();
  }

  void run() {
    execute(stores_, 0);
    memory_.finish();
  }

 private:
  // --- analysis -------------------------------------------------------------------------------------------------------------------------
  void analyse(UOp u) {
    if (u.is(Op::Placeholder)) return;
    TG_CHECK(u.dtype().lanes == 1, "lanes in kernel form: ", u.str());
    Set f;
    if (u.is(Op::Range)) f = {u};
    for (UOp s : u.src()) {
      f = united(f, free_[s]);
      for (UOp e : effects_[s])
        if (!holds(effects_[u], e)) effects_[u].push_back(e);
    }
    take_out(f, own_ranges(u));
    free_[u] = f;
    if (u.is(Op::Store)) {
      for (UOp e : effects_[u]) waits_.push_back({u, e});
      effects_[u].push_back(u);
      stores_.push_back(u);
      stored_.push_back({memory_of(u.src(0)), u});
    }
    for (UOp r : f) dependents_[r].push_back(u);
  }

  // A LOAD whose buffer is written by a STORE that it does not wait for sees what the loops have done so far: never remembered.
  void find_volatile() {
    for (UOp u : order_) {
      if (u.is(Op::Load))
        for (auto& [memory, store] : stored_)
          if (memory == memory_of(u.src(0)) && !holds(effects_[u], store)) volatile_[u] = 1;
      if (u.is(Op::Store) || u.is(Op::After)) continue;
      for (UOp s : u.src())
        if (volatile_[s]) volatile_[u] = 1;
      if (volatile_[u]) volatile_list_.push_back(u);
    }
  }

  // The loops around each STORE: those in which it is open (the loops of what waits for it), then those that it closes.
  void order_stores() {
    find_volatile();
    for (size_t i = stores_.size(); i-- > 0;) {
      UOp s = stores_[i];
      std::vector<UOp>& nest = nest_[s];
      for (auto& [waiter, effect] : waits_) {
        if (effect != s) continue;
        for (UOp r : nest_[waiter])
          if ((holds(free_[s], r) || perhaps(r, s)) && !holds(nest, r)) nest.push_back(r);
      }
      for (UOp r : free_[s])
        if (!holds(nest, r)) fail("no loop binds ", r.str(), " around ", s.str());
      for (UOp r : own_ranges(s))
        if (r.is(Op::Range)) nest.push_back(r);
        else if (!r.is_const()) fail("a STORE closes ranges, got ", r.str());
    }
  }
  // A loop of one round or none, whose variable is the number 0: what the loop's STORE waits for runs if the loop does, but for what runs over
  // the same axis, which stands before the loop.
  static bool perhaps(UOp r, UOp s) {
    if (r.src(0).is_const() || bounds(r.src(0)).hi > 1) return false;
    std::span<const UOp> own = own_ranges(s);
    return std::none_of(own.begin(), own.end(), [&](UOp x) { return x.is(Op::Range) && x.arg<RangeArg>().id == r.arg<RangeArg>().id; });
  }
  bool waits(UOp a, UOp b) { return std::find(waits_.begin(), waits_.end(), std::pair(a, b)) != waits_.end(); }

  // --- execution ------------------------------------------------------------------------------------------------------------------------
  void execute(std::vector<UOp> todo, size_t depth) {
    while (!todo.empty()) {
      UOp first = todo.front();
      bool leaf = nest_[first].size() == depth;
      UOp r = leaf ? UOp{} : nest_[first][depth];
      std::vector<UOp> now, later;
      for (UOp s : todo) {
        bool same = leaf ? nest_[s].size() == depth : nest_[s].size() > depth && nest_[s][depth] == r;
        for (UOp l : later) same &= !waits(s, l);
        if (leaf)
          for (UOp n : now) same &= !waits(s, n);
        (same ? now : later).push_back(s);
      }
      if (leaf) store(now);
      else
        loop(r, [&] { execute(now, depth + 1); });
      todo = std::move(later);
    }
  }

  template <class F>
  void loop(UOp r, F body) {
    i64 n = i64(get(r.src(0)));
    for (i64 i = 0; i < n; i++) {
      for (UOp d : dependents_[r]) valid_[d] = 0;
      value_[r] = u64(i), valid_[r] = 1;
      body();
    }
    for (UOp d : dependents_[r]) valid_[d] = 0;
    valid_[r] = 0;
  }
  template <class F>
  void loops(std::span<const UOp> ranges, F body) {
    if (ranges.empty()) return body();
    if (!ranges[0].is(Op::Range)) return loops(ranges.subspan(1), body);
    loop(ranges[0], [&] { loops(ranges.subspan(1), body); });
  }

  void store(std::span<const UOp> stores) {
    for (UOp u : volatile_list_) valid_[u] = 0;
    struct Write {
      EvalMemory::Array to;
      i64 at;
      u64 v;
      UOp node;
    };
    std::vector<Write> writes;
    for (UOp s : stores) {
      bool gated = s.nsrc() > 2 && s.src(2).dtype().kind == Kind::Bool;
      u64 v = get(s.src(1));
      if (gated && !get(s.src(2))) continue;
      UOp ix = s.src(0);
      if (!ix.is(Op::Index)) fail("a STORE goes to an INDEX, got ", s.str());
      writes.push_back({array(ix.src(0)), position(ix), v, s});
    }
    for (const Write& w : writes) EvalMemory::store(w.to, w.at, w.v, w.node);
  }

  EvalMemory::Array array(UOp u) {
    u = memory_of(u);
    if (!u.in(Op::Param | Op::Row | Op::Local)) fail("an INDEX into ", u.str());
    return memory_.array(u, u.is(Op::Param) ? 0 : i64(get(u.src(0))));
  }

  i64 position(UOp ix) {
    UOp b = memory_of(ix);
    std::span<const UOp> dims = b.src();
    if (dims.empty() && ix.nsrc() == 2) return i64(get(ix.src(1)));  // an offset: layouts are applied already
    if (dims.size() != ix.nsrc() - 1) fail(ix.nsrc() - 1, " coordinates for ", dims.size(), " dims in ", ix.str());
    i64 at = 0;
    for (size_t a = 0; a < dims.size(); a++) {
      i64 n = i64(get(dims[a])), i = i64(get(ix.src(a + 1)));
      if (i < 0 || i >= n) fail("coordinate ", i, " on axis ", a, " of size ", n, " in ", ix.str(), where());
      at = at * n + i;
    }
    return at;
  }

  // " at r0=3, r1=7": the loops that are open.
  std::string where() {
    std::string s;
    for (UOp u : order_)
      if (u.is(Op::Range) && valid_[u]) s += str(s.empty() ? " at " : ", ", u.str(), "=", i64(value_[u]));
    return s;
  }

  u64 get(UOp u) {
    if (valid_[u]) return value_[u];
    u64 v = compute(u);
    value_[u] = v, valid_[u] = 1;
    return v;
  }

  u64 compute(UOp u) {
    switch (u.op()) {
      case Op::Const: return u.arg_bits();
      case Op::Var:
        for (auto& [name, v] : vars_)
          if (name == u.arg_str()) return u64(v);
        fail("the interpreter needs a value for the free size ", u.arg_str());
      case Op::Range: fail("no loop binds ", u.str());
      case Op::Load: {
        UOp ix = u.src(0);
        if (!ix.is(Op::Index)) fail("a LOAD reads an INDEX, got ", u.str());
        u64 alt = u.nsrc() > 2 ? get(u.src(2)) : 0;
        if (u.nsrc() > 1 && !get(u.src(1))) return alt;
        return EvalMemory::load(array(ix.src(0)), position(ix), u);
      }
      case Op::After: return get(u.src(0));
      case Op::Reduce: {
        Reducer r(u.arg<ReduceArg>().kind, u.dtype().kind);
        std::span<const UOp> values = u.src().first(u.nsrc() - own_ranges(u).size());
        loops(own_ranges(u), [&] {
          for (UOp v : values) r.add(get(v));
        });
        return r.done();
      }
      case Op::Fold: {
        FoldArg a = u.arg<FoldArg>();
        if (!bodies_[u]) bodies_[u] = std::make_unique<FoldBody>(u);
        FoldBody& body = *bodies_[u];
        std::vector<u64> state, in(a.inputs);
        for (i64 i = 0; i < a.states; i++) state.push_back(get(u.src(a.inputs + i)));
        loops(own_ranges(u), [&] {
          for (i64 i = 0; i < a.inputs; i++) in[i] = get(u.src(i));
          body.step(in, state);
        });
        states_[u] = std::move(state);
        return 0;
      }
      case Op::Get: return get(u.src(0)), states_[u.src(0)].at(u.arg_int());
      case Op::Cast: return eval_cast(u.dtype().kind, u.src(0).dtype().kind, get(u.src(0)));
      case Op::Bitcast: return eval_bitcast(u.dtype().kind, u.src(0).dtype().kind, get(u.src(0)));
      case Op::Lookup: return eval_lookup(u.arg_ints(), get(u.src(0)));
      default: break;
    }
    if (!is_alu(u.op())) fail("the interpreter of the kernel form has no ", info(u.op()).name, ": ", u.str());
    u64 s[3] = {};
    for (size_t i = 0; i < u.nsrc(); i++) s[i] = get(u.src(i));  // all of them, Where's too, as compiled code does
    Kind k = u.src(u.is(Op::Where) ? 1 : 0).dtype().kind;
    return scalar_fn(u.op(), k)(k, s[0], s[1], s[2]);
  }

  EvalMemory memory_;
  const Vars& vars_;
  std::vector<UOp> order_, stores_, volatile_list_;
  std::vector<std::pair<UOp, UOp>> waits_;    // (STORE, a STORE before it)
  std::vector<std::pair<UOp, UOp>> stored_;   // (buffer, STORE)
  Memo<u64> value_;
  Memo<u8> valid_, volatile_;
  Memo<Set> free_;
  Memo<std::vector<UOp>> effects_, nest_, dependents_;
  Memo<std::vector<u64>> states_;
  Memo<std::unique_ptr<FoldBody>> bodies_;
};

}  // namespace

void eval_kernel(UOp sink, std::vector<Values>& buffers, const Vars& vars) { Kernel(sink, buffers, vars).run(); }

}  // namespace tg
