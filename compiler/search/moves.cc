#include "search/moves.h"

#include <algorithm>

#include "base/error.h"
#include "opt/trim.h"
#include "search/versions.h"

namespace tg {
namespace {

using List = std::vector<Opt>;

// Opts on the loops, and those that are put anew behind any of these: PACK and TRIM.
struct Parts {
  List core, last;
};
bool is_last(OptKind k) { return k == OptKind::Pack || k == OptKind::Trim; }
Parts parts_of(const List& l) {
  Parts p;
  for (const Opt& o : l) {
    if (is_last(o.kind))
      p.last.push_back(o);
    else if (o.kind != OptKind::Thread)
      p.core.push_back(o);
  }
  return p;
}
List join_parts(List core, const List& last) {
  core.insert(core.end(), last.begin(), last.end());
  return core;
}

Opt opt(OptKind kind, i64 axis, i64 arg) { return {kind, axis, arg}; }

// Register tiles of lanes x vectors along axis `lane` and `rows` along axis `row` (none: -1).
struct Tile {
  i64 lanes, vectors, rows;
};
std::vector<Tile> tiles(const Target& t, i64 lane_size, i64 row_size, i64 most_lanes, bool half) {
  std::vector<Tile> out;
  i64 lanes = most_lanes;
  while (lanes > 2 && lanes / 2 >= lane_size) lanes /= 2;
  for (int k = 0; k < (half && lanes >= 8 ? 2 : 1); k++, lanes /= 2)
    for (i64 v : {1, 2, 3, 4, 6, 8}) {
      if (v > 1 && (v - 1) * lanes >= lane_size) break;
      for (i64 r : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 14, 16, 20, 24, 28}) {
        if (r > row_size || (r > 1 && r * v + v + 1 > t.vector_registers)) break;
        out.push_back({lanes, v, r});
      }
    }
  return out;
}

List with_tile(const Tile& t, i64 lane, i64 lane_size, i64 row, i64 row_size, const List& others) {
  List l;
  if (lane_size % (t.lanes * t.vectors)) l.push_back(opt(OptKind::PadTo, lane, t.lanes * t.vectors));
  l.push_back(opt(OptKind::Vector, lane, t.lanes));
  if (t.vectors > 1) l.push_back(opt(OptKind::Upcast, lane, t.vectors));
  if (lane_size > t.lanes * t.vectors) l.push_back(opt(OptKind::Tile, lane, 1));
  if (row >= 0 && t.rows > 1) {
    i64 rest = row_size % t.rows;
    if (rest) l.push_back(opt(OptKind::Peel, row, t.rows));
    l.push_back(opt(OptKind::Upcast, row, t.rows));
    if (rest > 1) l.push_back(opt(OptKind::Upcast, row + 100, rest));
  }
  l.insert(l.end(), others.begin(), others.end());
  return l;
}

i64 most_lanes(const Kernel& k) {
  int widest = 1;
  for (UOp u : toposort(k.ast)) {
    Kind d = u.dtype().kind;
    if (is_stored(d) && d != Kind::Bool && !u.in(Op::Const | Op::Param | Op::Index)) widest = std::max(widest, bits(d) / 8);
  }
  return std::max<i64>(2, k.target->vector_bytes / widest);
}

bool has_sum(const Kernel& k) {
  for (UOp u : toposort(k.ast))
    if (u.is(Op::Reduce) && u.arg<ReduceArg>().kind == ReduceKind::Add) return true;
  return false;
}

}  // namespace

Result<Kernel> finish(const Kernel& plain, const List& opts) {
  Parts p = parts_of(opts);
  Result<Kernel> k = with_opts(plain, p.core);
  if (!k) return k;
  auto put = [&](OptKind kind) {
    for (const Opt& o : p.last)
      if (o.kind == kind)
        if (Result<Kernel> n = k->with(o)) k = n;
  };
  put(OptKind::Pack);
  k = with_tasks(std::move(*k));
  put(OptKind::Trim);  // last: a constant is packed, and tasks are cut, along loops of constant size
  return k;
}

std::vector<List> moves(const Kernel& plain, const List& from, const ActionLimits& limits) {
  std::vector<List> out;
  Parts p = parts_of(from);
  Result<Kernel> k = with_opts(plain, p.core);
  if (!k) return out;

  // Another tile for the axes that have one now.
  std::vector<Axis> all = axes(plain.ast);
  auto axis = [&](i64 id) -> const Axis* {
    for (const Axis& a : all)
      if (a.id == id && a.part == 0 && a.output && !a.reduce && a.size > 1) return &a;
    return nullptr;
  };
  const Axis* lane = nullptr;
  for (const Opt& o : p.core)
    if (o.kind == OptKind::Vector && !lane) lane = axis(o.target);
  if (lane) {
    std::vector<const Axis*> rows;
    for (const Opt& o : p.core)
      if (o.kind == OptKind::Upcast && o.target != lane->id)
        if (const Axis* r = axis(o.target); r && std::find(rows.begin(), rows.end(), r) == rows.end()) rows.push_back(r);
    if (rows.empty()) rows.push_back(nullptr);
    for (const Axis* row : rows) {
      List others;
      for (const Opt& o : p.core) {
        bool shapes = o.kind == OptKind::PadTo || o.kind == OptKind::Vector || o.kind == OptKind::Upcast || o.kind == OptKind::Peel ||
                      (o.kind == OptKind::Tile && o.arg == 1);
        bool mine = o.target == lane->id || (row && (o.target == row->id || (o.target >= 100 && o.target % 100 == row->id)));
        if (!(shapes && mine)) others.push_back(o);
      }
      for (const Tile& t : tiles(*plain.target, lane->size, row ? row->size : 1, most_lanes(plain), true))
        out.push_back(join_parts(with_tile(t, lane->id, lane->size, row ? row->id : -1, row ? row->size : 1, others), p.last));
    }
  }

  // One more.
  for (const Opt& a : actions(*k, limits)) {
    if (is_last(a.kind)) {
      if (std::find(p.last.begin(), p.last.end(), a) != p.last.end()) continue;
      List last = p.last;
      last.push_back(a);
      out.push_back(join_parts(p.core, last));
      continue;
    }
    List l = p.core;
    l.push_back(a);
    out.push_back(join_parts(std::move(l), p.last));
  }
  for (size_t i = 0; i < p.core.size(); i++) {
    // Another size.
    for (i64 arg : other_args(p.core[i].kind, p.core[i].arg, *plain.target)) {
      List l = p.core;
      l[i].arg = arg;
      out.push_back(join_parts(std::move(l), p.last));
    }
    // One less.
    List l = p.core;
    l.erase(l.begin() + long(i));
    out.push_back(join_parts(std::move(l), p.last));
  }
  for (List& l : versions(plain, p.core)) out.push_back(join_parts(std::move(l), p.last));
  for (size_t i = 0; i < p.last.size(); i++) {
    List last = p.last;
    last.erase(last.begin() + long(i));
    out.push_back(join_parts(p.core, last));
  }
  return out;
}

std::vector<List> templates(const Kernel& plain, const ActionLimits& limits) {
  std::vector<List> out;
  List last;
  for (size_t s = 0; s < plain.slots.size(); s++)
    if (plain.slots[s].constant) last.push_back({OptKind::Pack, i64(s)});
  std::vector<Opt> trims = with_trims(plain).opts;
  last.insert(last.end(), trims.begin() + long(plain.opts.size()), trims.end());
  std::vector<Axis> outs;
  for (const Axis& a : axes(plain.ast))
    if (a.output && !a.reduce && a.part == 0 && a.size > 1 && a.kind == AxisKind::Loop) outs.push_back(a);
  // Lanes along a row, its costly value kept between phases or not: reduces, softmax, norms.
  for (const Axis& a : axes(plain.ast)) {
    if (!a.reduce && a.ranges.size() < 2) continue;
    if (a.size < 4 || (a.kind != AxisKind::Loop && a.kind != AxisKind::Reduce)) continue;
    i64 most = most_lanes(plain);
    while (most > 2 && most / 2 >= a.size) most /= 2;
    for (int place = -1; place <= 3; place++) {
      if (place >= 0 && !plain.with({OptKind::Keep, 0, place})) continue;
      for (i64 n : {1, 2, 4}) {
        List l;
        if (place >= 0) l.push_back({OptKind::Keep, 0, place});
        if (a.size % most) l.push_back(opt(OptKind::PadTo, a.id, most));
        l.push_back(opt(OptKind::Vector, a.id, most));
        if (n > 1) l.push_back(opt(a.output ? OptKind::Upcast : OptKind::Unroll, a.id, n));
        out.push_back(join_parts(std::move(l), last));
      }
    }
  }
  bool sum = has_sum(plain);
  i64 lanes = most_lanes(plain);
  // Dot instructions that fit come before the tile.
  std::vector<List> first{{}};
  for (const Opt& a : actions(plain, limits))
    if (a.kind == OptKind::Tc && plain.with(a)) first.push_back({a});
  for (const List& dot : first) {
    i64 most = dot.empty() ? lanes : std::max<i64>(2, plain.target->vector_bytes / 4);
    auto add = [&](List l) {
      l.insert(l.begin(), dot.begin(), dot.end());
      out.push_back(join_parts(std::move(l), last));
    };
    for (const Axis& lane : outs) {
      for (const Tile& t : tiles(*plain.target, lane.size, 1, most, false)) add(with_tile(t, lane.id, lane.size, -1, 1, {}));
      if (!sum) continue;
      for (const Axis& row : outs) {
        if (row.id == lane.id) continue;
        for (const Tile& t : tiles(*plain.target, lane.size, row.size, most, false))
          if (t.rows > 1) add(with_tile(t, lane.id, lane.size, row.id, row.size, {}));
      }
    }
  }
  return out;
}

}  // namespace tg
