#include "search/versions.h"

#include <algorithm>

#include "opt/axes.h"

namespace tg {
namespace {

using List = std::vector<Opt>;

constexpr i64 kBlock = 100;  // FEW numbers the axes of its copy in the next free hundred

bool is_few(const Opt& o) { return o.kind == OptKind::Few; }

// The hundreds from `first` on go up or down by one: they are remainders of PEEL, numbered behind the versions.
void shift(List& l, i64 first, i64 by) {
  for (Opt& o : l) {
    if (names_slot(o.kind) || o.kind == OptKind::Keep) continue;
    if (o.target >= first) o.target += by;
    if (o.kind == OptKind::Swap && o.arg >= first) o.arg += by;
  }
}

// Without the version for the smallest sizes.
List one_less(List l, i64 versions) {
  i64 first = versions * kBlock;
  l.erase(std::find_if(l.rbegin(), l.rend(), is_few).base() - 1);
  std::erase_if(l, [&](const Opt& o) { return !names_slot(o.kind) && o.kind != OptKind::Keep && o.target >= first && o.target < first + kBlock; });
  shift(l, first + kBlock, -kBlock);
  return l;
}

}  // namespace

std::vector<List> versions(const Kernel& plain, const List& core) {
  std::vector<List> out;
  i64 n = std::count_if(core.begin(), core.end(), is_few), rows = -1;
  if (n) {
    List l = core;
    for (i64 k = n; k > 0; k--) out.push_back(l = one_less(std::move(l), k));
    rows = std::find_if(core.begin(), core.end(), is_few)->target % kBlock;
  }
  // One more, of lanes as the usual nest has them and as many vectors as there are registers for.
  const Opt* lanes = nullptr;
  for (const Opt& o : core)
    if (o.kind == OptKind::Vector && o.target < kBlock && o.part == 0 && !lanes) lanes = &o;
  std::vector<Axis> all = axes(plain.ast);
  const Axis* lane = nullptr;
  for (const Axis& a : all) {
    if (lanes && a.id == lanes->target && a.part == 0) lane = &a;
    if (n == 0 && rows < 0 && a.free && a.output && !a.reduce && a.part == 0) rows = a.id;
  }
  if (!lane || rows < 0 || rows == lane->id) return out;
  auto last = std::find_if(core.rbegin(), core.rend(), is_few);
  i64 below = last == core.rend() ? 16 : last->arg;
  for (i64 height : {8, 4, 2, 1}) {
    if (height >= below) continue;
    for (i64 vectors : {1, 2, 4, 8}) {
      i64 wide = lanes->arg * vectors;
      if ((vectors > 1 && wide >= lane->size + lanes->arg) || height * vectors + vectors + 1 > plain.target->vector_registers) break;
      List l = core;
      shift(l, (n + 1) * kBlock, kBlock);
      i64 copy = (n + 1) * kBlock;
      List more{{OptKind::Few, n * kBlock + rows, height}};
      if (lane->size % wide) more.push_back({OptKind::PadTo, copy + lane->id, wide});
      more.push_back({OptKind::Vector, copy + lane->id, lanes->arg});
      if (vectors > 1) more.push_back({OptKind::Upcast, copy + lane->id, vectors});
      if (lane->size > wide) more.push_back({OptKind::Tile, copy + lane->id, 1});
      if (height > 1) more.push_back({OptKind::Upcast, copy + rows, height});
      l.insert(l.begin() + std::distance(core.begin(), last.base()), more.begin(), more.end());
      out.push_back(std::move(l));
    }
  }
  return out;
}

}  // namespace tg
