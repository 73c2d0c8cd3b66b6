// Loops and branches as steps, and the loops that are one kernel.
#include <limits>

#include "base/error.h"
#include "schedule/rounds.h"
#include "schedule/scheduler.h"
#include "schedule/steps.h"

namespace tg {

Place Scheduler::place_result(UOp owner, i64 i) {
  UOp get = tensor::get(owner, i);
  if (!placed_[get]) places_[get] = {add_buffer(Buffer::Scratch, 0, get.dtype(), shape(get)), {}, {}}, placed_[get] = 1;
  return places_[get];
}

void Scheduler::place_in(UOp u, const Place& p, u32 where) {
  if (realized_.stored[u] && !placed_[u] && region(u) == where && sizes_are_known(s_.buffers[p.buffer].shape, u)) places_[u] = p, placed_[u] = 1;
}

Place Scheduler::part_of_round(UOp loop, i64 scan) {
  LoopArg a = loop.arg<LoopArg>();
  Place p = place_result(loop, a.carried + scan);
  UOp at = tensor::step(a.id, loop.src(0));
  if (!p.begin.empty()) at = at + p.begin[0], p.begin.erase(p.begin.begin());
  p.lead.push_back(at);
  return p;
}

UOp Scheduler::grown(UOp next) {
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

void Scheduler::place_loop(UOp u) {
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

void Scheduler::place_branch(UOp u) {
  i64 n = u.arg_int();
  for (u32 side : {0u, 1u})
    for (i64 i = 0; i < n; i++) place_in(u.src(size_t(1 + i64(side) * n + i)), place_result(u, i), realized_.regions.inside(u, side));
}

void Scheduler::emit_loop(UOp u) {
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

void Scheduler::emit_branch(UOp u) {
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

void Scheduler::emit_rounds(UOp recur) {
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

}  // namespace tg
