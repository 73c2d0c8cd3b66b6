// LOOPs and BRANCHes as the schedule wants them: conditions are numbers that the runtime reads, results that nobody reads are gone, and a
// carried value that becomes another one is copied before either changes.
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

}  // namespace

UOp prepare_control(UOp sink) {
  std::vector<UOp> order = toposort(sink);
  if (std::none_of(order.begin(), order.end(), [](UOp u) { return u.in(Op::Loop | Op::Branch); })) return sink;
  std::map<u32, Ints> read;  // by BRANCH: its results that are read
  for (UOp u : order)
    if (u.is(Op::Get) && u.src(0).is(Op::Branch)) read[u.src(0).id()].push_back(u.arg_int());
  for (auto& [_, r] : read) std::sort(r.begin(), r.end());
  Memo<UOp> to;
  to[sink];
  for (UOp u : order) {
    std::vector<UOp> src;
    for (UOp s : u.src()) src.push_back(to[s]);
    if (u.is(Op::Branch)) {
      std::vector<UOp> some{condition(src[0])};
      for (i64 side : {i64(0), u.arg_int()})
        for (i64 i : read[u.id()]) some.push_back(src[size_t(1 + side + i)]);
      to[u] = node(Op::Branch, Kind::Void, std::span<const UOp>(some), i64(read[u.id()].size()));
      continue;
    }
    if (u.is(Op::Get) && u.src(0).is(Op::Branch)) {
      const Ints& r = read[u.src(0).id()];
      to[u] = node(Op::Get, u.dtype(), {src[0]}, i64(std::lower_bound(r.begin(), r.end(), u.arg_int()) - r.begin()));
      continue;
    }
    if (u.is(Op::Loop)) {
      LoopArg a = u.arg<LoopArg>();
      src[0] = number(src[0]), src[1] = condition(src[1]), src[a.next_go()] = condition(src[a.next_go()]);
      for (i64 i = 0; i < a.carried; i++) {
        UOp& next = src[a.next(i)];
        if (next.is(Op::Carry) && next.arg<CarryArg>().loop == a.id && next.arg<CarryArg>().index != i) next = node(Op::Contiguous, next.dtype(), {next});
      }
    }
    to[u] = with_src(u, src);
    if (to[u] != u) carry_asked(u, to[u]);
  }
  return to[sink];
}

}  // namespace tg
