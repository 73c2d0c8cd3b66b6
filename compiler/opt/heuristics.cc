// The hand-written choice of Opts, good on every target. Contractions get a register tile of lanes along the axis that one operand (usually the
// weights) and the output share, and rows along an axis that this operand does not see; everything else gets lanes along the axis that most
// accesses walk one by one.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "ir/bounds.h"
#include "ir/loops.h"
#include "opt/few.h"
#include "opt/heuristics_attention.h"
#include "opt/heuristics_dot.h"
#include "opt/keep.h"
#include "opt/prepare.h"
#include "opt/stage.h"
#include "rules/symbolic.h"

namespace tg {
namespace {

struct Access {
  UOp node;             // LOAD or STORE
  UOp offset;
  bool constant, store, in_reduce;
};

struct View {
  std::vector<Axis> axes;
  std::vector<Access> accesses;
  int widest = 1;       // bytes of the widest value in lanes
};

View view_of(const Kernel& k) {
  View v;
  v.axes = axes(k.ast);
  std::vector<UOp> topo = toposort(k.ast);
  Memo<u8> in_reduce;
  in_reduce[k.ast];
  for (UOp u : topo)
    if (u.in(Op::Reduce | Op::Fold))
      for (UOp x : toposort(u)) in_reduce[x] = 1;
  for (UOp u : topo) {
    if (u.in(Op::Load | Op::Store)) {
      UOp base = u.src(0).src(0);
      while (base.is(Op::After)) base = base.src(0);
      bool constant = base.is(Op::Param) && k.slots[size_t(base.arg_int())].constant;
      v.accesses.push_back({u, physical_offset(k, u.src(0)), constant, u.is(Op::Store), in_reduce[u] != 0});
    }
    DType d = u.dtype();
    if (d.kind != Kind::Index && d.kind != Kind::Void && d.kind != Kind::Bool && !u.in(Op::Const | Op::Param | Op::Index))
      v.widest = std::max(v.widest, bits(d) / 8);
    if (u.in(kTranscendental)) v.widest = std::max(v.widest, 4);
  }
  if (v.widest == 1)
    for (UOp u : topo)
      if (u.is(Op::Cast)) v.widest = std::max(v.widest, bits(u.src(0).dtype()) / 8);
  return v;
}

// Step of an access along an axis; nothing if it is not of constant step.
std::optional<i64> step(const Access& a, const Axis& x) {
  i64 f = 0;
  for (UOp r : x.ranges) {
    auto l = linear_in(a.offset, r);
    if (!l) return {};
    if (l->factor) f = l->factor;
  }
  return f;
}

// The loops that are in the list of every STORE, and those that run in their order.
std::vector<UOp> common_loops(const Kernel& k) {
  std::vector<UOp> out;
  for (UOp r : loops_of(k.ast.src(0)))
    if (std::all_of(k.ast.src().begin(), k.ast.src().end(), [&](UOp s) {
          std::vector<UOp> l = loops_of(s);
          return std::find(l.begin(), l.end(), r) != l.end();
        }))
      out.push_back(r);
  return out;
}

// Is it nests that wait for one another inside a loop that runs in its order (schedule/rounds_kernel.cc)?
bool has_rounds(const Kernel& k) { return !k.ordered.empty() && k.ast.nsrc() > 1; }

// The nests of such a kernel as kernels of their own: what a nest waits for is taken as there, and loops around several nests have no Opts.
std::vector<Kernel> nests(const Kernel& k) {
  std::vector<std::vector<UOp>> groups, loops;
  for (UOp s : k.ast.src()) {
    std::vector<UOp> l = loops_of(s);
    auto it = std::find(loops.begin(), loops.end(), l);
    if (it == loops.end()) loops.push_back(l), groups.push_back({s});
    else groups[size_t(it - loops.begin())].push_back(s);
  }
  std::vector<i64> ordered = k.ordered;
  for (UOp r : common_loops(k)) ordered.push_back(r.arg<RangeArg>().id);
  std::vector<Kernel> out;
  for (const std::vector<UOp>& g : groups) {
    UOp sink = node(Op::Sink, Kind::Void, std::span<const UOp>(g));
    Memo<UOp> to;
    for (UOp u : toposort(sink)) {
      std::vector<UOp> src;
      for (UOp s : u.src()) src.push_back(to[s]);
      to[u] = u.is(Op::After) ? src[0] : with_src(u, src);
    }
    Kernel n = k;
    n.ast = to[sink], n.ordered = ordered, n.opts.clear();
    out.push_back(std::move(n));
  }
  return out;
}

class Planner {
 public:
  explicit Planner(Kernel k, bool nest = false) : k_(std::move(k)), nest_(nest) {}

  // The Opts of one nest of several.
  std::vector<Opt> run_nest() {
    for (UOp u : toposort(k_.ast))
      if (u.is(Op::Param) && bits(u.dtype()) < 8) return {};
    view();
    if (std::optional<Kernel> d = plan_dot(k_)) k_ = std::move(*d);
    else if (!contraction()) stream(unroll_places());
    return k_.opts;
  }

  Kernel run() {
    for (UOp u : toposort(k_.ast))
      if (u.is(Op::Param) && bits(u.dtype()) < 8) return k_;
    if (has_rounds(k_)) {
      for (Kernel& n : nests(k_))
        for (const Opt& o : Planner(std::move(n), true).run_nest()) apply(o);
      return with_tasks(std::move(k_));
    }
    view();
    if (std::optional<Kernel> a = k_.ordered.empty() ? plan_attention(k_) : std::nullopt) {
      k_ = std::move(*a);
    } else if (std::optional<Kernel> d = k_.ordered.empty() ? plan_dot(k_) : std::nullopt) {
      k_ = std::move(*d);
    } else if (k_.ordered.empty()) {
      if (!contraction() && !row_in_registers()) {
        for (i64 value = 0; value < i64(kept_values(k_.ast).size()); value++)
          if (apply({OptKind::Keep, value, i64(RowPlace::Out)}) || apply({OptKind::Keep, value, i64(RowPlace::Stack)})) break;
        view();
        stream(unroll_places());
      }
    }
    return with_tasks(std::move(k_));
  }

 private:
  // The axes that may have Opts, and all accesses.
  void view() {
    v_ = view_of(k_);
    std::erase_if(v_.axes, [&](const Axis& a) { return std::find(k_.ordered.begin(), k_.ordered.end(), a.id) != k_.ordered.end(); });
  }
  bool apply(const Opt& o) {
    // A nest that others wait for has no second copy.
    if (nest_ && o.kind == OptKind::Peel) return false;
    Result<Kernel> n = k_.with(o);
    if (!n) return false;
    k_ = std::move(*n);
    return true;
  }
  i64 max_lanes(int bytes) const { return std::max<i64>(1, k_.target->vector_bytes / bytes); }
  const Axis* find(i64 id, i64 part = 0) {
    now_ = axes(k_.ast);
    for (const Axis& a : now_)
      if (a.id == id && a.part == part) return &a;
    return nullptr;
  }

  // --- contractions ---------------------------------------------------------------------------------------------------------------------
  UOp main_reduce() {
    UOp best;
    for (UOp u : toposort(k_.ast)) {
      if (!u.is(Op::Reduce) || u.arg<ReduceArg>().kind != ReduceKind::Add) continue;
      UOp b = u.src(0);
      while (b.is(Op::Cast)) b = b.src(0);
      if (b.is(Op::Mul) && !best) best = u;
    }
    return best;
  }

  struct Tile {
    i64 lanes = 1, vectors = 1, rows = 1;
    double cost = std::numeric_limits<double>::infinity();
  };

  // Rows whose lines fall into one set of the first cache, of 8 ways, push each other out before their next value is read.
  i64 most_rows(i64 row_bytes) const { return row_bytes && row_bytes % (k_.target->l1_bytes / 8) == 0 ? 6 : 16; }

  // Arithmetic in the sum's loop before the product: on what lies along the lanes, and on what all lanes share, which is done for each row.
  struct Before {
    i64 vector = 0, row = 0;
    i64 parameters = 0;  // vectors that it takes beside the first: scales, zero points
  };
  Before before_product(UOp red, const Axis& lane) const {
    Before n{.parameters = -1};
    Memo<u8> reads, in_lanes;
    for (UOp u : toposort(red.src(0))) {
      if (u.is(Op::Load)) {
        auto at = std::find_if(v_.accesses.begin(), v_.accesses.end(), [&](const Access& x) { return x.node == u; });
        auto s = at == v_.accesses.end() ? std::nullopt : step(*at, lane);
        reads[u] = 1, in_lanes[u] = !s || *s != 0;
        n.parameters += in_lanes[u];
        continue;
      }
      for (UOp x : u.src()) reads[u] |= reads[x], in_lanes[u] |= in_lanes[x];
      if (u == red.src(0) || !is_elementwise(u.op()) || !reads[u] || u.dtype().kind == Kind::Index) continue;
      // A half takes a conversion and a shuffle.
      (in_lanes[u] ? n.vector : n.row) += u.is(Op::Cast) && u.src(0).dtype().kind == Kind::F16 && in_lanes[u] ? 3 : 1;
    }
    n.parameters = std::max<i64>(n.parameters, 0);
    return n;
  }

  // Cycles of the whole kernel for a tile, up to a factor: rows x vectors accumulators, one broadcast a row, one load a vector.
  // Free rows: m is the most; what counts is the mean over some numbers of rows. `peels`: what is left of them goes in smaller tiles (peel_rows).
  // `free_rows`: what divides their number for sure; 0: it is fixed.
  Tile best_tile(i64 n, i64 m, i64 free_rows, bool peels, i64 k, int bytes, bool rows_load_vectors, i64 row_bytes, bool cold, Before before) {
    Tile best;
    i64 regs = k_.target->vector_registers - 1;
    for (i64 lanes = max_lanes(bytes); lanes >= 2; lanes /= 2) {
      if (lanes > 2 && lanes / 2 >= n) continue;
      double width = std::max(double(lanes * bytes) / double(std::min<i64>(k_.target->fma_per_cycle_bytes, 64)), 0.5);
      for (i64 nv = 1; nv <= (rows_load_vectors ? 1 : 8); nv++) {
        if (nv > 1 && (nv - 1) * lanes >= n) break;
        i64 tiles_n = (n + lanes * nv - 1) / (lanes * nv);
        for (i64 mr = 1; mr <= std::min(m, most_rows(row_bytes)); mr++) {
          i64 need = rows_load_vectors ? mr * nv + nv + 2 : mr * nv + nv + 1;
          need += before.parameters * nv;
          if (need > regs) break;
          if (peels && mr > 4 && mr % 2) continue;  // the tail's tiles have 4 and 2
          auto tile_cost = [&](i64 rows) {
            double fma = double(rows * nv) * width;
            double loads = double(nv) * width + double(rows) * (rows_load_vectors ? width : 0.5);
            double per_k = std::max({fma, loads, 4.0}) + 0.3 + 0.4 * double(nv * before.vector) * width + 1.2 * double(rows * before.row);
            return double(k) * per_k + double(rows * nv) * 3 + 12;
          };
          double c = double(tiles_n) * (double(m / mr) * tile_cost(mr) + (m % mr ? tile_cost(m % mr) : 0));
          if (m % mr) c *= 1.02;
          if (free_rows) {
            c = 0;
            for (i64 some : {m, (m + 1) / 2, (m * 3 + 9) / 10}) {
              some = (some + free_rows - 1) / free_rows * free_rows;
              double tiles = double(some / mr) * tile_cost(mr);
              i64 left = some % mr;
              if (left && !peels) tiles += tile_cost(mr);
              if (peels)
                for (i64 n : tail_tiles(mr)) tiles += double(left / n) * tile_cost(n), left %= n;
              if (peels && left) tiles += double((left + 1) / 2) * tile_cost(2);
              c += double(m) / double(some) * tiles;
            }
            c *= double(tiles_n) / 3;
          }
          // Weights that come from memory and serve a few rows: wide tiles ask for more of them at a time.
          if (cold) c *= (nv == 1 ? 1.3 : nv < 4 ? 1.05 : 1) + 0.02 * double(m) / double(mr);
          if (c < best.cost * 0.995) best = {lanes, nv, mr, c};
        }
      }
    }
    return best;
  }

  // Is x, an operand whose rows lie along the lanes, read one by one along the sum's last loop? Then as many steps of that loop as there are lanes are
  // loaded as rows and turned (codegen/transpose.cc), which rows of the tile share.
  bool turns(const Access& x, const Axis& lane, UOp last) const {
    i64 lanes = max_lanes(std::max(4, v_.widest));
    if (x.constant || lanes < 8 || !lane.divides(lanes) || !last.src(0).is_const() || last.src(0).as_int() % lanes) return false;
    auto across = step(x, lane);
    auto along = linear_in(x.offset, last);
    return across && std::abs(*across) >= lanes && along && along->factor == 1;
  }
  // The registers hold a block of turned vectors beside the sums.
  Tile turned_tile(i64 m) const {
    i64 lanes = max_lanes(std::max(4, v_.widest));
    return {lanes, 1, even_rows(m, std::max<i64>(1, k_.target->vector_registers - lanes - 6))};
  }

  bool contraction() {
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
    if (down_id >= 0) t.rows /= 2;
    i64 lane_id = lane->id, rows_id = rows ? rows->id : -1;
    UOp last = loops.back();
    i64 last_id = last.arg<RangeArg>().id, last_size = most(last.src(0));
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
    for (i64 s : constants) apply({OptKind::Pack, s, 0});
    return true;
  }

  // A sum over a window alone that slides along the lanes, as a depthwise convolution's over rows of one channel: all of the window is unrolled, so
  // that neighbouring rows share what they load.
  bool window_in_lanes(const Axis& lane, const std::vector<const Axis*>& outs, const std::vector<const Access*>& body, const std::vector<UOp>& loops) {
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

  // No output axis can be lanes: a dot product, lanes along the reduce.
  bool reduce_in_lanes(UOp red) {
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
  // A version of a product for few rows: all axes have ids `up` higher.
  struct Version {
    i64 up;
    Tile tile;
  };
  void version_tile(i64 lane, i64 rows, const Tile& t) {
    apply({OptKind::PadTo, lane, t.lanes * t.vectors});
    apply({OptKind::Vector, lane, t.lanes});
    if (t.vectors > 1) apply({OptKind::Upcast, lane, t.vectors});
    apply({OptKind::Tile, lane, 1});
    if (t.rows > 1) apply({OptKind::Upcast, rows, t.rows});
  }
  static constexpr i64 kManyWeights = 32 << 10;  // bytes, from which on it pays
  // FEW for the heights below that of the usual tile, the largest first: each is a version of the one before. Their vectors are those of the usual
  // tile, one or several times, so that all read the weights as it packs them.
  std::vector<Version> few_rows(const Axis& rows, const Axis& lane, const Tile& usual) {
    std::vector<Version> out;
    i64 id = rows.id, axis = id, most = rows.size, regs = k_.target->vector_registers;
    i64 panels = (lane.size + usual.lanes * usual.vectors - 1) / (usual.lanes * usual.vectors);
    if (loops_of(k_.ast.src(0))[0] != rows.ranges[0]) apply({OptKind::Tile, id, 1});
    for (i64 height : usual.rows > 8 ? std::vector<i64>{8, 6, 5, 4, 2, 1} : usual.rows > 4 ? std::vector<i64>{4, 2, 1} : usual.rows > 2 ? std::vector<i64>{2, 1} : std::vector<i64>{}) {
      if (most <= height) continue;
      Tile t{usual.lanes, usual.vectors, height};
      for (i64 n = 2; n <= panels / 2 && usual.vectors * n <= 8; n++)
        if (panels % n == 0 && height * usual.vectors * n + usual.vectors * n + 1 <= regs) t.vectors = usual.vectors * n;
      i64 copy = next_hundred(k_.ast) + id % 100;
      if (!apply({OptKind::Few, axis, height})) break;
      out.push_back({copy - id, t});
      axis = copy;
    }
    return out;
  }
  // The tiles behind those of n rows of a free axis.
  static std::vector<i64> tail_tiles(i64 n) { return n > 4 ? std::vector<i64>{4} : std::vector<i64>{}; }
  // n rows of a free axis as a tile, what is left in smaller ones, the last two of which may do one row twice.
  bool peel_rows(i64 id, i64 n) {
    const Axis* a = find(id);
    if (!a || n < 2 || a->divides(n)) return false;
    std::vector<i64> tiles = tail_tiles(n);
    tiles.insert(tiles.begin(), n);
    bool done = false;
    for (i64 t : tiles) {
      i64 rest = remainder_of(k_.ast, id);
      if (!apply({OptKind::Peel, id, t})) break;
      done = true;
      apply({OptKind::Upcast, id, t});
      id = rest;
    }
    if (done) apply({OptKind::Upcast, id, 2});
    return done;
  }
  // n rows of an axis as a tile, and what is left of it as another; the last tile of a free axis repeats rows. Is there the first?
  bool upcast_rows(i64 id, i64 size, i64 n, bool free) {
    i64 rest = free ? 0 : size % n;
    if (rest) apply({OptKind::Peel, id, n});
    bool done = apply({OptKind::Upcast, id, n});
    if (rest > 1) apply({OptKind::Upcast, id + 100, rest});
    return done;
  }
  // Rows of a tile, at most `most`, so that the last tile is as full as can be.
  static i64 even_rows(i64 size, i64 most) {
    i64 tiles = (size + most - 1) / most;
    return (size + tiles - 1) / tiles;
  }

  // --- everything else --------------------------------------------------------------------------------------------------------------------
  // Short output axes whose places are told apart by name, as in where(r == 0, a, where(r == 1, b, ..)): one node a place, so that each is one of
  // a, b.. and they share what they have in common. How many nodes that makes.
  i64 unroll_places() {
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

  void stream(i64 nodes) {
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

  // A short row whose phases meet in its elements, as softmax's do, lies in registers as a whole: each element is read and computed once, and
  // nothing goes through memory between the phases. As many rows side by side as there are registers for.
  bool row_in_registers() {
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

  // Rows side by side, each of whose sums ends in steps that wait for one another. Returns how many.
  i64 several_rows(i64 lane, i64 most) {
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
  // The output axis along which an access that is strided along `lane` goes one by one.
  const Axis* crossing(const Access& x, const Axis& lane) const {
    for (const Axis& b : v_.axes)
      if (b.id != lane.id && b.output && !b.reduce && b.ranges.size() == 1 && b.size >= 4)
        if (auto s = step(x, b); s && *s == 1) return &b;
    return nullptr;
  }
  // As many rows as there are lanes, or the most that divide the axis.
  void turn_with(i64 id, i64 lanes) {
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

  Kernel k_;
  bool nest_;
  View v_;
  std::vector<Axis> now_;
};

}  // namespace

Kernel heuristics(Kernel k) { return Planner(std::move(k)).run(); }

}  // namespace tg
