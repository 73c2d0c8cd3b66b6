// In place: a kernel that reads a scratch buffer only element by element, at the element it stores, and is its last reader, stores into it.
// State, and what a loop carries, is brought up to date the same way where nobody reads the old value any more.
#include <algorithm>

#include "ir/loops.h"
#include "schedule/schedule.h"
#include "schedule/steps.h"

namespace tg {
namespace {

// Every LOAD of `slot` is outside reduces and at the coordinates of the one STORE.
bool element_by_element(const Call& c, i64 slot) {
  if (c.ast.nsrc() != 1 || !c.ordered.empty()) return false;
  UOp store = c.ast.src(0);
  std::vector<UOp> at(store.src(0).src().begin() + 1, store.src(0).src().end());
  for (UOp u : toposort(c.ast)) {
    if (u.in(Op::Reduce | Op::Fold))
      for (UOp x : toposort(u))
        if (x.is(Op::Param) && x.arg_int() == slot) return false;
    if (!u.is(Op::Index) || !u.src(0).is(Op::Param) || u.src(0).arg_int() != slot) continue;
    if (!std::equal(at.begin(), at.end(), u.src().begin() + 1, u.src().end())) return false;
  }
  return true;
}

// Slot `gone` of the kernel becomes slot `keep`, which comes before it.
void join_slots(Call& c, size_t keep, size_t gone) {
  Memo<UOp> to;
  for (UOp u : toposort(c.ast)) {
    std::vector<UOp> src;
    bool same = true;
    for (UOp x : u.src()) src.push_back(to[x]), same &= src.back() == x;
    if (u.is(Op::Param) && u.arg_int() >= i64(gone)) to[u] = node(Op::Param, u.dtype(), u.src(), u.arg_int() == i64(gone) ? i64(keep) : u.arg_int() - 1);
    else to[u] = same ? u : with_src(u, src);
  }
  c.ast = to[c.ast];
  c.buffers.erase(c.buffers.begin() + long(gone));
}

// One store of what lies at the same coordinates of `slot`.
bool copies(const Call& c, i64 slot) {
  UOp store = c.ast.src(0);
  return c.outputs == 1 && !c.border && element_by_element(c, slot) && store.src(1).is(Op::Load) && store.src(1).nsrc() == 1 &&
         store.src(1).src(0).src(0).is(Op::Param) && store.src(1).src(0).src(0).arg_int() == slot &&
         store.nsrc() == 2 + closed_ranges(store).size();
}

bool in(const Call& c, u32 buffer) { return std::find(c.buffers.begin(), c.buffers.end(), buffer) != c.buffers.end(); }

// The calls of a run, or of a round of a loop: [first, last].
struct Calls {
  size_t first, last;
};
void loops_of(const std::vector<Step>& steps, size_t& next, std::vector<Calls>& loops) {
  for (const Step& x : steps) {
    if (x.kind == Step::Call) next++;
    size_t at = loops.size(), first = next;
    if (x.kind == Step::While) loops.push_back({});
    loops_of(x.then, next, loops), loops_of(x.otherwise, next, loops);
    if (x.kind == Step::While) loops[at] = {first, next - 1};  // next == first: no calls, and last < first
  }
}
std::vector<Calls> loops_of(const Schedule& s) {
  std::vector<Calls> v;
  size_t next = 0;
  loops_of(s.steps, next, v);
  std::erase_if(v, [](const Calls& c) { return c.last + 1 == c.first; });
  return v;
}

// The calls of each loop's rounds and each side of a branch: what may not run at all, or more than once.
void blocks_of(const std::vector<Step>& steps, size_t& next, std::vector<Calls>& blocks) {
  for (const Step& x : steps) {
    if (x.kind == Step::Call) next++;
    for (const std::vector<Step>* part : {&x.then, &x.otherwise}) {
      size_t first = next;
      blocks_of(*part, next, blocks);
      if (next > first) blocks.push_back({first, next - 1});
    }
  }
}

// The last register tile of a free axis makes rows twice (opt/split.cc), which a sum of products must not have written over.
bool repeats_rows(const Call& c, const Buffer& out) {
  if (!out.is_free()) return false;
  for (UOp u : toposort(c.ast))
    if (u.in(Op::Reduce | Op::Fold)) return true;
  return false;
}

// The scratch buffer that call `last` copies to another one that lives on, `kept`, if it may lie in that one's place: whoever reads the old
// value in this round comes before the first call that writes the buffer, or is that call and reads element by element; and where the copy may not
// run, neither does what makes the buffer; and whoever reads the buffer behind the copy still finds it there: nobody changes what was copied.
bool may_replace(const Schedule& s, const std::vector<Calls>& loops, const Calls& round, size_t last) {
  u32 kept = s.calls[last].buffers[0], scratch = s.calls[last].buffers[1];
  size_t first = s.calls.size(), next = 0;
  std::vector<Calls> around{round};
  blocks_of(s.steps, next, around);
  std::erase_if(around, [&](const Calls& b) { return b.first < round.first || b.last > round.last || last < b.first || last > b.last; });
  for (size_t i = 0; i < s.calls.size(); i++) {
    if (!in(s.calls[i], scratch)) continue;
    if (std::any_of(around.begin(), around.end(), [&](const Calls& b) { return i < b.first || i > b.last; })) return false;
    first = std::min(first, i);
  }
  const Call& writer = s.calls[first];
  size_t writes = size_t(std::find(writer.buffers.begin(), writer.buffers.end(), scratch) - writer.buffers.begin());
  if (writes >= writer.outputs) return false;
  // A loop inside the round writes in each of its own rounds.
  size_t from = first;
  for (const Calls& l : loops)
    if (l.first > round.first && l.first <= from && from <= l.last && l.last < last) from = l.first;
  for (size_t i = from; i < last; i++) {
    const Call& c = s.calls[i];
    size_t slot = size_t(std::find(c.buffers.begin(), c.buffers.end(), kept) - c.buffers.begin());
    if (slot < c.buffers.size() && (from < first || i > first || c.outputs != 1 || repeats_rows(c, s.buffers[kept]) || !element_by_element(c, i64(slot))))
      return false;
  }
  bool changed = false, read = false;
  for (size_t i = last + 1; i < s.calls.size(); i++) {
    const Call& c = s.calls[i];
    changed |= std::find(c.buffers.begin(), c.buffers.begin() + c.outputs, kept) != c.buffers.begin() + c.outputs;
    read |= in(c, scratch);
  }
  return !changed || !read;
}

// Does the runtime itself read the buffer?
bool is_read(const Schedule& s, u32 buffer) {
  bool yes = false;
  each_step(s.steps, [&](const Step& x) { yes |= x.kind == Step::Read && x.buffer == buffer; });
  return yes;
}

// Call `last` copies a value to where it is kept: then it is made there, if that is allowed. Gives how many calls are gone.
size_t make_in_place(Schedule& s, const Calls& round, size_t last) {
  const Call& c = s.calls[last];
  if (c.buffers.size() != 2 || s.buffers[c.buffers[1]].kind != Buffer::Scratch) return 0;
  u32 kept = c.buffers[0], scratch = c.buffers[1];
  if (s.buffers[kept].dtype != s.buffers[scratch].dtype || s.buffers[kept].shape != s.buffers[scratch].shape) return 0;
  if (!copies(c, 1) || is_read(s, kept) || is_read(s, scratch) || !may_replace(s, loops_of(s), round, last)) return 0;
  size_t before = s.calls.size();
  erase_call(s, last);
  for (size_t i = 0; i < s.calls.size(); i++) {
    Call& user = s.calls[i];
    auto of = [&](u32 b) { return size_t(std::find(user.buffers.begin(), user.buffers.end(), b) - user.buffers.begin()); };
    size_t at = of(scratch), old = of(kept);
    if (at == user.buffers.size()) continue;
    user.buffers[at] = kept;
    if (old == user.buffers.size()) continue;
    // It writes the new value and reads the old one; a copy of it is nothing.
    bool copy = copies(user, i64(old));
    join_slots(user, std::min(at, old), std::max(at, old));
    if (copy) erase_call(s, i--);
  }
  return before - s.calls.size();
}

}  // namespace

void update_in_place(Schedule& s) {
  for (size_t last = s.calls.size(); last-- > 0;) {
    if (s.buffers[s.calls[last].buffers[0]].kind != Buffer::State) continue;
    make_in_place(s, {0, s.calls.size() - 1}, last);
    last = std::min(last, s.calls.size());
  }
  // What a loop carries: the copies at the end of a round.
  for (size_t k = 0; k < loops_of(s).size(); k++)
    for (Calls round = loops_of(s)[k]; round.last + 1 > round.first;) {
      size_t last = round.last + 1, gone = 0;
      while (!gone && last-- > round.first) gone = make_in_place(s, round, last);
      if (!gone) break;
      std::vector<Calls> now = loops_of(s);
      if (k >= now.size()) break;
      round = now[k];
    }
}

void share_in_place(Schedule& s) {
  std::vector<Calls> loops = loops_of(s);
  std::vector<i64> first(s.buffers.size(), -1), last(s.buffers.size(), -1), writers(s.buffers.size(), 0);
  std::vector<u8> pinned(s.buffers.size(), 0);
  each_step(s.steps, [&](const Step& x) {
    if (x.kind == Step::Read) pinned[x.buffer] = 1;
  });
  for (size_t i = 0; i < s.calls.size(); i++) {
    for (u32 b : s.calls[i].buffers) {
      if (first[b] < 0) first[b] = i64(i);
      last[b] = i64(i);
    }
    for (u32 o = 0; o < s.calls[i].outputs; o++) writers[s.calls[i].buffers[o]]++;
  }
  // What a loop finds is read in its next round too.
  auto outlives = [&](u32 b, size_t call) {
    return std::any_of(loops.begin(), loops.end(), [&](const Calls& l) { return l.first <= call && call <= l.last && first[b] < i64(l.first); });
  };
  for (size_t i = 0; i < s.calls.size(); i++) {
    Call& c = s.calls[i];
    u32 out = c.buffers[0];
    const Buffer& ob = s.buffers[out];
    if (c.outputs != 1 || ob.kind != Buffer::Scratch || writers[out] != 1 || c.border || pinned[out] || repeats_rows(c, ob)) continue;
    for (size_t slot = 1; slot < c.buffers.size(); slot++) {
      u32 in = c.buffers[slot];
      const Buffer& ib = s.buffers[in];
      if (ib.kind != Buffer::Scratch || last[in] != i64(i) || ib.dtype != ob.dtype || ib.shape != ob.shape || !(ib.layout == ob.layout) || !ib.before.empty())
        continue;
      if (pinned[in] || outlives(in, i) || !element_by_element(c, i64(slot))) continue;
      // All later calls read the input's buffer.
      join_slots(c, 0, slot);
      for (size_t k = i; k < s.calls.size(); k++)
        for (u32& b : s.calls[k].buffers)
          if (b == out) b = in;
      last[in] = last[out];
      last[out] = -1;
      writers[in]++;
      break;
    }
  }
}

}  // namespace tg
