// VECTOR ranges become lanes. An access is classified by its offset: constant in the range, one apart, else a gather or scatter. What does not
// depend on the range stays scalar and is broadcast where it meets lanes. A reduce over the range keeps a vector and ends in one horizontal step.
#include "base/error.h"
#include "codegen/lower.h"
#include "ir/bounds.h"
#include "rules/symbolic.h"

namespace tg {
namespace {

class Vectorizer {
 public:
  explicit Vectorizer(const std::vector<Slot>& slots) : slots_(slots) {}
  UOp run(UOp ast) {
    std::vector<UOp> order = toposort(ast);
    bool any = false;
    for (UOp u : order) any |= lane_range(u) || u.is(Op::Dot);
    if (!any) return ast;
    to_[ast];
    over_[ast];
    for (UOp u : order) visit(u);
    return to_[ast];
  }

 private:
  static bool lane_range(UOp u) { return u.is(Op::Range) && u.arg<RangeArg>().kind == AxisKind::Vector; }
  static int lanes_of(UOp r) { return int(r.src(0).as_int()); }

  // u with `lanes` lanes.
  static UOp widen(UOp u, int lanes) {
    if (u.dtype().lanes == lanes || u.dtype().kind == Kind::Void) return u;
    DType d = u.dtype().vec(u16(lanes));
    return u.is(Op::Const) ? konst_bits(d, u.arg_bits()) : node(Op::Broadcast, d, {u});
  }

  void visit(UOp u) {
    UOp v;  // the one VECTOR range that u depends on
    if (lane_range(u)) v = u;
    else
      for (UOp s : u.src())
        if (over_[s]) {
          TG_CHECK(!v || v == over_[s], "one value over two VECTOR ranges: ", u.str());
          v = over_[s];
        }
    std::vector<UOp> src;
    bool same = true;
    for (UOp s : u.src()) src.push_back(to_[s]), same &= src.back() == s;
    if (u.is(Op::Dot)) {
      over_[u] = v;
      to_[u] = dot(u, v);
      return;
    }
    if (!v) {
      to_[u] = same ? u : one_horizontal_step(u, src);
      return;
    }
    int n = lanes_of(v);
    over_[u] = v;
    switch (u.op()) {
      case Op::Range:
        to_[u] = node(Op::Lanes, DType(Kind::Index, u16(n)), {});
        return;
      case Op::Index: to_[u] = u; return;  // read where it is used
      case Op::Load: {
        UOp at = address(u.src(0), v, n, u.nsrc() > 1 && over_[u.src(1)]);
        DType d = u.dtype().vec(u16(n));
        if (u.nsrc() == 1) to_[u] = node(Op::Load, d, {at});
        else to_[u] = node(Op::Load, d, {at, src[1], widen(src[2], n)});
        return;
      }
      case Op::Store: {
        std::vector<UOp> s{address(u.src(0), v, n, true), widen(src[1], n)};
        for (size_t i = 2; i < u.nsrc(); i++)
          if (u.src(i) != v) s.push_back(src[i]);
        to_[u] = node(Op::Store, Kind::Void, std::span<const UOp>(s));
        over_[u] = {};
        return;
      }
      case Op::Reduce: return reduce(u, v, n, src);
      case Op::Fold: return fold(u, v, n, src);
      case Op::Get: {
        UOp f = to_[u.src(0)];
        if (f.is(Op::Group)) {  // lanes are merged already
          to_[u] = f.src(size_t(u.arg_int()));
          over_[u] = {};
        } else {
          to_[u] = node(Op::Get, u.dtype().vec(u16(n)), {f}, u.arg_int());
        }
        return;
      }
      default: break;
    }
    TG_CHECK(is_elementwise(u.op()), "no lanes for ", info(u.op()).name);
    for (UOp& s : src) s = widen(s, n);
    if (u.is(Op::Add) && u.dtype().kind == Kind::I32 && (src[0].is(Op::Dot) || src[1].is(Op::Dot))) {
      size_t side = src[0].is(Op::Dot) ? 0 : 1;
      to_[u] = started(src[side], src[1 - side]);
      return;
    }
    to_[u] = is_alu(u.op()) ? alu(u.op(), src) : Arena::current().make(u.op(), u.dtype().vec(u16(n)), src, u.node()->arg);
  }

  // Partial results of one reduce are combined as vectors, before their horizontal step.
  static UOp one_horizontal_step(UOp u, std::span<const UOp> src) {
    if (is_binary(u.op()) && src[0].is(Op::HReduce) && src[1].is(Op::HReduce) && src[0].arg_int() == src[1].arg_int() &&
        alu_op(ReduceKind(src[0].arg_int())) == u.op() && src[0].src(0).dtype() == src[1].src(0).dtype())
      return node(Op::HReduce, u.dtype(), {alu(u.op(), {src[0].src(0), src[1].src(0)})}, src[0].arg_int());
    return with_src(u, src);
  }

  // An expression over nodes seen so far, without the lane's own range: REDUCEs in it have lanes of their own.
  UOp rewritten(UOp e) {
    if (to_[e]) return to_[e];
    std::vector<UOp> src;
    for (UOp s : e.src()) src.push_back(rewritten(s));
    return to_[e] = with_src(e, src);
  }

  // The address of n lanes: one scalar offset if they are neighbours, else a vector of offsets.
  UOp address(UOp index, UOp v, int n, bool per_lane) {
    auto l = linear_in(index.src(1), v);
    if (l) l->rest = rewritten(l->rest);
    if (l && l->factor == 1) return node(Op::Index, index.dtype(), {to_[index.src(0)], l->rest});
    if (l && l->factor == 0 && !per_lane) return node(Op::Index, index.dtype(), {to_[index.src(0)], l->rest});
    DType d(Kind::Index, u16(n));
    UOp off;
    if (l) off = alu(Op::Add, {widen(l->rest, n), alu(Op::Mul, {node(Op::Lanes, d, {}), widen(idx(l->factor), n)})});
    else off = widen(to_[index.src(1)], n);
    return node(Op::Index, index.dtype(), {to_[index.src(0)], off});
  }

  // --- dot instructions -------------------------------------------------------------------------------------------------------------------
  // DOT(a.., b..) over the lanes of v. Neighbours in memory are loaded as they lie; anything else is put in order in registers.
  UOp dot(UOp u, UOp v) {
    size_t group = u.nsrc() / 2;
    std::span<const UOp> a = u.src().first(group), b = u.src().subspan(group);
    int n = v ? lanes_of(v) : 1;
    if (n != 4 && n != 8 && n != 16) return sum_of_products(u, a, b, n);
    UOp zero = konst(u.dtype().vec(u16(n)), 0);
    return node(Op::Dot, zero.dtype(), {dot_operand(a, v, n), dot_operand(b, v, n), zero});
  }

  // Lanes that no register of the instruction has.
  UOp sum_of_products(UOp u, std::span<const UOp> a, std::span<const UOp> b, int n) {
    UOp sum;
    DType d = u.dtype().vec(u16(n));
    auto in = [&](UOp x) { return widen(n == 1 ? cast(to_[x], d) : node(Op::Cast, u.dtype().vec(to_[x].dtype().lanes), {to_[x]}), n); };
    for (size_t i = 0; i < a.size(); i++) {
      UOp p = alu(Op::Mul, {in(a[i]), in(b[i])});
      sum = sum ? alu(Op::Add, {sum, p}) : p;
    }
    return sum;
  }

  // DOTs that sum from `rest` on: integers, in whichever order.
  static UOp started(UOp d, UOp rest) {
    UOp c = d.src(2);
    UOp from = c.is_const(0) ? rest : c.is(Op::Dot) ? started(c, rest) : alu(Op::Add, {c, rest});
    return node(Op::Dot, d.dtype(), {d.src(0), d.src(1), from});
  }

  UOp dot_operand(std::span<const UOp> x, UOp v, int n) {
    int group = int(x.size());
    if (UOp l = neighbours(x, v, n)) return l;
    if (UOp l = with_zeros(x, v, n)) return l;
    bool lanes = false;
    for (UOp e : x) lanes |= bool(over_[e]);
    DType one = x[0].dtype();
    std::vector<UOp> parts;
    for (UOp e : x) parts.push_back(lanes ? widen(to_[e], n) : to_[e]);
    if (!lanes) return node(Op::Pack, one.vec(u16(group)), std::span<const UOp>(parts));
    // Pairs of vectors are interleaved: 0 with the middle one, and so on, then what comes of it.
    while (parts.size() > 1) {
      std::vector<UOp> next;
      size_t half = parts.size() / 2;
      int w = parts[0].dtype().lanes;
      Ints order;
      for (int i = 0; i < w; i++) order.push_back(i), order.push_back(i + w);
      for (size_t i = 0; i < half; i++) next.push_back(node(Op::Shuffle, one.vec(u16(2 * w)), {parts[i], parts[i + half]}, order));
      parts = next;
    }
    return parts[0];
  }

  // A group that ends in zeros, the same for all lanes, as one LOAD of a whole group and zeros in their place: the LOAD reaches beyond, or begins in
  // front, whichever the buffer has for sure.
  UOp with_zeros(std::span<const UOp> x, UOp v, int n) {
    size_t zeros = 0, group = x.size();
    while (zeros < group && x[group - 1 - zeros].is_const(0)) zeros++;
    if (zeros == 0 || zeros == group || !x[0].is(Op::Load)) return {};
    UOp at = x[0].src(0), buffer = at.src(0), off = at.src(1);
    if (x[0].nsrc() > 1 || over_[off]) return {};
    i64 last = buffer.is(Op::Param) && buffer.arg_int() < i64(slots_.size()) ? slots_[size_t(buffer.arg_int())].layout.elems() - 1 : -1;
    i64 before = 0;
    if (bounds(off).hi + i64(group) - 1 > last) before = i64(zeros);
    if (bounds(off).lo < before) return {};
    auto load = [&](UOp offset) { return node(Op::Load, x[0].dtype(), {node(Op::Index, at.dtype(), {buffer, offset})}); };
    for (size_t i = 1; i < group - zeros; i++)
      if (!x[i].is(Op::Load) || x[i].nsrc() > 1 || x[i].src(0).src(0) != buffer || !simplify(x[i].src(0).src(1) - off).is_const(i64(i))) return {};
    std::vector<UOp> whole;
    for (size_t i = 0; i < group; i++) whole.push_back(load(simplify(off + (i64(i) - before))));
    UOp l = neighbours(whole, v, n);
    if (!l) return {};
    Ints order;
    for (size_t i = 0; i < group; i++) order.push_back(i < group - zeros ? i64(i) + before : i64(group));
    return node(Op::Shuffle, l.dtype(), {l, konst_bits(l.dtype(), 0)}, order);
  }

  // The operand as one LOAD: element j of the group stands j after the first, and lanes a whole group apart or in one place.
  UOp neighbours(std::span<const UOp> x, UOp v, int n) {
    i64 group = i64(x.size());
    UOp first = x[0];
    if (!first.is(Op::Load) || (first.nsrc() > 1 && (over_[first.src(1)] || !first.src(2).is_const()))) return {};
    for (i64 j = 1; j < group; j++) {
      UOp e = x[size_t(j)];
      if (!e.is(Op::Load) || e.nsrc() != first.nsrc() || e.src(0).src(0) != first.src(0).src(0)) return {};
      if (first.nsrc() > 1 && (e.src(1) != first.src(1) || e.src(2) != first.src(2))) return {};
      if (!simplify(e.src(0).src(1) - first.src(0).src(1)).is_const(j)) return {};
    }
    auto l = linear_in(first.src(0).src(1), v);
    if (!l || (l->factor != 0 && l->factor != group)) return {};
    DType d = first.dtype().vec(u16(l->factor ? group * n : group));
    UOp at = node(Op::Index, first.src(0).dtype(), {to_[first.src(0).src(0)], rewritten(l->rest)});
    if (first.nsrc() == 1) return node(Op::Load, d, {at});
    return node(Op::Load, d, {at, to_[first.src(1)], konst_bits(d, first.src(2).arg_bits())});
  }

  void reduce(UOp u, UOp v, int n, const std::vector<UOp>& src) {
    std::vector<UOp> s;
    bool closes = false;
    for (size_t i = 0; i < src.size(); i++) {
      if (u.src(i) == v) closes = true;
      else s.push_back(u.src(i).is(Op::Range) ? src[i] : widen(src[i], n));
    }
    std::vector<UOp> loops;
    for (UOp x : s)
      if (x.is(Op::Range)) loops.push_back(x);
    UOp r = s[0];
    ReduceArg a = u.arg<ReduceArg>();
    if (!loops.empty() || s.size() > 1) r = node(Op::Reduce, u.dtype().vec(u16(n)), std::span<const UOp>(s), a.ints());
    if (closes) {
      r = node(Op::HReduce, u.dtype(), {r}, i64(a.kind));
      over_[u] = {};
    }
    to_[u] = r;
  }

  void fold(UOp u, UOp v, int n, const std::vector<UOp>& src) {
    FoldArg a = u.arg<FoldArg>();
    std::vector<UOp> s;
    bool closes = false;
    for (size_t i = 0; i < src.size(); i++) {
      if (u.src(i) == v) closes = true;
      else if (i64(i) < a.inputs) s.push_back(widen(src[i], n));
      else s.push_back(u.src(i).is(Op::Range) ? src[i] : u.src(i));  // states and steps stay scalar: instantiated with lanes
    }
    UOp f = node(Op::Fold, DType(Kind::Void, u16(n)), std::span<const UOp>(s), a.ints());
    if (closes) {
      std::vector<std::vector<UOp>> parts;
      for (int lane = 0; lane < n; lane++) {
        std::vector<UOp> states;
        for (i64 i = 0; i < a.states; i++) {
          DType d = u.src(size_t(a.inputs + i)).dtype();
          states.push_back(node(Op::Extract, d, {node(Op::Get, d.vec(u16(n)), {f}, i)}, lane));
        }
        parts.push_back(states);
      }
      while (parts.size() > 1) {
        std::vector<std::vector<UOp>> next;
        for (size_t i = 0; i + 1 < parts.size(); i += 2) next.push_back(merge_fold_states(u, parts[i], parts[i + 1]));
        if (parts.size() % 2) next.push_back(parts.back());
        parts = next;
      }
      f = node(Op::Group, Kind::Void, std::span<const UOp>(parts[0]));
      over_[u] = v;  // GET looks here; it ends the lanes
    }
    to_[u] = f;
  }

  const std::vector<Slot>& slots_;
  Memo<UOp> to_, over_;
};

}  // namespace

UOp vectorize(UOp ast, const std::vector<Slot>& slots) { return Vectorizer(slots).run(ast); }

}  // namespace tg
