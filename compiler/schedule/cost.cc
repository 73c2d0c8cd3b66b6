#include "schedule/cost.h"

#include <algorithm>
#include <cmath>

#include "base/settings.h"
#include "ir/bounds.h"
#include "rules/symbolic.h"
#include "target/dots.h"

namespace tg {

namespace {

// one(op counted, the loops around it) for every operation.
template <class One>
void each_operation(const Call& c, One one) {
  using Deps = std::vector<UOp>;
  Memo<Deps> deps;
  deps[c.ast];
  for (UOp u : toposort(c.ast)) {
    Deps d;
    if (u.is(Op::Range)) d.push_back(u);
    for (UOp x : u.src())
      for (UOp r : deps[x])
        if (std::find(d.begin(), d.end(), r) == d.end()) d.push_back(r);
    // What fills a row for pieces of a loop is done once a piece.
    if (u.is(Op::FloorDiv) && u.src(0).is(Op::Range) && u.src(1).is_const()) d = {u};
    std::erase_if(d, [&](UOp q) { return q.is(Op::FloorDiv) && std::find(d.begin(), d.end(), q.src(0)) != d.end(); });
    bool counted = is_alu(u.op()) && u.dtype().kind != Kind::Index && u.dtype().kind != Kind::Bool;
    if (counted || u.is(Op::Reduce)) one(d);
    if (u.in(Op::Reduce | Op::Fold | Op::Store))
      std::erase_if(d, [&](UOp r) { return std::find(u.src().begin(), u.src().end(), r.is(Op::FloorDiv) ? r.src(0) : r) != u.src().end(); });
    deps[u] = d;
  }
}
// How often a loop runs, or the pieces of one.
UOp times_of(UOp r) {
  if (!r.is(Op::FloorDiv)) return r.src(0);
  UOp n = r.src(0).src(0), c = r.src(1);
  return simplify((n + (c.as_int() - 1)) / c.as_int());
}

}  // namespace

Work work_of(const Schedule& s, const Call& c) {
  Work w;
  each_operation(c, [&](const std::vector<UOp>& loops) {
    double times = 1;
    for (UOp r : loops) times *= double(most(times_of(r)));
    w.flops += i64(times);
  });
  for (u32 b : c.buffers) w.bytes += byte_size(s.buffers[b].dtype.kind, s.buffers[b].layout.elems());
  return w;
}

WorkOfRun work_of_run(const Schedule& s, const Call& c) {
  WorkOfRun w{idx(0), idx(0)};
  each_operation(c, [&](const std::vector<UOp>& loops) {
    UOp times = idx(1);
    for (UOp r : loops) times = times * (is_uniform(times_of(r)) ? times_of(r) : idx(most(times_of(r))));
    w.flops = w.flops + times;
  });
  for (u32 b : c.buffers) w.bytes = w.bytes + s.buffers[b].bytes_of_run();
  return {simplify(w.flops), simplify(w.bytes)};
}

namespace {

// Measured on Zen 4 with vectors of 16 floats; the ratios are much the same on other cores.
constexpr f64 kInputCycles = 4.5, kOutputCycles = 3.3;  // a vector of channels, a place of a block
constexpr f64 kCacheBytes = 24;         // a cycle, of weights from L2 and L3
constexpr f64 kSpillBytes = 8;          // a cycle, of transforms that are written and read again, beyond what stays in the caches
constexpr f64 kOutBytes = 24;           // and of those that the next cache holds
constexpr f64 kMemoryBytes = 6;         // a cycle, of weights that no cache holds
constexpr f64 kMadeBytes = 8.6;         // the same of weights made at open, which lie in large pages; F(4,3) takes 36/16 of the memory of F(2,3)
constexpr f64 kLastCache = 16 << 20;    // bytes of constants from which weights are cold each time
constexpr f64 kWidenCycles = 0.8;       // a vector of bytes to floats, of the time of a product
constexpr f64 kSplitCycles = 8, kJoinCycles = 6;  // a vector of activations to bytes, of sums to a result
constexpr f64 kWidened = 1.2;           // of products whose factors are narrow floats
constexpr f64 kSmallKernelCycles = 700; // to start one of rows that are in the cache
constexpr f64 kKernelCycles = 3000;     // to start a kernel and warm up

f64 fma_per_cycle(const Target& t) { return f64(t.fma_per_cycle_bytes) / 4; }
// Channels out in whole vectors.
f64 filled(i64 channels, const Target& t) {
  i64 lanes = t.vector_bytes / 4;
  return f64((channels + lanes - 1) / lanes * lanes);
}
// Products, and the weights that come in meanwhile: most of the waiting is behind the products.
f64 with_weights(f64 product, f64 bytes, i64 constants, bool made) {
  f64 wait = bytes / (f64(constants) <= kLastCache ? kCacheBytes : made ? kMadeBytes : kMemoryBytes);
  return std::max(product, wait) + 0.15 * wait;
}

}  // namespace

f64 direct_cycles(const Conv3& c, const Target& t, i64 constants) {
  // Lanes along the channels out, or for few of them along the columns or the channels in.
  f64 products = std::min({f64(c.in) * filled(c.out, t), f64(c.out) * filled(c.in, t), f64(c.in * c.out) * filled(c.columns, t) / f64(c.columns)});
  f64 taps = f64(c.taps[0] * c.taps[1]);
  f64 fma = taps * f64(c.n * c.rows * c.columns) * products;
  f64 bytes = f64(bits(c.weight.dtype().kind)) / 8;
  if (c.weight.dtype() != DType(Kind::F32)) {
    Kind kind = c.weight.dtype().kind;
    const std::vector<DotRow> rows = dot_rows(t);
    auto dot = std::find_if(rows.begin(), rows.end(), [&](const DotRow& r) { return r.a == kind && r.b == kind && r.sum == Kind::F32 && !r.by_parts; });
    fma *= dot != rows.end() ? 1 / f64(dot->group) : kWidened;
  }
  return with_weights(fma / fma_per_cycle(t) / 0.97, bytes * taps * f64(c.in * c.out), constants, false) + kKernelCycles;
}

// Of both transforms where V and M are near.
static f64 transform_cycles(const Conv3& c, i64 f, const Target& t) {
  f64 all = f64(places(c, f, 0) * places(c, f, 1)), tiles = f64(c.n * blocks(c, f, 0) * blocks(c, f, 1));
  f64 lanes = f64(t.vector_bytes) / 4, scale = 64.0 / f64(t.vector_bytes);
  // A few channels do not fill the lanes of the input's transform, which then jumps from block to block.
  f64 few = c.in * 2 <= i64(lanes) ? 3 : 1;
  return tiles * all * (filled(c.in, t) * kInputCycles * few + filled(c.out, t) * kOutputCycles) / lanes * std::min(scale, 1.5);
}

f64 winograd_cycles(const Conv3& c, i64 f, const Target& t, i64 constants) {
  f64 all = f64(places(c, f, 0) * places(c, f, 1)), tiles = f64(c.n * blocks(c, f, 0) * blocks(c, f, 1));
  // Half vectors cost half where two of them start in a cycle, so channels out fill up to those.
  f64 half = std::max(f64(t.vector_bytes) / 8, 4.0), out = std::ceil(f64(c.out) / half) * half;
  f64 product = all * tiles * f64(c.in) * out / fma_per_cycle(t) / 0.93;
  // Few rows of tiles leave the product waiting for weights that each is used a few times; four still share a vector well.
  if (tiles < 12) product *= tiles < 4 ? 12 / tiles : std::min(12 / tiles, 1.4);
  f64 bytes = 4 * all * tiles * f64(c.in + c.out), l2 = f64(t.l2_bytes), far = std::max(0.0, bytes - 3 * l2), next = std::max(0.0, bytes - far - l2);
  f64 moved = 2 * (far / kSpillBytes + next / kOutBytes);
  return with_weights(product, 4 * all * f64(c.in * c.out), constants, settings::DERIVE() != 0) + transform_cycles(c, f, t) + moved + 3 * kKernelCycles;
}

f64 winograd_cycles(const Conv3& c, i64 f, const WinogradPieces& p, const Target& t, i64 constants) {
  f64 u_bytes = 4 * f64(places(c, f, 0) * places(c, f, 1) * c.in * c.out);
  return with_weights(p.cycles, u_bytes, constants, settings::DERIVE() != 0) + transform_cycles(c, f, t) + kKernelCycles;
}

f64 widened_cycles(const ByteProduct& p, const Target& t, i64 constants) {
  // A vector of weights is widened once for a tile of rows.
  f64 products = f64(p.depth) * filled(p.columns, t), tiles = std::ceil(f64(p.rows) / 8);
  f64 work = (f64(p.rows) + kWidenCycles * tiles) * products / fma_per_cycle(t) / 0.97;
  return with_weights(work, f64(p.depth * p.columns), constants, false) + kKernelCycles;
}

f64 byte_product_cycles(const ByteProduct& p, const Target& t, i64 constants) {
  f64 lanes = f64(t.vector_bytes) / 4, rows = f64(p.rows);
  f64 work = rows * f64(p.depth) * filled(p.columns, t) / 2 / fma_per_cycle(t) / 0.9;
  f64 split = rows * f64(p.depth) / lanes * kSplitCycles, joined = rows * filled(p.columns, t) / lanes * kJoinCycles;
  return with_weights(work, f64(p.depth * p.columns), constants, false) + split + joined + kKernelCycles + 2 * kSmallKernelCycles;
}

f64 winograd_error(i64 f) { return f == 2 ? 2e-6 : 2e-5; }

}  // namespace tg
