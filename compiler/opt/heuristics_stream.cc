// Opts of everything but sums of products: lanes along the axis that most accesses walk one by one, and rows of softmax and its like.
#include "opt/planner.h"

namespace tg::heuristic {

i64 Planner::unroll_places() {
  constexpr i64 kMost = 64;
  i64 nodes = 1;
  std::vector<i64> ids;
  for (UOp u : toposort(k_.ast))
    if (u.is(Op::Eq) && u.src(0).is(Op::Range) && u.src(1).is_const()) ids.push_back(u.src(0).arg<RangeArg>().id);
  for (const Axis& a : v_.axes)
    if (a.output && !a.free && a.ranges.size() == 1 && a.size >= 2 && nodes * a.size <= kMost && std::find(ids.begin(), ids.end(), a.id) != ids.end() &&
        a.size <= 8 && apply({OptKind::Upcast, a.id, a.size}))
      nodes *= a.size;
  if (nodes > 1) view();
  return nodes;
}

void Planner::stream(i64 nodes) {
  int bytes = std::max(v_.widest, 1);
  bool fold = false;
  for (UOp u : toposort(k_.ast)) fold |= u.is(Op::Fold);
  const Axis* lane = nullptr;
  double best = std::numeric_limits<double>::infinity();
  double total = 0;
  for (const Axis& a : v_.axes) {
    if (a.size < 2 || (a.kind != AxisKind::Loop && a.kind != AxisKind::Reduce)) continue;
    double cost = 0;
    bool moves = false;
    for (const Access& x : v_.accesses) {
      auto s = step(x, a);
      double weight = x.in_reduce ? 2 : 1;
      if (s && *s == 0) {
        if (x.store && a.output) cost += weight;  // lanes that store one place
        continue;
      }
      moves = true;
      if (s && *s == 1) cost += 0.5 * weight;
      else if (s && a.output && !a.reduce && crossing(x, a)) cost += 2 * weight;
      else cost += (x.constant && x.node.is(Op::Load) ? 4 : 8) * weight;
    }
    if (!moves) continue;
    if (a.reduce) cost += 0.3;
    i64 full = max_lanes(bytes);
    if (a.size < full) cost += 3.0 * (1 - double(a.size) / double(full)) + 1;
    else if (!a.divides(full)) cost += 0.2;
    if (fold && !a.divides(4)) cost += 20;
    total++;
    if (cost < best) best = cost, lane = &a;
  }
  if (!lane) return;
  i64 id = lane->id, size = lane->size, lanes = max_lanes(bytes), whole = const_factor(lane->extent());  // what divides the size
  bool free = lane->free, output = lane->output, reduce = lane->reduce, single = lane->ranges.size() == 1;
  bool row = lane->output && !single;
  // Strided in lanes, but one by one along another axis: rows of that axis, which codegen/transpose.cc turns.
  i64 cross = -1;
  for (const Access& x : v_.accesses)
    if (auto s = step(x, *lane); nodes == 1 && !fold && lane->output && !lane->reduce && s && *s != 0 && *s != 1)
      if (const Axis* b = crossing(x, *lane)) cross = b->id;
  if (cross >= 0) lanes = std::min<i64>(lanes, 16);
  while (lanes > 2 && lanes / 2 >= size) lanes /= 2;
  if (fold && !output)
    while (lanes > 1 && whole % lanes) lanes /= 2;
  if (fold && row)
    while (lanes > 1 && whole % lanes) lanes /= 2;
  if (lanes < 2) return;
  if (whole % lanes) {
    if (output && !reduce && single && size >= 4 * lanes && apply({OptKind::Peel, id, lanes})) {
      i64 rest = free ? lanes - 1 : size % lanes, tail = 2;
      while (tail < rest) tail *= 2;
      if (rest > 1) {
        apply({OptKind::PadTo, id + 100, tail});
        apply({OptKind::Vector, id + 100, tail});
      }
    } else {
      // A long free axis has whole copies too: they hide latencies.
      apply({OptKind::PadTo, id, lanes * (free && !fold && nodes == 1 && cross < 0 ? (size >= 16 * lanes ? 4 : size >= 8 * lanes ? 2 : 1) : 1)});
    }
  }
  if (!apply({OptKind::Vector, id, lanes})) return;
  if (cross >= 0) return turn_with(cross, lanes);
  i64 most_rows = 4;
  for (UOp u : toposort(k_.ast))
    if (u.in(kTranscendental) && u.op() != Op::Sqrt) most_rows = 2;  // which need registers for their own constants
  i64 rows = row && !fold && nodes == 1 ? several_rows(id, most_rows) : 1;
  if (const Axis* a = find(id); a && nodes == 1) {
    // Independent work to hide latencies: more lanes of the same row, or more rows.
    i64 most = std::min<i64>(rows > 1 ? 2 : 4, a->size);
    OptKind kind = output ? OptKind::Upcast : OptKind::Unroll;
    for (i64 u = most; u >= 2; u /= 2)
      if (a->divides(u) && apply({kind, id, u})) break;
  }
}

bool Planner::row_in_registers() {
  constexpr i64 kCoefficients = 12, kSteps = 4, kMostWork = 800;  // registers of a transcendental, of other steps; operations of the tile
  i64 reduces = 0, work = 0, coefficients = 0, id = -1;
  for (UOp u : toposort(k_.ast)) {
    bool costly = u.in(kTranscendental) && u.op() != Op::Sqrt;
    if (costly) coefficients = kCoefficients;
    if (is_elementwise(u.op()) && u.dtype().kind != Kind::Index) work += costly ? kCoefficients : 1;
    if (u.in(Op::Fold | Op::Row)) return false;
    if (!u.is(Op::Reduce)) continue;
    std::vector<UOp> loops = loops_of(u);
    if (loops.size() != 1 || (reduces++ && loops[0].arg<RangeArg>().id != id)) return false;
    id = loops[0].arg<RangeArg>().id;
  }
  const Axis* row = reduces ? find(id) : nullptr;
  i64 lanes = max_lanes(std::max(4, v_.widest)), registers = k_.target->vector_registers;
  if (!row || !row->output || row->free || row->size < lanes) return false;
  for (const Access& x : v_.accesses)
    if (auto s = step(x, *row); !s || (*s != 0 && *s != 1)) return false;
  i64 vectors = (row->size + lanes - 1) / lanes, rows = coefficients ? 2 : 4;
  if (vectors + std::max(coefficients, 2 * kSteps) > registers || vectors * work > kMostWork) return false;
  // One lane alone in the last vector has a constant coordinate, and would be gathered. Without a transcendental the phases are so cheap that
  // only rows side by side win.
  if (row->size % lanes == 1 || (!coefficients && rows * vectors + kSteps > registers)) return false;
  while (rows > 1 && (rows * vectors + coefficients + kSteps > registers || rows * vectors * work > kMostWork)) rows /= 2;
  Kernel before = k_;
  apply({OptKind::PadTo, id, lanes});
  if (!apply({OptKind::Vector, id, lanes}) || (vectors > 1 && !apply({OptKind::Upcast, id, vectors}))) {
    k_ = std::move(before);
    return false;
  }
  several_rows(id, rows);
  return true;
}

i64 Planner::several_rows(i64 lane, i64 most) {
  const Axis* pick = nullptr;
  for (const Axis& a : v_.axes)
    if (a.id != lane && a.output && !a.reduce && a.ranges.size() == 1 && a.size >= 2) pick = &a;
  if (!pick) return 1;
  i64 id = pick->id;
  bool free = pick->free, others = false;
  for (const Axis& a : v_.axes) others |= a.id != lane && a.id != id && a.output && !a.reduce && a.size >= 4;
  for (i64 n = most; n >= 2; n /= 2)
    if ((free || pick->divides(n)) && apply({OptKind::Upcast, id, n})) return n;
  // Rows that are written over cannot be repeated: what is left of them goes one by one, if there is a loop around for the tasks.
  return most > 1 && free && others && apply({OptKind::Peel, id, 2}) && apply({OptKind::Upcast, id, 2}) ? 2 : 1;
}

const Axis* Planner::crossing(const Access& x, const Axis& lane) const {
  for (const Axis& b : v_.axes)
    if (b.id != lane.id && b.output && !b.reduce && b.ranges.size() == 1 && b.size >= 4)
      if (auto s = step(x, b); s && *s == 1) return &b;
  return nullptr;
}

void Planner::turn_with(i64 id, i64 lanes) {
  const Axis* b = find(id);
  if (!b) return;
  i64 rows = std::min(lanes, b->size);
  for (i64 n = rows; n >= std::max<i64>(4, lanes / 2); n--)
    if (b->divides(n)) {
      apply({OptKind::Upcast, id, n});
      return;
    }
  i64 rest = b->free ? 0 : b->size % rows;
  if (rows < 4 || !apply({OptKind::Peel, id, rows})) return;
  apply({OptKind::Upcast, id, rows});
  if (rest >= 4) apply({OptKind::Upcast, id + 100, rest});
}

}  // namespace tg::heuristic
