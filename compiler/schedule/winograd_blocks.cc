// A Winograd convolution in one kernel. The grid of blocks is cut into pieces of whole rows, or parts of a row; for each piece V is made, then for each
// panel of channels out M and from it the results. V and M are rows of the kernel (Asked::block): on the stack, where they stay near.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/settings.h"
#include "schedule/realize.h"
#include "schedule/winograd.h"
#include "schedule/winograd_transforms.h"

namespace tg {
namespace {

constexpr i64 kStackBytes = 240 << 10;  // of V and M; a thread's stack is rarely under 512 KB
constexpr i64 kFewestPieces = 4;        // which are what tasks are made of
constexpr f64 kMostWeights = 4;         // bytes of U over those of the second cache: more do not come in for each piece
constexpr i64 kApart = 48;              // elements between the planes of V and M, realize.h

// Measured on Zen 4, in cycles.
constexpr f64 kTile = 14;        // to begin and end a tile of sums
constexpr f64 kPlane = 20;       // and a plane of V
constexpr f64 kAgainBytes = 40, kAgainFarBytes = 20;  // bytes of U a cycle, which comes in anew for each piece, from the second cache or beyond
constexpr f64 kSeen = 0.08;      // of that wait, where sums hide it

std::vector<i64> divisors(i64 n) {
  std::vector<i64> out;
  for (i64 i = 1; i <= n; i++)
    if (n % i == 0) out.push_back(i);
  return out;
}

// Cycles of the sums of a plane and panel: tiles of `rows` x `vectors` as opt/heuristics_tile.cc takes them, of lanes that half a vector may fill.
f64 plane_cycles(const Target& t, i64 blocks, i64 panel, i64 in) {
  i64 lanes = t.vector_bytes / 4;
  f64 width = f64(t.vector_bytes) / f64(t.fma_per_cycle_bytes);
  if (panel % lanes) lanes /= 2, width /= 2;
  f64 best = std::numeric_limits<f64>::infinity();
  for (i64 rows : divisors(blocks))
    for (i64 vectors : divisors(panel / lanes)) {
      if (rows > 16 || rows * vectors + vectors + 1 > t.vector_registers - 1) continue;
      f64 step = std::max({f64(rows * vectors) * width, f64(rows + vectors) / 2, 4.0}) + 0.3;
      best = std::min(best, f64(blocks / rows * (panel / lanes / vectors)) * (f64(in) * step + kTile));
    }
  return best + kPlane;
}

}  // namespace

std::optional<WinogradPieces> winograd_pieces(const Conv3& c, i64 f, const Target& t) {
  const i64 planes = places(c, f, 0) * places(c, f, 1), br = blocks(c, f, 0), bc = blocks(c, f, 1), half = std::max<i64>(t.vector_bytes / 8, 4);
  const i64 fewest = settings::WINO() == 2 ? 2 : kFewestPieces;
  std::optional<WinogradPieces> best;
  f64 u_bytes = 4 * f64(planes * c.in * c.out);
  if (u_bytes > kMostWeights * f64(t.l2_bytes)) return {};
  f64 again = u_bytes * 2 <= f64(t.l2_bytes) ? kAgainBytes : kAgainFarBytes;
  for (i64 rows : divisors(br))
    for (i64 columns : divisors(bc)) {
      i64 blocks = rows * columns, pieces = c.n * (br / rows) * (bc / columns);
      if ((rows > 1 && columns < bc) || pieces < fewest) continue;
      for (i64 panel : divisors(c.out)) {
        if (panel % half || panel > 128) continue;
        if (4 * planes * (blocks * (c.in + panel) + 2 * kApart) > kStackBytes) continue;
        f64 sums = f64(planes * (c.out / panel)) * plane_cycles(t, blocks, panel, c.in), wait = u_bytes / again;
        f64 cycles = f64(pieces) * (std::max(sums, wait) + kSeen * wait);
        if (!best || cycles < best->cycles) best = WinogradPieces{rows, columns, panel, pieces, cycles};
      }
    }
  return best;
}

UOp winograd_in_pieces(const Conv3& c, i64 f, UOp x, UOp u, const Target& target) {
  const WinogradPieces p = *winograd_pieces(c, f, target);
  WinogradWriter w(target.has_fma);
  const i64 fr = results(c, f, 0), fc = results(c, f, 1), kr = places(c, f, 0), kc = places(c, f, 1), planes = kr * kc;
  const i64 pr = blocks(c, f, 0) / p.rows, pc = blocks(c, f, 1) / p.columns, panels = c.out / p.panel, each = p.rows * p.columns;
  // V, by pieces: (n, pr, pc | kr, kc, rows, columns, in)
  UOp v = tensor::reshape(w.input(c, f, x), dims({kr, kc, c.n, pr, p.rows, pc, p.columns, c.in}));
  v = tensor::permute(v, Ints{2, 3, 5, 0, 1, 4, 6, 7});
  keep_block(v, 3, 2);
  // M, by pieces and panels: (n, pr, pc, panels | planes, blocks, panel)
  Shape full = dims({c.n, pr, pc, panels, planes, each, p.panel, c.in});
  UOp a = tensor::expand(tensor::reshape(v, dims({c.n, pr, pc, 1, planes, each, 1, c.in})), full);
  UOp b = tensor::permute(tensor::reshape(tensor::permute(u, Ints{0, 2, 1}), dims({planes, panels, p.panel, c.in})), Ints{1, 0, 2, 3});
  b = tensor::expand(tensor::reshape(b, dims({1, 1, 1, panels, planes, 1, p.panel, c.in})), full);
  UOp m = tensor::reduce(a * b, ReduceKind::Add, {7});
  keep_block(m, 4, 1);
  UOp y = tensor::permute(tensor::reshape(m, dims({c.n, pr, pc, panels, kr, kc, p.rows, p.columns, p.panel})), Ints{4, 5, 0, 1, 2, 3, 6, 7, 8});
  y = w.both(y, [&](const std::vector<UOp>& s) { return w.output(s); });  // (fr, fc, n, pr, pc, panels, rows, columns, panel)
  y = tensor::permute(y, Ints{2, 5, 8, 3, 6, 0, 4, 7, 1});
  y = w.placed(c, tensor::reshape(y, dims({c.n, c.out, pr * p.rows * fr, pc * p.columns * fc})));
  keep_in_kernel(y, x);
  act_as_contraction(y);
  asked().whole[y] = 1;
  return y;
}

}  // namespace tg
