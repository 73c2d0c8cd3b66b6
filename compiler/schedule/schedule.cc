#include "schedule/schedule.h"

#include <algorithm>

#include "base/error.h"
#include "base/settings.h"
#include "ir/spec.h"
#include "schedule/layout_choice.h"
#include "schedule/rounds.h"
#include "schedule/scheduler.h"
#include "schedule/steps.h"

namespace tg {

namespace {

constexpr u32 kNone = ~0u;

}  // namespace

Schedule Scheduler::run() {
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

std::vector<UOp> Scheduler::measured_first() {
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

void Scheduler::measure(UOp size, UOp value) { steps_of_call_->push_back(value.is_const() ? set(size, idx(value.as_int())) : read(size, value)); }

bool Scheduler::sizes_are_known(const Shape& sizes, UOp u) {
  if (g_.measured.empty()) return true;
  for (UOp x : toposort(sizes))
    for (size_t i = known_sizes_[u]; x.is(Op::Var) && i < g_.measured.size(); i++)
      if (x == g_.measured[i].var()) return false;
  return true;
}

void Scheduler::order_calls() {
  std::vector<Call> calls;
  each_step(s_.steps, [&](Step& x) {
    if (x.kind != Step::Call) return;
    calls.push_back(std::move(s_.calls[x.call]));
    x.call = u32(calls.size() - 1);
  });
  s_.calls = std::move(calls);
}

u32 Scheduler::add_buffer(Buffer::Kind k, u32 index, DType d, const Shape& sizes) {
  Buffer b;
  b.kind = k, b.index = index, b.dtype = d;
  for (UOp n : sizes) b.shape.push_back(simplify(without_steps(n))), b.dims.push_back(most(b.shape.back()));
  b.layout = Layout::row_major(b.dims);
  b.bytes = byte_size(d.kind, b.layout.elems());
  s_.buffers.push_back(std::move(b));
  return u32(s_.buffers.size() - 1);
}

void Scheduler::place_outputs() {
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

void Scheduler::place_grown_states() {
  for (auto [out, in] : g_.state) {
    UOp u = g_.sink.src(out);
    if (placed_[u] || !realized_.stored[u] || region(u) != 0) continue;
    if (UOp kept = grown(u); kept && kept.is(Op::Param) && kept.arg_int() == i64(in)) places_[u] = {input_[in], {}, {}}, placed_[u] = 1;
  }
}

void Scheduler::place(UOp u) {
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

u32 Scheduler::constant_buffer(i64 index) {
  if (constant_.size() <= size_t(index)) constant_.resize(size_t(index) + 1, ~0u);
  if (constant_[size_t(index)] == ~0u) {
    const ConstantData& c = g_.constants[size_t(index)];
    constant_[size_t(index)] = add_buffer(Buffer::Constant, u32(index), c.dtype, dims(c.dims));
  }
  return constant_[size_t(index)];
}

Place Scheduler::place_of(UOp u) {
  if (u.is(Op::Param)) return {input_[size_t(u.arg_int())], {}, {}};
  if (u.is(Op::Constant)) return {constant_buffer(u.arg_int()), {}, {}};
  if (u.is(Op::Carry)) return carries_.at({u.arg<CarryArg>().loop, u.arg<CarryArg>().index});
  TG_CHECK(placed_[u], "read before it has a place: ", info(u.op()).name);
  return places_[u];
}

void Scheduler::emit_plain(UOp u, UOp from, const Place& to, std::string name) {
  if (empty(u)) return;
  Params p;
  p.slot(s_, to.buffer);
  std::vector<UOp> rs = ranges_.output_ranges(u);
  Shape index(rs.begin(), rs.end());
  Builder b = builder(u, p);
  UOp v = from ? b.value(from, index) : b.compute(u, index);
  UOp st = store(p, to, index, v, rows_outside(v, rs));
  finish({st}, p, 1, (name.empty() ? work_name(st) : name) + shape_name(u));
}

void Scheduler::emit(UOp u) {
  switch (u.op()) {
    case Op::Concat: return emit_concat(u);
    case Op::Scatter: return emit_scatter(u);
    case Op::Scan: return emit_scan(u);
    case Op::Sort: return emit_sort(u);
    default: return emit_plain(u, {}, place_of(u));
  }
}

namespace {

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
