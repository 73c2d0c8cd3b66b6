#include "opt/heuristics_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/loops.h"
#include "opt/prepare.h"

namespace tg {
namespace {

struct Loop {
  i64 id = -1, size = 1;
};
Loop loop_of(UOp r) { return {r.arg<RangeArg>().id, r.src(0).is_const() ? r.src(0).as_int() : -1}; }

struct Shape {
  Loop keys;                        // the row, or its innermost digit
  i64 row = 1;                      // its length
  std::vector<Loop> outer, shared;  // output loops around the rows: those along which keys change, and the others
  std::vector<Loop> width;          // output loops that the rows do not see
  i64 depth = 1;                    // products of a score
};

std::optional<Shape> shape_of(UOp ast) {
  if (ast.nsrc() != 1 || !ast.src(0).is(Op::Store)) return {};
  UOp store = ast.src(0), scores;
  for (UOp u : toposort(ast))
    if (u.is(Op::Store) && memory_of(u.src(0)).is(Op::Row))
      for (UOp x : toposort(u))
        if (x.is(Op::Reduce) && x.src(0).is(Op::Mul) && !scores) scores = u;
  if (!scores || loops_of(scores).empty()) return {};
  Shape s;
  UOp j = loops_of(scores).back();  // of several, as where keys lie in panels, the innermost
  s.keys = loop_of(j);
  s.row = 1;
  for (UOp r : loops_of(scores)) s.row *= std::max<i64>(loop_of(r).size, 1);
  std::vector<UOp> row = toposort(scores);
  UOp key;  // the LOAD that moves with the keys inside the product
  for (UOp u : row)
    if (u.is(Op::Reduce) && u.src(0).is(Op::Mul)) {
      s.depth = 1;
      for (UOp r : loops_of(u)) s.depth *= std::max<i64>(loop_of(r).size, 1);
      for (UOp x : toposort(u)) {
        std::vector<UOp> below = toposort(x);
        if (x.is(Op::Load) && std::find(below.begin(), below.end(), j) != below.end()) key = x;
      }
    }
  std::vector<UOp> in_key = key ? toposort(key) : std::vector<UOp>{};
  for (UOp r : loops_of(store)) {
    bool sees = std::find(row.begin(), row.end(), r) != row.end(), moves = std::find(in_key.begin(), in_key.end(), r) != in_key.end();
    (!sees ? s.width : moves ? s.outer : s.shared).push_back(loop_of(r));
  }
  if (s.keys.size < 0 || s.width.empty()) return {};
  return s;
}

constexpr i64 kStackBytes = 1 << 18;  // of rows; a thread's stack is rarely under 512 KB

// With few places, tasks are parts of the queries, which a remainder leaves without a loop of all.
constexpr i64 kFewPlaces = 4;
constexpr f64 kOneTask = 1.8;

// Cycles an element of keys and values that comes in from the second cache for each tile of rows; most of it hides behind products.
constexpr f64 kPanel = 0.03;

struct Tile {
  i64 rows = 1, lanes = 1, vectors = 1;
  f64 cost = std::numeric_limits<f64>::infinity();
};

// Cycles an output vector loop takes for rows x vectors accumulators: `n` columns, `steps` products each.
f64 cycles(const Target& t, i64 rows, i64 n, i64 steps, i64 lanes, i64 vectors) {
  f64 tiles = std::ceil(f64(n) / f64(lanes * vectors)), width = f64(lanes * 4) / f64(std::min<i64>(t.fma_per_cycle_bytes, 64));
  f64 step = std::max({f64(rows * vectors) * width, f64(vectors) * width + f64(rows) * 0.5, 4.0}) + 0.3;
  return tiles * (f64(steps) * step + f64(rows * vectors) * 3 + 12);
}
bool fits(const Target& t, i64 rows, i64 vectors) { return rows * vectors + vectors + 1 <= t.vector_registers - 1; }

class Planner {
 public:
  Planner(const Kernel& k, const Shape& s) : k_(k), s_(s) {}

  Kernel run() {
    const Target& t = *k_.target;
    i64 lanes = std::max<i64>(t.vector_bytes / 4, 2);
    Loop queries, width = s_.width.back();
    for (const Loop& l : s_.shared)
      if (l.size > 1 && (queries.id < 0 || l.size >= queries.size)) queries = l;
    i64 most = queries.id < 0 ? 1 : std::min<i64>(queries.size, 16), keys = lanes_for(s_.keys.size, lanes), wide = lanes_for(width.size, lanes);
    i64 rows = 1, key_vectors = 1, wide_vectors = 1;
    f64 best = std::numeric_limits<f64>::infinity();
    auto tile = [&](i64 r) {
      Tile a = best_tile(r, s_.keys.size, s_.depth, keys), b = best_tile(r, width.size, s_.row, wide);
      a.cost *= f64(s_.row) / f64(s_.keys.size);
      return std::pair(a, b);
    };
    i64 places = 1;
    for (const Loop& l : s_.outer) places *= std::max<i64>(l.size, 1);
    most = std::clamp<i64>(kStackBytes / (4 * s_.row), 1, most);
    for (i64 r = 1; r <= most; r++) {
      auto cost = [&](i64 n) {
        auto [a, b] = tile(n);
        return a.cost + b.cost + kPanel * f64(s_.row) * f64(s_.depth + width.size);
      };
      i64 rest = queries.size % r;
      f64 c = f64(queries.size / r) * cost(r) + (rest ? cost(rest) * 1.02 : 0);
      if (rest && places < kFewPlaces) c *= kOneTask;
      if (c < best * 0.995) {
        auto [a, b] = tile(r);
        best = c, rows = r, key_vectors = a.vectors, wide_vectors = b.vectors;
      }
    }
    // Keys and values of one place at a time; the width innermost, so that rows are made once.
    for (size_t i = s_.shared.size(); i-- > 0;) apply({OptKind::Tile, s_.shared[i].id, 1});
    for (size_t i = s_.outer.size(); i-- > 0;) apply({OptKind::Tile, s_.outer[i].id, 1});
    lanes_along(s_.keys, keys, key_vectors);
    lanes_along(width, wide, wide_vectors);
    if (rows > 1) upcast_rows(queries.id, queries.size, rows);
    return std::move(k_);
  }

 private:
  bool apply(const Opt& o) {
    Result<Kernel> n = k_.with(o);
    if (!n) return false;
    k_ = std::move(*n);
    return true;
  }
  static i64 lanes_for(i64 n, i64 lanes) {
    while (lanes > 2 && lanes / 2 >= n) lanes /= 2;
    return lanes;
  }
  Tile best_tile(i64 rows, i64 n, i64 steps, i64 lanes) const {
    Tile best;
    for (i64 v = 1; v <= 4 && (v == 1 || (v - 1) * lanes < n); v++) {
      if (!fits(*k_.target, rows, v)) break;
      f64 c = cycles(*k_.target, rows, n, steps, lanes, v);
      if (c < best.cost * 0.995) best = {rows, lanes, v, c};
    }
    return best;
  }
  void lanes_along(const Loop& l, i64 lanes, i64 vectors) {
    if (l.size % (lanes * vectors)) apply({OptKind::PadTo, l.id, lanes * vectors});
    apply({OptKind::Vector, l.id, lanes});
    if (vectors > 1) apply({OptKind::Upcast, l.id, vectors});
  }
  void upcast_rows(i64 id, i64 size, i64 n) {
    i64 rest = size % n;
    if (rest) apply({OptKind::Peel, id, n});
    apply({OptKind::Upcast, id, n});
    if (rest > 1) apply({OptKind::Upcast, id + 100, rest});
  }

  Kernel k_;
  Shape s_;
};

}  // namespace

std::optional<Kernel> plan_attention(const Kernel& k) {
  std::optional<Shape> s = shape_of(k.ast);
  if (!s) return {};
  return Planner(k, *s).run();
}

}  // namespace tg
