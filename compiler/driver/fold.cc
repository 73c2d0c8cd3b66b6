#include "driver/fold.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "driver/execute.h"
#include "driver/narrow.h"
#include "ir/eval.h"

namespace tg::driver {
namespace {

constexpr i64 kKeepBytes = 1 << 20;         // results up to this are kept even if they are larger than their inputs
constexpr f64 kMostWork = 1e10;             // elements of all values below a result: more would keep whoever compiles waiting
constexpr i64 kInterpretedElems = 1 << 17;  // of all values on the way to a result; compiling a kernel takes longer

i64 bytes_of(UOp u) { return byte_size(u.dtype().kind, elems(shape(u)).as_int()); }

// Constants below u, each once, in the order in which they are met.
std::vector<UOp> constants_below(UOp u) {
  std::vector<UOp> v;
  for (UOp n : toposort(u))
    if (n.is(Op::Constant)) v.push_back(n);
  return v;
}

// Sources that are tensors of their own: no shapes, no scalar expressions over placeholders.
std::span<const UOp> values_of(UOp u) {
  std::span<const UOp> s = u.src();
  switch (u.op()) {
    case Op::Reshape:
    case Op::Expand:
    case Op::Shrink: return s.first(1);
    case Op::Fold: return s.first(size_t(u.arg<FoldArg>().inputs));
    case Op::Param:
    case Op::Constant:
    case Op::Stack:
    case Op::Iota:
    case Op::Carry:
    case Op::Step:
    case Op::Var: return {};
    default: return s;
  }
}

// A number a place, of an element or of a few: nothing that memory could save.
bool is_cheap_without_constants(UOp u) {
  for (UOp n : toposort(u))
    if (n.is(Op::Constant) || n.is(Op::Reduce) || n.is(Op::Fold) || n.is(Op::Scan) || n.is(Op::Sort) || n.is(Op::Scatter) ||
        kTranscendental.has(n.op()))
      return false;
  return true;
}

// Little work on ops that the interpreter computes as the kernels do, bit for bit: each is rounded by itself, none has an order of its own.
bool is_for_interpreter(UOp u) {
  i64 work = 0;
  for (UOp n : toposort(u)) {
    if (n.is(Op::Const) || n.is(Op::Stack)) continue;
    if (!(n.is(Op::Constant) || is_movement(n.op()) || (is_elementwise(n.op()) && !kTranscendental.has(n.op()) && !n.is(Op::Rem))) ||
        !has_const_shape(n))
      return false;
    work += elems(shape(n)).as_int();
  }
  return work <= kInterpretedElems;
}

// Casts, and an offset taken away: done for free where the value is read, which is smaller than the result.
bool only_widens(UOp u) {
  for (UOp n : toposort(u)) {
    if (n.is(Op::Constant) || n.is(Op::Const) || n.is(Op::Stack) || n.is(Op::Cast) || is_movement(n.op())) continue;
    if (is_int(u.dtype()) && (n.is(Op::Sub) || n.is(Op::Add))) continue;
    return false;
  }
  return true;
}

class Folder {
 public:
  explicit Folder(Graph& g) : g_(g), nodes_(toposort(g.sink)), constant_(constant_nodes(nodes_)) {}

  i64 run() {
    for (UOp u : nodes_)
      if (!constant_[u])
        for (UOp s : values_of(u)) visit(s);
    if (roots_.empty()) return 0;
    compute();
    return i64(roots_.size());
  }

 private:
  struct Root {
    UOp value, narrowed;
  };

  void visit(UOp u) {
    if (!constant_[u] || seen_[u]++) return;
    if (u.is(Op::Const) || u.is(Op::Constant)) return;
    if (is_worth_folding(u, g_)) return roots_.push_back({u, narrow(u)});
    for (UOp s : values_of(u)) visit(s);
  }

  void compute() {
    std::vector<UOp> small, large;  // each once
    std::map<u32, UOp> made;        // by node id
    for (const Root& r : roots_)
      if (made.try_emplace(r.narrowed.id()).second) (is_for_interpreter(r.narrowed) ? small : large).push_back(r.narrowed);
    std::vector<Values> values = eval(small, {{}, &g_.constants, {}});
    for (size_t i = 0; i < small.size(); i++)
      made[small[i].id()] = constant(small[i], std::make_shared<std::vector<u8>>(encode(values[i])));
    if (!large.empty()) compile(large, made);
    std::vector<std::pair<UOp, UOp>> results;
    for (const Root& r : roots_) results.push_back({r.value, widen(made[r.narrowed.id()], shape(r.value))});
    g_.sink = substitute(g_.sink, results);
    drop_unused();
  }

  // By one graph, whose inputs are the constants' bytes.
  void compile(const std::vector<UOp>& roots, std::map<u32, UOp>& made) {
    Graph sub;
    sub.arena = g_.arena;
    std::vector<std::span<const u8>> inputs;
    std::vector<std::pair<UOp, UOp>> params;
    UOp sink = node(Op::Sink, Kind::Void, std::span<const UOp>(roots));
    for (UOp c : constants_below(sink)) {
      const ConstantData& d = g_.constants[size_t(c.arg_int())];
      params.push_back({c, tensor::param(i64(inputs.size()), d.dtype, shape(c))});
      sub.inputs.push_back({str("c", inputs.size()), d.dtype, shape(c)});
      inputs.push_back(d.bytes);
    }
    sub.sink = substitute(sink, params);
    for (size_t i = 0; i < roots.size(); i++) sub.outputs.push_back({str("f", i), roots[i].dtype(), shape(roots[i])});
    auto bytes = execute(sub, inputs);
    for (size_t i = 0; i < roots.size(); i++) made[roots[i].id()] = constant(roots[i], bytes[i]);
  }

  UOp constant(UOp u, const std::shared_ptr<std::vector<u8>>& bytes) {
    if (rank(u) == 0) {
      u64 v = decode(u.dtype(), {}, *bytes).v[0];
      return konst_bits(u.dtype(), v);
    }
    std::vector<UOp> from = constants_below(u);
    std::string name = "folded";
    if (!from.empty())
      name =
          g_.constants[size_t(
                           std::max_element(from.begin(), from.end(), [](UOp a, UOp b) { return bytes_of(a) < bytes_of(b); })->arg_int())]
              .name +
          "'";
    g_.constants.push_back({name, u.dtype(), const_shape(u), *bytes, bytes});
    return tensor::constant(i64(g_.constants.size()) - 1, u.dtype(), shape(u));
  }

  void drop_unused() {
    std::vector<std::pair<UOp, UOp>> map;
    std::vector<ConstantData> kept;
    for (UOp u : toposort(g_.sink)) {
      if (!u.is(Op::Constant)) continue;
      map.push_back({u, tensor::constant(i64(kept.size()), u.dtype(), shape(u))});
      kept.push_back(g_.constants[size_t(u.arg_int())]);
    }
    g_.sink = substitute(g_.sink, map);
    g_.constants = std::move(kept);
  }

  Graph& g_;
  std::vector<UOp> nodes_;
  Memo<u8> constant_, seen_;
  std::vector<Root> roots_;
};

}  // namespace

Memo<u8> constant_nodes(std::span<const UOp> nodes) {
  Memo<u8> constant;
  for (UOp u : nodes) {
    bool yes = !u.in(Op::Param | Op::Var | Op::Carry | Op::Step | Op::Loop | Op::Branch | Op::Sink);
    for (UOp s : u.src()) yes &= constant[s] != 0;
    constant[u] = yes;
  }
  return constant;
}

namespace {
// Movement is not executed, but what it repeats is: it counts where arithmetic reads it.
bool is_too_much_work(UOp u) {
  f64 work = 0;
  for (UOp n : toposort(u)) {
    if (n.is(Op::Const) || n.is(Op::Constant) || n.is(Op::Stack) || (is_movement(n.op()) && !n.is(Op::Concat)) || !has_const_shape(n)) continue;
    std::span<const UOp> sources = values_of(n);
    f64 most = f64(elems(shape(n)).as_int());
    for (UOp s : sources)
      if (has_const_shape(s)) most = std::max(most, f64(elems(shape(s)).as_int()));
    work += most;
  }
  return work > kMostWork;
}
}  // namespace

bool is_worth_folding(UOp u, const Graph& g) {
  // A CONCAT is stored, and would be in each run.
  auto moves = [](UOp x) { return is_movement(x.op()) && !x.is(Op::Concat); };
  if (moves(u) || u.is(Op::Contiguous) || u.is(Op::Fold) || u.is(Op::Const) || u.is(Op::Constant) || u.is(Op::Placeholder) ||
      u.is(Op::Stack))
    return false;
  // What only widens is done for free where the value is read.
  if (u.is(Op::Cast) && u.src(0).dtype().kind != Kind::Bool && bits(u.src(0).dtype()) >= 8 && bits(u.dtype()) > bits(u.src(0).dtype())) return false;
  if (!is_stored(u.dtype().kind) || !has_const_shape(u) || elems(shape(u)).as_int() == 0) return false;
  UOp n = narrow(u);
  if (moves(n)) return false;
  i64 inputs = 0;
  for (UOp c : constants_below(n)) inputs += i64(g.constants[size_t(c.arg_int())].bytes.size());
  // Weights are kept in the half that they are multiplied in, also where the model holds them in less.
  bool half = u.is(Op::Cast) && is_float(u.dtype()) && bits(u.dtype()) == 16 && bytes_of(n) <= 2 * inputs;
  if (bytes_of(n) > inputs && !half && (bytes_of(n) > kKeepBytes || only_widens(n))) return false;
  return !is_cheap_without_constants(n) && !is_too_much_work(n);
}

i64 fold_constants(Graph& g) {
  Arena::Scope scope(*g.arena);
  return Folder(g).run();
}

}  // namespace tg::driver
