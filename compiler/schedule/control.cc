// LOOPs and BRANCHes as the schedule wants them: conditions are numbers that the runtime reads, what nobody reads is gone, and a carried value
// that becomes another one is copied before either changes.
#include <algorithm>
#include <map>

#include "ir/regions.h"
#include "schedule/realize.h"
#include "schedule/schedule.h"

namespace tg {
namespace {

// The runtime reads i32 and i64.
UOp condition(UOp c) { return c.is_const() ? c : cast(c, Kind::I32); }
UOp number(UOp n) { return n.dtype().kind == Kind::Index || n.dtype().kind == Kind::I32 || n.dtype().kind == Kind::I64 ? n : cast(n, Kind::I64); }


// Values of a LOOP that are needed: those whose results are read, and what the next rounds of these take.
Ints needed(UOp loop, const Ints& read) {
  LoopArg a = loop.arg<LoopArg>();
  std::vector<u8> need(size_t(a.carried + a.scans), 0);
  std::vector<UOp> roots{loop.src(a.next_go())};
  for (i64 i : read) need[size_t(i)] = 1, roots.push_back(loop.src(i < a.carried ? a.next(i) : a.scan(i - a.carried)));
  for (bool more = true; more;) {
    more = false;
    for (UOp u : toposort(roots)) {
      if (!u.is(Op::Carry) || u.arg<CarryArg>().loop != a.id || need[size_t(u.arg<CarryArg>().index)]) continue;
      need[size_t(u.arg<CarryArg>().index)] = 1, more = true;
      roots.push_back(loop.src(a.next(u.arg<CarryArg>().index)));
    }
  }
  Ints kept;
  for (i64 i = 0; i < a.carried + a.scans; i++)
    if (need[size_t(i)]) kept.push_back(i);
  return kept;
}

i64 place_in(const Ints& kept, i64 i) { return std::lower_bound(kept.begin(), kept.end(), i) - kept.begin(); }

}  // namespace

UOp prepare_control(UOp sink) {
  std::vector<UOp> order = toposort(sink);
  if (std::none_of(order.begin(), order.end(), [](UOp u) { return u.in(Op::Loop | Op::Branch); })) return sink;
  std::map<u32, Ints> read, kept;  // by LOOP or BRANCH: its results that are read, that are needed
  std::map<i64, u32> loop_of;      // by a LOOP's number
  for (UOp u : order)
    if (u.is(Op::Get) && u.src(0).in(Op::Loop | Op::Branch)) read[u.src(0).id()].push_back(u.arg_int());
  for (auto& [id, r] : read) std::sort(r.begin(), r.end()), kept[id] = r;
  for (UOp u : order)
    if (u.is(Op::Loop)) kept[u.id()] = needed(u, read[u.id()]), loop_of[u.arg<LoopArg>().id] = u.id();
  Memo<UOp> to;
  to[sink];
  for (UOp u : order) {
    std::vector<UOp> src;
    for (UOp s : u.src()) src.push_back(to[s]);
    if (u.is(Op::Branch)) {
      std::vector<UOp> some{condition(src[0])};
      for (i64 side : {i64(0), u.arg_int()})
        for (i64 i : kept[u.id()]) some.push_back(src[size_t(1 + side + i)]);
      to[u] = node(Op::Branch, Kind::Void, std::span<const UOp>(some), i64(kept[u.id()].size()));
      continue;
    }
    if (u.is(Op::Get) && u.src(0).in(Op::Loop | Op::Branch)) {
      to[u] = node(Op::Get, u.dtype(), {src[0]}, place_in(kept[u.src(0).id()], u.arg_int()));
      continue;
    }
    if (u.is(Op::Carry)) {
      CarryArg c = u.arg<CarryArg>();
      c.index = place_in(kept[loop_of[c.loop]], c.index);
      to[u] = node(Op::Carry, u.dtype(), std::span<const UOp>(src), IntSpan(c.ints()));
      continue;
    }
    if (u.is(Op::Loop)) {
      LoopArg a = u.arg<LoopArg>(), b{a.id, 0, 0};
      const Ints& k = kept[u.id()];
      std::vector<UOp> some{number(src[0]), condition(src[1])};
      for (i64 i : k)
        if (i < a.carried) some.push_back(src[a.init(i)]), b.carried++;
      some.push_back(condition(src[a.next_go()]));
      for (i64 i : k) {
        if (i >= a.carried) continue;
        UOp next = src[a.next(i)];
        bool other = next.is(Op::Carry) && next.arg<CarryArg>().loop == a.id && next.arg<CarryArg>().index != place_in(k, i);
        some.push_back(other ? node(Op::Contiguous, next.dtype(), {next}) : next);
      }
      for (i64 i : k)
        if (i >= a.carried) some.push_back(src[a.scan(i - a.carried)]), b.scans++;
      to[u] = node(Op::Loop, Kind::Void, std::span<const UOp>(some), IntSpan(b.ints()));
      continue;
    }
    to[u] = with_src(u, src);
    if (to[u] != u) carry_asked(u, to[u]);
  }
  return to[sink];
}

}  // namespace tg
