// Opts of sums of products: which axis gets the lanes, which the rows of the tile, and what is turned, staged or unrolled.
#include "opt/planner.h"
#include "opt/stage.h"
#include "opt/trim.h"

namespace tg::heuristic {

constexpr f64 kTrimmedPays = 0.03;

UOp Planner::main_reduce() {
  UOp best;
  for (UOp u : toposort(k_.ast)) {
    if (!u.is(Op::Reduce) || u.arg<ReduceArg>().kind != ReduceKind::Add) continue;
    UOp b = u.src(0);
    while (b.is(Op::Cast)) b = b.src(0);
    if (b.is(Op::Mul) && !best) best = u;
  }
  return best;
}

bool Planner::turns(const Access& x, const Axis& lane, UOp last) const {
  i64 lanes = max_lanes(std::max(4, v_.widest));
  if (x.constant || lanes < 8 || !lane.divides(lanes) || !last.src(0).is_const() || last.src(0).as_int() % lanes) return false;
  auto across = step(x, lane);
  auto along = linear_in(x.offset, last);
  return across && std::abs(*across) >= lanes && along && along->factor == 1;
}

Tile Planner::turned_tile(i64 m) const {
  i64 lanes = max_lanes(std::max(4, v_.widest));
  return {lanes, 1, even_rows(m, std::max<i64>(1, k_.target->vector_registers - lanes - 6))};
}

std::optional<i64> Planner::without_gates(const std::vector<UOp>& loops, const std::vector<const Access*>& body, const Axis& lane) const {
  auto gate_sees = [&](UOp r) {
    return std::any_of(body.begin(), body.end(), [&](const Access* x) {
      if (x->node.nsrc() != 3) return false;
      std::vector<UOp> gate = toposort(x->node.src(1));
      return std::find(gate.begin(), gate.end(), r) != gate.end() && std::find(gate.begin(), gate.end(), lane.ranges[0]) != gate.end();
    });
  };
  if (loops.size() < 2 || !gate_sees(loops.back())) return {};
  for (size_t i = loops.size() - 1; i-- > 0;) {
    UOp r = loops[i];
    if (!r.src(0).is_const() || gate_sees(r)) continue;
    // The lines that it walks stay in the first cache until the next turn of the loop around it.
    i64 size = r.src(0).as_int(), most = k_.target->l1_bytes / 64 / 8;
    for (const Access* x : body)
      if (auto l = linear_in(x->offset, r); l && !x->constant && l->factor * bits(x->node.dtype()) / 8 % (k_.target->l1_bytes / 8) == 0) most = 8;
    if (size >= 2 && size <= most) return r.arg<RangeArg>().id;
  }
  return {};
}

bool Planner::contraction() {
  UOp red = main_reduce();
  if (!red) return false;
  std::vector<UOp> loops = loops_of(red);
  if (loops.empty()) return false;
  // Every output loop must be outside the reduce: not a row value.
  std::vector<UOp> inside = toposort(red);
  i64 work_k = 1;
  for (UOp r : loops) {
    if (!is_uniform(r.src(0))) return false;
    work_k *= most(r.src(0));
  }
  std::vector<const Axis*> outs;
  for (const Axis& a : v_.axes) {
    if (!a.output || a.reduce) continue;
    if (a.size < 2) continue;
    if (a.ranges.size() != 1) return false;
    if (std::find(inside.begin(), inside.end(), a.ranges[0]) == inside.end()) return false;
    outs.push_back(&a);
  }
  if (outs.empty()) return false;
  std::vector<const Access*> body;
  for (const Access& a : v_.accesses)
    if (!a.store && std::find(inside.begin(), inside.end(), a.node) != inside.end()) body.push_back(&a);
  // The lanes' axis.
  const Axis* lane = nullptr;
  double best = std::numeric_limits<double>::infinity();
  for (const Axis* a : outs) {
    double cost = 0;
    bool any = false;
    for (const Access* x : body) {
      auto s = step(*x, *a);
      if (s && *s == 0) continue;
      any = true;
      if (x->constant && s) cost += 0.5;
      else if (s && *s == 1) cost += 0.6;
      else if (outs.size() > 1 && turns(*x, *a, loops.back())) cost += 3;
      else cost += 20;
    }
    if (!any) cost += 1;  // only the store moves
    for (const Access& x : v_.accesses)
      if (!x.in_reduce) {
        auto s = step(x, *a);
        if (!s || (*s != 0 && *s != 1)) cost += 40.0 / double(work_k);
      }
    double fill = double(a->size) / double((a->size + max_lanes(4) - 1) / max_lanes(4) * max_lanes(4));
    cost += 2 * (1 - fill) + (a->size < 4 ? 4 : 0);
    if (cost < best) best = cost, lane = a;
  }
  if (best > 15) return reduce_in_lanes(red);
  if (window_in_lanes(*lane, outs, body, loops)) return true;
  // The rows' axis: the vector loads do not move along it.
  const Axis* rows = nullptr;
  bool shared_lanes = false;  // depthwise: both operands are vectors
  i64 best_rows = 0;
  for (const Axis* a : outs) {
    if (a == lane) continue;
    bool reuse = false, both = true;
    for (const Access* x : body) {
      auto sl = step(*x, *lane), sr = step(*x, *a);
      bool vec = !sl || *sl != 0;
      if (vec && sr && *sr == 0) reuse = true;
      if (!vec) both = false;
    }
    if (!reuse) continue;
    i64 score = std::min<i64>(a->size, 64) * 1000;
    // Later loops are nearer in memory.
    for (size_t i = 0; i < outs.size(); i++)
      if (outs[i] == a) score += i64(i);
    // An axis too short for a tile only if there is no other; the innermost one, the lanes' aside, if it is long enough.
    bool innermost = a == outs.back() || (outs.size() > 1 && outs[outs.size() - 2] == a && outs.back() == lane);
    if (a->size >= 4) score += (i64(1) << 20) + 64000 * innermost;
    if (score > best_rows) best_rows = score, rows = a, shared_lanes = both;
  }
  i64 m = rows ? rows->size : 1, n = lane->size;
  i64 row_bytes = 0;
  if (rows)
    for (const Access* x : body)
      if (auto s = step(*x, *rows)) row_bytes = std::max(row_bytes, std::abs(*s) * bits(x->node.dtype()) / 8);
  i64 weight_bytes = 0;
  for (const Access* x : body)
    if (x->constant) weight_bytes = std::max(weight_bytes, k_.slots[size_t(x->node.src(0).src(0).arg_int())].layout.elems() * bits(x->node.dtype()) / 8);
  // How many rows each weight serves, in whatever loops.
  i64 served = 1;
  for (const Axis* a : outs)
    if (std::all_of(body.begin(), body.end(), [&](const Access* x) { return !x->constant || step(*x, *a) == std::optional<i64>(0); })) served *= a->size;
  bool cold = weight_bytes > 2 * k_.target->l2_bytes && served <= 32;
  auto at = std::find_if(body.begin(), body.end(), [&](const Access* x) { return turns(*x, *lane, loops.back()); });
  bool turned = at != body.end();
  // Rows of a free axis go in tiles of several heights where another loop is there for the tasks.
  auto shared_loop = [&](const Axis* a) { return a != rows && (a == lane ? n / (4 * max_lanes(std::max(4, v_.widest))) : a->size) >= 4; };
  bool peels = !turned && rows && rows->free && k_.ordered.empty() && std::any_of(outs.begin(), outs.end(), shared_loop);
  Tile plain = best_tile(n, m, rows && rows->free ? const_factor(rows->extent()) : 0, peels, work_k, std::max(4, v_.widest), shared_lanes, row_bytes, cold, before_product(red, *lane));
  Tile t = turned ? turned_tile(m) : plain;
  // Where several tiles would turn the same operand, it is turned once, on the stack.
  i64 staged = turned && rows && !nest_ && m > t.rows ? memory_of((*at)->node.src(0)).arg_int() : -1;
  if (staged >= 0) t = plain;
  if (staged >= 0 && work_k * t.lanes * t.vectors * 4 > kStageBytes) t = {turned_tile(m).lanes, 1, even_rows(m, 8)};
  if (nest_ && rows)
    while (!rows->divides(t.rows)) t.rows--;
  if (t.rows == 1) rows = nullptr;
  // A depthwise tile of two rows of pixels is as many pixels, reads fewer columns of the border of its window, and writes to two places of memory.
  i64 down_id = -1;
  if (shared_lanes && rows && !rows->free && !nest_ && t.vectors == 1 && t.rows >= 8 && t.rows % 2 == 0 && m % (t.rows / 2) == 0 && loops.size() > 1)
    for (const Axis* a : outs)
      if (a != lane && a != rows && !a->free && a->size % 2 == 0 && a->size >= 4) down_id = a->id;
  // Not where the picture is so low that it pays more to leave out the taps above and below it, which rows side by side do not share.
  if (down_id >= 0 && trimmed_share(k_, loops[loops.size() - 2].arg<RangeArg>().id) > kTrimmedPays) down_id = -1;
  if (down_id >= 0) t.rows /= 2;
  i64 lane_id = lane->id, rows_id = rows ? rows->id : -1;
  UOp last = loops.back();
  i64 last_id = last.arg<RangeArg>().id, last_size = most(last.src(0));
  std::optional<i64> inner = without_gates(loops, body, *lane);
  bool rows_free = rows && rows->free;
  std::vector<i64> constants;
  for (const Access* x : body)
    if (x->constant) {
      UOp p = x->node.src(0).src(0);
      if (std::find(constants.begin(), constants.end(), p.arg_int()) == constants.end()) constants.push_back(p.arg_int());
    }

  // Versions for few rows, each with axes of its own: wider and lower tiles, one of which has all rows, so that weights are read once.
  std::vector<Version> versions;
  if (peels && rows && !shared_lanes && weight_bytes >= kManyWeights) versions = few_rows(*rows, *lane, t);
  for (const Version& v : versions) version_tile(lane_id + v.up, rows_id + v.up, v.tile);
  auto tile = [&] {
    apply({OptKind::PadTo, lane_id, t.lanes * t.vectors});
    apply({OptKind::Vector, lane_id, t.lanes});
    if (t.vectors > 1) apply({OptKind::Upcast, lane_id, t.vectors});
    apply({OptKind::Tile, lane_id, 1});
    if (rows_id >= 0 && !(peels && peel_rows(rows_id, t.rows))) upcast_rows(rows_id, m, t.rows, rows_free);
    if (down_id >= 0) apply({OptKind::Upcast, down_id, 2});
  };
  Kernel before = k_;
  tile();
  if (staged >= 0 && !apply({OptKind::Stage, staged})) {
    staged = -1, t = turned_tile(m), k_ = std::move(before);
    tile();
  }
  turned &= staged < 0;
  if (turned) apply({OptKind::Unroll, last_id, t.lanes});
  // Depthwise rows share what they load along the window.
  else if (shared_lanes && last_size <= 7) apply({OptKind::Unroll, last_id, last_size});
  // The parts of a byte share its load.
  else if (last_size <= 8 && std::any_of(body.begin(), body.end(), [&](const Access* x) {
             auto along = linear_in(x->offset, last);
             return x->constant && bits(x->node.dtype()) == 8 && along && along->factor == 0;
           })) {
    apply({OptKind::Unroll, last_id, last_size});
    for (const Version& v : versions) apply({OptKind::Unroll, last_id + v.up, last_size});
  } else if (t.rows * t.vectors <= 4)
    for (i64 u : {4, 2})
      if (last_size > u && apply({OptKind::Unroll, last_id, u})) break;
  if (inner) apply({OptKind::Swap, last_id, *inner});
  for (i64 s : constants) {
    apply({OptKind::Pack, s, 0});
    if (!nest_ && worth_asking(t.rows, served, weight_bytes, *k_.target)) apply({OptKind::Prefetch, s});
  }
  return true;
}

bool Planner::window_in_lanes(const Axis& lane, const std::vector<const Axis*>& outs, const std::vector<const Access*>& body, const std::vector<UOp>& loops) {
  constexpr i64 kMostTaps = 7, kMostVectors = 4, kMostRows = 8;
  const i64 most_tile = k_.target->vector_registers / 2;
  if (loops.size() > 2 || lane.free || nest_) return false;
  for (UOp r : loops)
    if (!r.src(0).is_const() || most(r.src(0)) > kMostTaps) return false;
  const Access* data = nullptr;
  for (const Access* x : body) {
    auto s = step(*x, lane);
    if (s && *s == 0) continue;
    if (!s || *s != 1 || data) return false;
    data = x;
  }
  auto along = [&](UOp r) {
    auto l = linear_in(data->offset, r);
    return l ? l->factor : 0;
  };
  if (!data || along(loops.back()) != 1) return false;
  const Axis* rows = nullptr;
  for (const Axis* a : outs)
    if (loops.size() == 2 && a != &lane && !a->free && step(*data, *a) == std::optional<i64>(along(loops[0]))) rows = a;
  if (loops.size() == 2 && !rows) return false;
  i64 lanes = max_lanes(std::max(4, v_.widest)), size = lane.size, id = lane.id;
  while (lanes > 2 && lanes / 2 >= size) lanes /= 2;
  i64 vectors = (size + lanes - 1) / lanes, tail = size % lanes;
  i64 rows_id = rows ? rows->id : -1, rows_size = rows ? rows->size : 1;
  std::vector<i64> constants;
  for (const Access* x : body)
    if (x->constant) constants.push_back(x->node.src(0).src(0).arg_int());
  if (tail >= 4 && size > lanes && (tail & (tail - 1)) == 0 && apply({OptKind::Peel, id, lanes})) {
    apply({OptKind::Vector, id + 100, tail});
    vectors--;
  } else {
    apply({OptKind::PadTo, id, lanes});
  }
  if (!apply({OptKind::Vector, id, lanes})) return false;
  i64 tile = 1;
  for (i64 n = 2; n <= kMostVectors; n++)
    if (vectors % n == 0) tile = n;
  if (tile > 1) apply({OptKind::Upcast, id, tile});
  for (size_t i = loops.size(); i-- > 0;) apply({OptKind::Unroll, loops[i].arg<RangeArg>().id, most(loops[i].src(0))});
  for (i64 n = std::min(kMostRows, most_tile / tile); n >= 2; n--)
    if (rows_size % n == 0 && apply({OptKind::Upcast, rows_id, n})) break;
  for (i64 s : constants) apply({OptKind::Pack, s, 0});
  return true;
}

bool Planner::reduce_in_lanes(UOp red) {
  UOp last = loops_of(red).back();
  i64 id = last.arg<RangeArg>().id, size = most(last.src(0)), lanes = max_lanes(std::max(4, v_.widest));
  for (const Axis& a : v_.axes)
    if (a.id == id && a.output) return false;
  while (lanes > 2 && lanes / 2 >= size) lanes /= 2;
  if (size < 4) return false;
  // Without padding where a smaller vector divides the size.
  for (i64 l = lanes; l >= lanes / 2 && l >= 4; l /= 2)
    if (const_factor(last.src(0)) % l == 0) {
      lanes = l;
      break;
    }
  // Several outputs at once share what they read, and hide the latency of the sum.
  struct Rows {
    i64 id, size;
    bool free;
  };
  std::vector<Rows> tile;
  std::vector<UOp> inside = toposort(red);
  // Not where several sums follow one another: each ends in horizontal steps for every output of the tile.
  i64 reduces = 0;
  for (UOp u : inside) reduces += u.in(Op::Reduce | Op::Fold);
  for (size_t i = v_.axes.size(); i-- > 0 && tile.size() < 2 && reduces == 1;) {
    const Axis& a = v_.axes[i];
    if (!a.output || a.reduce || a.size < 2 || a.ranges.size() != 1) continue;
    if (std::find(inside.begin(), inside.end(), a.ranges[0]) == inside.end()) return false;
    bool shares = false;
    for (const Access& x : v_.accesses)
      if (auto s = step(x, a); !x.store && x.in_reduce && s && *s == 0) shares = true;
    if (shares) tile.push_back({a.id, a.size, a.free});
  }
  apply({OptKind::PadTo, id, lanes});
  if (!apply({OptKind::Vector, id, lanes})) return false;
  i64 accumulators = 1, most = tile.size() == 1 ? 8 : 4;
  for (const Rows& r : tile) {
    i64 n = even_rows(r.size, most);
    if (n < 2) continue;
    if (upcast_rows(r.id, r.size, n, r.free)) accumulators *= n;
  }
  if (const Axis* a = find(id))
    for (i64 u : {4, 2})
      if (accumulators * u <= 8 && a->divides(u) && apply({OptKind::Unroll, id, u})) break;
  return true;
}

}  // namespace tg::heuristic
