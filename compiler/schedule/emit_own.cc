// Ops with kernels of their own: CONCAT, SCATTER, SCAN, SORT.

#include "base/error.h"
#include "ir/sum.h"
#include "schedule/scheduler.h"

namespace tg {

void Scheduler::emit_concat(UOp u) {
  size_t axis = size_t(u.arg_int());
  UOp begin = idx(0);
  Place to = place_of(u);
  if (to.begin.empty()) to.begin.assign(rank(u), idx(0));
  for (UOp s : u.src()) {
    Place box = to;
    box.begin[axis] = box.begin[axis] + begin;
    begin = begin + shape(s)[axis];
    if (realized_.stored[s]) {
      Place own = place_of(s);
      if (own.buffer == box.buffer && own.begin == box.begin) continue;
    }
    if (is_there(s, box)) continue;
    emit_plain(s, s, box, "copy");
  }
}

void Scheduler::emit_scatter(UOp u) {
  Place to = place_of(u);
  {
    Params p;
    p.slot(s_, to.buffer);
    std::vector<UOp> rs = ranges_.output_ranges(u);
    Shape index(rs.begin(), rs.end());
    if (!empty(u)) {
      UOp st = store(p, to, index, builder(u, p).value(u.src(0), index), rs);
      finish({st}, p, 1, "copy" + shape_name(u));
    }
  }
  if (empty(u.src(1)) || empty(u)) return;
  Params p;
  p.slot(s_, to.buffer);
  Builder b = builder(u, p);
  std::vector<UOp> rs;
  std::vector<i64> ordered;
  i64 id = 1000;
  for (UOp d : shape(u.src(1))) {
    rs.push_back(d.is_const(1) ? idx(0) : range(d, {id++, 0, 0, AxisKind::Loop}));
    if (rs.back().is(Op::Range)) ordered.push_back(id - 1);
  }
  Shape index(rs.begin(), rs.end()), at;
  for (size_t i = 2; i < u.nsrc(); i++) at.push_back(simplify(cast(b.value(u.src(i), index), Kind::Index)));
  UOp v = b.value(u.src(1), index);
  ScatterKind k = ScatterKind(u.arg_int());
  if (k != ScatterKind::Set) {
    constexpr Op kOps[] = {Op::Add, Op::Add, Op::Mul, Op::Max, Op::Min};
    v = alu(kOps[int(k)], {node(Op::Load, u.dtype(), {index_of(p, to, at)}), v});
  }
  UOp st = store(p, to, at, v, rs);
  finish({st}, p, 1, "scatter" + shape_name(u.src(1)), ordered);
}

void Scheduler::emit_scan(UOp u) {
  if (empty(u)) return;
  ScanArg a = u.arg<ScanArg>();
  Place to = place_of(u);
  Params p;
  p.slot(s_, to.buffer);
  Builder b = builder(u, p);
  std::vector<UOp> rs = ranges_.output_ranges(u);
  Shape index(rs.begin(), rs.end());
  UOp r = index[a.axis], n = shape(u)[a.axis], id = identity(a.kind, u.dtype());
  auto position = [&](UOp i) { return a.reverse ? simplify(n - 1 - i) : i; };
  Shape at = index, before = index, from = index;
  at[a.axis] = position(r);
  before[a.axis] = position(simplify(r - 1));
  from[a.axis] = a.exclusive ? before[a.axis] : at[a.axis];
  UOp first = eq(r, idx(0)), later = simplify(logical_not(first));
  UOp prev = later.is_const(0) ? id : node(Op::Load, u.dtype(), {index_of(p, to, before), later, id});
  UOp x = a.exclusive ? where(first, id, b.value(u.src(0), from, later)) : b.value(u.src(0), from);
  UOp st = store(p, to, at, alu(alu_op(a.kind), {prev, x}), rs);
  std::vector<i64> ordered;
  if (r.is(Op::Range)) ordered.push_back(r.arg<RangeArg>().id);
  finish({st}, p, 1, "scan" + shape_name(u), ordered);
}

void Scheduler::emit_sort(UOp u) {
  if (empty(u)) return;
  SortArg a = u.arg<SortArg>();
  Place to = place_of(u);
  UOp n = shape(u)[a.axis];
  i64 log = 0;
  while ((i64(1) << log) < most(n)) log++;
  i64 padded = i64(1) << log;
  Shape sdims = shape(u);
  sdims[a.axis] = idx(padded);
  UOp x = u.src(0);
  u32 keys = add_buffer(Buffer::Scratch, 0, x.dtype(), sdims), ids = add_buffer(Buffer::Scratch, 0, Kind::I32, sdims);
  Params p;
  p.slot(s_, to.buffer);
  Place pk{keys, {}, {}}, pi{ids, {}, {}};
  p.slot(s_, keys), p.slot(s_, ids);
  Builder b = builder(u, p);
  std::vector<UOp> rs = ranges_.output_ranges(u), outer = rs;
  outer[a.axis] = idx(0);
  i64 id = 1000;
  auto at = [&](UOp i) {
    Shape s(outer.begin(), outer.end());
    s[a.axis] = i;
    return s;
  };
  auto with = [&](std::vector<UOp> inner) {
    std::vector<UOp> v;
    for (UOp r : outer)
      if (r.is(Op::Range)) v.push_back(r);
    v.insert(v.end(), inner.begin(), inner.end());
    return v;
  };
  std::vector<UOp> effects;
  // The loops over the row are phases of one axis: each stands behind the one before.
  i64 row = id++;
  UOp fill = range(idx(padded), {row, 0, 0, AxisKind::Loop});
  UOp inside = simplify(lt(fill, n));
  UOp fill_loop = padded == 1 ? idx(0) : fill;
  UOp key = b.value(x, at(fill_loop), inside.is_const(1) ? UOp{} : inside);
  effects.push_back(store(p, pk, at(fill_loop), key, with({fill_loop})));
  effects.push_back(store(p, pi, at(fill_loop), cast(fill_loop, Kind::I32), with({fill_loop})));
  std::vector<i64> ordered{fill.arg<RangeArg>().id};
  for (UOp r : outer)
    if (r.is(Op::Range)) ordered.push_back(r.arg<RangeArg>().id);
  if (padded > 1) {
    // Stage (k, j): elements 2^(k-j) apart are put in the order of their block of 2^(k+1).
    UOp k = range(idx(log), {id++, 0, 0, AxisKind::Loop}), j = range(k + 1, {id++, 0, 0, AxisKind::Loop});
    UOp i = range(idx(padded / 2), {row, 0, 1, AxisKind::Loop});
    UOp apart = alu(Op::Shl, {idx(1), k - j});
    UOp lo = (i / apart) * (apart * 2) + i % apart, hi = lo + apart;
    UOp up = eq((lo / alu(Op::Shl, {idx(2), k})) % idx(2), idx(0));
    auto fresh = [&](const Place& pl, UOp where_) {
      UOp ix = index_of(p, pl, at(where_));
      std::vector<UOp> src(ix.src().begin(), ix.src().end());
      std::vector<UOp> after{src[0], effects[0], effects[1]};
      src[0] = node(Op::After, src[0].dtype(), std::span<const UOp>(after));
      return node(Op::Load, s_.buffers[pl.buffer].dtype, {node(Op::Index, ix.dtype(), std::span<const UOp>(src))});
    };
    UOp ka = fresh(pk, lo), kb = fresh(pk, hi), ia = fresh(pi, lo), ib = fresh(pi, hi);
    UOp swap = eq(sorts_before(kb, ib, ka, ia, a.descending, n), up);
    std::vector<UOp> loops = with({k, j, i});
    UOp s0 = store(p, pk, at(lo), where(swap, kb, ka), loops), s1 = store(p, pk, at(hi), where(swap, ka, kb), loops);
    UOp s2 = store(p, pi, at(lo), where(swap, ib, ia), loops), s3 = store(p, pi, at(hi), where(swap, ia, ib), loops);
    effects = {s0, s1, s2, s3};
    for (UOp r : {k, j, i}) ordered.push_back(r.arg<RangeArg>().id);
  }
  UOp out = range(n, {row, 0, 2, AxisKind::Loop});
  UOp o = n.is_const(1) ? idx(0) : out;
  ordered.push_back(out.arg<RangeArg>().id);
  UOp ix = index_of(p, pi, at(o));
  std::vector<UOp> src(ix.src().begin(), ix.src().end());
  std::vector<UOp> after{src[0]};
  after.insert(after.end(), effects.begin(), effects.end());
  src[0] = node(Op::After, src[0].dtype(), std::span<const UOp>(after));
  UOp got = node(Op::Load, Kind::I32, {node(Op::Index, ix.dtype(), std::span<const UOp>(src))});
  UOp st = store(p, to, at(o), cast(got, Kind::I64), with({o}));
  finish({st}, p, 3, "sort" + shape_name(u), ordered);
}

UOp Scheduler::sorts_before(UOp k, UOp i, UOp l, UOp j, bool descending, UOp n) {
  UOp a = descending ? lt(l, k) : lt(k, l);
  UOp same = eq(k, l);
  if (is_float(k.dtype())) {
    UOp kn = ne(k, k), ln = ne(l, l);
    a = descending ? (a | (kn & logical_not(ln))) : (a | (ln & logical_not(kn)));
    same = same | (kn & ln);
  }
  UOp before = a | (same & lt(i, j));
  if (n.is_const() && std::has_single_bit(u64(n.as_int()))) return before;
  n = cast(n, i.dtype());
  UOp kp = le(n, i), lp = le(n, j);
  return where(kp | lp, logical_not(kp) | (lp & lt(i, j)), before);
}

}  // namespace tg
