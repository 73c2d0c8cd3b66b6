#include "schedule/schedule.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>

#include "base/error.h"
#include "base/settings.h"
#include "ir/eval.h"
#include "ir/spec.h"
#include "ir/sum.h"
#include "rules/symbolic.h"
#include "schedule/build.h"
#include "schedule/layout_choice.h"
#include "schedule/rounds.h"
#include "schedule/steps.h"

namespace tg {
namespace {

constexpr u32 kNone = ~0u;

// Where a stored value lies: a buffer, or a box of one (a branch of a CONCAT, a round's part of what a LOOP gives).
struct Place {
  u32 buffer = 0;
  Shape begin;  // empty: at the origin
  Shape lead;   // coordinates before those of the value
};

class Scheduler {
 public:
  explicit Scheduler(const Graph& g) : g_(g) { s_.arena = g.arena; }

  Schedule run() {
    std::vector<u32> pair_of(g_.inputs.size(), kNone);
    state_of_.assign(g_.outputs.size(), kNone);
    for (u32 i = 0; i < g_.state.size(); i++) pair_of[g_.state[i].second] = i;
    for (u32 i = 0; i < g_.inputs.size(); i++) {
      bool state = pair_of[i] != kNone;
      input_.push_back(add_buffer(state ? Buffer::State : Buffer::Input, state ? pair_of[i] : i, g_.inputs[i].dtype, g_.inputs[i].dims));
      if (state) state_of_[g_.state[pair_of[i]].first] = input_.back();
    }
    realized_ = realize(g_.sink, ranges_);
    place_outputs();
    std::vector<UOp> order = measured_first();
    for (UOp u : order)
      for (UOp x : u.src()) {
        readers_[x]++;
        if (x.is(Op::Carry) || x.is(Op::Param)) read_by_[x].push_back(u);
      }
    place_grown_states();
    // Users before sources, so that a CONCAT gives its branches their boxes before they are placed on their own.
    for (size_t i = order.size(); i-- > 0;) {
      if (order[i].is(Op::Loop)) place_loop(order[i]);
      if (order[i].is(Op::Branch)) place_branch(order[i]);
      if (realized_.stored[order[i]]) place(order[i]);
    }
    steps_.resize(realized_.regions.list.size());
    for (UOp u : order) {
      steps_of_call_ = &steps_[region(u)];
      if (u.is(Op::Loop)) emit_loop(u);
      if (u.is(Op::Branch)) emit_branch(u);
      if (u.is(Op::Recur)) emit_rounds(u);
      if (realized_.stored[u] && !is_rounds_result(u)) emit(u);
      for (size_t i = 0; i < g_.measured.size(); i++)
        if (u == g_.sink.src(g_.outputs.size() + i)) measure(g_.measured[i].var(), u);
    }
    steps_of_call_ = &steps_[0];
    for (bool state : {false, true})
      for (u32 i = 0; i < g_.outputs.size(); i++)
        if ((state_of_[i] != kNone) == state) copy_output(i);
    s_.steps = std::move(steps_[0]);
    order_calls();
    return std::move(s_);
  }

 private:
  // Sources first, and before all what the sizes that the run finds are made of, size by size: what has such a size comes after it is read.
  std::vector<UOp> measured_first() {
    std::vector<UOp> roots;
    for (size_t i = 0; i < g_.measured.size(); i++) roots.push_back(g_.sink.src(g_.outputs.size() + i));
    roots.push_back(g_.sink);
    std::vector<UOp> order = toposort(roots);
    u32 known = 0;  // sizes that are read by now
    for (UOp u : order) {
      known_sizes_[u] = known;
      for (size_t i = 0; i < g_.measured.size(); i++)
        if (u == roots[i]) known = std::max(known, u32(i + 1));
    }
    return order;
  }
  void measure(UOp size, UOp value) { steps_of_call_->push_back(value.is_const() ? set(size, idx(value.as_int())) : read(size, value)); }
  // Are the sizes of a buffer of this shape known when u is computed?
  bool sizes_are_known(const Shape& sizes, UOp u) {
    if (g_.measured.empty()) return true;
    for (UOp x : toposort(sizes))
      for (size_t i = known_sizes_[u]; x.is(Op::Var) && i < g_.measured.size(); i++)
        if (x == g_.measured[i].var()) return false;
    return true;
  }

  // Calls as the steps meet them.
  void order_calls() {
    std::vector<Call> calls;
    each_step(s_.steps, [&](Step& x) {
      if (x.kind != Step::Call) return;
      calls.push_back(std::move(s_.calls[x.call]));
      x.call = u32(calls.size() - 1);
    });
    s_.calls = std::move(calls);
  }
  u32 region(UOp u) { return realized_.regions.of[u]; }

  u32 add_buffer(Buffer::Kind k, u32 index, DType d, const Shape& sizes) {
    Buffer b;
    b.kind = k, b.index = index, b.dtype = d;
    for (UOp n : sizes) b.shape.push_back(simplify(without_steps(n))), b.dims.push_back(most(b.shape.back()));
    b.layout = Layout::row_major(b.dims);
    b.bytes = byte_size(d.kind, b.layout.elems());
    s_.buffers.push_back(std::move(b));
    return u32(s_.buffers.size() - 1);
  }

  void place_outputs() {
    for (size_t i = 0; i < g_.outputs.size(); i++) {
      UOp u = g_.sink.src(i);
      if (state_of_[i] != kNone) {  // the old state is read until the end of the run: the new one gets a buffer and is copied last
        output_.push_back(state_of_[i]);
        continue;
      }
      output_.push_back(add_buffer(Buffer::Output, u32(i), g_.outputs[i].dtype, g_.outputs[i].dims));
      if ((realized_.stored[u] || is_result(u)) && !placed_[u]) {
        places_[u] = {output_.back(), {}, {}};
        placed_[u] = 1;
      }
    }
  }

  // A state that grows is made where it is kept (grown()).
  void place_grown_states() {
    for (auto [out, in] : g_.state) {
      UOp u = g_.sink.src(out);
      if (placed_[u] || !realized_.stored[u] || region(u) != 0) continue;
      if (UOp kept = grown(u); kept && kept.is(Op::Param) && kept.arg_int() == i64(in)) places_[u] = {input_[in], {}, {}}, placed_[u] = 1;
    }
  }
  void place(UOp u) {
    if (!placed_[u]) {
      // Index arithmetic that is stored is stored as i64.
      DType d = u.dtype().kind == Kind::Index ? DType(Kind::I64) : u.dtype();
      places_[u] = {add_buffer(Buffer::Scratch, 0, d, shape(u)), {}, {}};
      placed_[u] = 1;
    }
    if (!u.is(Op::Concat)) return;
    size_t axis = size_t(u.arg_int());
    UOp begin = idx(0);
    for (UOp s : u.src()) {
      Place p = places_[u];
      if (p.begin.empty()) p.begin.assign(rank(u), idx(0));
      p.begin[axis] = p.begin[axis] + begin;
      // A branch with a home of its own, or in two places at once, is copied, and one that is made before the whole has its place: before its
      // sizes are known, or outside the loop whose round has it.
      if (realized_.stored[s] && !placed_[s] && region(s) == region(u) && sizes_are_known(s_.buffers[p.buffer].shape, s)) {
        places_[s] = p;
        placed_[s] = 1;
      }
      begin = begin + shape(s)[axis];
    }
  }

  // --- one call -------------------------------------------------------------------------------------------------------------------------
  struct Params {
    std::vector<u32> buffers;
    UOp slot(const Schedule& s, u32 buffer) {
      auto it = std::find(buffers.begin(), buffers.end(), buffer);
      if (it == buffers.end()) it = buffers.insert(buffers.end(), buffer);
      return tensor::param(it - buffers.begin(), s.buffers[buffer].dtype, s.buffers[buffer].shape);
    }
  };

  u32 constant_buffer(i64 index) {
    if (constant_.size() <= size_t(index)) constant_.resize(size_t(index) + 1, ~0u);
    if (constant_[size_t(index)] == ~0u) {
      const ConstantData& c = g_.constants[size_t(index)];
      constant_[size_t(index)] = add_buffer(Buffer::Constant, u32(index), c.dtype, dims(c.dims));
    }
    return constant_[size_t(index)];
  }

  Place place_of(UOp u) {
    if (u.is(Op::Param)) return {input_[size_t(u.arg_int())], {}, {}};
    if (u.is(Op::Constant)) return {constant_buffer(u.arg_int()), {}, {}};
    if (u.is(Op::Carry)) return carries_.at({u.arg<CarryArg>().loop, u.arg<CarryArg>().index});
    TG_CHECK(placed_[u], "read before it has a place: ", info(u.op()).name);
    return places_[u];
  }

  static Shape shifted(const Shape& index, const Shape& begin) {
    if (begin.empty()) return index;
    Shape r = index;
    for (size_t i = 0; i < r.size(); i++) r[i] = simplify(r[i] + begin[i]);
    return r;
  }

  UOp index_of(Params& p, const Place& pl, const Shape& index) {
    std::vector<UOp> src{p.slot(s_, pl.buffer)};
    src.insert(src.end(), pl.lead.begin(), pl.lead.end());
    for (UOp i : shifted(index, pl.begin)) src.push_back(i);
    return node(Op::Index, src[0].dtype(), std::span<const UOp>(src));
  }

  UOp load(Params& p, UOp u, const Shape& index, UOp gate, UOp alternative) {
    if (u.is(Op::Constant)) {
      const ConstantData& c = g_.constants[size_t(u.arg_int())];
      i64 n = 1;
      for (i64 d : c.dims) n *= d;
      if (n == 1 && !is_storage(c.dtype.kind)) {
        UOp v = konst_bits(c.dtype, decode(c.dtype, c.dims, c.bytes).v[0]);
        return gate && alternative != v ? where(gate, v, alternative) : v;
      }
    }
    UOp at = index_of(p, place_of(u), index);
    DType d = at.dtype();
    if (gate && !gate.is_const(1)) return cast(node(Op::Load, d, {at, gate, cast(alternative, d)}), u.dtype());
    return cast(node(Op::Load, d, {at}), u.dtype());
  }

  Builder builder(UOp root, Params& p) {
    return Builder(root, &ranges_, &realized_, [this, &p](UOp n, const Shape& i, UOp gate, UOp alt) { return load(p, n, i, gate, alt); });
  }

  UOp store(Params& p, const Place& pl, const Shape& index, UOp value, std::span<const UOp> ranges, UOp gate = {}) {
    std::vector<UOp> src{index_of(p, pl, index), value};
    src[1] = cast(value, src[0].dtype());
    if (gate) src.push_back(gate);
    for (UOp r : ranges)
      if (r.is(Op::Range)) src.push_back(r);
    return node(Op::Store, Kind::Void, std::span<const UOp>(src));
  }

  void finish(std::vector<UOp> stores, Params& p, u32 outputs, std::string name, std::vector<i64> ordered = {}) {
    Call c;
    c.ast = simplify(without_steps(node(Op::Sink, Kind::Void, std::span<const UOp>(stores))));
    c.buffers = p.buffers, c.outputs = outputs, c.name = std::move(name), c.ordered = std::move(ordered);
    steps_of_call_->push_back({.kind = Step::Call, .call = u32(s_.calls.size())});
    s_.calls.push_back(std::move(c));
  }

  // --- loops and branches -----------------------------------------------------------------------------------------------------------------
  UOp without_steps(UOp u) {
    if (rounds_.empty()) return u;
    std::vector<std::pair<UOp, UOp>> map;
    for (UOp x : toposort(u))
      if (x.is(Op::Step)) map.push_back({x, rounds_.at(x.arg_int())});
    return map.empty() ? u : substitute(u, map);
  }

  // A result's own place: an output's, or a buffer.
  Place place_result(UOp owner, i64 i) {
    UOp get = tensor::get(owner, i);
    if (!placed_[get]) places_[get] = {add_buffer(Buffer::Scratch, 0, get.dtype(), shape(get)), {}, {}}, placed_[get] = 1;
    return places_[get];
  }
  // The value is made where it is wanted, if it is made then.
  void place_in(UOp u, const Place& p, u32 where) {
    if (realized_.stored[u] && !placed_[u] && region(u) == where && sizes_are_known(s_.buffers[p.buffer].shape, u)) places_[u] = p, placed_[u] = 1;
  }
  void copy_into(UOp u, const Place& p) {
    if (realized_.stored[u] || is_kept(u)) {
      Place own = place_of(u);
      if (own.buffer == p.buffer && own.begin == p.begin && own.lead == p.lead) return;
    }
    emit_plain_copy(u, p);
  }

  Place part_of_round(UOp loop, i64 scan) {
    LoopArg a = loop.arg<LoopArg>();
    Place p = place_result(loop, a.carried + scan);
    UOp at = tensor::step(a.id, loop.src(0));
    if (!p.begin.empty()) at = at + p.begin[0], p.begin.erase(p.begin.begin());
    p.lead.push_back(at);
    return p;
  }
  // A kept value (CARRY, PARAM) of which `next` is the first n elements along an axis, new ones behind these, and what lies behind them in the kept
  // value; nobody else reads more than the first n. Then `next` may be made in its place: what is new is all that is stored.
  UOp grown(UOp next) {
    if (!next.is(Op::Concat) || next.nsrc() < 3) return {};
    size_t axis = size_t(next.arg_int());
    UOp head = next.src(0), tail = next.src(next.nsrc() - 1);
    if (!head.is(Op::Shrink) || !tail.is(Op::Shrink) || head.src(0) != tail.src(0)) return {};
    UOp kept = head.src(0), n = head.src(2).src(axis);
    if (shape(next) != shape(kept) || readers_[tail] != 1) return {};
    for (UOp r : read_by_[kept]) {
      if (r.is(Op::Sink) || !r.is(Op::Shrink)) return {};
      for (size_t i = 0; i < rank(r); i++) {
        UOp begin = r.src(1).src(i), end = r.src(2).src(i);
        if (!r.src(3).src(i).is_const(1)) return {};
        if (r == tail ? end != shape(kept)[i] || (i != axis && !begin.is_const(0)) : i == axis && end != n) return {};
      }
    }
    for (size_t i = 0; i < rank(head); i++)
      if (!head.src(1).src(i).is_const(0) || (i != axis && head.src(2).src(i) != shape(kept)[i])) return {};
    return kept;
  }
  void place_loop(UOp u) {
    LoopArg a = u.arg<LoopArg>();
    i64 most = u.src(0).dtype().kind == Kind::Index ? std::max<i64>(bounds(u.src(0)).hi, 0) : std::numeric_limits<i64>::max() / 2;
    rounds_[a.id] = var(str("round of loop ", a.id), 0, most);
    for (i64 i = 0; i < a.carried; i++) {
      carries_[{a.id, i}] = place_result(u, i);
      if (readers_[u.src(a.init(i))] == 1) place_in(u.src(a.init(i)), place_result(u, i), region(u));  // nobody reads it once it changes
    }
    for (i64 i = 0; i < a.scans; i++) place_in(u.src(a.scan(i)), part_of_round(u, i), realized_.regions.inside(u));
    for (i64 i = 0; i < a.carried; i++)
      if (UOp next = u.src(a.next(i)); UOp kept = grown(next))
        if (kept.is(Op::Carry) && kept.arg<CarryArg>().loop == a.id && kept.arg<CarryArg>().index == i)
          place_in(next, carries_.at({a.id, i}), realized_.regions.inside(u));
  }
  void place_branch(UOp u) {
    i64 n = u.arg_int();
    for (u32 side : {0u, 1u})
      for (i64 i = 0; i < n; i++) place_in(u.src(size_t(1 + i64(side) * n + i)), place_result(u, i), realized_.regions.inside(u, side));
  }

  Step read(UOp variable, UOp u) { return {.kind = Step::Read, .buffer = place_of(u).buffer, .var = variable}; }
  static Step set(UOp variable, UOp value) { return {.kind = Step::Set, .var = variable, .value = value}; }

  void emit_loop(UOp u) {
    LoopArg a = u.arg<LoopArg>();
    std::vector<Step>& out = *steps_of_call_;
    for (i64 i = 0; i < a.carried; i++) copy_into(u.src(a.init(i)), carries_.at({a.id, i}));
    UOp count = u.src(0), go = u.src(1), next_go = u.src(a.next_go());
    if (count.dtype().kind == Kind::Index) {
      count = simplify(without_steps(count));
    } else {
      constexpr i64 kMost = std::numeric_limits<i64>::max();
      UOp n = var(str("rounds of loop ", a.id), -kMost, kMost);
      out.push_back(read(n, count));
      count = n;
    }
    UOp round = rounds_.at(a.id), going = var(str("loop ", a.id, " goes on"), 0, 1);
    bool asks = !go.is_const(1) || !next_go.is_const(1);
    out.push_back(set(round, idx(0)));
    auto ask = [&](std::vector<Step>& to, UOp c) { to.push_back(c.is_const() ? set(going, idx(c.as_int())) : read(going, c)); };
    if (asks) ask(out, go);

    std::vector<Step>& body = steps_[realized_.regions.inside(u)];
    steps_of_call_ = &body;
    for (i64 i = 0; i < a.scans; i++) copy_into(u.src(a.scan(i)), part_of_round(u, i));
    for (i64 i = 0; i < a.carried; i++) copy_into(u.src(a.next(i)), carries_.at({a.id, i}));
    if (!next_go.is_const(1)) ask(body, next_go);  // else it stays what it was
    body.push_back(set(round, round + 1));
    Step loop{.kind = Step::While, .value = lt(round, count), .most = bounds(count).hi};
    if (asks) loop.value = loop.value & ne(going, idx(0));
    loop.most = std::max<i64>(loop.most, 0);
    loop.then = std::move(body);
    out.push_back(std::move(loop));
  }
  void emit_branch(UOp u) {
    i64 n = u.arg_int();
    std::vector<Step>& out = *steps_of_call_;
    UOp taken = var(str("branch ", branches_++), 0, 1);
    UOp c = u.src(0);
    out.push_back(c.is_const() ? set(taken, idx(c.as_int())) : read(taken, c));
    Step branch{.kind = Step::If, .value = taken};
    for (u32 side : {0u, 1u}) {
      std::vector<Step>& body = steps_[realized_.regions.inside(u, side)];
      steps_of_call_ = &body;
      for (i64 i = 0; i < n; i++) copy_into(u.src(size_t(1 + i64(side) * n + i)), place_result(u, i));
      (side ? branch.otherwise : branch.then) = std::move(body);
    }
    out.push_back(std::move(branch));
  }

  static std::string shape_name(UOp u) {
    std::string n;
    for (UOp d : shape(u)) n += "_" + (d.is_const() ? str(d.as_int()) : std::string("n"));
    return n;
  }
  static bool empty(UOp u) {
    for (UOp d : shape(u))
      if (d.is_const(0)) return true;
    return false;
  }

  // The kind of work, for the kernel's name.
  std::string work_name(UOp ast) {
    bool reduce = false, window = false, places = false, product = false, transcendental = false, fold = false, row = false;
    int reduces = 0;
    for (UOp u : toposort(ast)) {
      if (u.is(Op::Reduce)) {
        reduce = true, reduces++;
        UOp b = u.src(0);
        while (b.is(Op::Cast)) b = b.src(0);
        if (b.is(Op::Mul) && u.arg<ReduceArg>().kind == ReduceKind::Add) product = true, window |= u.nsrc() > 3;
      }
      places |= u.is(Op::Eq) && u.src(0).in(Op::Range | Op::FloorMod) && u.src(1).is_const();
      fold |= u.is(Op::Fold);
      row |= u.is(Op::Row);
      transcendental |= u.in(kTranscendental);
    }
    if (row) return "attention";
    if (product) return window ? "conv" : "matmul";
    if (fold) return "fold";
    if (reduces > 1) return transcendental ? "softmax" : "norm";
    if (reduce) return "reduce";
    return places ? "transform" : "elementwise";
  }

  // The loops in which rows are filled come first: inside them the others read what is there.
  static std::vector<UOp> rows_outside(UOp value, std::vector<UOp> loops) {
    std::vector<UOp> fills;
    for (UOp x : toposort(value))
      if (x.is(Op::Store)) fills.push_back(x);
    if (fills.empty()) return loops;
    std::vector<UOp> seen = ranges_in(fills);
    std::stable_partition(loops.begin(), loops.end(), [&](UOp r) { return std::find(seen.begin(), seen.end(), r) != seen.end(); });
    return loops;
  }

  void emit_plain(UOp u, UOp from, const Place& to) {
    if (empty(u)) return;
    Params p;
    p.slot(s_, to.buffer);
    std::vector<UOp> rs = ranges_.output_ranges(u);
    Shape index(rs.begin(), rs.end());
    Builder b = builder(u, p);
    UOp v = from ? b.value(from, index) : b.compute(u, index);
    UOp st = store(p, to, index, v, rows_outside(v, rs));
    finish({st}, p, 1, work_name(st) + shape_name(u));
  }

  void emit(UOp u) {
    switch (u.op()) {
      case Op::Concat: return emit_concat(u);
      case Op::Scatter: return emit_scatter(u);
      case Op::Scan: return emit_scan(u);
      case Op::Sort: return emit_sort(u);
      default: return emit_plain(u, {}, place_of(u));
    }
  }

  // The part of a CONCAT that is there already: a box of a kept value, in its place.
  bool is_there(UOp s, const Place& box) {
    if (!s.is(Op::Shrink) || !(s.src(0).is(Op::Carry) || s.src(0).is(Op::Param))) return false;
    Place own = place_of(s.src(0));
    if (own.buffer != box.buffer || own.lead != box.lead) return false;
    for (size_t i = 0; i < rank(s); i++) {
      if (!s.src(3).src(i).is_const(1)) return false;
      UOp at = own.begin.empty() ? s.src(1).src(i) : own.begin[i] + s.src(1).src(i);
      if (simplify(at) != simplify(box.begin[i])) return false;
    }
    return true;
  }
  void emit_concat(UOp u) {
    size_t axis = size_t(u.arg_int());
    UOp begin = idx(0);
    Place to = place_of(u);
    if (to.begin.empty()) to.begin.assign(rank(u), idx(0));
    for (UOp s : u.src()) {
      Place box = to;
      box.begin[axis] = box.begin[axis] + begin;
      begin = begin + shape(s)[axis];
      if (realized_.stored[s]) {
        Place own = place_of(s);
        if (own.buffer == box.buffer && own.begin == box.begin) continue;
      }
      if (is_there(s, box)) continue;
      emit_plain_copy(s, box);
    }
  }

  void emit_plain_copy(UOp s, const Place& to) {
    if (empty(s)) return;
    Params p;
    p.slot(s_, to.buffer);
    std::vector<UOp> rs = ranges_.output_ranges(s);
    Shape index(rs.begin(), rs.end());
    Builder b = builder(s, p);
    UOp st = store(p, to, index, b.value(s, index), rs);
    finish({st}, p, 1, "copy" + shape_name(s));
  }

  void copy_output(u32 i) {
    UOp u = g_.sink.src(i);
    if ((realized_.stored[u] || is_result(u)) && places_[u].buffer == output_[i]) return;
    if (u.is(Op::Param) && input_[size_t(u.arg_int())] == output_[i]) return;  // a state that stays as it is
    emit_plain_copy(u, {output_[i], {}, {}});
  }

  // x is copied, then the updates are stored one after another, in their order.
  void emit_scatter(UOp u) {
    Place to = place_of(u);
    {
      Params p;
      p.slot(s_, to.buffer);
      std::vector<UOp> rs = ranges_.output_ranges(u);
      Shape index(rs.begin(), rs.end());
      if (!empty(u)) {
        UOp st = store(p, to, index, builder(u, p).value(u.src(0), index), rs);
        finish({st}, p, 1, "copy" + shape_name(u));
      }
    }
    if (empty(u.src(1)) || empty(u)) return;
    Params p;
    p.slot(s_, to.buffer);
    Builder b = builder(u, p);
    std::vector<UOp> rs;
    std::vector<i64> ordered;
    i64 id = 1000;
    for (UOp d : shape(u.src(1))) {
      rs.push_back(d.is_const(1) ? idx(0) : range(d, {id++, 0, 0, AxisKind::Loop}));
      if (rs.back().is(Op::Range)) ordered.push_back(id - 1);
    }
    Shape index(rs.begin(), rs.end()), at;
    for (size_t i = 2; i < u.nsrc(); i++) at.push_back(simplify(cast(b.value(u.src(i), index), Kind::Index)));
    UOp v = b.value(u.src(1), index);
    ScatterKind k = ScatterKind(u.arg_int());
    if (k != ScatterKind::Set) {
      constexpr Op kOps[] = {Op::Add, Op::Add, Op::Mul, Op::Max, Op::Min};
      v = alu(kOps[int(k)], {node(Op::Load, u.dtype(), {index_of(p, to, at)}), v});
    }
    UOp st = store(p, to, at, v, rs);
    finish({st}, p, 1, "scatter" + shape_name(u.src(1)), ordered);
  }

  // out[a] = out[a-1] op x[a]: one step an element.
  void emit_scan(UOp u) {
    if (empty(u)) return;
    ScanArg a = u.arg<ScanArg>();
    Place to = place_of(u);
    Params p;
    p.slot(s_, to.buffer);
    Builder b = builder(u, p);
    std::vector<UOp> rs = ranges_.output_ranges(u);
    Shape index(rs.begin(), rs.end());
    UOp r = index[a.axis], n = shape(u)[a.axis], id = identity(a.kind, u.dtype());
    auto position = [&](UOp i) { return a.reverse ? simplify(n - 1 - i) : i; };
    Shape at = index, before = index, from = index;
    at[a.axis] = position(r);
    before[a.axis] = position(simplify(r - 1));
    from[a.axis] = a.exclusive ? before[a.axis] : at[a.axis];
    UOp first = eq(r, idx(0)), later = simplify(logical_not(first));
    UOp prev = later.is_const(0) ? id : node(Op::Load, u.dtype(), {index_of(p, to, before), later, id});
    UOp x = a.exclusive ? where(first, id, b.value(u.src(0), from, later)) : b.value(u.src(0), from);
    UOp st = store(p, to, at, alu(alu_op(a.kind), {prev, x}), rs);
    std::vector<i64> ordered;
    if (r.is(Op::Range)) ordered.push_back(r.arg<RangeArg>().id);
    finish({st}, p, 1, "scan" + shape_name(u), ordered);
  }

  // All results of a RECUR.
  void emit_rounds(UOp recur) {
    const RoundsBody& body = rounds_body(recur);
    Params p;
    std::vector<UOp> gets(size_t(body.carried + body.scans));
    for (UOp u : realized_.roots)
      if (u.is(Op::Get) && u.src(0) == recur) gets[size_t(u.arg_int())] = u;
    RoundsHooks hooks;
    u32 outputs = 0;  // slots that are written: those that there are before anything is read
    auto reads = [&] { outputs = outputs ? outputs : u32(p.buffers.size()); };
    hooks.scratch = [&](DType d, const Shape& dims) { return p.slot(s_, add_buffer(Buffer::Scratch, 0, d, dims)); };
    hooks.result = [&](i64 i, const Shape& at) {
      UOp u = gets[size_t(i)];
      return u ? index_of(p, place_of(u), at) : UOp{};
    };
    hooks.init = [&](i64 i, const Shape& at) {
      reads();
      return builder(recur, p).value(body.inits[size_t(i)], at);
    };
    hooks.load = [&](UOp u, const Shape& at, UOp gate, UOp alternative) {
      reads();
      return load(p, u, at, gate, alternative);
    };
    RoundsKernel k = rounds_kernel(body, hooks);
    reads();
    std::string name = "rounds_" + (body.count.is_const() ? str(body.count.as_int()) : std::string("n"));
    if (body.carried) name += shape_name(body.inits[0]);
    finish(k.stores, p, outputs, name, k.ordered);
  }

  // A bitonic network over keys and positions in scratch, padded to a power of two. Ties go by position, so the order is stable.
  void emit_sort(UOp u) {
    if (empty(u)) return;
    SortArg a = u.arg<SortArg>();
    Place to = place_of(u);
    UOp n = shape(u)[a.axis];
    i64 log = 0;
    while ((i64(1) << log) < most(n)) log++;
    i64 padded = i64(1) << log;
    Shape sdims = shape(u);
    sdims[a.axis] = idx(padded);
    UOp x = u.src(0);
    u32 keys = add_buffer(Buffer::Scratch, 0, x.dtype(), sdims), ids = add_buffer(Buffer::Scratch, 0, Kind::I32, sdims);
    Params p;
    p.slot(s_, to.buffer);
    Place pk{keys, {}, {}}, pi{ids, {}, {}};
    p.slot(s_, keys), p.slot(s_, ids);
    Builder b = builder(u, p);
    std::vector<UOp> rs = ranges_.output_ranges(u), outer = rs;
    outer[a.axis] = idx(0);
    i64 id = 1000;
    auto at = [&](UOp i) {
      Shape s(outer.begin(), outer.end());
      s[a.axis] = i;
      return s;
    };
    auto with = [&](std::vector<UOp> inner) {
      std::vector<UOp> v;
      for (UOp r : outer)
        if (r.is(Op::Range)) v.push_back(r);
      v.insert(v.end(), inner.begin(), inner.end());
      return v;
    };
    std::vector<UOp> effects;
    // The loops over the row are phases of one axis: each stands behind the one before.
    i64 row = id++;
    UOp fill = range(idx(padded), {row, 0, 0, AxisKind::Loop});
    UOp inside = simplify(lt(fill, n));
    UOp fill_loop = padded == 1 ? idx(0) : fill;
    UOp key = b.value(x, at(fill_loop), inside.is_const(1) ? UOp{} : inside);
    effects.push_back(store(p, pk, at(fill_loop), key, with({fill_loop})));
    effects.push_back(store(p, pi, at(fill_loop), cast(fill_loop, Kind::I32), with({fill_loop})));
    std::vector<i64> ordered{fill.arg<RangeArg>().id};
    for (UOp r : outer)
      if (r.is(Op::Range)) ordered.push_back(r.arg<RangeArg>().id);
    if (padded > 1) {
      // Stage (k, j): elements 2^(k-j) apart are put in the order of their block of 2^(k+1).
      UOp k = range(idx(log), {id++, 0, 0, AxisKind::Loop}), j = range(k + 1, {id++, 0, 0, AxisKind::Loop});
      UOp i = range(idx(padded / 2), {row, 0, 1, AxisKind::Loop});
      UOp apart = alu(Op::Shl, {idx(1), k - j});
      UOp lo = (i / apart) * (apart * 2) + i % apart, hi = lo + apart;
      UOp up = eq((lo / alu(Op::Shl, {idx(2), k})) % idx(2), idx(0));
      auto fresh = [&](const Place& pl, UOp where_) {
        UOp ix = index_of(p, pl, at(where_));
        std::vector<UOp> src(ix.src().begin(), ix.src().end());
        std::vector<UOp> after{src[0], effects[0], effects[1]};
        src[0] = node(Op::After, src[0].dtype(), std::span<const UOp>(after));
        return node(Op::Load, s_.buffers[pl.buffer].dtype, {node(Op::Index, ix.dtype(), std::span<const UOp>(src))});
      };
      UOp ka = fresh(pk, lo), kb = fresh(pk, hi), ia = fresh(pi, lo), ib = fresh(pi, hi);
      UOp swap = eq(sorts_before(kb, ib, ka, ia, a.descending, n), up);
      std::vector<UOp> loops = with({k, j, i});
      UOp s0 = store(p, pk, at(lo), where(swap, kb, ka), loops), s1 = store(p, pk, at(hi), where(swap, ka, kb), loops);
      UOp s2 = store(p, pi, at(lo), where(swap, ib, ia), loops), s3 = store(p, pi, at(hi), where(swap, ia, ib), loops);
      effects = {s0, s1, s2, s3};
      for (UOp r : {k, j, i}) ordered.push_back(r.arg<RangeArg>().id);
    }
    UOp out = range(n, {row, 0, 2, AxisKind::Loop});
    UOp o = n.is_const(1) ? idx(0) : out;
    ordered.push_back(out.arg<RangeArg>().id);
    UOp ix = index_of(p, pi, at(o));
    std::vector<UOp> src(ix.src().begin(), ix.src().end());
    std::vector<UOp> after{src[0]};
    after.insert(after.end(), effects.begin(), effects.end());
    src[0] = node(Op::After, src[0].dtype(), std::span<const UOp>(after));
    UOp got = node(Op::Load, Kind::I32, {node(Op::Index, ix.dtype(), std::span<const UOp>(src))});
    UOp st = store(p, to, at(o), cast(got, Kind::I64), with({o}));
    finish({st}, p, 3, "sort" + shape_name(u), ordered);
  }

  // Does (k, i) come before (l, j)? Padding (position >= n) is last, NaN is the largest number, equal keys go by position.
  static UOp sorts_before(UOp k, UOp i, UOp l, UOp j, bool descending, UOp n) {
    UOp a = descending ? lt(l, k) : lt(k, l);
    UOp same = eq(k, l);
    if (is_float(k.dtype())) {
      UOp kn = ne(k, k), ln = ne(l, l);
      a = descending ? (a | (kn & logical_not(ln))) : (a | (ln & logical_not(kn)));
      same = same | (kn & ln);
    }
    UOp before = a | (same & lt(i, j));
    if (n.is_const() && std::has_single_bit(u64(n.as_int()))) return before;
    n = cast(n, i.dtype());
    UOp kp = le(n, i), lp = le(n, j);
    return where(kp | lp, logical_not(kp) | (lp & lt(i, j)), before);
  }

  const Graph& g_;
  Schedule s_;
  RangeMaker ranges_;
  Realized realized_;
  std::vector<u32> input_, output_, constant_;  // the graph's, as buffers
  std::vector<u32> state_of_;                    // of each output: the buffer of the state that it becomes
  Memo<u8> placed_;
  Memo<Place> places_;
  Memo<std::vector<UOp>> read_by_;   // CARRYs and PARAMs: by which nodes
  Memo<u32> readers_, known_sizes_;  // known_sizes_: how many of the measured sizes are read before the node is computed
  std::map<std::pair<i64, i64>, Place> carries_;  // by LOOP's number and index
  std::map<i64, UOp> rounds_;                    // by LOOP's number: the variable that counts its rounds, and is their number in the end
  std::vector<std::vector<Step>> steps_;         // by region
  std::vector<Step>* steps_of_call_ = nullptr;   // where the next call belongs
  i64 branches_ = 0;
};

// A state that becomes another state is read before either changes.
UOp hold_state_inputs(const Graph& g) {
  std::vector<UOp> outs(g.sink.src().begin(), g.sink.src().end());
  for (auto [out, in] : g.state)
    if (outs[out].is(Op::Param) && outs[out].arg_int() != i64(in)) outs[out] = node(Op::Contiguous, outs[out].dtype(), {outs[out]});
  return node(Op::Sink, Kind::Void, std::span<const UOp>(outs));
}

// The VARs in the order in which they are met: a signature's come before those that only a kernel knows.
std::vector<UOp> vars_of(const Graph& g, const Schedule& s) {
  std::vector<UOp> roots, out;
  for (auto* values : {&g.inputs, &g.outputs})
    for (const Value& v : *values) roots.insert(roots.end(), v.dims.begin(), v.dims.end());
  for (const Buffer& b : s.buffers) roots.insert(roots.end(), b.shape.begin(), b.shape.end());
  for (const Call& c : s.calls) roots.push_back(c.ast);
  each_step(s.steps, [&](const Step& x) {
    for (UOp u : {x.var, x.value})
      if (u) roots.push_back(u);
  });
  for (UOp u : toposort(roots))
    if (u.is(Op::Var)) out.push_back(u);
  return out;
}

}  // namespace

bool Buffer::is_free() const {
  return std::any_of(shape.begin(), shape.end(), [](UOp d) { return !d.is_const(); });
}
static UOp bytes_of(const Shape& shape, DType dtype) {
  UOp n = idx(1);
  for (UOp d : shape) n = n * d;
  int b = bits(dtype);
  return simplify(b % 8 ? (n * b + 7) / 8 : n * (b / 8));
}
UOp Buffer::bytes_of_run() const { return is_free() ? bytes_of(shape, dtype) : idx(bytes); }
UOp Buffer::bytes_to_plan(const Graph& g) const {
  if (!is_free()) return idx(bytes);
  std::vector<UOp> given;
  for (const Value& v : g.inputs)
    for (UOp d : v.dims)
      if (d.is(Op::Var)) given.push_back(d);
  auto later = [&](UOp v) { return v.is(Op::Var) && std::find(given.begin(), given.end(), v) == given.end(); };
  Shape s = shape;
  for (size_t i = 0; i < s.size(); i++) {
    std::vector<UOp> below = toposort(s[i]);
    if (std::none_of(below.begin(), below.end(), later)) continue;
    // The runtime has the largest value of such a variable at that time, which gives the largest size only if that grows with it.
    bool grows = true;
    for (const Term& t : sum_of(s[i]).terms) {
      std::vector<UOp> in = toposort(t.x);
      grows &= later(t.x) ? t.a >= 0 : std::none_of(in.begin(), in.end(), later);
    }
    if (!grows) s[i] = idx(dims[i]);
  }
  return bytes_of(s, dtype);
}

namespace {

// As far as layouts.
Schedule laid_out(const Graph& g, const Target& target, std::span<const LayoutPick> picks, std::vector<LayoutQuestion>* close) {
  if (settings::SPEC()) check(Spec::Tensor, g.sink, "import");
  Graph copied = g;
  copied.sink = loops_to_rounds(copy_padded_inputs(prepare_control(hold_state_inputs(g))));
  Schedule s = Scheduler(copied).run();
  update_in_place(s);
  read_one_hot_rows(s, g);
  if (settings::SPEC())
    for (const Call& c : s.calls) check(Spec::Kernel, c.ast, "schedule");
  make_borders(s);
  choose_layouts(s, target, picks, close);
  return s;
}

}  // namespace

Schedule schedule(const Graph& g, const Target& target) { return schedule(g, target, {}); }

Schedule schedule(const Graph& g, const Target& target, std::span<const LayoutPick> picks) {
  Arena::Scope scope(*g.arena);
  Schedule s = laid_out(g, target, picks, nullptr);
  share_in_place(s);
  plan_memory(s);
  s.vars = vars_of(g, s);
  return s;
}

std::vector<LayoutQuestion> close_layouts(const Graph& g, const Target& target) {
  Arena::Scope scope(*g.arena);
  std::vector<LayoutQuestion> close;
  laid_out(g, target, {}, &close);
  return close;
}

}  // namespace tg
