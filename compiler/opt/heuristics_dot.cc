// As for other contractions, lanes run along an output axis that one operand sees and a tile of rows along one that it does not see;
// besides, a reduce axis gives the groups: best where the rows' operand has neighbours along it, so that a group is one load and one
// broadcast.
#include "opt/heuristics_dot.h"

#include <algorithm>
#include <limits>

#include "ir/loops.h"
#include "opt/few.h"
#include "opt/planner.h"
#include "opt/prepare.h"
#include "opt/tc.h"

namespace tg {
namespace {

constexpr i64 kTail = 4;
constexpr double kNever = std::numeric_limits<double>::infinity();

struct Read {
  UOp offset;
  bool constant;
};
// What one factor reads.
struct Operand {
  std::vector<Read> reads;
  bool bare = false;  // a LOAD, nothing else
};

Operand operand(const Kernel& k, UOp e) {
  Operand o;
  o.bare = e.is(Op::Load);
  for (UOp u : toposort(e)) {
    if (!u.is(Op::Load)) continue;
    o.reads.push_back({physical_offset(k, u.src(0)), reads_constant(k, u.src(0))});
  }
  return o;
}

// Does the operand move along the axis, and by which step; no step: not by a constant one.
struct Moves {
  bool at_all = false;
  std::optional<i64> step = 0;
};
Moves moves(const Operand& o, UOp range) {
  Moves m;
  for (const Read& r : o.reads) {
    auto l = linear_in(r.offset, range);
    if (l && l->factor == 0) continue;
    m.at_all = true;
    m.step = !l || (m.step && *m.step != 0 && *m.step != l->factor) ? std::nullopt : std::optional(l->factor);
  }
  return m;
}
bool constant(const Operand& o) {
  return !o.reads.empty() && std::all_of(o.reads.begin(), o.reads.end(), [](const Read& r) { return r.constant; });
}

struct Plan {
  double cost = kNever;
  const Axis *lane = nullptr, *rows = nullptr;
  UOp group_loop;
  i64 lanes = 0, vectors = 1, mr = 1;
};

class Planner {
 public:
  Planner(const Kernel& k, UOp red, const DotRow& row, i64 index) : k_(k), red_(red), row_(row), index_(index) {}

  std::optional<Kernel> run() {
    Factors f = *dot_factors(red_);
    x_[0] = operand(k_, f.a), x_[1] = operand(k_, f.b);
    all_ = axes(k_.ast);
    std::erase_if(all_, [&](const Axis& a) { return std::find(k_.ordered.begin(), k_.ordered.end(), a.id) != k_.ordered.end(); });
    std::vector<UOp> inside = toposort(red_);
    for (const Axis& a : all_) {
      if (!a.output || a.reduce || a.size < 2) continue;
      if (a.ranges.size() != 1 || std::find(inside.begin(), inside.end(), a.ranges[0]) == inside.end()) return {};
      outs_.push_back(&a);
    }
    sums_ = 0;
    for (UOp u : toposort(k_.ast)) sums_ += dot_factors(u) && closed_ranges(u) == closed_ranges(red_);
    for (UOp u : toposort(k_.ast))
      if (u.is(Op::Store) || (u.is(Op::Load) && std::find(inside.begin(), inside.end(), u) == inside.end()))
        outside_.push_back(physical_offset(k_, u.src(0)));
    work_ = 1;
    for (UOp r : closed_ranges(red_)) {
      if (!r.src(0).is_const()) return {};
      work_ *= r.src(0).as_int();
    }
    if (std::optional<Kernel> k = per_channel()) return k;
    Plan best;
    for (UOp r : closed_ranges(red_))
      for (const Axis* lane : outs_)
        for (int side = 0; side < 2; side++) consider(r, *lane, side, &best);
    if (!best.lane) return {};
    return apply(best);
  }

 private:
  // A depthwise convolution: both operands have the channel, in lanes; windows are whole in registers, and the columns of a group's rows are put in
  // order once for all windows that hold them.
  std::optional<Kernel> per_channel() {
    constexpr i64 kMostTerms = 64;
    constexpr double kFull = 0.6;  // of a group, at least
    if (row_.by_parts || work_ > kMostTerms) return {};
    int w = constant(x_[1]) && x_[1].bare ? 1 : 0;
    const Operand &weights = x_[w], &values = x_[1 - w];
    if (!constant(weights) || !weights.bare) return {};
    for (const Axis* lane : outs_) {
      Moves of_weights = moves(weights, lane->ranges[0]), of_values = moves(values, lane->ranges[0]);
      if (!of_weights.at_all || of_values.step != 1 || lane->free) continue;
      UOp group, columns;
      const Axis* rows = nullptr;
      for (UOp r : closed_ranges(red_)) {
        i64 size = r.src(0).as_int(), groups = (size + row_.group - 1) / row_.group;
        if (double(size) < kFull * double(groups * row_.group)) continue;
        if (!group || moves(values, r).step.value_or(0) > moves(values, group).step.value_or(0)) group = r;
      }
      for (UOp r : closed_ranges(red_))
        if (r != group) columns = r;
      if (!group || closed_ranges(red_).size() > 2) continue;
      for (const Axis* a : outs_) {
        Moves m = moves(values, a->ranges[0]);
        if (a == lane || moves(weights, a->ranges[0]).at_all || !m.step || *m.step == 0) continue;
        i64 step = columns ? moves(values, columns).step.value_or(0) : 0;
        if (step == 0 || *m.step % step) continue;
        if (!rows || *m.step < *moves(values, rows->ranges[0]).step) rows = a;
      }
      return per_channel(*lane, group, columns, rows);
    }
    return {};
  }
  std::optional<Kernel> per_channel(const Axis& lane, UOp group, UOp columns, const Axis* rows) {
    i64 lanes = row_.lanes, r = group.arg<RangeArg>().id, size = group.src(0).as_int(), groups = (size + row_.group - 1) / row_.group;
    while (lanes > 4 && lane.size % lanes && (lane.size + lanes - 1) / lanes * lanes > lane.size * 5 / 4) lanes /= 2;
    std::vector<Opt> opts;
    if (!lane.divides(lanes)) opts.push_back({OptKind::PadTo, lane.id, lanes});
    if (size % row_.group) opts.push_back({OptKind::PadTo, r, row_.group});
    opts.push_back({OptKind::Tc, r, index_});
    opts.push_back({OptKind::Vector, lane.id, lanes});
    if (groups > 1) opts.push_back({OptKind::Unroll, r, groups});
    if (columns && columns.src(0).as_int() > 1) opts.push_back({OptKind::Unroll, columns.arg<RangeArg>().id, columns.src(0).as_int()});
    opts.push_back({OptKind::Tile, lane.id, 1});
    Kernel k = k_;
    for (const Opt& o : opts) {
      Result<Kernel> n = k.with(o);
      if (!n) return {};
      k = std::move(*n);
    }
    auto try_opt = [&](Opt o) {
      if (Result<Kernel> n = k.with(o)) k = std::move(*n);
    };
    if (rows && !rows->free) {
      constexpr i64 kMostRows = 8;
      i64 mr = 1;
      for (i64 m = 2; m <= kMostRows; m++)
        if (rows->size % m == 0) mr = m;
      if (mr < 4 && rows->size > 4) {
        mr = std::min<i64>(rows->size, 7);
        if (rows->size % mr) try_opt({OptKind::Peel, rows->id, mr});
        if (i64 rest = rows->size % mr; rest > 1) try_opt({OptKind::Upcast, rows->id + 100, rest});
      }
      if (mr > 1) try_opt({OptKind::Upcast, rows->id, mr});
    }
    for (i64 s = 0; s < i64(k.slots.size()); s++)
      if (k.slots[size_t(s)].constant) try_opt({OptKind::Pack, s, 0});
    return k;
  }

  // A short loop without its last values is unrolled, so that the gates of all groups but one go.
  bool unrolled(i64 size) const { return size % row_.group && size < 4 * row_.group; }

  // side: the operand in lanes; the other one is broadcast.
  void consider(UOp r, const Axis& lane, int side, Plan* best) {
    const Operand &v = x_[side], &s = x_[1 - side];
    Moves vl = moves(v, lane.ranges[0]), sl = moves(s, lane.ranges[0]), vg = moves(v, r), sg = moves(s, r);
    if (!vl.at_all || sl.at_all || !vg.at_all || !sg.at_all) return;
    i64 size = r.src(0).as_int(), groups = (size + row_.group - 1) / row_.group;
    // Cycles to load or make one group of each operand; vectors of a panel that L1 does not hold come from L2.
    double vector = double(work_ * 64) > double(k_.target->l1_bytes) / 4 ? 3 : 1, scalar = 0.5;
    if (!(constant(v) && v.bare)) {
      if (!vl.step || *vl.step != 1) return;  // lanes apart: gathers
      vector = std::max(vector, double(row_.group)) + double(row_.group);
      shuffled_ = true;
    } else {
      shuffled_ = false;
    }
    bool whole = size % row_.group == 0;
    bool near = s.bare && sg.step && (*sg.step == 1 || constant(s));
    if (near && !whole && unrolled(size))
      scalar = 1;  // the last group is moved down
    else if (!near || !whole)
      scalar = (whole ? 2.0 : 4.0) * double(row_.group);
    // What is stored, and read beside the sum, in lanes that are no neighbours.
    double apart = 0;
    for (UOp o : outside_)
      if (auto l = linear_in(o, lane.ranges[0]); !l || (l->factor != 0 && l->factor != 1)) apart += 1.5;
    for (const Axis* a : outs_) apart *= double(a->size);
    double steps = double(work_ / size * groups);
    for (const Axis* rows : outs_) {
      if (rows == &lane) continue;
      if (moves(v, rows->ranges[0]).at_all) continue;
      tile(steps, vector, scalar, apart, r, lane, rows, best);
    }
    tile(steps, vector, scalar, apart, r, lane, nullptr, best);
  }

  void tile(double steps, double vector, double scalar, double apart, UOp r, const Axis& lane, const Axis* rows, Plan* best) {
    i64 n = lane.size, m = rows ? rows->size : 1, regs = k_.target->vector_registers - 1;
    double others = 1;  // output elements beside rows and lanes
    for (const Axis* a : outs_)
      if (a != &lane && a != rows) others *= double(a->size);
    for (i64 lanes = row_.lanes; lanes >= 4; lanes /= 2) {
      if (lanes > 4 && lanes / 2 >= n) continue;
      double width = std::max(double(lanes * 4) / 64.0, 0.5);
      for (i64 nv = 1; nv <= 8; nv++) {
        if (nv > 1 && (nv - 1) * lanes >= n) break;
        for (i64 mr = 1; mr <= std::min<i64>(m, 14); mr++) {
          if (mr * nv * sums_ + (row_.by_parts ? 2 * nv + 2 : nv + 1) > regs) break;
          if (rows && mr == 1 && m > 1) continue;
          if (rows && rows->free && mr > kTail && mr % 2) continue;  // the tail's tiles have 4 and 2
          auto cycles = [&](i64 rs) {
            double all = double(rs * sums_);  // rows of either sum
            double dot = all * double(nv) * width * (row_.by_parts ? double(row_.group) : 1), loads = double(nv) * vector * width + all * scalar;
            // Loads alone go beside; what is put in order takes the pipes of the products.
            double step = std::max({dot + (shuffled_ ? double(nv * row_.group) * width : 0) + (scalar > 1 ? all * scalar / 2 : 0),
                                    loads, 4.0}) +
                          0.3;
            return steps * step + all * double(nv) * 3 + 12;
          };
          double tiles = double((n + lanes * nv - 1) / (lanes * nv));
          double c = apart + others * tiles * (double(m / mr) * cycles(mr) + (m % mr ? cycles(m % mr) : 0));
          if (m % mr) c *= 1.02;
          if (mr > 8) c *= 1.01;  // rows of a multiple of 4 KB would fall into one set of L1
          if (c < best->cost * 0.995) *best = {c, &lane, rows, r, lanes, nv, mr};
        }
      }
    }
  }

  std::optional<Kernel> apply(const Plan& p) {
    Kernel k = k_;
    auto try_opt = [&](Opt o) {
      Result<Kernel> n = k.with(o);
      if (n) k = std::move(*n);
      return bool(n);
    };
    i64 lane = p.lane->id, r = p.group_loop.arg<RangeArg>().id, size = p.group_loop.src(0).as_int();
    if (!p.lane->divides(p.lanes * p.vectors) && !try_opt({OptKind::PadTo, lane, p.lanes * p.vectors})) return {};
    if (size % row_.group && !try_opt({OptKind::PadTo, r, row_.group})) return {};
    if (!try_opt({OptKind::Tc, r, index_})) return {};
    if (!try_opt({OptKind::Vector, lane, p.lanes})) return {};
    if (unrolled(size) && size > row_.group) try_opt({OptKind::Unroll, r, (size + row_.group - 1) / row_.group});
    if (p.vectors > 1) try_opt({OptKind::Upcast, lane, p.vectors});
    try_opt({OptKind::Tile, lane, 1});
    if (p.rows && p.mr > 1) {
      i64 rows = p.rows->id, rest = p.rows->free ? 0 : p.rows->size % p.mr;
      bool tasks = std::any_of(outs_.begin(), outs_.end(), [&](const Axis* a) {
        return a->id != rows && (a->id == lane ? a->size / (p.lanes * p.vectors) : a->size) >= kTail;
      });
      if (p.rows->free && tasks && k_.ordered.empty() && !p.rows->divides(p.mr)) {
        // Another loop is there for the tasks: what a full tile leaves goes in lower ones.
        i64 at = rows;
        for (i64 tile : {p.mr, kTail}) {
          i64 left = remainder_of(k.ast, at);
          if (tile > p.mr || (tile == kTail && p.mr <= kTail && at != rows) || !try_opt({OptKind::Peel, at, tile})) continue;
          try_opt({OptKind::Upcast, at, tile});
          at = left;
        }
        try_opt({OptKind::Upcast, at, at == rows ? p.mr : 2});
        rows = -1;
      }
      if (rest) try_opt({OptKind::Peel, rows, p.mr});
      if (rows >= 0) try_opt({OptKind::Upcast, rows, p.mr});
      if (rest > 1) try_opt({OptKind::Upcast, rows + 100, rest});
    }
    i64 served = 1;  // by each weight
    for (const Axis* a : outs_)
      if (std::none_of(std::begin(x_), std::end(x_), [&](const Operand& o) { return constant(o) && moves(o, a->ranges[0]).at_all; })) served *= a->size;
    for (i64 s = 0; s < i64(k.slots.size()); s++)
      if (k.slots[size_t(s)].constant) {
        try_opt({OptKind::Pack, s, 0});
        if (heuristic::worth_asking(p.mr, served, k.slots[size_t(s)].layout.elems(), *k.target)) try_opt({OptKind::Prefetch, s});
      }
    return k;
  }

  const Kernel& k_;
  UOp red_;
  const DotRow& row_;
  i64 index_, work_ = 1;
  i64 sums_ = 1;  // that run over these loops: each has a tile, and a factor in lanes that they share is loaded once
  bool shuffled_ = false;  // the vector operand of the plan in hand
  Operand x_[2];
  std::vector<UOp> outside_;  // offsets of accesses beside the sum
  std::vector<Axis> all_;
  std::vector<const Axis*> outs_;
};

}  // namespace

std::optional<Kernel> plan_dot(const Kernel& k) {
  std::vector<DotRow> rows = dot_rows(*k.target);
  if (rows.empty()) return {};
  for (UOp u : toposort(k.ast)) {
    std::optional<Factors> f = dot_factors(u);
    if (!f || closed_ranges(u).empty()) continue;
    for (size_t i = 0; i < rows.size(); i++)
      if (find_dot(std::span(&rows[i], 1), f->a.dtype().kind, f->b.dtype().kind, u.dtype().kind, rows[i].group))
        if (std::optional<Kernel> p = Planner(k, u, rows[i], i64(i)).run()) return p;
  }
  return {};
}

}  // namespace tg
