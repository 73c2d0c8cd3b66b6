// UPCAST, VECTOR, UNROLL and the group of TC: the innermost values of an axis become a piece of their own.
#include <algorithm>

#include "ir/bounds.h"
#include "opt/apply.h"
#include "rules/symbolic.h"

namespace tg::opt {

namespace {

// A row on the stack that is written anew for each value of the loop `in`: copies and lanes of the loop get rows of their own.
UOp widen_rows(UOp ast, UOp in) {
  std::vector<UOp> topo = toposort(ast), rows;
  Memo<u8> dep;
  for (UOp u : topo) {
    for (UOp s : u.src()) dep[u] |= dep[s];
    if (u == in) dep[u] = 1;
    if (closes_ranges(u.op()) && std::find(u.src().begin(), u.src().end(), in) != u.src().end()) dep[u] = 0;
    if (u.is(Op::Store) && dep[u] && memory_of(u.src(0)).is(Op::Row)) rows.push_back(memory_of(u.src(0)));
  }
  if (rows.empty()) return ast;
  UOp n = in.src(0);
  Memo<UOp> to;
  for (UOp u : topo) {
    std::vector<UOp> src;
    for (UOp s : u.src()) src.push_back(to[s]);
    if (std::find(rows.begin(), rows.end(), u) != rows.end()) src[0] = src[0] * n;
    // Lanes of one place stand side by side, copies row after row: either way vectors are neighbours.
    if (u.is(Op::Index) && std::find(rows.begin(), rows.end(), memory_of(u)) != rows.end())
      src[1] = in.arg<RangeArg>().kind == AxisKind::Vector ? src[1] * n + in : in * memory_of(u).src(0) + src[1];
    to[u] = std::equal(src.begin(), src.end(), u.src().begin(), u.src().end()) ? u : with_src(u, src);
  }
  return to[ast];
}

// Is some buffer both read and written? Then doing again what has been done may give something else.
bool reads_what_it_writes(UOp ast) {
  std::vector<UOp> topo = toposort(ast), stored;
  for (UOp u : topo)
    if (u.is(Op::Store)) stored.push_back(memory_of(u.src(0)));
  return std::any_of(topo.begin(), topo.end(),
                     [&](UOp u) { return u.is(Op::Load) && std::find(stored.begin(), stored.end(), memory_of(u.src(0))) != stored.end(); });
}

// Loop nests of their own (the copies of PEEL, the phases of a row) may each have lanes; one value may not have two sets of them.
bool two_sets_of_lanes(UOp ast) {
  Memo<UOp> over;
  for (UOp u : toposort(ast)) {
    UOp v = u.is(Op::Range) && u.arg<RangeArg>().kind == AxisKind::Vector ? u : UOp{};
    if (!u.is(Op::Sink))
      for (UOp s : u.src()) {
        if (!over[s]) continue;
        if (v && v != over[s]) return true;
        v = over[s];
      }
    if (v && u.in(Op::Reduce | Op::Fold | Op::Store)) {
      std::vector<UOp> l = closed_ranges(u);
      if (std::find(l.begin(), l.end(), v) != l.end()) v = {};
    }
    over[u] = v;
  }
  return false;
}

}  // namespace

// Splits the innermost n off every RANGE of the axis.
R split(const Kernel& k, const Opt& o, AxisKind kind) {
  Found f = find_axis(k, o);
  if (!f.why.empty()) return R::no(f.why);
  const Axis& a = f.axis;
  bool clamp = a.free && o.arg > 1 && !a.divides(o.arg) && kind == AxisKind::Upcast;
  if (o.arg < 1 || (!clamp && !a.divides(o.arg)))
    return R::no("axis ", o.target, " of size ", a.free ? a.extent().str() : str(a.size), " is no multiple of ", o.arg);
  if (clamp && std::any_of(a.ranges.begin(), a.ranges.end(), [](UOp r) { return r.arg<RangeArg>().kind != AxisKind::Loop; }))
    return R::no("free axis ", o.target, " is a loop of reduces too");
  if (clamp && reads_what_it_writes(k.ast))
    return R::no("the last rows of free axis ", o.target, " would be made twice, from what is written over");
  if (a.kind != AxisKind::Loop && a.kind != AxisKind::Reduce) return R::no("axis ", o.target, " is split already");
  if ((kind == AxisKind::Unroll || kind == AxisKind::Dot) && a.output)
    return R::no(kind == AxisKind::Dot ? "TC" : "UNROLL", " is for reduce axes");
  if (kind == AxisKind::Upcast && !a.output) return R::no("UPCAST is for output axes");
  i64 part = next_part(k.ast, a.id);
  std::map<u32, Split> map;
  std::vector<UOp> inner;
  for (UOp r : a.ranges) {
    AxisKind rk = kind;
    bool reduce = r.arg<RangeArg>().kind == AxisKind::Reduce;
    if (kind == AxisKind::Upcast && reduce) rk = AxisKind::Unroll;  // the row loops of a kernel's other phases
    UOp in = piece(idx(o.arg), r, part, rk);
    inner.push_back(in);
    if (!a.free && a.size == o.arg) {
      map[r.id()] = {in, {in}};
    } else {
      UOp n = r.src(0), times = simplify((clamp ? n + (o.arg - 1) : n) / o.arg);
      UOp outer = piece(times, r, a.part, r.arg<RangeArg>().kind), value = outer * idx(o.arg) + in;
      map[r.id()] = {clamp ? min(value, n - 1) : value, {outer, in}};
    }
  }
  Kernel n = k;
  n.ast = replace_ranges(k.ast, map);
  for (UOp in : inner) n.ast = widen_rows(n.ast, in);
  n.ast = simplify(n.ast);
  n.opts.push_back(o);
  return n;
}

R vector(const Kernel& k, const Opt& o) {
  for (UOp u : toposort(k.ast))
    if (u.in(Op::Param | Op::Load) && bits(u.dtype()) < 8) return R::no("elements under 8 bits have no lanes");
  if (o.arg < 2 || o.arg > 64) return R::no("VECTOR of ", o.arg);
  R r = split(k, o, AxisKind::Vector);
  if (r && two_sets_of_lanes(r->ast)) return R::no("a value would run in the lanes of two axes");
  return r;
}

}  // namespace tg::opt
