// The last choice for a kernel: the loop that is cut into tasks, and into how many. It depends on the kernel and the target alone, not on the cores
// of some machine, so that every machine computes the same; what the choice aims at is two to eight cores.
//
// A pool gives each thread neighbouring tasks (runtime-lite/backend/cpu_pool.cc). A line that another core has just written takes some 50 ns to
// come over, unless the hardware sees it coming; a line of its own takes one. So a loop is best whose halves are the halves of what the kernel reads and
// writes in memory: then a core mostly reads what it wrote itself in the kernel before.
#include <algorithm>
#include <cmath>

#include "ir/bounds.h"
#include "ir/loops.h"
#include "opt/heuristics_blocks.h"
#include "opt/kernel.h"
#include "opt/prepare.h"
#include "rules/symbolic.h"

namespace tg {
namespace {

constexpr double kTaskUs = 2;           // a task is at least so long
constexpr double kLaunchUs = 0.3;       // handing one task over, and a kernel's start and end
constexpr double kRemoteUs = 0.1e-3;    // a byte that another core wrote: some are fetched ahead, some are not
// A byte of constants that each task reads for itself: a register tile hides most of it, but less where it does not stay in the core's own cache.
constexpr double kAgainUs = 1e-6, kAgainFarUs = 3e-6;
constexpr double kMovedUs = 2e-5;       // a byte that a core reads or writes, of a buffer that its own cache does not hold
constexpr i64 kMost = 32;

double loop_size(UOp r) { return is_uniform(r.src(0)) ? double(most(r.src(0))) : 4.0; }

// The offset at the largest sizes, without the clamp of a register tile at the end of a free axis: how it moves with the loops.
UOp plain_offset(UOp offset) {
  std::vector<std::pair<UOp, UOp>> clamps;
  for (UOp u : toposort(offset))
    if (u.is(Op::Min) && is_uniform(u.src(0)) != is_uniform(u.src(1))) clamps.push_back({u, u.src(is_uniform(u.src(0)) ? 1 : 0)});
  return at_largest(clamps.empty() ? offset : substitute(offset, clamps));
}

// Estimated microseconds of one core at 3 GHz: an operation of a vector a cycle or two.
double work_us(UOp ast) {
  double work = 0;
  Memo<std::vector<UOp>> deps;
  deps[ast];
  for (UOp u : toposort(ast)) {
    std::vector<UOp> d;
    if (u.is(Op::Range)) d.push_back(u);
    for (UOp s : u.src())
      for (UOp r : deps[s])
        if (std::find(d.begin(), d.end(), r) == d.end()) d.push_back(r);
    double times = 1;
    for (UOp r : d)
      if (r.arg<RangeArg>().kind != AxisKind::Vector) times *= loop_size(r);
    bool cost = is_alu(u.op()) || u.in(Op::Load | Op::Store | Op::Reduce | Op::Cast);
    if (cost && u.dtype().kind != Kind::Index && u.dtype().kind != Kind::Bool) work += times * (u.in(kTranscendental) ? 12 : 0.6);
    if (u.in(Op::Reduce | Op::Fold | Op::Store)) {
      std::vector<UOp> l = loops_of(u);
      std::erase_if(d, [&](UOp r) { return std::find(l.begin(), l.end(), r) != l.end(); });
    }
    deps[u] = d;
  }
  return work / 3000;
}

// A buffer as the kernel touches it. In lanes and copies the same place may be touched by several nodes: the largest counts.
struct Touched {
  i64 slot;
  bool constant, store;
  double bytes;              // of the buffer, or fewer if the kernel reaches fewer
  std::vector<UOp> offsets;  // of its accesses, in elements
};

std::vector<Touched> touched(const Kernel& k) {
  std::vector<Touched> out;
  for (UOp u : toposort(k.ast)) {
    if (!u.in(Op::Load | Op::Store)) continue;
    UOp base = memory_of(u.src(0));
    if (!base.is(Op::Param)) continue;
    i64 slot = base.arg_int();
    UOp offset = plain_offset(physical_offset(k, u.src(0)));
    double reach = 1;
    for (UOp r : toposort(offset))
      if (r.is(Op::Range)) reach *= loop_size(r);
    double elements = 1;
    for (i64 d : k.slots[size_t(slot)].dims) elements *= double(std::max<i64>(d, 1));
    double bytes = std::min(reach, elements) * bits(base.dtype()) / 8;
    auto same = std::find_if(out.begin(), out.end(), [&](const Touched& t) { return t.slot == slot; });
    if (same == out.end()) {
      out.push_back({slot, k.slots[size_t(slot)].constant, u.is(Op::Store), bytes, {offset}});
    } else {
      same->store |= u.is(Op::Store);
      same->bytes = std::max(same->bytes, bytes);
      same->offsets.push_back(offset);
    }
  }
  return out;
}

std::optional<i64> step(const Touched& t, const Axis& a) {
  i64 f = 0;
  for (UOp o : t.offsets)
    for (UOp r : a.ranges) {
      auto l = linear_in(o, r);
      if (!l) return {};
      f = std::max(f, std::abs(l->factor));
    }
  return f;
}

// A batch: every buffer has a part for each iteration, constants too. What writes and reads such buffers is rarely divided like that (the transforms
// of Winograd's convolutions know tiles, not the places of a tile), so it counts as a division only where there is no other.
bool batch(const std::vector<Touched>& all, const Axis& a) {
  if (!a.output || a.reduce) return false;
  bool constant = false;
  for (const Touched& t : all) {
    auto f = step(t, a);
    if (f && !*f && !t.constant) return false;
    constant |= t.constant && (!f || *f);
  }
  return constant;
}

// How a loop divides what the kernel touches.
struct Division {
  bool halves;   // the first half of the loop touches the first half of the buffer, or of each part of a batch, about
  bool depends;  // each iteration touches a part of it
};
Division division(const Kernel& k, const Touched& t, const Axis& a, bool is_batch, const std::vector<const Axis*>& outer) {
  auto f = step(t, a);
  if (!f || is_batch) return {false, !f || *f};
  double elements = 1;
  for (i64 d : k.slots[size_t(t.slot)].dims) elements *= double(std::max<i64>(d, 1));
  for (const Axis* b : outer)
    if (auto g = step(t, *b); g && *g > *f) elements /= double(b->size);
  return {double(*f) * double(a.size) >= 0.7 * elements, *f != 0};
}

// The most iterations that one of `threads` runs over the mean, if `size` iterations are cut into n tasks.
double imbalance(i64 size, i64 n, i64 threads) {
  i64 most = 0;
  for (i64 i = 0; i < threads; i++) {
    i64 begin = n * i / threads * size / n, end = n * (i + 1) / threads * size / n;
    most = std::max(most, end - begin);
  }
  return double(most) * double(threads) / double(size);
}

// Microseconds on some threads.
double cost(const std::vector<Touched>& all, const std::vector<Division>& divided, double us, const Target& target, i64 size, i64 n, i64 threads) {
  double c = us / double(threads) * imbalance(size, n, threads) + kLaunchUs * (1 + double((n + threads - 1) / threads) / 2);
  double part = 1.0 / double(threads), others = 1 - part;
  for (size_t i = 0; i < all.size(); i++) {
    const Touched& t = all[i];
    if (t.constant) {
      if (!divided[i].depends) c += (t.bytes * 2 <= double(target.l2_bytes) ? kAgainUs : kAgainFarUs) * t.bytes * double(n) * part;
    } else if (!divided[i].halves) {
      // What is stored is read by others later; what does not fit the cores' own caches comes from the shared one.
      c += kRemoteUs * std::min(t.bytes, double(target.l2_bytes)) * others * (divided[i].depends ? part : 1);
    }
  }
  return c;
}

// Is the axis read in digits, as a loop that was merged from several is? Tasks of different sizes would leave divisions in its addresses.
bool in_digits(UOp ast, const Axis& a) {
  for (UOp u : toposort(ast))
    if (u.in(Op::FloorDiv | Op::FloorMod))
      for (UOp x : toposort(u))
        if (std::find(a.ranges.begin(), a.ranges.end(), x) != a.ranges.end()) return true;
  return false;
}

// Would each task fill for itself what a row keeps for all of the loop?
bool repeats_rows(UOp ast, UOp loop) {
  for (UOp u : toposort(ast))
    if (u.is(Op::Store) && memory_of(u.src(0)).is(Op::Row)) {
      std::vector<UOp> below = toposort(u);
      if (std::find(below.begin(), below.end(), loop) == below.end()) return true;
    }
  return false;
}

struct Choice {
  double cost;
  Opt opt;
};

}  // namespace

Kernel with_tasks(Kernel k) {
  std::vector<Touched> all = touched(k);
  double bytes = 0;
  for (const Touched& t : all) bytes += t.bytes;
  double us = std::max(work_us(k.ast), bytes * kMovedUs);
  i64 most = std::min({kMost, k.target->max_tasks, i64(us / kTaskUs)});
  if (most < 2) return k;
  std::vector<Axis> loops = axes(k.ast);
  std::vector<const Axis*> batches;
  for (const Axis& a : loops)
    if (a.size > 1 && batch(all, a)) batches.push_back(&a);
  // Planes of a picture: too few to be divided, so everybody divides what is in them.
  std::vector<const Axis*> outer = batches;
  for (const Axis& a : loops)
    if (a.output && !a.reduce && a.size > 1 && a.size < 4) outer.push_back(&a);
  std::vector<Choice> choices;
  bool blocks = has_blocks(k.ast);
  for (const Axis& a : loops) {
    if (!a.output || a.reduce || a.kind != AxisKind::Loop || a.ranges.size() != 1 || a.size < 2) continue;
    if (std::find(k.ordered.begin(), k.ordered.end(), a.id) != k.ordered.end() || (blocks && repeats_rows(k.ast, a.ranges[0]))) continue;
    std::vector<Division> divided;
    bool is_batch = std::find(batches.begin(), batches.end(), &a) != batches.end();
    for (const Touched& t : all) divided.push_back(division(k, t, a, is_batch, outer));
    Choice best{0, {OptKind::Thread, a.id, 0}};
    best.opt.part = u8(a.part);
    bool even = in_digits(k.ast, a);
    for (i64 n = 2; n <= std::min(most, a.size); n++) {
      if (even && !a.divides(n)) continue;
      // Two cores count most; more must still find work.
      double c = 0;
      for (i64 threads : {2, 4, 8}) c += cost(all, divided, us, *k.target, a.size, n, threads) * (threads == 2 ? 2 : 1);
      if (!a.divides(n)) c *= 1.02;  // tasks of equal size need no arithmetic to find their bounds
      if (!best.opt.arg || c < best.cost * 0.999) best.cost = c, best.opt.arg = n;
    }
    if (best.opt.arg) choices.push_back(best);
  }
  std::stable_sort(choices.begin(), choices.end(), [](const Choice& x, const Choice& y) { return x.cost < y.cost; });
  for (const Choice& c : choices)
    if (Result<Kernel> n = k.with(c.opt)) return std::move(*n);
  return k;
}

}  // namespace tg
