// STAGE: what the sums of a tile read of an operand is copied first, for all of the sums' loops, to scratch on the stack in the order in which it is
// read there, lanes last. Loops that the operand does not depend on stand inside and read it there again and again. Rows of the operand that run
// along the sum are turned on the way (codegen/transpose.cc), once and not in each tile.
#include "opt/stage.h"

#include <algorithm>

#include "ir/bounds.h"
#include "ir/loops.h"
#include "opt/prepare.h"
#include "rules/symbolic.h"

namespace tg {
namespace {

UOp loop_of(i64 id, i64 size, AxisKind kind) { return range(idx(size), {id, 0, 0, kind}); }

}  // namespace

Result<Kernel> stage(const Kernel& k, const Opt& o) {
  using R = Result<Kernel>;
  if (o.target < 0 || o.target >= i64(k.slots.size()) || k.slots[size_t(o.target)].constant) return R::no("slot ", o.target, " is no operand that is made at run time");
  if (!k.ordered.empty()) return R::no("some loops run in their order");
  std::vector<UOp> topo = toposort(k.ast), loads;
  i64 next_id = 0, row_number = next_row(k.ast);
  Memo<u8> summed, row;
  summed[k.ast];
  for (UOp u : topo) {
    if (u.is(Op::Range)) next_id = std::max(next_id, u.arg<RangeArg>().id + 1);
    if (u.is(Op::Store) && memory_of(u.src(0)).is(Op::Param) && memory_of(u.src(0)).arg_int() == o.target) return R::no("slot ", o.target, " is written here");
  }
  for (size_t i = topo.size(); i-- > 0;)
    for (UOp s : topo[i].src()) summed[s] |= summed[topo[i]] | topo[i].is(Op::Reduce);
  for (UOp u : topo)
    if (u.is(Op::Load) && summed[u] && u.src(0).src(0).is(Op::Param) && u.src(0).src(0).arg_int() == o.target) loads.push_back(u);
  if (loads.empty()) return R::no("slot ", o.target, " is read in no sum");
  std::vector<std::pair<UOp, UOp>> change;
  for (UOp load : loads) {
    std::vector<UOp> sums, copies, lanes;
    bool inner = false;
    for (UOp u : toposort(load)) {
      if (u.is(Op::Load) && u != load) return R::no("slot ", o.target, " is read at places that are read themselves");
      if (!u.is(Op::Range)) continue;
      AxisKind kind = u.arg<RangeArg>().kind;
      if (kind == AxisKind::Task || kind == AxisKind::Loop) continue;
      if (!u.src(0).is_const()) return R::no("the loop ", u.str(), " has no fixed size");
      if (kind == AxisKind::Dot) return R::no("slot ", o.target, " feeds a dot instruction");
      (kind == AxisKind::Vector ? lanes : kind == AxisKind::Upcast ? copies : sums).push_back(u);
    }
    if (sums.empty() || lanes.size() != 1) return R::no("slot ", o.target, " is not read in lanes of a sum");
    // Some loop must read it again.
    std::vector<UOp> below = toposort(load);
    for (UOp s : k.ast.src())
      for (UOp r : loops_of(s)) inner |= std::find(below.begin(), below.end(), r) == below.end();
    if (!inner) return R::no("every loop reads other elements of slot ", o.target);
    // The loops as the sum has them, outermost first.
    std::vector<UOp> order;
    for (UOp u : topo)
      if (u.is(Op::Reduce))
        for (UOp r : loops_of(u))
          if (std::find(sums.begin(), sums.end(), r) != sums.end() && std::find(order.begin(), order.end(), r) == order.end()) order.push_back(r);
    if (order.size() != sums.size()) return R::no("slot ", o.target, " is read outside its sum");
    std::stable_partition(order.begin(), order.end(), [](UOp r) { return r.arg<RangeArg>().kind == AxisKind::Reduce; });
    i64 width = lanes[0].src(0).as_int();
    UOp offset = physical_offset(k, load.src(0)), turned;
    for (UOp r : order)
      if (auto l = linear_in(offset, r); l && l->factor == 1 && r.src(0).as_int() % width == 0) turned = r;
    order.insert(order.end(), copies.begin(), copies.end());
    order.push_back(lanes[0]);
    UOp there, here;  // the place, where it is filled and where it is read
    i64 elems = 1;
    std::vector<UOp> loops, unrolled;
    std::vector<std::pair<UOp, UOp>> rename;
    for (UOp r : order) {
      i64 n = r.src(0).as_int();
      AxisKind kind = r == lanes[0] ? AxisKind::Vector : std::find(copies.begin(), copies.end(), r) != copies.end() ? AxisKind::Upcast : AxisKind::Loop;
      UOp fresh;
      if (r == turned) {
        UOp in = loop_of(next_id++, width, AxisKind::Upcast);
        if (n > width) loops.push_back(loop_of(next_id++, n / width, AxisKind::Loop));
        unrolled.push_back(in);
        fresh = n > width ? loops.back() * idx(width) + in : in;
      } else {
        fresh = loop_of(next_id++, n, kind);
        (kind == AxisKind::Loop ? loops : unrolled).push_back(fresh);
      }
      rename.push_back({r, fresh});
      there = there ? there * idx(n) + fresh : fresh;
      here = here ? here * idx(n) + r : r;
      elems *= n;
    }
    if (elems * bits(load.dtype()) > kStageBytes * 8) return R::no("the tile's part of slot ", o.target, " has ", elems, " elements, too many for the stack");
    UOp scratch = node(Op::Row, load.dtype(), {idx(elems)}, RowArg{row_number++, RowPlace::Stack}.ints());
    std::vector<UOp> src{node(Op::Index, load.dtype(), {scratch, there}), substitute(load, rename)};
    src.insert(src.end(), loops.begin(), loops.end());
    src.insert(src.end(), unrolled.begin(), unrolled.end());
    UOp filled = node(Op::After, load.dtype(), {scratch, node(Op::Store, Kind::Void, std::span<const UOp>(src))});
    change.push_back({load, node(Op::Load, load.dtype(), {node(Op::Index, load.dtype(), {filled, here})})});
  }
  Kernel n = k;
  n.ast = simplify(substitute(k.ast, change));
  n.opts.push_back(o);
  return n;
}

}  // namespace tg
