// Strided accesses in lanes become whole vectors. n lanes that lie f elements apart, in w accesses that are neighbours of each other, are n rows
// of w elements: the rows are loaded (stored) as they lie and turned in registers, in log2 rounds of two-input shuffles, instead of element by
// element.
#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "codegen/lower.h"
#include "rules/symbolic.h"

namespace tg {
namespace {

constexpr i64 kFewest = 4, kMostLanes = 16;

// An access of n lanes at rest + factor * lane.
struct Strided {
  UOp node, buffer, rest;
  i64 factor;
};

std::optional<UOp> scalar_of(UOp v) {
  if (v.is(Op::Broadcast)) return v.src(0);
  if (v.is(Op::Const)) return idx(v.as_int());
  return {};
}

std::optional<Strided> strided(UOp u) {
  UOp ix = u.src(0), off = ix.src(1);
  i64 n = off.dtype().lanes;
  if (n < kFewest || n > kMostLanes || !std::has_single_bit(u64(n)) || !off.is(Op::Add)) return {};
  for (int i : {0, 1}) {
    UOp m = off.src(size_t(i));
    if (!m.is(Op::Mul)) continue;
    std::optional<UOp> rest = scalar_of(off.src(size_t(1 - i))), f = scalar_of(m.src(m.src(0).is(Op::Lanes) ? 1 : 0));
    if (rest && f && f->is_const() && (m.src(0).is(Op::Lanes) || m.src(1).is(Op::Lanes))) return Strided{u, ix.src(0), *rest, f->as_int()};
  }
  return {};
}

// Accesses that differ by a constant number of elements.
struct Family {
  std::vector<UOp> same;  // what they have in common: buffer, gate, alternative of a load, loops that a store closes
  DType dtype;
  i64 factor;
  UOp rest;                     // of the first one found
  std::map<i64, UOp> members;   // by distance from it
};

class Turner {
 public:
  UOp run(UOp sink) {
    std::vector<UOp> order = toposort(sink);
    std::set<u32> last = unread_stores(sink, order);
    std::vector<Family> loads, stores;
    for (UOp u : order) {
      if (u.is(Op::Load) && (u.nsrc() == 1 || u.src(2).is_const())) collect(loads, u, u.dtype(), u.src().subspan(1));
      if (u.is(Op::Store) && last.contains(u.id())) collect(stores, u, u.src(1).dtype(), u.src().subspan(2));
    }
    for (Family& f : loads) split(f, false);
    for (Family& f : stores) split(f, true);
    if (runs_.empty()) return sink;
    to_[sink];
    for (UOp u : order) {
      auto it = run_of_.find(u.id());
      if (it != run_of_.end() && u.is(Op::Load)) {
        Run& r = runs_[it->second];
        if (r.columns.empty()) r.columns = load_columns(r);
        to_[u] = r.columns[size_t(r.at.at(u.id()))];
        continue;
      }
      std::vector<UOp> src;
      for (UOp s : u.src()) src.push_back(to_[s]);
      if (it != run_of_.end()) runs_[it->second].columns[size_t(runs_[it->second].at.at(u.id()))] = src[1];
      if (u == sink) src = with_rows(sink);
      to_[u] = std::equal(src.begin(), src.end(), u.src().begin(), u.src().end()) ? u : with_src(u, src);
    }
    return to_[sink];
  }

 private:
  struct Run {
    UOp buffer, rest;  // of its first element
    UOp gate;          // of all its lanes, or nothing
    UOp alternative;   // of a load with a gate
    DType dtype;
    i64 factor, width;             // width: elements of a row, at most the lanes
    std::vector<UOp> loops;
    std::map<u32, i64> at;         // access -> place in the row
    std::vector<UOp> columns;      // what the accesses load or store, by place
  };

  void collect(std::vector<Family>& all, UOp u, DType d, std::span<const UOp> rest) {
    std::optional<Strided> s = strided(u);
    if (!s || d.lanes != u.src(0).src(1).dtype().lanes || bits(d) < 8) return;
    std::vector<UOp> same{s->buffer};
    same.insert(same.end(), rest.begin(), rest.end());
    for (Family& f : all) {
      if (f.same != same || f.factor != s->factor || f.dtype != d) continue;
      UOp apart = simplify(s->rest - f.rest);
      if (apart.is_const() && f.members.emplace(apart.as_int(), u).second) return;
    }
    all.push_back({same, d, s->factor, s->rest, {{0, u}}});
  }

  // Runs of neighbours, at most as many as there are lanes.
  void split(const Family& f, bool store) {
    i64 n = f.dtype.lanes;
    for (auto it = f.members.begin(); it != f.members.end();) {
      auto end = it;
      i64 first = it->first, width = 0;
      while (end != f.members.end() && end->first == first + width && width < n) ++end, ++width;
      if (width >= kFewest && std::abs(f.factor) >= width) {
        Run r;
        r.buffer = f.same[0], r.rest = f.rest + first, r.dtype = f.dtype, r.factor = f.factor, r.width = width;
        size_t next = 1;
        if (next < f.same.size() && !f.same[next].is(Op::Range)) r.gate = f.same[next++];
        if (!store && r.gate) r.alternative = f.same[next++];
        r.loops.assign(f.same.begin() + long(next), f.same.end());
        r.columns.resize(store ? size_t(width) : 0);
        for (auto m = it; m != end; ++m) r.at[m->second.id()] = m->first - first, run_of_[m->second.id()] = runs_.size();
        runs_.push_back(std::move(r));
      }
      it = end;
    }
  }

  static UOp shuffle(UOp a, UOp b, const Ints& order) { return node(Op::Shuffle, a.dtype().vec(u16(order.size())), {a, b}, order); }

  // w vectors of w lanes turned: element j of vector i goes to element i of vector j. Elements of 4 and 8 bytes go within pieces of 16 bytes
  // first, then the pieces go: these shuffles have their order in the instruction. Others, which need a register for it, push accumulators out.
  static std::vector<UOp> turned(std::vector<UOp> v) {
    i64 w = i64(v.size()), piece = 16 * 8 / bits(v[0].dtype());
    if (piece > 4 || w < piece) return turned_by_steps(std::move(v), 1);
    for (i64 s = 1; s < piece; s *= 2) v = interleaved(v, s, piece);
    if (piece == 4)  // the two rounds leave columns 1 and 2 of each four in each other's place
      for (i64 i = 0; i < w; i += 4) std::swap(v[size_t(i + 1)], v[size_t(i + 2)]);
    return w / piece == 4 ? four_pieces_turned(v, piece) : turned_by_steps(std::move(v), piece);
  }
  // Pieces of `from` elements, in exchange with the vectors `from`, 2 `from` .. away.
  static std::vector<UOp> turned_by_steps(std::vector<UOp> v, i64 from) {
    i64 w = i64(v.size());
    for (i64 s = from; s < w; s *= 2)
      for (i64 i = 0; i < w; i++) {
        if (i & s) continue;
        Ints low, high;
        for (i64 l = 0; l < w; l++) low.push_back(l & s ? w + l - s : l), high.push_back(l & s ? w + l : l + s);
        UOp a = v[size_t(i)], b = v[size_t(i + s)];
        v[size_t(i)] = shuffle(a, b, low), v[size_t(i + s)] = shuffle(a, b, high);
      }
    return v;
  }
  // Groups of s neighbours of vectors i and i + s, in turns: the lower half of each piece, then the upper half.
  static std::vector<UOp> interleaved(const std::vector<UOp>& v, i64 s, i64 piece) {
    i64 w = i64(v.size());
    std::vector<UOp> out = v;
    for (i64 i = 0; i < w; i++) {
      if (i & s) continue;
      Ints low, high;
      for (i64 l = 0; l < w; l++) {
        i64 from = l / piece * piece + l % piece / (2 * s) * s + l % s, side = l / s % 2 * w;
        low.push_back(from + side), high.push_back(from + piece / 2 + side);
      }
      out[size_t(i)] = shuffle(v[size_t(i)], v[size_t(i + s)], low), out[size_t(i + s)] = shuffle(v[size_t(i)], v[size_t(i + s)], high);
    }
    return out;
  }
  // Four pieces a vector: even ones of two vectors, then odd ones; twice.
  static std::vector<UOp> four_pieces_turned(const std::vector<UOp>& v, i64 piece) {
    auto every_other = [&](UOp a, UOp b, i64 odd) {
      Ints order;
      for (i64 p = 0; p < 4; p++)
        for (i64 l = 0; l < piece; l++) order.push_back(p / 2 * 4 * piece + (p % 2 * 2 + odd) * piece + l);
      return shuffle(a, b, order);
    };
    std::vector<UOp> out(v.size());
    for (i64 c = 0; c < piece; c++) {
      auto at = [&](i64 g) { return v[size_t(g * piece + c)]; };
      for (i64 odd : {0, 1}) {
        UOp x = every_other(at(0), at(1), odd), y = every_other(at(2), at(3), odd);
        out[size_t(odd * piece + c)] = every_other(x, y, 0), out[size_t((odd + 2) * piece + c)] = every_other(x, y, 1);
      }
    }
    return out;
  }

  // The address of row i, and its gate: that of the lane, and the end of a row that is no whole power of two.
  UOp row_address(const Run& r, i64 i) { return node(Op::Index, r.dtype.scalar(), {to_[r.buffer], r.rest + r.factor * i}); }
  UOp row_gate(const Run& r, i64 i, i64 padded) {
    UOp g = r.gate ? to_[r.gate] : UOp{};
    if (g && g.dtype().lanes > 1) g = node(Op::Extract, Kind::Bool, {g}, i);
    if (r.width == padded) return g;
    DType d(Kind::Index, u16(padded));
    UOp inside = alu(Op::Lt, {node(Op::Lanes, d, {}), konst(d, r.width)});
    return g ? alu(Op::And, {inside, node(Op::Broadcast, inside.dtype(), {g})}) : inside;
  }

  std::vector<UOp> load_columns(const Run& r) {
    i64 n = r.dtype.lanes, w = i64(std::bit_ceil(u64(r.width)));
    DType d = r.dtype.scalar().vec(u16(w));
    UOp other = konst_bits(d, r.alternative ? r.alternative.arg_bits() : 0);
    std::vector<std::vector<UOp>> blocks;
    for (i64 b = 0; b < n; b += w) {
      std::vector<UOp> rows;
      for (i64 i = b; i < b + w; i++) {
        UOp at = row_address(r, i), gate = row_gate(r, i, w);
        rows.push_back(gate ? node(Op::Load, d, {at, gate, other}) : node(Op::Load, d, {at}));
      }
      blocks.push_back(turned(std::move(rows)));
    }
    // A column is its parts of all blocks, side by side.
    for (; blocks.size() > 1; w *= 2) {
      Ints both;
      for (i64 l = 0; l < 2 * w; l++) both.push_back(l);
      std::vector<std::vector<UOp>> next;
      for (size_t b = 0; b < blocks.size(); b += 2) {
        next.emplace_back();
        for (size_t j = 0; j < blocks[b].size(); j++) next.back().push_back(shuffle(blocks[b][j], blocks[b + 1][j], both));
      }
      blocks = std::move(next);
    }
    return blocks[0];
  }

  std::vector<UOp> store_rows(const Run& r) {
    i64 n = r.dtype.lanes, w = i64(std::bit_ceil(u64(r.width)));
    std::vector<UOp> stores;
    for (i64 b = 0; b < n; b += w) {
      Ints part;
      for (i64 l = b; l < b + w; l++) part.push_back(l);
      std::vector<UOp> columns;
      for (i64 j = 0; j < w; j++) {
        UOp v = r.columns[size_t(std::min(j, r.width - 1))];
        columns.push_back(w == n ? v : shuffle(v, v, part));
      }
      std::vector<UOp> rows = turned(std::move(columns));
      for (i64 i = 0; i < w; i++) {
        std::vector<UOp> s{row_address(r, b + i), rows[size_t(i)]};
        if (UOp gate = row_gate(r, b + i, w)) s.push_back(gate);
        for (UOp l : r.loops) s.push_back(to_[l]);
        stores.push_back(node(Op::Store, Kind::Void, std::span<const UOp>(s)));
      }
    }
    return stores;
  }

  static void effects(UOp u, std::vector<UOp>& out) {
    for (UOp s : u.src()) s.is(Op::Group) ? effects(s, out) : out.push_back(s);
  }
  // The stores below the sink that nothing else in the kernel waits for.
  static std::set<u32> unread_stores(UOp sink, std::span<const UOp> order) {
    std::vector<UOp> all;
    effects(sink, all);
    std::set<u32> ids;
    for (UOp u : all) ids.insert(u.id());
    for (UOp u : order)
      if (u.is(Op::After)) {
        std::vector<UOp> waited;
        effects(u, waited);
        for (UOp w : waited) ids.erase(w.id());
      }
    return ids;
  }
  // The effects of the sink, with each run's rows in place of its first store.
  std::vector<UOp> with_rows(UOp sink) {
    std::vector<UOp> all, out;
    effects(sink, all);
    std::set<size_t> done;
    for (UOp u : all) {
      auto it = run_of_.find(u.id());
      if (it == run_of_.end()) {
        out.push_back(to_[u]);
      } else if (done.insert(it->second).second) {
        std::vector<UOp> rows = store_rows(runs_[it->second]);
        out.insert(out.end(), rows.begin(), rows.end());
      }
    }
    return out;
  }

  std::vector<Run> runs_;
  std::map<u32, size_t> run_of_;  // access -> run
  Memo<UOp> to_;
};

}  // namespace

UOp turn_strided(UOp ast) { return Turner().run(ast); }

}  // namespace tg
