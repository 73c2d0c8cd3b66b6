// Constants are asked for before they are read. A sum of products reads a constant panel by panel, and a panel in several rounds (the rows of a
// product): in the first of them it comes from memory, as fast as memory gives it, in the others from the second-level cache. So each round of a
// panel asks for its share of the next one. What is read once, or in panels that no cache holds, is asked for a page ahead.
#include <algorithm>
#include <map>

#include "codegen/lower.h"
#include "ir/bounds.h"
#include "rules/symbolic.h"

namespace tg {
namespace {

constexpr i64 kLine = 64;           // bytes of a cache line
constexpr i64 kAhead = 4096;        // bytes; a panel that is smaller comes by itself
constexpr i64 kTaps = 16;           // the most of a loop whose size is not known

// Vectors that an innermost loop reads beside each other: from `offset` + low to `offset` + high elements.
struct Stream {
  UOp buffer, offset;
  i64 low, high;
};

class Prefetcher {
 public:
  Prefetcher(const std::vector<i64>& slots, i64 most_bytes) : slots_(slots), most_bytes_(most_bytes) {}
  std::vector<UOp> run(const std::vector<UOp>& list) {
    scopes_.push_back({});
    for (UOp u : list) {
      if (u.is(Op::Special)) task_ = u;
      if (u.is(Op::Load)) note(u);
      if (u.is(Op::End)) {
        if (!open_.empty() && streams_of_ == open_.back())
          for (auto& [key, s] : streams_) ask(s);
        streams_.clear();
        streams_of_ = {};
        open_.pop_back();
        push(u);
        for (UOp v : scopes_.back()) here_[v] = 0;
        scopes_.pop_back();
        continue;
      }
      push(u);
      if (u.is(Op::Range)) {
        open_.push_back(u);
        scopes_.push_back({});
        streams_.clear();
        streams_of_ = u;
      }
    }
    return std::move(out_);
  }

 private:
  void push(UOp u) {
    out_.push_back(u);
    if (!here_[u]) here_[u] = 1, scopes_.back().push_back(u);
  }
  // A value made here, with what it is made of.
  void make(UOp u) {
    if (here_[u]) return;
    for (UOp s : u.src()) make(s);
    push(u);
  }

  void note(UOp load) {
    UOp ix = load.src(0);
    if (load.nsrc() != 1 || !ix.is(Op::Index) || !ix.src(0).is(Op::Param) || ix.src(1).dtype().lanes != 1 || bits(ix.dtype()) < 8) return;
    if (std::find(slots_.begin(), slots_.end(), ix.src(0).arg_int()) == slots_.end()) return;
    i64 at = 0;
    UOp offset = ix.src(1);
    while (offset.is(Op::Add) && offset.src(1).is_const()) at += offset.src(1).as_int(), offset = offset.src(0);
    auto [it, fresh] = streams_.try_emplace({ix.src(0).id(), offset.id()}, Stream{ix.src(0), offset, at, at});
    it->second.low = std::min(it->second.low, at);
    it->second.high = std::max(it->second.high, at + load.dtype().lanes);
  }

  // Sums and choices simplified; what they are made of stays as the list has it: a loop whose size were spelled in another way would be another loop.
  static UOp simpler(UOp sum) {
    std::vector<std::pair<UOp, UOp>> hide, show;
    std::vector<UOp> todo{sum};
    Memo<u8> seen;
    seen[sum];
    while (!todo.empty()) {
      UOp u = todo.back();
      todo.pop_back();
      if (seen[u] || u.is(Op::Const) || u.is(Op::Var) || (u.is(Op::Range) && u.src(0).is_const())) continue;
      seen[u] = 1;
      if (u.in(Op::Add | Op::Sub | Op::Mul | Op::Where | Op::Lt | Op::And)) {
        for (UOp x : u.src()) todo.push_back(x);
        continue;
      }
      if (u.dtype() != DType(Kind::Index)) return sum;
      auto [lo, hi] = bounds(u);
      hide.push_back({u, var(str("hidden ", hide.size()), lo, hi)});
      show.push_back({hide.back().second, u});
    }
    return substitute(simplify(substitute(sum, hide)), show);
  }

  // The place where no tap of a window is outside of the picture (TRIM): the first and last rows ask as all others do.
  static UOp plain(UOp offset) {
    if (offset.in(Op::Max | Op::Min | Op::Where) && !is_uniform(offset)) return idx(0);
    if (!offset.in(Op::Add | Op::Mul)) return offset;  // a loop stays the loop that it is
    UOp a = plain(offset.src(0)), b = plain(offset.src(1));
    return a == offset.src(0) && b == offset.src(1) ? offset : simpler(alu(offset.op(), {a, b}));
  }

  void ask(const Stream& s) {
    i64 width = bits(s.buffer.dtype()) / 8;
    UOp inside = idx(0), round = idx(0);  // the place within a panel; the number of its round
    i64 elems = s.high - s.low, rounds = 1, step = 0;
    auto trimmed = [](UOp r) { return !r.src(0).is_const() && !is_uniform(r.src(0)); };
    UOp rest = std::any_of(open_.begin(), open_.end(), trimmed) ? plain(s.offset) : s.offset;
    for (size_t i = open_.size(); i-- > 0 && step == 0;) {
      UOp r = open_[i];
      auto l = linear_in(rest, r);
      if (!l || (!r.src(0).is_const() && !trimmed(r))) return;
      i64 n = trimmed(r) ? bounds(r.src(0)).hi : r.src(0).as_int();
      if (trimmed(r) && (n < 1 || n > kTaps)) return;
      if (n == 1) continue;
      if (l->factor == 0) {
        round = r * idx(rounds) + round;
        rounds *= n;
      } else if (rounds > 1) {
        step = l->factor;
      } else {
        inside = r * idx(l->factor) + inside;
        elems *= n;
        rest = l->rest;
      }
    }
    if (step == 0 && task_)
      if (auto l = linear_in(rest, task_)) step = l->factor;
    i64 span = s.high - s.low;
    if (span * width % kLine || span == 0) return;
    i64 lines = span * width / kLine;
    if (rounds < 2 || elems * width > most_bytes_) {
      auto l = linear_in(s.offset, open_.back());
      if (l && l->factor == span) ask_lines(s, s.offset + idx(kAhead / width), lines);
      return;
    }
    if (step <= 0 || elems * width < kAhead) return;
    // Rounds share the lines of each turn if the panel is dense; else the first round asks for all.
    i64 each = elems == step ? (lines + rounds - 1) / rounds : lines;
    while (lines % each) each++;
    i64 shares = lines / each;
    UOp place = simpler(inside);
    if (shares > 1) {
      UOp scaled = idx(0);
      for (UOp r : open_)
        if (auto l = linear_in(inside, r); l && l->factor) {
          if (l->factor % shares) return;
          scaled = scaled + r * idx(l->factor / shares);
        }
      place = scaled;
    }
    UOp ahead = idx(step) + round * idx(elems / shares);
    UOp active = lt(round, idx(shares));
    UOp start = rest + alu(Op::Where, {active, ahead, idx(0)});
    ask_lines(s, simpler(start + place), each);
  }

  void ask_lines(const Stream& s, UOp offset, i64 lines) {
    for (i64 k = 0; k < lines; k++)
      make(node(Op::Prefetch, Kind::Void, {node(Op::Index, s.buffer.dtype(), {s.buffer, offset + idx(s.low + k * kLine * 8 / bits(s.buffer.dtype()))})}));
  }

  const std::vector<i64>& slots_;
  i64 most_bytes_;
  std::vector<UOp> out_, open_;
  std::vector<std::vector<UOp>> scopes_;  // values that stand in each open loop
  Memo<u8> here_;
  std::map<std::pair<u32, u32>, Stream> streams_;
  UOp streams_of_, task_;
};

}  // namespace

std::vector<UOp> prefetch(std::vector<UOp> list, const std::vector<i64>& slots, i64 most_bytes) {
  return slots.empty() ? std::move(list) : Prefetcher(slots, most_bytes).run(list);
}

}  // namespace tg
