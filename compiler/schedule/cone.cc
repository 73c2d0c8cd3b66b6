#include "schedule/cone.h"

#include <algorithm>

#include "ir/bounds.h"
#include "ir/regions.h"
#include "schedule/realize.h"
#include "schedule/rounds.h"

namespace tg {
namespace {
constexpr int kMany = 1000;
i64 count(UOp u) { return most_elems(shape(u)); }
}  // namespace

Memo<Cone> cones(UOp sink) {
  Memo<Cone> memo;
  std::vector<UOp> order = toposort(sink);
  Memo<int> users;
  for (UOp u : order)
    for (UOp s : u.src()) users[s]++;
  for (UOp u : order) {
    Cone& c = memo[u];
    c = Cone{};
    if (u.in(Op::Param | Op::Constant) || is_kept(u)) {
      c.loads = c.bare = true, c.buffers = count(u) > 1, c.volume = count(u);
      continue;
    }
    if (u.in(Op::Sink | Op::Stack | Op::Const | Op::Var | Op::Iota | Op::Placeholder | Op::Step | Op::Loop | Op::Branch)) continue;
    for (UOp s : u.src()) {
      if (s.in(Op::Stack | Op::Const | Op::Placeholder)) continue;
      Cone t = memo[s];
      // A value that will be stored anyway counts as a buffer.
      bool own = s.in(kOwnKernel) || is_rounds_result(s);
      if (own || (t.heavy && users[s] >= 2)) {
        t = Cone{};
        t.loads = true, t.bare = own, t.buffers = 1, t.volume = count(s);
      }
      c.heavy |= t.heavy, c.reduces |= t.reduces, c.costly |= t.costly, c.loads |= t.loads;
      c.ops = std::min(c.ops + t.ops, kMany), c.buffers = std::min(c.buffers + t.buffers, kMany);
      c.volume = std::max(c.volume, t.volume), c.heavy_volume = std::max(c.heavy_volume, t.heavy_volume);
      c.bare |= t.bare;
    }
    if (!is_movement(u.op()) || u.is(Op::Concat)) c.bare = false;
    // Rounding to a half takes more than an op.
    bool rounds = u.is(Op::Cast) && is_float(u.dtype()) && bits(u.dtype()) == 16;
    if (is_alu(u.op()) || rounds) c.ops++;
    if (u.in(kTranscendental)) c.costly = true;
    if (u.in(Op::Reduce | Op::Fold)) {
      c.reduces = true;
      i64 in = count(u.src(0));
      if (double(in) > 1.5 * double(std::max<i64>(c.volume, 1))) c.heavy = true, c.volume = count(u.is(Op::Fold) ? u.src(0) : u);
      if (c.heavy) c.heavy_volume = count(u.is(Op::Fold) ? u.src(0) : u);
    }
    if (u.is(Op::Gather)) c.ops++;
    if (asked().contraction[u]) c.heavy = c.reduces = true, c.bare = false, c.volume = c.heavy_volume = count(u);
  }
  return memo;
}

}  // namespace tg
