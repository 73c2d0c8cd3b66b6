#include "schedule/realize.h"

#include <algorithm>

#include "base/error.h"
#include "ir/bounds.h"
#include "rules/symbolic.h"
#include "schedule/build.h"
#include "schedule/index.h"
#include "schedule/rounds.h"

namespace tg {

std::vector<UOp> RangeMaker::output_ranges(UOp root) {
  auto [it, fresh] = outputs_.try_emplace(root.id());
  if (fresh)
    for (UOp d : shape(root)) it->second.push_back(d.is_const(1) ? idx(0) : range(d, {next_axis_[root.id()]++, 0, 0, AxisKind::Loop}));
  return it->second;
}

const std::vector<UOp>& RangeMaker::reduce_ranges(UOp root, UOp reduce, const Shape& index) {
  constexpr u32 kTogether = 1u << 31;
  u32 together = asked().together[reduce];
  Key key{root.id(), together ? kTogether | together : reduce.id(), {}};
  for (UOp i : index) key.index.push_back(i.id());
  auto [it, fresh] = reduces_.try_emplace(key);
  if (!fresh) return it->second;
  const Shape& in = shape(reduce.src(0));
  Ints axes = reduce.is(Op::Reduce) ? reduce.arg<ReduceArg>().axes : reduce.arg<FoldArg>().axes;
  if (u8 kept = asked().row[reduce.src(0)]; kept && axes.size() == 1) {
    UOp r = kept == Asked::Summed ? row(root, reduce.src(0), index).loops[0] : range(in[axes[0]], {row_axis(root), 0, ++next_phase_[root.id()], AxisKind::Reduce});
    it->second.push_back(r);
    return it->second;
  }
  // The kernel's own loops that this reduce does not see: the row, if they match its axes one by one.
  std::vector<UOp> used = ranges_in(index), row;
  for (UOp r : output_ranges(root))
    if (r.is(Op::Range) && std::find(used.begin(), used.end(), r) == used.end()) row.push_back(r);
  std::vector<UOp> sizes;
  for (i64 a : axes)
    if (!in[a].is_const(1)) sizes.push_back(in[a]);
  bool same = row.size() == sizes.size() && !asked().phases[root];
  for (size_t i = 0; same && i < row.size(); i++) same = row[i].src(0) == sizes[i];
  i64 phase = ++next_phase_[root.id()];
  size_t k = 0;
  for (i64 a : axes) {
    if (in[a].is_const(1)) {
      it->second.push_back(idx(0));
      continue;
    }
    i64 id = same ? row[k].arg<RangeArg>().id : next_axis_[root.id()]++;
    k++;
    it->second.push_back(range(in[a], {id, 0, phase, AxisKind::Reduce}));
  }
  return it->second;
}

i64 RangeMaker::row_axis(UOp root) {
  auto [it, fresh] = row_axis_.try_emplace(root.id());
  if (fresh) it->second = next_axis_[root.id()]++;
  return it->second;
}

const RangeMaker::RowPhase& RangeMaker::row(UOp root, UOp value, const Shape& index) {
  Key key{root.id(), value.id(), {}};
  const size_t from = row_from(value);
  for (size_t i = 0; i < from; i++) key.index.push_back(index[i].id());
  auto [it, fresh] = rows_.try_emplace(key);
  if (!fresh) return it->second;
  it->second.number = next_row_[root.id()]++;
  const Shape& dims = shape(value);
  if (!asked().block[value].from) {  // rows of one kernel have the same elements
    AxisKind kind = asked().row[value] == Asked::Summed ? AxisKind::Reduce : AxisKind::Loop;
    it->second.loops = {range(dims.back(), {row_axis(root), 0, ++next_phase_[root.id()], kind})};
    return it->second;
  }
  i64 phase = ++next_phase_[root.id()];
  for (size_t i = from; i < dims.size(); i++)
    it->second.loops.push_back(dims[i].is_const(1) ? idx(0) : range(dims[i], {next_axis_[root.id()]++, 0, phase, AxisKind::Loop}));
  return it->second;
}

std::vector<UOp> ranges_in(std::span<const UOp> exprs) {
  std::vector<UOp> out;
  for (UOp u : toposort(exprs))
    if (u.is(Op::Range)) out.push_back(u);
  return out;
}

Asked& asked() { return Arena::current().side<Asked>(); }
void act_as_contraction(UOp u) { asked().contraction[u] = 1; }
void share_loops(std::initializer_list<UOp> sums) {
  Asked& a = asked();
  u32 number = sums.begin()->id() + 1;
  for (UOp u : sums) a.together[u] = number;
}
void keep_block(UOp u, size_t from, size_t planes) {
  asked().row[u] = Asked::Kept;
  asked().block[u] = {u8(from), u8(planes)};
}
size_t row_from(UOp u) {
  size_t from = asked().block[u].from;
  return from ? from : rank(u) - 1;
}
void carry_asked(UOp from, UOp to) {
  Asked& a = asked();
  if (u32 v = a.together[from]) a.together[to] = v;
  if (u8 v = a.inlined[from]) a.inlined[to] = v;
  if (u8 v = a.contraction[from]) a.contraction[to] = v;
  if (u8 v = a.row[from]) a.row[to] = v;
  if (u8 v = a.keep[from]) a.keep[to] = v;
  if (u8 v = a.phases[from]) a.phases[to] = v;
  if (u8 v = a.whole[from]) a.whole[to] = v;
  if (Asked::Block v = a.block[from]; v.from) a.block[to] = v;
}
void keep_in_kernel(UOp from, UOp until) {
  Memo<u8> above;  // nodes of which `until` is below
  above[until] = 1;
  for (UOp u : toposort(from)) {
    for (UOp s : u.src()) above[u] |= above[s];
    if (above[u] && u != until) asked().inlined[u] = 1;
  }
}

namespace {

constexpr size_t kMaxAccesses = 6, kMaxRegionNodes = 400;
constexpr f64 kOverlap = 2;  // readings an element from which overlapping windows count as repeated

class Realizer {
 public:
  Realizer(UOp sink, RangeMaker& ranges, std::vector<StoredOrNot>* asked_about)
      : ranges_(ranges), cone_(cones(sink)), order_(toposort(sink)), asked_about_(asked_about) {
    regions_ = regions(order_, std::span(&sink, 1));
    acc_[sink];  // the highest id: references into the memo stay valid from here
    for (UOp o : sink.src())
      if (!o.in(Op::Param | Op::Constant | Op::Const) && !is_kept(o)) forced_[o] = 1;
    for (UOp u : order_) {
      if (u.in(kOwnKernel)) forced_[u] = 1;
      // What a LOOP or BRANCH takes is in a buffer by then.
      if (u.in(Op::Loop | Op::Branch))
        for (UOp s : u.src())
          if (!s.in(Op::Param | Op::Constant | Op::Const) && s.dtype().kind != Kind::Index && !is_kept(s)) forced_[s] = 1;
      if (u.in(kOwnKernel) && !u.is(Op::Contiguous))
        for (UOp s : u.src())
          if (u.is(Op::Concat) && !cone_[s].bare) forced_[s] = 1;
      if (is_rounds_result(u)) forced_[u] = 1;
      if (u.is(Op::Recur))
        for (UOp s : u.src())
          if (is_value(s) && (cone_[s].loads || cone_[s].reduces) && !cone_[s].bare) forced_[s] = 1;
    }
  }

  Realized run() {
    for (size_t i = order_.size(); i-- > 0;) visit(order_[i]);
    Realized r;
    for (UOp u : order_)
      if (stored_[u]) r.stored[u] = 1, r.roots.push_back(u);
    r.regions = std::move(regions_);
    return r;
  }

 private:
  bool is_value(UOp u) { return !u.in(Op::Sink | Op::Stack | Op::Const | Op::Var | Op::Placeholder | Op::Range | Op::Step | Op::Loop | Op::Recur | Op::Branch) && !is_kept(u); }

  void visit(UOp u) {
    if (!is_value(u) || u.in(Op::Param | Op::Constant | Op::Iota)) return;
    std::vector<Access>& acc = acc_[u];
    if (!forced_[u] && acc.empty()) return;  // dead, or inside index arithmetic that is built where it is used
    if (forced_[u] || must_store(u, acc)) {
      stored_[u] = 1;
      if ((u.in(Op::Reduce | Op::Fold) && cone_[u].heavy) || asked_.contraction[u]) contraction_in_[u] = mark(u);
      std::vector<UOp> out = ranges_.output_ranges(u);
      std::vector<UOp> open;
      for (UOp r : out)
        if (r.is(Op::Range)) open.push_back(r);
      acc = {Access{u, Shape(out.begin(), out.end()), open, false}};
    }
    if (asked_.row[u]) acc = row_accesses(u, acc);
    for (size_t i = 0; i < acc.size(); i++) {
      if (!asked_.inlined[u]) region_nodes_[acc[i].root]++;
      pass_down(u, acc[i]);
    }
    acc.clear();
    acc.shrink_to_fit();
  }

  // What is kept in a row is computed in the loop that fills it, whoever reads it.
  std::vector<Access> row_accesses(UOp u, const std::vector<Access>& acc) {
    std::vector<Access> out;
    for (const Access& a : acc) {
      Shape at(a.index.begin(), a.index.begin() + long(row_from(u)));
      std::vector<UOp> open = ranges_in(at);
      for (UOp r : ranges_.row(a.root, u, at).loops) {
        at.push_back(r);
        if (r.is(Op::Range)) open.push_back(r);
      }
      if (std::none_of(out.begin(), out.end(), [&](const Access& b) { return b.root == a.root && b.index == at; })) out.push_back({a.root, at, open, false});
    }
    return out;
  }

  void add(UOp s, Access a) {
    if (!is_value(s) || s.in(Op::Param | Op::Constant | Op::Iota) || forced_[s]) return;
    // Only the first accesses are kept in full; more than kMaxAccesses of them store the value.
    std::vector<Access>& v = acc_[s];
    for (const Access& b : v)
      if (b.root == a.root && b.index == a.index) return;
    if (v.size() <= kMaxAccesses || asked_.inlined[s]) v.push_back(std::move(a));
  }

  void pass_down(UOp u, const Access& a) {
    switch (u.op()) {
      case Op::Concat:
      case Op::Sort:
      case Op::Scan: {
        // Own kernels: what they read is computed at their own coordinates.
        for (UOp s : u.src()) {
          if (u.is(Op::Concat)) continue;
          add(s, a);
        }
        return;
      }
      case Op::Scatter:
        add(u.src(0), a);
        for (size_t i = 1; i < u.nsrc(); i++) {
          Shape ix;
          std::vector<UOp> open;
          i64 id = 1000;
          for (UOp d : shape(u.src(1))) {
            ix.push_back(d.is_const(1) ? idx(0) : range(d, {id++, 0, 0, AxisKind::Loop}));
            if (ix.back().is(Op::Range)) open.push_back(ix.back());
          }
          add(u.src(i), {a.root, ix, open, false});
        }
        return;
      case Op::Gather: {
        bool pure = true;
        for (size_t i = 1; i < u.nsrc(); i++) {
          pure &= !cone_[u.src(i)].loads;
          add(u.src(i), a);
        }
        UOp x = u.src(0);
        if (cone_[x].bare) return;
        if (pure && !cone_[x].reduces) {
          Access b = a;
          b.index.clear();
          for (size_t i = 1; i < u.nsrc(); i++) b.index.push_back(build_index(u.src(i), a.index));
          add(x, b);
        } else {
          forced_[x] = 1;
        }
        return;
      }
      case Op::Reduce:
      case Op::Fold: {
        const std::vector<UOp>& rs = ranges_.reduce_ranges(a.root, u, a.index);
        Ints axes = u.is(Op::Reduce) ? u.arg<ReduceArg>().axes : u.arg<FoldArg>().axes;
        size_t inputs = u.is(Op::Reduce) ? 1 : size_t(u.arg<FoldArg>().inputs);
        Access b = a;
        b.index = reduced_index(axes, a.index, rs);
        b.open = ranges_in(a.index);
        for (UOp r : rs)
          if (r.is(Op::Range)) b.open.push_back(r);
        b.in_reduce = true;
        b.in_contraction |= cone_[u].heavy;
        for (size_t i = 0; i < inputs; i++) add(u.src(i), b);
        return;
      }
      default:
        if (is_movement(u.op())) {
          Access b = a;
          UOp valid;
          b.index = source_index(u, a.index, &valid);
          add(u.src(0), b);
          return;
        }
        for (UOp s : u.src()) {
          if (shape(s).empty() && !shape(u).empty()) add(s, {a.root, {}, a.open, a.in_reduce, a.in_contraction});
          else add(s, a);
        }
    }
  }

  // Is an element computed more than once: a loop that it does not see, or windows that overlap?
  static bool repeated(UOp u, const Access& a) {
    std::vector<UOp> used = ranges_in(a.index);
    f64 times = 1;
    for (UOp r : a.open) {
      if (!r.src(0).is_const(1) && std::find(used.begin(), used.end(), r) == used.end()) return true;
      times *= f64(most(r.src(0)));
    }
    return times > kOverlap * f64(std::max<i64>(most_elems(shape(u)), 1));
  }

  // A few cheap ops on one narrower value (a dequantized byte), read by no contraction's loop: its readers do them.
  bool widens(UOp u, const std::vector<Access>& acc) {
    for (const Access& a : acc)
      if (a.in_contraction) return false;
    DType d = u.dtype();
    for (int ops = 0; ops < 4; ops++) {
      if (u.is(Op::Cast) || u.is(Op::Bitcast)) {
        u = u.src(0);
        if (u.dtype().kind != Kind::Bool && bits(u.dtype()) < bits(d)) return true;
        continue;
      }
      if (!u.in(Op::Mul | Op::Add | Op::Sub)) return false;
      bool left = constant(u.src(0)), right = constant(u.src(1));
      if (left == right) return false;
      u = u.src(left ? 1 : 0);
    }
    return false;
  }
  // The last step on the way from a contraction's sums to bytes: of a second contraction in a kernel these are stored, not its sums.
  bool narrowed_contraction(UOp u) {
    if (!is_elementwise(u.op())) return false;
    for (bool first = true;; first = false) {
      if (u.is(Op::Reduce) || asked_.contraction[u]) return cone_[u].heavy;
      if (!is_elementwise(u.op()) || (!first && bits(u.dtype()) <= 8 && u.in(Op::Cast))) return false;
      UOp below;
      for (UOp s : u.src()) {
        if (!cone_[s].heavy) continue;
        if (below) return false;
        below = s;
      }
      if (!below) return false;
      u = below;
    }
  }
  bool constant(UOp u) {
    while (is_movement(u.op())) u = u.src(0);
    return u.is_const() || u.is(Op::Constant);
  }

  // Weights of at most a byte on the way to what they stand for (scales, zero points): in memory they stay as narrow as the model has them, and
  // every tile of a product widens them in its registers.
  bool unpacks_weights(UOp u) {
    constexpr i64 kMostNodes = 60;
    if (bits(u.dtype()) < 16 || !is_elementwise(u.op())) return false;
    i64 elements = 0, bytes = 0;
    std::vector<UOp> below = toposort(u);
    if (i64(below.size()) > kMostNodes) return false;
    for (UOp x : below) {
      if (!x.in(Op::Const | Op::Constant | Op::Stack | Op::Iota) && !is_elementwise(x.op()) && !is_movement(x.op())) return false;
      if (x.in(kTranscendental | Op::Concat)) return false;
      if (!x.is(Op::Constant) || !has_const_shape(x)) continue;
      i64 n = elems(shape(x)).as_int();
      if (n > elements) elements = n, bytes = byte_size(x.dtype().kind, n);
    }
    UOp n = elems(shape(u));
    return bytes && n.is_const() && n.as_int() * bits(u.dtype()) / 8 >= 4 * bytes && n.as_int() <= 4 * elements;
  }

  static constexpr u32 kAlone = 1;
  u32 mark(UOp u) { return kAlone + asked_.together[u]; }

  bool must_store(UOp u, const std::vector<Access>& acc) {
    const Cone& c = cone_[u];
    if (asked_.inlined[u] && !asked_.contraction[u]) return false;
    if (is_movement(u.op()) && !u.is(Op::Concat) && !asked_.contraction[u]) return false;
    // What only widens is done again by each reader: the narrow value is stored.
    if (u.is(Op::Cast) && is_stored(u.src(0).dtype().kind) && u.src(0).dtype().kind != Kind::Bool && bits(u.dtype()) > bits(u.src(0).dtype())) return false;
    if (u.is(Op::Fold)) return false;  // has no buffer of its own: its GETs have
    if (!c.loads && !c.reduces && !c.costly) return false;  // arithmetic on indices and constants
    for (const Access& a : acc)
      if (regions_.in_loop(regions_.of[a.root], regions_.of[u])) return true;  // it is the same in each round of the reader
    if (acc[0].in_reduce && acc.size() == 1 && unpacks_weights(u)) return false;
    bool several = false;
    for (const Access& a : acc) several |= a.root != acc[0].root;
    if (acc.size() > kMaxAccesses) return true;
    if (region_nodes_[acc[0].root] > kMaxRegionNodes && c.ops > 0) return true;
    if (u.in(Op::Reduce | Op::Get) || asked_.contraction[u]) {
      if (several) return true;
      for (const Access& a : acc)
        if (asked_.whole[u] && (a.in_reduce || !plain(a))) return true;
      for (const Access& a : acc)
        if (!reduce_fits(u.is(Op::Get) ? u.src(0) : u, a)) return true;
      if (c.heavy && acc.size() > 1) return true;
      // One contraction a kernel: its tile is made for it.
      u32 before = contraction_in_[acc[0].root];
      if (c.heavy && before && (before == kAlone || before != mark(u))) return true;
      if (c.heavy) contraction_in_[acc[0].root] = mark(u);
      return false;
    }
    if (widens(u, acc)) return false;
    if (bits(u.dtype()) <= 8 && contraction_in_[acc[0].root] && narrowed_contraction(u)) return true;
    if (several) {
      bool stored = c.heavy || c.reduces || c.costly || c.buffers >= 2 || c.ops >= 4;
      if (!c.heavy && !c.reduces) {
        if (asked_about_ && !repeats_work(u, acc)) asked_about_->push_back({u, readers(acc), stored, c});
        if (u8 keep = asked_.keep[u]) stored = keep == Asked::Stored;
      }
      if (stored) return true;
    }
    return repeats_work(u, acc);
  }

  static i64 readers(const std::vector<Access>& acc) {
    std::vector<UOp> roots;
    for (const Access& a : acc)
      if (std::find(roots.begin(), roots.end(), a.root) == roots.end()) roots.push_back(a.root);
    return i64(roots.size());
  }

  // Would some reader compute it more often than once an element?
  bool repeats_work(UOp u, const std::vector<Access>& acc) {
    const Cone& c = cone_[u];
    // A value that is larger than all it is made of (the products of a contraction) is better made again from what is stored below it.
    bool inflated = double(most_elems(shape(u))) > 1.5 * double(std::max<i64>(c.heavy ? c.heavy_volume : c.volume, 1));
    for (const Access& a : acc) {
      if (c.heavy && !inflated && (acc.size() > 1 || a.in_reduce)) return true;
      if (!repeated(u, a)) continue;
      if (a.in_reduce && !inflated && (c.ops > 0 || c.costly)) return true;  // arithmetic again for every row or column of a contraction
      if (c.costly && !row_value(u, a)) return true;
    }
    return false;
  }

  // A value per row under loops over the row: it is computed once, before them.
  bool row_value(UOp u, const Access& a) { return cone_[u].reduces && !a.in_reduce && plain(a); }
  static bool plain(const Access& a) {
    for (UOp i : a.index)
      if (!i.is(Op::Range) && !i.is_const()) return false;
    return true;
  }

  // May the loop of this reduce stand inside the reader's kernel?
  bool reduce_fits(UOp u, const Access& a) {
    std::vector<UOp> used = ranges_in(a.index), out = ranges_.output_ranges(a.root);
    for (UOp r : used)
      if (is_reduce(r.arg<RangeArg>().kind)) return false;  // a reduce in a reduce's loop: parallelism would collapse
    UOp row = idx(1);
    bool all = true;
    for (UOp r : out) {
      if (!r.is(Op::Range) || std::find(used.begin(), used.end(), r) != used.end()) continue;
      all = false;
      row = row * r.src(0);
    }
    if (all) {
      // Once an element of the root; an upsampled or padded reduce would run more often than it has elements.
      return most_elems(shape(a.root)) <= most_elems(shape(u));
    }
    if (!plain(a) || cone_[u].heavy) return false;
    const Shape& in = shape(u.src(0));
    Ints axes = u.is(Op::Reduce) ? u.arg<ReduceArg>().axes : u.arg<FoldArg>().axes;
    UOp reduced = idx(1);
    for (i64 x : axes) reduced = reduced * in[x];
    return simplify(reduced) == simplify(row);
  }

  RangeMaker& ranges_;
  Asked& asked_ = asked();
  Memo<Cone> cone_;
  Regions regions_;
  std::vector<UOp> order_;
  std::vector<StoredOrNot>* asked_about_;
  Memo<std::vector<Access>> acc_;
  Memo<u8> forced_, stored_;
  Memo<u32> region_nodes_, contraction_in_;  // by root; contraction_in_: which sums of products, by mark()
};

}  // namespace

Realized realize(UOp sink, RangeMaker& ranges, std::vector<StoredOrNot>* asked_about) { return Realizer(sink, ranges, asked_about).run(); }

}  // namespace tg
