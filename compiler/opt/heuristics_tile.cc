// Register tiles of sums of products: the cheapest by a model of the machine, and the versions and tails of free rows.
#include <cmath>

#include "opt/few.h"
#include "opt/planner.h"

namespace tg::heuristic {

Before Planner::before_product(UOp red, const Axis& lane) const {
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

Tile Planner::best_tile(i64 n, i64 m, i64 free_rows, bool peels, i64 k, int bytes, bool rows_load_vectors, i64 row_bytes, bool cold, Before before) {
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
        if (nest_ && !free_rows && m % mr) continue;  // no second copy for what is left
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

void Planner::version_tile(i64 lane, i64 rows, const Tile& t) {
  apply({OptKind::PadTo, lane, t.lanes * t.vectors});
  apply({OptKind::Vector, lane, t.lanes});
  if (t.vectors > 1) apply({OptKind::Upcast, lane, t.vectors});
  apply({OptKind::Tile, lane, 1});
  if (t.rows > 1) apply({OptKind::Upcast, rows, t.rows});
}

std::vector<Version> Planner::few_rows(const Axis& rows, const Axis& lane, const Tile& usual) {
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

bool Planner::peel_rows(i64 id, i64 n) {
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

bool Planner::upcast_rows(i64 id, i64 size, i64 n, bool free) {
  i64 rest = free ? 0 : size % n;
  if (rest) apply({OptKind::Peel, id, n});
  bool done = apply({OptKind::Upcast, id, n});
  if (rest > 1) apply({OptKind::Upcast, id + 100, rest});
  return done;
}

}  // namespace tg::heuristic
