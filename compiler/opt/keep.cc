// KEEP: a costly value of a row that one phase computes for its reduce and a later one computes again is computed once: stored in the row of
// the output itself, or in a row on the stack, in the reduce's own loop, and read back.
#include "opt/keep.h"

#include <algorithm>

#include "ir/bounds.h"
#include "ir/loops.h"
#include "opt/prepare.h"
#include "rules/symbolic.h"

namespace tg {
namespace {

bool below(UOp root, UOp u) {
  for (UOp x : toposort(root))
    if (x == u) return true;
  return false;
}

// Is r the loop of a reduce below u?
bool closed_inside(UOp u, UOp r) {
  for (UOp x : toposort(u))
    if (x.in(Op::Reduce | Op::Fold) && std::find(x.src().begin(), x.src().end(), r) != x.src().end()) return true;
  return false;
}

}  // namespace

std::vector<Kept> kept_values(UOp ast) {
  std::vector<Kept> out;
  if (ast.nsrc() != 1 || !ast.src(0).is(Op::Store)) return out;
  UOp store = ast.src(0);
  std::vector<UOp> loops = loops_of(store);
  if (loops.empty()) return out;
  UOp j = loops.back();
  std::vector<UOp> final = toposort(store.src(1));
  for (UOp red : final) {
    if (!red.is(Op::Reduce) || loops_of(red).size() != 1) continue;
    UOp k = loops_of(red)[0];
    if (k.arg<RangeArg>().id != j.arg<RangeArg>().id || k.src(0) != j.src(0)) continue;
    std::vector<UOp> body = toposort(red.src(0));
    for (size_t i = body.size(); i-- > 0;) {
      UOp v = body[i];
      if (!v.in(kTranscendental) || !below(v, k)) continue;
      std::pair<UOp, UOp> swap{k, j};
      UOp again = simplify(substitute(v, std::span(&swap, 1)));
      if (std::find(final.begin(), final.end(), again) == final.end()) continue;
      out.push_back({v, again, red, k, j});
      break;
    }
  }
  return out;
}

Result<Kernel> keep(const Kernel& k, const Opt& o) {
  using R = Result<Kernel>;
  std::vector<Kept> values = kept_values(k.ast);
  if (o.target < 0 || o.target >= i64(values.size())) return R::no("no row value ", o.target, "; there are ", values.size());
  const Kept& v = values[size_t(o.target)];
  UOp store = k.ast.src(0), address = store.src(0);
  std::vector<UOp> at;
  UOp buffer;
  std::pair<UOp, UOp> swap{v.j, v.k};
  switch (RowPlace(o.arg)) {
    case RowPlace::Out:
      if (store.src(1).dtype() != v.first.dtype()) return R::no("the output holds ", name(store.src(1).dtype()), ", the row value is ", name(v.first.dtype()));
      if (store.nsrc() > 2 && !store.src(2).is(Op::Range)) return R::no("the output is stored under a condition");
      for (UOp x : toposort(address))
        if (x.is(Op::Min)) return R::no("the last rows of a free axis are made twice, so they cannot be written over");
      for (UOp x : toposort(store.src(1)))
        if (x.is(Op::Param) && x == address.src(0)) return R::no("the output is an input too");
      for (UOp r : loops_of(store))
        if (r != v.j && !below(v.first, r)) return R::no("the row is one for all of ", r.str());
      buffer = address.src(0);
      at.assign(address.src().begin() + 1, address.src().end());
      break;
    case RowPlace::Stack: {
      constexpr i64 kMost = 1 << 16;
      if (!is_uniform(v.j.src(0))) return R::no("the row has no fixed length");
      i64 n = most(v.j.src(0)) + 64;  // room for a padded row
      // Copies and lanes of outer loops have rows of their own, side by side.
      UOp place = v.j;
      for (UOp r : toposort(v.first)) {
        if (!r.is(Op::Range) || r == v.k || closed_inside(v.first, r)) continue;
        AxisKind kind = r.arg<RangeArg>().kind;
        if (kind != AxisKind::Upcast && kind != AxisKind::Vector) continue;
        n *= r.src(0).as_int();
        place = place * r.src(0) + r;
      }
      if (n * bits(v.first.dtype()) / 8 > kMost) return R::no("rows of ", n, " elements are too long for the stack");
      buffer = node(Op::Row, v.first.dtype(), {idx(n)}, RowArg{o.target, RowPlace::Stack}.ints());
      at = {place};
      break;
    }
    default: return R::no("KEEP knows the places STACK (0) and OUT (3)");
  }
  auto index = [&](UOp base, bool first) {
    std::vector<UOp> src{base};
    for (UOp x : at) src.push_back(first ? substitute(x, std::span(&swap, 1)) : x);
    return node(Op::Index, buffer.dtype(), std::span<const UOp>(src));
  };
  UOp kept = node(Op::Store, Kind::Void, {index(buffer, true), v.first, v.k});
  UOp got = node(Op::Load, v.first.dtype(), {index(node(Op::After, buffer.dtype(), {buffer, kept}), false)});
  // Only where the value is read again: the reduce itself uses what it has just computed.
  std::pair<UOp, UOp> change{v.again, got};
  std::vector<UOp> src(store.src().begin(), store.src().end());
  src[1] = substitute(src[1], std::span(&change, 1));
  UOp st = with_src(store, src);
  Kernel n = k;
  n.ast = simplify(node(Op::Sink, Kind::Void, {st}));
  n.opts.push_back(o);
  return n;
}

}  // namespace tg
