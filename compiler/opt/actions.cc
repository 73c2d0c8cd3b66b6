// One row a kind of Opt: a new Opt gets its moves here, or none.
#include "opt/actions.h"

#include <algorithm>

#include "base/settings.h"
#include "opt/keep.h"
#include "target/dots.h"

namespace tg {
namespace {

struct Ctx {
  const Kernel& k;
  const std::vector<Axis>& axes;
  const ActionLimits& limits;
  std::vector<Opt>& out;
  i64 copies;

  void add(OptKind kind, const Axis& a, i64 arg) {
    Opt o{kind, a.id, arg};
    o.part = u8(a.part);
    out.push_back(o);
  }
  bool loop(const Axis& a) const { return (a.kind == AxisKind::Loop || a.kind == AxisKind::Reduce) && a.size > 1; }
};

constexpr i64 kUpcasts[] = {2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16};
constexpr i64 kUnrolls[] = {2, 3, 4, 5, 7, 8, 9, 16};
constexpr i64 kTiles[] = {8, 16, 32, 64, 128, 256, 512};
constexpr i64 kPeels[] = {4, 6, 8, 16};

void upcast(Ctx& c) {
  for (const Axis& a : c.axes)
    if (a.output && c.loop(a))
      for (i64 n : kUpcasts)
        if (a.size % n == 0 && c.copies * n <= c.limits.upcast_max) c.add(OptKind::Upcast, a, n);
}
void vector(Ctx& c) {
  for (const Axis& a : c.axes)
    if (c.loop(a))
      for (i64 n = std::min<i64>(64, c.k.target->vector_bytes); n >= 2; n /= 2)
        if (a.size % n == 0) c.add(OptKind::Vector, a, n);
}
void unroll(Ctx& c) {
  for (const Axis& a : c.axes)
    if (a.reduce && c.loop(a))
      for (i64 n : kUnrolls)
        if (a.size % n == 0 && c.copies * n <= c.limits.upcast_max) c.add(OptKind::Unroll, a, n);
}
void tile(Ctx& c) {
  for (const Axis& a : c.axes)
    if (c.loop(a)) {
      c.add(OptKind::Tile, a, 1);
      for (i64 n : kTiles)
        if (a.size % n == 0 && n < a.size) c.add(OptKind::Tile, a, n);
    }
}
// Up to a quarter more than there is.
void padto(Ctx& c) {
  if (!c.limits.padto) return;
  for (const Axis& a : c.axes)
    if (c.loop(a))
      for (i64 n : {4, 8, 16, 32, 64})
        if (i64 wide = (a.size + n - 1) / n * n; wide != a.size && wide * 4 <= a.size * 5) c.add(OptKind::PadTo, a, n);
}
void peel(Ctx& c) {
  for (const Axis& a : c.axes)
    if (a.output && !a.reduce && c.loop(a))
      for (i64 n : kPeels)
        if (a.size % n && a.size > n) c.add(OptKind::Peel, a, n);
}
// Loops of one kind, so that a reduce stays inside.
void swap(Ctx& c) {
  for (size_t i = 0; i < c.axes.size(); i++)
    for (size_t j = i + 1; j < c.axes.size(); j++) {
      const Axis &a = c.axes[i], &b = c.axes[j];
      if (!c.loop(a) || !c.loop(b) || a.reduce != b.reduce) continue;
      Opt o{OptKind::Swap, a.id, b.id, b.part};
      o.part = u8(a.part);
      c.out.push_back(o);
    }
}
void pack(Ctx& c) {
  for (size_t s = 0; s < c.k.slots.size(); s++)
    if (c.k.slots[s].constant) c.out.push_back({OptKind::Pack, i64(s)});
}
void prefetch(Ctx& c) {
  for (size_t s = 0; s < c.k.slots.size(); s++)
    if (c.k.slots[s].constant && !c.k.slots[s].ahead) c.out.push_back({OptKind::Prefetch, i64(s)});
}
void keep(Ctx& c) {
  for (i64 v = 0; v < i64(kept_values(c.k.ast).size()); v++)
    for (RowPlace p : {RowPlace::Out, RowPlace::Stack}) c.out.push_back({OptKind::Keep, v, i64(p)});
}
void stage(Ctx& c) {
  for (size_t s = 1; s < c.k.slots.size(); s++)
    if (!c.k.slots[s].constant) c.out.push_back({OptKind::Stage, i64(s)});
}
void trim(Ctx& c) {
  for (const Axis& a : c.axes)
    if (a.reduce && c.loop(a)) c.add(OptKind::Trim, a, 0);
}
void bypass(Ctx& c) {
  if (c.k.target->bypass_bytes && !c.k.slots[0].past) c.out.push_back({OptKind::Bypass, 0});
}
void tc(Ctx& c) {
  if (!settings::TC()) return;
  for (const Axis& a : c.axes)
    if (a.reduce && a.part == 0 && c.loop(a))
      for (i64 row = 0; row < i64(dot_rows(*c.k.target).size()); row++) c.add(OptKind::Tc, a, row);
}

struct Row {
  OptKind kind;
  void (*propose)(Ctx&);
};
// THREAD has no row: its count follows from the work (with_tasks), so that results and tasks do not depend on where was measured. Nor has FEW:
// a version wants lanes and a tile of its own (search/versions.cc).
constexpr Row kRows[] = {
    {OptKind::Vector, vector}, {OptKind::Upcast, upcast}, {OptKind::Unroll, unroll}, {OptKind::Tile, tile}, {OptKind::Swap, swap},
    {OptKind::PadTo, padto},   {OptKind::Peel, peel},     {OptKind::Pack, pack},     {OptKind::Keep, keep}, {OptKind::Tc, tc},
    {OptKind::Stage, stage},     {OptKind::Prefetch, prefetch}, {OptKind::Trim, trim},   {OptKind::Bypass, bypass},
};

}  // namespace

i64 copies(const Kernel& k) {
  i64 n = 1;
  for (const Axis& a : axes(k.ast))
    if (a.kind == AxisKind::Upcast || a.kind == AxisKind::Unroll) n *= std::max<i64>(a.size, 1);
  return n;
}

std::vector<Opt> actions(const Kernel& k, const ActionLimits& limits) {
  std::vector<Opt> out;
  std::vector<Axis> all = axes(k.ast);
  Ctx c{k, all, limits, out, copies(k)};
  for (const Row& r : kRows) r.propose(c);
  return out;
}

std::vector<i64> other_args(OptKind kind, i64 arg, const Target& t) {
  std::vector<i64> v;
  switch (kind) {
    case OptKind::Upcast: v.assign(std::begin(kUpcasts), std::end(kUpcasts)); break;
    case OptKind::Unroll: v.assign(std::begin(kUnrolls), std::end(kUnrolls)); break;
    case OptKind::Tile:
      v.assign(std::begin(kTiles), std::end(kTiles));
      v.push_back(1);
      break;
    case OptKind::Vector:
      for (i64 n = std::min<i64>(64, t.vector_bytes); n >= 2; n /= 2) v.push_back(n);
      break;
    default: break;
  }
  std::erase(v, arg);
  return v;
}

}  // namespace tg
