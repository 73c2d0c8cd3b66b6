#include "schedule/build.h"

#include <algorithm>

#include "base/error.h"
#include "ir/regions.h"
#include "rules/symbolic.h"
#include "schedule/index.h"

namespace tg {

namespace {
// A REDUCE or FOLD along an axis of size 0.
bool reduces_nothing(UOp u) {
  const Ints axes = u.is(Op::Reduce) ? u.arg<ReduceArg>().axes : u.arg<FoldArg>().axes;
  return std::any_of(axes.begin(), axes.end(), [&](i64 a) { return shape(u.src(0))[size_t(a)].is_const(0); });
}
}  // namespace

Shape reduced_index(const Ints& axes, const Shape& index, const std::vector<UOp>& ranges) {
  Shape r;
  size_t kept = 0, red = 0;
  for (size_t i = 0; i < axes.size() + index.size(); i++) {
    bool reduced = std::binary_search(axes.begin(), axes.end(), i64(i));
    r.push_back(reduced ? ranges[red++] : index[kept++]);
  }
  return r;
}

UOp build_index(UOp u, const Shape& index) {
  Builder b({}, nullptr, nullptr, [](UOp n, const Shape&, UOp, UOp) -> UOp {
    TG_CHECK(false, "index arithmetic reads a buffer: ", n.str());
    return {};
  });
  return simplify(cast(b.value(u, index), Kind::Index));
}

UOp Builder::value(UOp u, const Shape& index, UOp gate) {
  if (u.in(Op::Const | Op::Var | Op::Range | Op::Step | Op::Placeholder)) return u;
  if (u.in(Op::Param | Op::Constant) || is_kept(u) || (realized_ && realized_->stored[u])) return load_(u, index, gate, konst(u.dtype(), 0));
  return compute(u, index, gate);
}

// A row on the stack: filled by loops of its own, read at the last coordinates.
UOp Builder::kept(UOp u, const Shape& index) {
  // Rows of a tile, which lie side by side, should not fall into one set of the first cache, nor should the planes of a block.
  constexpr i64 kApart = 16, kPlanesApart = 48;
  const size_t from = row_from(u), planes = asked().block[u].planes;
  Shape at(index.begin(), index.begin() + long(from));
  const RangeMaker::RowPhase& phase = ranges_->row(root_, u, at);
  at.insert(at.end(), phase.loops.begin(), phase.loops.end());
  // Row-major, planes apart.
  Shape stride(rank(u));
  UOp size = idx(1);
  for (size_t i = rank(u); i-- > from;) {
    if (planes && i + 1 == from + planes) size = size + kPlanesApart;
    stride[i] = size;
    size = simplify(size * shape(u)[i]);
  }
  auto place = [&](const Shape& x) {
    UOp offset = idx(0);
    for (size_t i = from; i < x.size(); i++) offset = offset + x[i] * stride[i];
    return simplify(offset);
  };
  UOp row = node(Op::Row, u.dtype(), {simplify(size + (planes ? 0 : kApart))}, RowArg{phase.number, RowPlace::Stack}.ints());
  std::vector<UOp> src{node(Op::Index, u.dtype(), {row, place(at)}), element(u, at, {})};
  for (UOp r : phase.loops)
    if (r.is(Op::Range)) src.push_back(r);
  UOp filled = node(Op::Store, Kind::Void, std::span<const UOp>(src));
  return node(Op::Load, u.dtype(), {node(Op::Index, u.dtype(), {node(Op::After, u.dtype(), {row, filled}), place(index)})});
}

UOp Builder::compute(UOp u, const Shape& index, UOp gate) {
  if (!root_ || !asked().row[u]) return element(u, index, gate);
  TG_CHECK(!gate, "a row under a condition: ", u.str());
  return kept(u, index);
}

UOp Builder::element(UOp u, const Shape& index, UOp gate) {
  Key key{u.id(), gate ? gate.id() + 1 : 0, {}};
  for (UOp i : index) key.index.push_back(i.id());
  if (auto it = memo_.find(key); it != memo_.end()) return it->second;
  UOp r;
  switch (u.op()) {
    case Op::Param:
    case Op::Constant: r = load_(u, index, gate, konst(u.dtype(), 0)); break;
    case Op::Const: r = u; break;
    case Op::Iota: r = cast(index[0], u.dtype()); break;
    case Op::Contiguous: r = value(u.src(0), index, gate); break;
    case Op::Concat: {
      // Only where it is computed in place of being stored: a chain of selections.
      size_t axis = size_t(u.arg_int());
      UOp begin = idx(0), end;
      for (UOp s : u.src()) {
        end = begin + shape(s)[axis];
        Shape at = index;
        at[axis] = simplify(index[axis] - begin);
        UOp in = simplify(le(begin, index[axis]) & lt(index[axis], end));
        UOp v = value(s, at, gate ? gate & in : in);
        r = r ? where(in, v, r) : v;
        begin = end;
      }
      break;
    }
    case Op::Pad: {
      UOp valid;
      Shape at = source_index(u, index, &valid);
      UOp g = !valid ? gate : gate ? simplify(gate & valid) : valid, x = u.src(0);
      if (valid && valid.is_const(0)) {
        r = u.src(3);
        break;
      }
      if (valid && (x.in(Op::Param | Op::Constant) || is_kept(x) || realized_->stored[x])) {
        r = load_(x, at, g, u.src(3));
        break;
      }
      UOp v = value(x, at, g);
      r = valid ? where(valid, v, u.src(3)) : v;
      break;
    }
    case Op::Gather: {
      Shape at;
      for (size_t i = 1; i < u.nsrc(); i++) at.push_back(simplify(cast(value(u.src(i), index, gate), Kind::Index)));
      r = value(u.src(0), at, gate);
      break;
    }
    case Op::Reduce: {
      ReduceArg a = u.arg<ReduceArg>();
      if (reduces_nothing(u)) {  // and nothing of it may be read: there may be no element
        r = identity(a.kind, u.dtype());
        break;
      }
      const std::vector<UOp>& rs = ranges_->reduce_ranges(root_, u, index);
      Shape at = reduced_index(a.axes, index, rs);
      bool here = root_ && asked().row[u.src(0)] == Asked::Summed;  // in the loop that fills the row
      UOp v = here ? element(u.src(0), at, gate) : value(u.src(0), at, gate);
      std::vector<UOp> src{v};
      for (UOp x : rs)
        if (x.is(Op::Range)) src.push_back(x);
      r = src.size() == 1 ? v : node(Op::Reduce, u.dtype(), std::span<const UOp>(src), ReduceArg{a.kind, {}}.ints());
      break;
    }
    case Op::Fold: {
      FoldArg a = u.arg<FoldArg>();
      const std::vector<UOp>& rs = ranges_->reduce_ranges(root_, u, index);
      Shape at = reduced_index(a.axes, index, rs);
      std::vector<UOp> src;
      for (i64 i = 0; i < a.inputs; i++) src.push_back(value(u.src(i), at, gate));
      for (i64 i = a.inputs; i < a.inputs + 3 * a.states; i++) src.push_back(u.src(i));
      for (UOp x : rs)
        if (x.is(Op::Range)) src.push_back(x);
      r = node(Op::Fold, Kind::Void, std::span<const UOp>(src), FoldArg{a.inputs, a.states, {}}.ints());
      break;
    }
    case Op::Get:
      if (reduces_nothing(u.src(0))) {
        r = u.src(0).src(size_t(u.src(0).arg<FoldArg>().inputs + u.arg_int()));
        break;
      }
      r = node(Op::Get, u.dtype(), {compute(u.src(0), index, gate)}, u.arg_int()); break;
    default:
      if (is_movement(u.op())) {
        UOp valid;
        r = value(u.src(0), source_index(u, index, &valid), gate);
        break;
      }
      TG_CHECK(is_elementwise(u.op()), "no kernel form of ", info(u.op()).name);
      std::vector<UOp> src;
      for (UOp s : u.src()) src.push_back(value(s, shape(s).empty() ? Shape{} : index, gate));
      r = u.is(Op::Bitcast) ? node(Op::Bitcast, u.dtype(), {src[0]}) : with_src(u, src);
  }
  memo_[key] = r;
  return r;
}

}  // namespace tg
