// The register tile: every node that depends on an UPCAST or UNROLL range becomes one node a value of it. A REDUCE over an UNROLL range takes
// its copies one after another into one accumulator, or, where few accumulators would leave the pipes idle, into one accumulator each.
#include <algorithm>
#include <map>

#include "base/error.h"
#include "codegen/lower.h"
#include "opt/limits.h"

namespace tg {

std::vector<UOp> reduce_values(UOp u) {
  std::vector<UOp> r;
  for (UOp s : u.src())
    if (!s.is(Op::Range)) r.push_back(s);
  return r;
}

UOp instantiate(UOp expr, std::span<const std::pair<UOp, UOp>> values, int lanes) {
  Memo<UOp> to;
  for (auto [a, b] : values) to[a] = b;
  for (UOp u : toposort(expr)) {
    if (to[u]) continue;
    if (u.is(Op::Const)) {
      to[u] = lanes == 1 ? u : konst_bits(u.dtype().scalar().vec(u16(lanes)), u.arg_bits());
      continue;
    }
    std::vector<UOp> src;
    for (UOp s : u.src()) src.push_back(to[s]);
    if (is_alu(u.op())) to[u] = alu(u.op(), src);
    else {
      TG_CHECK(u.in(Op::Cast | Op::Bitcast | Op::Lookup), "not a FOLD's step: ", u.str());
      to[u] = Arena::current().make(u.op(), u.dtype().scalar().vec(u16(lanes)), src, u.node()->arg);
    }
  }
  return to[expr];
}

namespace {

constexpr size_t kEnoughAccumulators = 8;

class Expander {
 public:
  explicit Expander(std::span<const DotRow> rows) : rows_(rows) {}
  UOp run(UOp ast) {
    std::vector<UOp> order = toposort(ast);
    std::vector<i64> lanes;  // axes that run in lanes too
    for (UOp u : order) {
      if (!u.is(Op::Range)) continue;
      RangeArg a = u.arg<RangeArg>();
      if (a.kind == AxisKind::Vector) lanes.push_back(a.id);
      if (a.kind != AxisKind::Upcast && a.kind != AxisKind::Unroll && a.kind != AxisKind::Dot) continue;
      TG_CHECK(ranges_.size() < kMostUnrolledRanges && u.src(0).is_const(), "an Opt was taken that gives more unrolled loops than can be numbered");
      ranges_.push_back(u);
    }
    if (ranges_.empty()) return ast;
    // Copies along the lanes' axis vary fastest: a scalar that is broadcast to all vectors of a row dies with the row, and so takes one register.
    std::stable_partition(ranges_.begin(), ranges_.end(), [&](UOp r) { return std::find(lanes.begin(), lanes.end(), r.arg<RangeArg>().id) == lanes.end(); });
    // The products of one dot instruction stand together.
    std::stable_partition(ranges_.begin(), ranges_.end(), [](UOp r) { return r.arg<RangeArg>().kind != AxisKind::Dot; });
    for (size_t i = 0; i < ranges_.size(); i++) bit_[ranges_[i]] = u32(i) + 1;
    values_[ast];  // the highest id: references into the memo stay valid
    for (UOp u : order) visit(u);
    return values_[ast][0];
  }

 private:
  i64 size(u32 r) const { return ranges_[r].src(0).as_int(); }

  // Copies of a node are numbered in mixed radix over the ranges in its mask, ascending; the first range varies slowest.
  i64 copies(u32 mask) const {
    i64 n = 1;
    for (u32 r = 0; r < ranges_.size(); r++)
      if (mask >> r & 1) n *= size(r);
    return n;
  }
  // The copy of a node of mask `sub` that goes with copy `c` of a node of mask `mask`, a superset.
  i64 project(u32 mask, i64 c, u32 sub) const {
    if (mask == sub) return c;
    i64 out = 0, weight = 1;
    for (u32 r = u32(ranges_.size()); r-- > 0;) {
      if (!(mask >> r & 1)) continue;
      i64 d = c % size(r);
      c /= size(r);
      if (sub >> r & 1) out += d * weight, weight *= size(r);
    }
    return out;
  }
  UOp at(UOp s, u32 mask, i64 c) { return values_[s][size_t(project(mask, c, mask_[s]))]; }

  void visit(UOp u) {
    std::vector<UOp>& out = values_[u];
    if (u32 b = bit_[u]) {
      mask_[u] = 1u << (b - 1);
      for (i64 i = 0; i < size(b - 1); i++) out.push_back(idx(i));
      return;
    }
    if (u.is(Op::Get)) {  // of a FOLD, or of the GROUP of its merged states
      mask_[u] = mask_[u.src(0)];
      for (UOp f : values_[u.src(0)]) out.push_back(f.is(Op::Fold) ? node(Op::Get, u.dtype(), {f}, u.arg_int()) : f.src(size_t(u.arg_int())));
      return;
    }
    u32 mask = 0;
    for (UOp s : u.src()) mask |= mask_[s];
    if (!mask) {
      mask_[u] = 0;
      std::vector<UOp> src;
      bool same = true;
      for (UOp s : u.src()) src.push_back(values_[s][0]), same &= src.back() == s;
      out.push_back(same ? u : with_src(u, src));
      return;
    }
    switch (u.op()) {
      case Op::Reduce: return reduce(u, mask);
      case Op::Fold: return fold(u, mask);
      case Op::Sink:
      case Op::Group:
      case Op::After: {
        // Effects are taken in all their copies.
        size_t fixed = u.is(Op::After) ? 1 : 0;
        u32 m = fixed ? mask_[u.src(0)] : 0;
        mask_[u] = m;
        for (i64 c = 0; c < copies(m); c++) {
          std::vector<UOp> src;
          if (fixed) src.push_back(at(u.src(0), m, c));
          for (size_t i = fixed; i < u.nsrc(); i++)
            for (UOp v : values_[u.src(i)]) src.push_back(v);
          out.push_back(Arena::current().make(u.op(), u.dtype(), src, u.node()->arg));
        }
        return;
      }
      default: break;
    }
    mask_[u] = mask;
    for (i64 c = 0; c < copies(mask); c++) {
      std::vector<UOp> src;
      for (size_t i = 0; i < u.nsrc(); i++) {
        UOp s = u.src(i);
        if (u.is(Op::Store) && i >= 2 && bit_[s]) continue;  // its loop is gone
        src.push_back(at(s, mask, c));
      }
      out.push_back(with_src(u, src));
    }
  }

  static UOp combine(ReduceKind k, UOp a, UOp b) { return k == ReduceKind::MaxAny ? where(lt(b, a), a, b) : alu(alu_op(k), {a, b}); }

  void reduce(UOp u, u32 mask) {
    ReduceArg a = u.arg<ReduceArg>();
    u32 closed = 0;
    std::vector<UOp> loops;
    for (UOp r : closed_ranges(u)) {
      if (bit_[r]) closed |= 1u << (bit_[r] - 1);
      else loops.push_back(values_[r][0]);
    }
    u32 value_mask = 0;
    for (UOp v : reduce_values(u)) value_mask |= mask_[v];
    u32 kept = value_mask & ~closed;
    for (UOp r : loops) kept |= mask_[r];
    (void)mask;
    mask_[u] = kept;
    std::vector<UOp>& out = values_[u];
    i64 terms = copies(closed), results = copies(kept);
    i64 group = 1;
    for (u32 r = 0; r < ranges_.size(); r++)
      if (closed >> r & 1 && ranges_[r].arg<RangeArg>().kind == AxisKind::Dot) group = size(r);
    bool separate = size_t(results) < kEnoughAccumulators && !loops.empty();
    bool lanes = std::all_of(loops.begin(), loops.end(), [](UOp r) { return r.arg<RangeArg>().kind == AxisKind::Vector; });
    for (i64 c = 0; c < results; c++) {
      std::vector<UOp> vals;
      for (i64 t = 0; t < terms; t++)
        for (UOp v : reduce_values(u)) {
          // Copy number of v from the kept digits of c and the closed digits of t.
          i64 n = 0, weight = 1, cc = c, tt = t;
          for (u32 r = u32(ranges_.size()); r-- > 0;) {
            i64 d = 0;
            if (kept >> r & 1) d = cc % size(r), cc /= size(r);
            else if (closed >> r & 1) d = tt % size(r), tt /= size(r);
            if (mask_[v] >> r & 1) n += d * weight, weight *= size(r);
          }
          vals.push_back(values_[v][size_t(n)]);
        }
      if (group > 1 && reduce_values(u).size() == 1) vals = dots(vals, group, u.dtype());
      auto close = [&](std::vector<UOp> v) {
        v.insert(v.end(), loops.begin(), loops.end());
        return node(Op::Reduce, u.dtype(), std::span<const UOp>(v), ReduceArg{a.kind, {}}.ints());
      };
      if ((loops.empty() || (separate && lanes)) && products(a.kind, vals)) {
        // Sums of products are chains of multiply-adds, as many as keep the pipes busy.
        size_t chains = std::clamp<size_t>(kEnoughAccumulators / size_t(results), 1, std::max<size_t>(1, vals.size() / 2));
        std::vector<UOp> parts;
        for (size_t p = 0; p < chains; p++) {
          std::vector<UOp> part;
          for (size_t i = p; i < vals.size(); i += chains) part.push_back(vals[i]);
          parts.push_back(close(part));
        }
        out.push_back(tree(a.kind, parts));
      } else if (loops.empty()) {
        // No loop is left: a tree, so that long sums lose no more than a loop's would.
        out.push_back(tree(a.kind, vals));
      } else if (separate && lanes) {
        out.push_back(close({tree(a.kind, vals)}));
      } else if (separate) {
        std::vector<UOp> parts;
        for (UOp v : vals) parts.push_back(close({v}));
        out.push_back(tree(a.kind, parts));
      } else {
        out.push_back(close(vals));
      }
    }
  }

  static bool products(ReduceKind kind, const std::vector<UOp>& vals) {
    return kind == ReduceKind::Add && vals.size() > 1 && std::all_of(vals.begin(), vals.end(), [](UOp v) {
      return v.is(Op::Mul) && (v.dtype().kind == Kind::F32 || v.dtype().kind == Kind::F64) && !v.src(0).is_const() && !v.src(1).is_const();
    });
  }

  // Products that stand together as one DOT(a.., b..), where every group is of kinds that a row has.
  std::vector<UOp> dots(const std::vector<UOp>& vals, i64 group, DType sum) {
    std::vector<UOp> out;
    for (size_t i = 0; i < vals.size(); i += size_t(group)) {
      std::vector<UOp> a, b;
      for (size_t j = i; j < i + size_t(group); j++) {
        UOp v = vals[j];
        if (!v.is(Op::Mul) || !v.src(0).is(Op::Cast) || !v.src(1).is(Op::Cast)) return vals;
        UOp x = v.src(0).src(0), y = v.src(1).src(0);
        if (!a.empty() && (x.dtype() != a[0].dtype() || y.dtype() != b[0].dtype() || !alike(x, a[0]))) std::swap(x, y);
        if (!a.empty() && (x.dtype() != a[0].dtype() || y.dtype() != b[0].dtype())) return vals;
        a.push_back(x), b.push_back(y);
      }
      const DotRow* row = find_dot(rows_, a[0].dtype().kind, b[0].dtype().kind, sum.kind, group);
      if (!row) return vals;
      if (a[0].dtype().kind != row->a) std::swap(a, b);
      a.insert(a.end(), b.begin(), b.end());
      out.push_back(node(Op::Dot, sum, std::span<const UOp>(a)));
    }
    return out;
  }
  // Reads of one buffer: the same factor of two products, whose order may differ.
  static bool alike(UOp x, UOp y) {
    if (x.op() != y.op()) return false;
    return !x.is(Op::Load) || x.src(0).src(0) == y.src(0).src(0);
  }

  static UOp tree(ReduceKind k, std::vector<UOp> v) {
    for (; v.size() > 1;) {
      std::vector<UOp> w;
      for (size_t i = 0; i + 1 < v.size(); i += 2) w.push_back(combine(k, v[i], v[i + 1]));
      if (v.size() % 2) w.push_back(v.back());
      v = w;
    }
    return v[0];
  }

  // One FOLD a copy, merged pairwise; a merged result is a STACK of states.
  void fold(UOp u, u32) {
    FoldArg a = u.arg<FoldArg>();
    u32 closed = 0, value_mask = 0;
    std::vector<UOp> loops;
    for (UOp r : closed_ranges(u)) {
      if (bit_[r]) closed |= 1u << (bit_[r] - 1);
      else loops.push_back(values_[r][0]);
    }
    for (i64 i = 0; i < a.inputs; i++) value_mask |= mask_[u.src(size_t(i))];
    u32 kept = value_mask & ~closed;
    mask_[u] = kept;
    for (i64 c = 0; c < copies(kept); c++) {
      std::vector<std::vector<UOp>> parts;
      for (i64 t = 0; t < copies(closed); t++) {
        std::vector<UOp> src;
        for (i64 i = 0; i < a.inputs; i++) {
          UOp v = u.src(size_t(i));
          i64 n = 0, weight = 1, cc = c, tt = t;
          for (u32 r = u32(ranges_.size()); r-- > 0;) {
            i64 d = 0;
            if (kept >> r & 1) d = cc % size(r), cc /= size(r);
            else if (closed >> r & 1) d = tt % size(r), tt /= size(r);
            if (mask_[v] >> r & 1) n += d * weight, weight *= size(r);
          }
          src.push_back(values_[v][size_t(n)]);
        }
        for (i64 i = a.inputs; i < a.inputs + 3 * a.states; i++) src.push_back(u.src(size_t(i)));
        src.insert(src.end(), loops.begin(), loops.end());
        UOp f = node(Op::Fold, Kind::Void, std::span<const UOp>(src), FoldArg{a.inputs, a.states, {}}.ints());
        std::vector<UOp> states;
        for (i64 i = 0; i < a.states; i++) states.push_back(node(Op::Get, u.src(size_t(a.inputs + i)).dtype(), {f}, i));
        parts.push_back(states);
      }
      while (parts.size() > 1) {
        std::vector<std::vector<UOp>> next;
        for (size_t i = 0; i + 1 < parts.size(); i += 2) next.push_back(merge_states(u, parts[i], parts[i + 1]));
        if (parts.size() % 2) next.push_back(parts.back());
        parts = next;
      }
      values_[u].push_back(node(Op::Group, Kind::Void, std::span<const UOp>(parts[0])));
    }
  }

 public:
  static std::vector<UOp> merge_states(UOp fold, const std::vector<UOp>& x, const std::vector<UOp>& y) {
    FoldArg a = fold.arg<FoldArg>();
    std::vector<UOp> out;
    for (i64 i = 0; i < a.states; i++) {
      UOp m = fold.src(size_t(a.inputs + 2 * a.states + i));
      std::vector<std::pair<UOp, UOp>> map;
      for (UOp p : toposort(m))
        if (p.is(Op::Placeholder)) {
          PlaceholderArg pa = p.arg<PlaceholderArg>();
          map.push_back({p, (pa.role == PlaceholderArg::Side0 ? x : y)[size_t(pa.index)]});
        }
      out.push_back(instantiate(m, map, x[0].dtype().lanes));
    }
    return out;
  }

 private:
  std::span<const DotRow> rows_;
  std::vector<UOp> ranges_;
  Memo<u32> bit_, mask_;
  Memo<std::vector<UOp>> values_;
};

}  // namespace

UOp expand(UOp ast, std::span<const DotRow> rows) { return Expander(rows).run(ast); }

std::vector<UOp> merge_fold_states(UOp fold, const std::vector<UOp>& x, const std::vector<UOp>& y) { return Expander::merge_states(fold, x, y); }

}  // namespace tg
