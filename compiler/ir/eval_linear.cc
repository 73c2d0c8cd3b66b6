#include "ir/eval_linear.h"

#include <algorithm>
#include <array>
#include <deque>

#include "base/error.h"
#include "ir/eval_memory.h"
#include "ir/eval_scalar.h"
#include "ir/loops.h"

namespace tg {
namespace {


// What all work items of a launch share: the list with its loops resolved.
struct Program {
  std::span<const UOp> list;
  Memo<u32> at;                // where a value's lanes begin in an item's registers
  std::vector<u32> jump;       // of a RANGE: its END; of an END: its RANGE
  u32 registers = 0;
  bool grid = false;

  explicit Program(std::span<const UOp> l) : list(l), jump(l.size()) {
    Memo<u8> here;
    std::vector<u32> open;
    for (u32 i = 0; i < l.size(); i++) {
      UOp u = l[i];
      check_sources(u, u, here);
      here[u] = 1;
      at[u] = registers;
      registers += u.is(Op::Index) ? u.src(1).dtype().lanes : u.dtype().lanes;
      grid |= u.is(Op::Special) && u.arg_int() != 0;
      if (u.is(Op::Range)) open.push_back(i);
      if (!u.is(Op::End)) continue;
      if (open.empty() || l[open.back()] != u.src(0)) fail("END closes a loop that is not the innermost: ", u.str());
      jump[open.back()] = i, jump[i] = open.back();
      open.pop_back();
    }
    if (!open.empty()) fail("no END closes ", l[open.back()].str());
  }

 private:
  // An AFTER orders its source in the graph; in a list it needs no place of its own.
  static void check_sources(UOp u, UOp user, Memo<u8>& here) {
    for (UOp s : u.src()) {
      if (s.is(Op::After)) check_sources(s, user, here);
      else if (!here[s]) fail("value ", s.str(), " is used before its place in the list by ", user.str());
    }
  }
};

// One task or work item: runs until the end or a BARRIER.
class Item {
 public:
  Item(Program& p, EvalMemory& shared, const Vars& vars) : p_(p), shared_(shared), own_(none_), vars_(vars), v_(p.registers) {}
  std::array<i64, 7> special{};

  bool done() const { return pc_ >= p_.list.size(); }
  void run() {
    while (!done()) {
      UOp u = p_.list[pc_];
      if (u.is(Op::Range)) {
        u64& i = *reg(u);
        i64 n = i64(*reg(u.src(0)));
        i = 0;
        pc_ = n > 0 ? pc_ + 1 : p_.jump[pc_] + 1;
      } else if (u.is(Op::End)) {
        UOp r = u.src(0);
        u64& i = *reg(r);
        pc_ = i64(++i) < i64(*reg(r.src(0))) ? p_.jump[pc_] + 1 : pc_ + 1;
      } else {
        pc_++;
        if (u.is(Op::Barrier)) return;
        step(u);
      }
    }
  }

 private:
  u64* reg(UOp u) { return v_.data() + p_.at[u]; }
  u64 lane(UOp u, i64 i) { return u.dtype().lanes == 1 ? *reg(u) : reg(u)[i]; }

  EvalMemory::Array array(UOp u) {
    u = without_waits(u);
    if (u.is(Op::Param)) return shared_.array(u, 0);
    if (u.is(Op::Local)) return shared_.array(u, i64(*reg(u.src(0))));
    if (u.is(Op::Row)) return own_.array(u, i64(*reg(u.src(0))));
    fail("an INDEX into ", u.str());
  }

  // Element numbers of an access of `lanes`: a vector of offsets, or `lanes` in a row.
  i64 offset(UOp ix, i64 i) { return ix.src(1).dtype().lanes == 1 ? i64(*reg(ix)) + i : i64(reg(ix)[i]); }
  void check_lanes(UOp u, UOp ix, i64 lanes) {
    i64 n = ix.src(1).dtype().lanes;
    if (n != 1 && n != lanes) fail(n, " offsets for ", lanes, " lanes in ", u.str());
  }
  bool open(UOp gate, i64 i) { return !gate || lane(gate, i); }

  void load(UOp u) {
    u64* out = reg(u);
    i64 lanes = u.dtype().lanes;
    UOp from = without_waits(u.src(0));
    if (from.is(Op::Reg)) {
      auto& r = accumulators_[from];
      if (r.empty()) fail("read before it is written: ", u.str());
      std::copy(r.begin(), r.end(), out);
      return;
    }
    if (!from.is(Op::Index)) fail("a LOAD reads an INDEX or a REG, got ", u.str());
    check_lanes(u, from, lanes);
    EvalMemory::Array a = array(from.src(0));
    UOp gate = u.nsrc() > 1 ? u.src(1) : UOp{};
    for (i64 i = 0; i < lanes; i++) out[i] = open(gate, i) ? EvalMemory::load(a, offset(from, i), u) : u.nsrc() > 2 ? lane(u.src(2), i) : 0;
  }

  void store(UOp u) {
    UOp to = without_waits(u.src(0)), value = u.src(1);
    i64 lanes = value.dtype().lanes;
    if (to.is(Op::Reg)) {
      if (to.dtype() != value.dtype()) fail("a REG of ", name(to.dtype()), " gets ", name(value.dtype()), " in ", u.str());
      accumulators_[to].assign(reg(value), reg(value) + lanes);
      return;
    }
    if (!to.is(Op::Index)) fail("a STORE writes an INDEX or a REG, got ", u.str());
    check_lanes(u, to, lanes);
    EvalMemory::Array a = array(to.src(0));
    UOp gate = u.nsrc() > 2 ? u.src(2) : UOp{};
    for (i64 i = 0; i < lanes; i++)
      if (open(gate, i)) EvalMemory::store(a, offset(to, i), reg(value)[i], u);
  }

  // Products one after another onto the sum, each rounded with it. After decompose a bf16 is the u16 of its bits.
  void dot(UOp u) {
    UOp a = u.src(0), b = u.src(1);
    Kind k = u.dtype().kind;
    i64 lanes = u.dtype().lanes, group = std::max(a.dtype().lanes, b.dtype().lanes) / lanes;
    ScalarFn fn = scalar_fn(Op::MulAcc, k);
    auto at = [&](UOp x, i64 i, i64 j) {
      u64 v = reg(x)[x.dtype().lanes == group ? j : i * group + j];
      Kind from = x.dtype().kind;
      if (is_float(k) && from == Kind::U16) v = eval_bitcast(Kind::BF16, from, v), from = Kind::BF16;
      return eval_cast(k, from, v);
    };
    for (i64 i = 0; i < lanes; i++) {
      u64 sum = reg(u.src(2))[i];
      for (i64 j = 0; j < group; j++) sum = fn(k, at(a, i, j), at(b, i, j), sum);
      reg(u)[i] = sum;
    }
  }

  void step(UOp u) {
    u64* out = reg(u);
    i64 lanes = u.dtype().lanes;
    switch (u.op()) {
      case Op::Sink:
      case Op::Group:
      case Op::Fence:
      case Op::After:
      case Op::Stack:
      case Op::Param:
      case Op::Row:
      case Op::Local:
      case Op::Reg: return;
      case Op::Const: std::fill(out, out + lanes, u.arg_bits()); return;
      case Op::Var:
        for (auto& [name, v] : vars_)
          if (name == u.arg_str()) return void(*out = u64(v));
        fail("the interpreter needs a value for the free size ", u.arg_str());
      case Op::Special: {
        i64 k = u.arg_int(), n = i64(*reg(u.src(0)));
        if (k < 0 || k > 6) fail("no such index: ", u.str());
        if (special[k] >= n) fail("index ", special[k], " of ", n, " in ", u.str());
        *out = u64(special[k]);
        return;
      }
      case Op::Index:
        if (u.nsrc() != 2) fail("the linear form has one offset an INDEX, got ", u.str());
        std::copy(reg(u.src(1)), reg(u.src(1)) + u.src(1).dtype().lanes, out);
        return;
      case Op::Load: return load(u);
      case Op::Store: return store(u);
      case Op::Prefetch: return;
      case Op::Cast:
        for (i64 i = 0; i < lanes; i++) out[i] = eval_cast(u.dtype().kind, u.src(0).dtype().kind, lane(u.src(0), i));
        return;
      case Op::Bitcast:
        for (i64 i = 0; i < lanes; i++) out[i] = eval_bitcast(u.dtype().kind, u.src(0).dtype().kind, lane(u.src(0), i));
        return;
      case Op::Lookup:
        for (i64 i = 0; i < lanes; i++) out[i] = eval_lookup(u.arg_ints(), lane(u.src(0), i));
        return;
      case Op::Broadcast: std::fill(out, out + lanes, *reg(u.src(0))); return;
      case Op::Lanes:
        for (i64 i = 0; i < lanes; i++) out[i] = u64(wrap_int(u.dtype().kind, i));
        return;
      case Op::HReduce: {
        Reducer r(ReduceKind(u.arg_int()), u.dtype().kind);
        for (i64 i = 0; i < u.src(0).dtype().lanes; i++) r.add(reg(u.src(0))[i]);
        *out = r.done();
        return;
      }
      case Op::Extract:
        if (u.arg_int() < 0 || u.arg_int() >= u.src(0).dtype().lanes) fail("no lane ", u.arg_int(), " in ", u.str());
        *out = reg(u.src(0))[u.arg_int()];
        return;
      case Op::Pack:
        if (i64(u.nsrc()) != lanes) fail(u.nsrc(), " scalars for ", lanes, " lanes in ", u.str());
        for (i64 i = 0; i < lanes; i++) out[i] = *reg(u.src(i));
        return;
      case Op::Dot: return dot(u);
      case Op::Shuffle: {
        i64 n = u.src(0).dtype().lanes;
        if (i64(u.arg_ints().size()) != lanes) fail(u.arg_ints().size(), " numbers for ", lanes, " lanes in ", u.str());
        for (i64 i = 0; i < lanes; i++) {
          i64 k = u.arg_ints()[i];
          if (k < 0 || k >= n + u.src(1).dtype().lanes) fail("no lane ", k, " in ", u.str());
          out[i] = k < n ? reg(u.src(0))[k] : reg(u.src(1))[k - n];
        }
        return;
      }
      default: break;
    }
    if (!is_alu(u.op())) fail("the interpreter of the linear form has no ", info(u.op()).name, ": ", u.str());
    Kind k = u.src(u.is(Op::Where) ? 1 : 0).dtype().kind;
    ScalarFn fn = scalar_fn(u.op(), k);
    u64 s[3] = {};
    for (i64 i = 0; i < lanes; i++) {
      for (size_t j = 0; j < u.nsrc(); j++) s[j] = lane(u.src(j), i);
      out[i] = fn(k, s[0], s[1], s[2]);
    }
  }

  Program& p_;
  EvalMemory& shared_;
  std::vector<Values> none_;
  EvalMemory own_;
  const Vars& vars_;
  std::vector<u64> v_;
  Memo<std::vector<u64>> accumulators_;
  u32 pc_ = 0;
};

// The extent of SPECIAL k: what its source gives, from constants and VARs alone.
i64 extent(const Program& p, i64 k, const Vars& vars) {
  EvalEnv env;
  env.vars = vars;
  for (UOp u : p.list)
    if (u.is(Op::Special) && u.arg_int() == k) return eval_index(u.src(0), env);
  return 1;
}

void run_group(Program& p, std::vector<Values>& buffers, const Vars& vars, std::array<i64, 7> special, const std::array<i64, 3>& local) {
  EvalMemory shared(buffers);
  std::deque<Item> items;
  for (special[6] = 0; special[6] < local[2]; special[6]++)
    for (special[5] = 0; special[5] < local[1]; special[5]++)
      for (special[4] = 0; special[4] < local[0]; special[4]++) items.emplace_back(p, shared, vars).special = special;
  while (true) {
    size_t done = 0;
    for (Item& i : items) {
      i.run();
      done += i.done();
    }
    if (done == items.size()) break;
    if (done) fail("some items of a group are at a BARRIER, others at the end");
  }
  shared.finish();
}

}  // namespace

void eval_linear(std::span<const UOp> list, std::vector<Values>& buffers, const Vars& vars, i64 task) {
  Program p(list);
  std::array<i64, 7> special{};
  special[0] = task;
  if (!p.grid) return run_group(p, buffers, vars, special, {1, 1, 1});
  std::array<i64, 7> n{};
  for (i64 k = 1; k < 7; k++) n[k] = extent(p, k, vars);
  for (special[3] = 0; special[3] < n[3]; special[3]++)
    for (special[2] = 0; special[2] < n[2]; special[2]++)
      for (special[1] = 0; special[1] < n[1]; special[1]++) run_group(p, buffers, vars, special, {n[4], n[5], n[6]});
}

}  // namespace tg
