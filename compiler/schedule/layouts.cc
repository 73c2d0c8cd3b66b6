// Chooses how each scratch buffer lies in memory: a permutation of its axes, so that the loop which runs in vector lanes reads and writes
// neighbours. Contractions vote first (output channels and the reduced channels innermost: channels-last; columns where there are too few
// channels to fill a vector), all else follows its inputs.
#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "ir/bounds.h"
#include "ir/canonical.h"
#include "ir/loops.h"
#include "ir/text.h"
#include "schedule/cost.h"
#include "schedule/layout_choice.h"
#include "schedule/realize.h"
#include "schedule/schedule.h"

namespace tg {
namespace {

// Measured on Zen 4: storing an element by itself, a vector that is gathered, a scalar that is near the one before, the last steps of a sum of lanes.
constexpr f64 kStoreCycles = 1.3, kGatherCycles = 8, kNearCycles = 0.2, kHorizontalCycles = 10;

struct Read {
  u32 buffer;
  std::vector<UOp> coords;
};

std::optional<Read> read_of(const Call& c, UOp load) {
  UOp ix = load.src(0), p = ix.src(0);
  if (!p.is(Op::Param)) return {};
  return Read{c.buffers[size_t(p.arg_int())], {ix.src().begin() + 1, ix.src().end()}};
}

bool uses(UOp expr, UOp r) {
  for (UOp u : toposort(expr))
    if (u == r) return true;
  return false;
}

// The axis whose coordinate moves with r by the smallest step; -1 if none.
int axis_of(const std::vector<UOp>& coords, UOp r) {
  for (size_t i = coords.size(); i-- > 0;)
    if (coords[i] == r) return int(i);
  for (size_t i = coords.size(); i-- > 0;)
    if (uses(coords[i], r)) return int(i);
  return -1;
}

std::vector<i64> innermost(size_t rank, int axis) {
  std::vector<i64> o;
  for (size_t i = 0; i < rank; i++)
    if (int(i) != axis) o.push_back(i64(i));
  o.push_back(axis);
  return o;
}

class Chooser {
 public:
  Chooser(Schedule& s, const Target& t) : s_(s), t_(t), lanes_(t.vector_bytes / 4), votes_(s.buffers.size()), chosen_(s.buffers.size()) {}

  void run(std::span<const LayoutPick> picks) {
    for (const Call& c : s_.calls) vote(c);
    for (const LayoutPick& p : picks) {
      TG_CHECK(p.buffer < s_.buffers.size() && p.axis >= 0 && size_t(p.axis) < s_.buffers[p.buffer].dims.size(), "no such axis to be innermost");
      if (!p.panels || !in_panels(p.buffer, int(p.axis))) set(p.buffer, innermost(s_.buffers[p.buffer].dims.size(), int(p.axis)));
    }
    for (size_t b = 0; b < s_.buffers.size(); b++) {
      if (chosen_[b]) continue;
      int best = -1;
      for (auto [axis, cycles] : votes_[b])
        if (best < 0 || cycles > votes_[b][best]) best = axis;
      if (best < 0) continue;
      auto panels = panels_.find(u32(b));
      if (panels != panels_.end() && panels->second == best && in_panels(u32(b), best)) continue;
      set(u32(b), innermost(s_.buffers[b].dims.size(), best));
    }
    for (const Call& c : s_.calls) follow(c);
    spread_transforms();
  }

  // Behind run(): buffers with votes, as questions; equal ones are one.
  std::vector<LayoutQuestion> close() const {
    std::map<Digest, LayoutQuestion> found;
    for (u32 b = 0; b < s_.buffers.size(); b++) {
      if (votes_[b].empty()) continue;
      LayoutQuestion q = question(b);
      if (q.alternatives.size() < 2) continue;
      LayoutQuestion& known = found.try_emplace(q.key, q).first->second;
      known.buffers.push_back(b);
    }
    std::vector<LayoutQuestion> out;
    for (auto& [key, q] : found) out.push_back(std::move(q));
    auto stake = [](const LayoutQuestion& q) { return q.alternatives[0].cycles * f64(q.buffers.size()); };
    std::stable_sort(out.begin(), out.end(), [&](const LayoutQuestion& x, const LayoutQuestion& y) { return stake(x) > stake(y); });
    if (out.size() > kMostQuestions) out.resize(kMostQuestions);
    return out;
  }

 private:
  static constexpr size_t kMostQuestions = 5;
  static constexpr f64 kClose = 1.5;  // cycles of what is asked for over those of what was chosen

  LayoutQuestion question(u32 b) const {
    const Buffer& buf = s_.buffers[b];
    LayoutQuestion q;
    Hasher h;
    h.add("layout");
    f64 work = 0;
    std::string readers;
    for (const Call& c : s_.calls) {
      auto at = std::find(c.buffers.begin(), c.buffers.end(), b);
      if (at == c.buffers.end()) continue;
      Work w = work_of(s_, c);
      work += f64(w.flops) / f64(4 * lanes_) + f64(w.bytes) / 16;
      bool writes = at - c.buffers.begin() < i64(c.outputs);
      h.add(print(canonical(c.ast).ast)).add(u64(writes));
      if (writes && q.label.empty()) q.label = "layout of " + c.name;
      else if (readers.find(c.name) == readers.npos) readers += (readers.empty() ? ", read by " : " ") + c.name;
    }
    q.label += readers;
    q.key = h.done();
    f64 all = 0;
    i64 chosen = buf.layout.pieces.back().axis;
    for (auto [axis, cycles] : votes_[b]) all += cycles;
    auto lost = [&](i64 axis) {
      auto v = votes_[b].find(int(axis));
      return all - (v == votes_[b].end() ? 0 : v->second);
    };
    auto add = [&](i64 axis, bool panels) {
      std::string name = str("axis ", axis, panels ? " in panels" : " innermost");
      q.alternatives.push_back({name, work + lost(axis), 0});
      q.picks.push_back({0, axis, panels});
    };
    bool panels = buf.layout.pieces.size() > buf.dims.size();
    add(chosen, panels);
    if (panels) add(chosen, false);
    for (i64 a = i64(buf.dims.size()); a-- > 0;)
      if (a != chosen && buf.dims[size_t(a)] > 1 && work + lost(a) <= kClose * (work + lost(chosen)) && (votes_[b].count(int(a)) || a + 1 == i64(buf.dims.size())))
        add(a, false);
    return q;
  }

  // What is lost, in cycles, if that axis is not the innermost one.
  void add(u32 b, f64 cycles, int axis) {
    Buffer& buf = s_.buffers[b];
    if (buf.kind == Buffer::Scratch && axis >= 0 && buf.dims.size() >= 2) votes_[b][axis] += cycles;
  }
  void set(u32 b, const std::vector<i64>& order) {
    Buffer& buf = s_.buffers[b];
    buf.layout = Layout::permuted(buf.dims, order);
    chosen_[b] = 1;
  }
  // Keys side by side in panels: the columns of a tile are whole lines one after another, where whole rows of keys would lie pages apart.
  bool in_panels(u32 b, int axis) {
    constexpr i64 kPanel = 64;
    Buffer& buf = s_.buffers[b];
    i64 n = buf.dims[size_t(axis)];
    if (n % kPanel || n < 4 * kPanel) return false;
    Layout l;
    for (size_t a = 0; a < buf.dims.size(); a++) l.pieces.push_back({i64(a), int(a) == axis ? n / kPanel : buf.dims[a]});
    l.pieces.push_back({axis, kPanel});
    buf.layout = l;
    chosen_[b] = 1;
    return true;
  }
  f64 elements(u32 b) const { return f64(s_.buffers[b].layout.elems()); }
  // How full the vectors along n elements are.
  f64 fill(i64 n) const { return f64(n) / f64((n + lanes_ - 1) / lanes_ * lanes_); }

  void vote(const Call& c) {
    if (!c.ordered.empty()) return;
    if (vote_transform(c) || vote_blocks(c) || vote_rows(c)) return;
    UOp st = c.ast.src(0);
    u32 out = c.buffers[size_t(st.src(0).src(0).arg_int())];
    std::vector<UOp> oc(st.src(0).src().begin() + 1, st.src(0).src().end());
    for (UOp u : toposort(c.ast)) {
      if (!u.is(Op::Reduce)) continue;
      UOp body = u.src(0);
      while (body.is(Op::Cast)) body = body.src(0);
      if (!body.is(Op::Mul) || u.arg<ReduceArg>().kind != ReduceKind::Add) continue;
      std::optional<Read> side[2];
      for (int i = 0; i < 2; i++)
        for (UOp x : toposort(body.src(size_t(i))))
          if (x.is(Op::Load) && !side[i]) side[i] = read_of(c, x);
      if (!side[0] || !side[1]) continue;
      if (side[0]->buffer == side[1]->buffer && side[0]->coords == side[1]->coords) continue;  // squares: a row's sum, no contraction
      // Operand b holds the output loop that will run in lanes.
      int b = s_.buffers[side[0]->buffer].kind == Buffer::Constant ? 0 : 1;
      UOp lanes;
      i64 best = 0;
      for (size_t i = 0; i < oc.size(); i++) {
        for (UOp r : ranges_in(std::span(&oc[i], 1))) {
          bool in_a = axis_of(side[1 - b]->coords, r) >= 0, in_b = axis_of(side[b]->coords, r) >= 0;
          if (!in_b) continue;
          // Only in b, or (depthwise) in both: the latter when nothing else is left.
          i64 n = most(r.src(0));
          i64 score = (in_a ? 1 : 1 << 20) + std::min<i64>(n, 1 << 16);
          bool both_free = s_.buffers[side[b]->buffer].kind != Buffer::Constant;
          if (both_free) score = (in_a ? 0 : 1 << 20) + i64(i);  // the last such output axis
          if (score > best) best = score, lanes = r;
        }
      }
      u32 in = side[1 - b]->buffer;
      const std::vector<UOp>& at = side[1 - b]->coords;
      f64 vectors = elements(out) / f64(lanes_);  // of products
      for (size_t i = 1; i < u.nsrc(); i++) vectors *= f64(most(u.src(i).src(0)));
      UOp channel = u.nsrc() > 1 ? u.src(1) : UOp{};
      UOp wide = s_.buffers[side[b]->buffer].kind == Buffer::Constant ? columns(oc, at) : UOp{};
      // Too few output channels for a vector: the columns are the lanes if that saves more than the producer loses, which stores `in` by channels.
      UOp few = lanes ? lanes : channel;
      if (wide && few && most(few.src(0)) * 2 <= lanes_) {
        add(in, vectors * (1 / fill(most(few.src(0))) - 1), axis_of(at, wide));
        if (vectors > kStoreCycles * elements(in)) add(out, kStoreCycles * elements(out), axis_of(oc, wide)), lanes = {};
      }
      // A single output: sums along lanes end in horizontal steps.
      if (wide && !lanes && vectors < kHorizontalCycles * elements(out)) {
        f64 sums = 0;
        for (UOp x : toposort(u)) sums += x.is(Op::Reduce);
        add(in, sums * kHorizontalCycles * elements(out), axis_of(at, wide));
      }
      if (lanes) {
        add(out, kStoreCycles * elements(out), axis_of(oc, lanes));
        add(side[b]->buffer, kGatherCycles * vectors, axis_of(side[b]->coords, lanes));
        if (int a = axis_of(at, lanes); a >= 0) {
          add(in, kGatherCycles * vectors, a);
          channel = {};
        }
      }
      if (lanes && channel && most(channel.src(0)) >= 4)  // an image's three channels are no vector
        add(in, kNearCycles * elements(in), axis_of(at, channel));
    }
  }

  // The input's transform of a Winograd convolution: loops of its result, (rows, columns, blocks, channels), are told apart by name.
  static UOp transformed(const Call& c) {
    UOp st = c.ast.src(0);
    if (c.ast.nsrc() != 1 || !st.is(Op::Store) || st.src(0).nsrc() != 5) return {};
    bool places = false;
    for (UOp u : toposort(st.src(1))) {
      if (u.in(Op::Reduce | Op::Fold | Op::Row)) return {};
      places |= u.is(Op::Eq) && u.src(1).is_const() && (u.src(0) == st.src(0).src(1) || u.src(0) == st.src(0).src(2)) && u.src(0).is(Op::Range);
    }
    return places ? st : UOp{};
  }
  bool vote_transform(const Call& c) {
    UOp st = transformed(c);
    if (!st) return false;
    UOp channel = st.src(0).src(4);
    if (channel.is(Op::Range) && most(channel.src(0)) * 2 > lanes_)
      for (UOp u : toposort(st.src(1)))
        if (std::optional<Read> r = u.is(Op::Load) ? read_of(c, u) : std::nullopt) {
          add(r->buffer, kGatherCycles * elements(r->buffer) / f64(lanes_), axis_of(r->coords, channel));
          break;
        }
    return true;
  }
  // The places of V should not lie in a few sets of the first cache, to which they are stored side by side: a place is an odd number of lines, of
  // which the last are padding.
  void spread_transforms() {
    constexpr i64 kLine = 16, kWays = 8;
    for (const Call& c : s_.calls) {
      UOp st = transformed(c);
      if (!st) continue;
      Buffer& v = s_.buffers[c.buffers[size_t(st.src(0).src(0).arg_int())]];
      std::vector<LayoutPiece>& p = v.layout.pieces;
      if (v.kind != Buffer::Scratch || v.is_free() || v.dtype != DType(Kind::F32) || p.size() != 4 || p[3].axis != 3 || p[2].axis != 2 || p[3].factor % kLine) continue;
      const i64 sets = t_.l1_bytes / 64 / kWays, places = p[0].factor * p[1].factor;
      auto used = [&] { return sets / std::gcd(sets, p[2].factor * p[3].factor / kLine); };
      auto enough = [&] { return used() * kWays / 2 >= places; };
      if (!enough()) p[2].factor += p[2].factor % 2 == 0;
      if (!enough() && p[3].factor / kLine % 2 == 0) p[3].factor += kLine;
    }
  }

  // Sums of what lies in a row (a Winograd convolution in pieces): channels innermost in what is read, which moves with the innermost loop that fills
  // the row, and in what is stored.
  bool vote_blocks(const Call& c) {
    UOp st = c.ast.src(0), channel, weights, sums;
    for (UOp u : toposort(c.ast)) {
      if (!u.is(Op::Store) || u == st) continue;
      UOp sum = u.src(1);
      if (!sum.is(Op::Reduce) || !sum.src(0).is(Op::Mul)) continue;
      for (int i = 0; i < 2; i++) {
        UOp a = sum.src(0).src(size_t(i)), b = sum.src(0).src(size_t(1 - i));
        if (!a.is(Op::Load) || !b.is(Op::Load) || !memory_of(a.src(0)).is(Op::Row) || !memory_of(b.src(0)).is(Op::Param)) continue;
        sums = u, weights = b;
        for (UOp f : a.src(0).src(0).src().subspan(1)) channel = f;
      }
    }
    if (!sums) return false;
    for (UOp r : closed_ranges(channel)) {
      auto along = linear_in(channel.src(0).src(1), r);
      if (!along || along->factor != 1) continue;
      for (UOp x : toposort(channel.src(1)))
        if (std::optional<Read> read = x.is(Op::Load) ? read_of(c, x) : std::nullopt)
          add(read->buffer, kGatherCycles * elements(read->buffer) / f64(lanes_), axis_of(read->coords, r));
    }
    std::vector<UOp> oc(st.src(0).src().begin() + 1, st.src(0).src().end());
    // Channels out: whose panel chooses weights, or, of a single panel, that step through the sums one by one.
    auto steps = [&](UOp r) {
      std::vector<UOp> below = toposort(st.src(1));
      return std::any_of(below.begin(), below.end(), [&](UOp x) {
        if (!x.is(Op::Load) || memory_of(x.src(0)) != memory_of(sums.src(0))) return false;
        auto along = linear_in(x.src(0).src(1), r);
        return along && along->factor == 1;
      });
    };
    for (UOp r : closed_ranges(st))
      if (uses(weights, r) || steps(r)) {
        u32 out = c.buffers[size_t(st.src(0).src(0).arg_int())];
        add(out, kStoreCycles * elements(out), axis_of(oc, r));
      }
    return true;
  }

  // Phases that keep rows: scores have the keys in lanes, what is summed over the row the loops that the row does not see.
  bool vote_rows(const Call& c) {
    auto has_row = [](UOp u) {
      std::vector<UOp> below = toposort(u);
      return std::any_of(below.begin(), below.end(), [](UOp x) { return x.is(Op::Row); });
    };
    if (!has_row(c.ast)) return false;
    UOp st = c.ast.src(0), filled;
    std::vector<UOp> oc(st.src(0).src().begin() + 1, st.src(0).src().end());
    for (UOp u : toposort(c.ast)) {
      if (u.is(Op::Store) && u != st) filled = u;
      if (!u.is(Op::Reduce) || !u.src(0).is(Op::Mul)) continue;
      f64 vectors = 1 / f64(lanes_);
      for (UOp r : toposort(u))
        if (r.is(Op::Range)) vectors *= r.src(0).is_const() ? f64(r.src(0).as_int()) : 1;
      std::vector<Read> reads;
      bool row = false;
      for (UOp f : u.src(0).src()) {
        if (has_row(f)) {
          row = true;
          continue;
        }
        for (UOp x : toposort(f))
          if (std::optional<Read> r = x.is(Op::Load) ? read_of(c, x) : std::nullopt) {
            reads.push_back(*r);
            break;
          }
      }
      if (row) {  // the sum over the row
        for (UOp r : closed_ranges(st)) {
          if (!filled || uses(filled, r)) continue;
          u32 out = c.buffers[size_t(st.src(0).src(0).arg_int())];
          add(out, kStoreCycles * elements(out), axis_of(oc, r));
          for (const Read& x : reads) add(x.buffer, kGatherCycles * vectors, axis_of(x.coords, r));
        }
        continue;
      }
      for (UOp s : toposort(c.ast)) {
        if (!s.is(Op::Store) || s == st || !uses(s, u) || has_row(s.src(1))) continue;
        for (UOp j : closed_ranges(s))
          for (const Read& x : reads) {
            if (int a = axis_of(x.coords, j); a >= 0) add(x.buffer, kGatherCycles * vectors, a), panels_[x.buffer] = a;
            else if (u.nsrc() > 1) add(x.buffer, kNearCycles * elements(x.buffer), axis_of(x.coords, u.src(1)));
          }
      }
    }
    return true;
  }

  // The output loop that steps one by one through the last axis of what the window slides over, if it fills vectors.
  UOp columns(const std::vector<UOp>& out, const std::vector<UOp>& in) const {
    for (size_t i = out.size(); i-- > 0;)
      for (UOp r : ranges_in(std::span(&out[i], 1)))
        if (int a = axis_of(in, r); a >= 0 && most(r.src(0)) >= lanes_)
          if (auto l = linear_in(in[size_t(a)], r); l && l->factor == 1) return r;
    return {};
  }

  // No contraction touches the output: it lies as its largest input of the same kind does.
  void follow(const Call& c) {
    if (!c.ordered.empty() && c.ast.nsrc() > 1) return;  // what a loop's rounds keep lies as they say
    for (UOp st : c.ast.src()) {
      if (!st.is(Op::Store) || !st.src(0).src(0).is(Op::Param)) continue;
      u32 out = c.buffers[size_t(st.src(0).src(0).arg_int())];
      Buffer& ob = s_.buffers[out];
      if (ob.kind != Buffer::Scratch || chosen_[out] || ob.dims.size() < 2) continue;
      std::vector<UOp> oc(st.src(0).src().begin() + 1, st.src(0).src().end());
      i64 best = 0;
      std::vector<i64> order;
      for (UOp u : toposort(st)) {
        if (!u.is(Op::Load)) continue;
        std::optional<Read> r = read_of(c, u);
        if (!r) continue;
        const Buffer& in = s_.buffers[r->buffer];
        if (in.kind == Buffer::Constant || in.layout.elems() <= best) continue;
        std::vector<i64> o;
        for (const LayoutPiece& p : in.layout.pieces)
          for (UOp x : ranges_in(std::span(&r->coords[size_t(p.axis)], 1))) {
            int a = axis_of(oc, x);
            if (a >= 0 && std::find(o.begin(), o.end(), a) == o.end()) o.push_back(a);
          }
        bool all = true;
        for (size_t a = 0; a < oc.size(); a++) {
          bool known = std::find(o.begin(), o.end(), i64(a)) != o.end();
          if (ob.dims[a] == 1 && !known) o.insert(o.begin(), i64(a));
          else all &= known;
        }
        if (!all) continue;
        best = in.layout.elems(), order = o;
      }
      if (!order.empty()) set(out, order);
    }
  }

  Schedule& s_;
  const Target& t_;
  i64 lanes_;  // f32 values of a vector
  std::vector<std::map<int, f64>> votes_;  // by buffer and axis
  std::vector<u8> chosen_;
  std::map<u32, int> panels_;  // buffers of keys: the keys' axis
};

}  // namespace

void choose_layouts(Schedule& s, const Target& target, std::span<const LayoutPick> picks, std::vector<LayoutQuestion>* close) {
  Chooser c(s, target);
  c.run(picks);
  if (close) *close = c.close();
}

}  // namespace tg
