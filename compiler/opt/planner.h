// What the hand-written choice of Opts knows of a kernel, and the steps that it takes. heuristics.cc is the order of the steps.
#pragma once
#include <algorithm>
#include <cstdlib>
#include <limits>
#include <optional>
#include <vector>

#include "ir/bounds.h"
#include "ir/loops.h"
#include "opt/kernel.h"
#include "opt/prepare.h"
#include "rules/symbolic.h"

namespace tg::heuristic {

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

View view_of(const Kernel& k);
// Step of an access along an axis; nothing if it is not of constant step.
std::optional<i64> step(const Access& a, const Axis& x);

struct Tile {
  i64 lanes = 1, vectors = 1, rows = 1;
  double cost = std::numeric_limits<double>::infinity();
};

// Arithmetic in the sum's loop before the product: on what lies along the lanes, and on what all lanes share, which is done for each row.
struct Before {
  i64 vector = 0, row = 0;
  i64 parameters = 0;  // vectors that it takes beside the first: scales, zero points
};

// A version of a product for few rows: all axes have ids `up` higher.
struct Version {
  i64 up;
  Tile tile;
};

// Does PREFETCH win more than its hints cost? A weight comes from memory once for all `served` rows: a cycle or two, against one a row; hints are
// issued in each round of a tile. Fewer than 8 rows ask for weights faster than memory gives them, hints or not. Where a vector serves a few rows
// only, hints take the place of loads: not unless no cache holds the weights.
inline bool worth_asking(i64 tile_rows, i64 served, i64 weight_bytes, const Target& t) {
  return tile_rows >= 4 ? served >= 8 && served <= 256 : weight_bytes > t.l3_bytes;
}

class Planner {
 public:
  explicit Planner(Kernel k, bool nest = false) : k_(std::move(k)), nest_(nest) {}
  // The Opts of one nest of several.
  std::vector<Opt> run_nest();
  Kernel run();

 private:
  // The axes that may have Opts, and all accesses.
  void view();
  void store_past_caches();
  bool apply(const Opt& o);
  const Axis* find(i64 id, i64 part = 0);
  i64 max_lanes(int bytes) const { return std::max<i64>(1, k_.target->vector_bytes / bytes); }
  // Rows whose lines fall into one set of the first cache, of 8 ways, push each other out before their next value is read.
  i64 most_rows(i64 row_bytes) const { return row_bytes && row_bytes % (k_.target->l1_bytes / 8) == 0 ? 6 : 16; }
  // The tiles behind those of n rows of a free axis.
  static std::vector<i64> tail_tiles(i64 n) { return n > 4 ? std::vector<i64>{4} : std::vector<i64>{}; }
  // Rows of a tile, at most `most`, so that the last tile is as full as can be.
  static i64 even_rows(i64 size, i64 most) {
    i64 tiles = (size + most - 1) / most;
    return (size + tiles - 1) / tiles;
  }

  // heuristics_products.cc: sums of products
  UOp main_reduce();
  // Is x, an operand whose rows lie along the lanes, read one by one along the sum's last loop? Then as many steps of that loop as there are lanes are
  // loaded as rows and turned (codegen/transpose.cc), which rows of the tile share.
  bool turns(const Access& x, const Axis& lane, UOp last) const;
  // The registers hold a block of turned vectors beside the sums.
  Tile turned_tile(i64 m) const;
  bool contraction();
  // Masks of lanes at the border of a picture are worked out in each turn of the window's loop: a loop of the sum that no mask follows, to be the
  // innermost one instead.
  std::optional<i64> without_gates(const std::vector<UOp>& loops, const std::vector<const Access*>& body, const Axis& lane) const;
  // A sum over a window alone that slides along the lanes, as a depthwise convolution's over rows of one channel: all of the window is unrolled, so
  // that neighbouring rows share what they load.
  bool window_in_lanes(const Axis& lane, const std::vector<const Axis*>& outs, const std::vector<const Access*>& body, const std::vector<UOp>& loops);
  // No output axis can be lanes: a dot product, lanes along the reduce.
  bool reduce_in_lanes(UOp red);

  // heuristics_tile.cc: their tiles
  static constexpr i64 kManyWeights = 32 << 10;  // bytes from which on versions for few rows pay
  Before before_product(UOp red, const Axis& lane) const;
  // Cycles of the whole kernel for a tile, up to a factor: rows x vectors accumulators, one broadcast a row, one load a vector.
  // Free rows: m is the most; what counts is the mean over some numbers of rows. `peels`: what is left of them goes in smaller tiles (peel_rows).
  // `free_rows`: what divides their number for sure; 0: it is fixed.
  Tile best_tile(i64 n, i64 m, i64 free_rows, bool peels, i64 k, int bytes, bool rows_load_vectors, i64 row_bytes, bool cold, Before before);
  void version_tile(i64 lane, i64 rows, const Tile& t);
  // FEW for the heights below that of the usual tile, the largest first: each is a version of the one before. Their vectors are those of the usual
  // tile, one or several times, so that all read the weights as it packs them.
  std::vector<Version> few_rows(const Axis& rows, const Axis& lane, const Tile& usual);
  // n rows of a free axis as a tile, what is left in smaller ones, the last two of which may do one row twice.
  bool peel_rows(i64 id, i64 n);
  // n rows of an axis as a tile, and what is left of it as another; the last tile of a free axis repeats rows. Is there the first?
  bool upcast_rows(i64 id, i64 size, i64 n, bool free);

  // heuristics_stream.cc: everything else
  // Short output axes whose places are told apart by name, as in where(r == 0, a, where(r == 1, b, ..)): one node a place, so that each is one of
  // a, b.. and they share what they have in common. How many nodes that makes.
  i64 unroll_places();
  void stream(i64 nodes);
  // A short row whose phases meet in its elements, as softmax's do, lies in registers as a whole: each element is read and computed once, and
  // nothing goes through memory between the phases. As many rows side by side as there are registers for.
  bool row_in_registers();
  // Rows side by side, each of whose sums ends in steps that wait for one another. Returns how many.
  i64 several_rows(i64 lane, i64 most);
  // The output axis along which an access that is strided along `lane` goes one by one.
  const Axis* crossing(const Access& x, const Axis& lane) const;
  // As many rows as there are lanes, or the most that divide the axis.
  void turn_with(i64 id, i64 lanes);

  Kernel k_;
  bool nest_;
  View v_;
  std::vector<Axis> now_;
};

}  // namespace tg::heuristic
