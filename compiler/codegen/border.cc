// The border of an output that lies with one (schedule/borders.cc): for each axis two slabs of the fill value, stored once, by the first task.
#include "base/error.h"
#include "codegen/lower.h"
#include "ir/bounds.h"
#include "rules/symbolic.h"

namespace tg {

UOp add_border(UOp ast, const std::vector<Slot>& slots, const Target& target) {
  const Slot& s = slots[0];
  if (s.before.empty()) return ast;
  std::vector<UOp> stores(ast.src().begin(), ast.src().end());
  UOp param, task;
  for (UOp u : toposort(ast)) {
    if (u.is(Op::Param) && u.arg_int() == 0) param = u;
    if (u.is(Op::Range) && u.arg<RangeArg>().kind == AxisKind::Task) task = u;
  }
  TG_CHECK(param, "a kernel with a border stores nothing");
  i64 id = 1 << 20;
  // The axis that lies innermost runs in lanes.
  i64 innermost = s.layout.pieces.empty() ? -1 : s.layout.pieces.back().axis;
  i64 lanes = std::max<i64>(1, target.vector_bytes / std::max(1, bits(param.dtype()) / 8));
  std::vector<UOp> lo(s.dims.size(), idx(0)), hi(param.src().begin(), param.src().end());  // the box that is still to be surrounded
  for (size_t a = 0; a < s.dims.size(); a++) {
    for (int side = 0; side < 2; side++) {
      i64 n = side ? s.after[a] : s.before[a];
      if (!n) continue;
      std::vector<UOp> coords, loops;
      if (task) {
        loops.push_back(task);
        loops.push_back(range(where(eq(task, idx(0)), idx(1), idx(0)), {id++, 0, 0, AxisKind::Loop}));
      }
      UOp last, tail;
      for (const LayoutPiece& p : s.layout.pieces) {
        size_t x = size_t(p.axis);
        UOp begin = lo[x], size = simplify(hi[x] - lo[x]);
        if (x == a) begin = side ? param.src(a) - n : idx(0), size = idx(n);
        if (coords.size() < s.dims.size()) coords.resize(s.dims.size());
        UOp r;
        if (i64(x) == innermost && lanes > 1 && const_factor(size) % lanes == 0) {
          tail = range(idx(lanes), {id++, 0, 0, AxisKind::Vector});
          if (!size.is_const(lanes)) last = range(simplify(size / lanes), {id++, 0, 0, AxisKind::Loop}), loops.push_back(last), r = last * idx(lanes) + tail;
          else r = tail;
          loops.push_back(tail);
        } else if (size.is_const(1)) {
          r = idx(0);
        } else {
          r = range(size, {id++, 0, 0, AxisKind::Loop});
          loops.push_back(r);
        }
        coords[x] = r + begin;
      }
      std::vector<UOp> ix{param};
      ix.insert(ix.end(), coords.begin(), coords.end());
      std::vector<UOp> src{node(Op::Index, param.dtype(), std::span<const UOp>(ix)), konst_bits(param.dtype(), s.fill)};
      src.insert(src.end(), loops.begin(), loops.end());
      stores.push_back(node(Op::Store, Kind::Void, std::span<const UOp>(src)));
    }
    lo[a] = idx(s.before[a]), hi[a] = param.src(a) - s.after[a];
  }
  return node(Op::Sink, Kind::Void, std::span<const UOp>(stores));
}

}  // namespace tg
