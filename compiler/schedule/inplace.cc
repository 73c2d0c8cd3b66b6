// In place: a kernel that reads a scratch buffer only element by element, at the element it stores, and is its last reader, stores into it.
// State is brought up to date the same way where nobody reads the old value any more.
#include <algorithm>

#include "ir/loops.h"
#include "schedule/schedule.h"

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

// The scratch buffer that call `last` copies to a state, if it may lie in the state's own place: whoever reads the old state comes before the
// first call that writes the buffer, or is that call and reads element by element.
bool may_replace(const Schedule& s, size_t last) {
  u32 state = s.calls[last].buffers[0], scratch = s.calls[last].buffers[1];
  size_t first = 0;
  auto writes = [&](const Call& c) { return std::find(c.buffers.begin(), c.buffers.begin() + c.outputs, scratch) < c.buffers.begin() + c.outputs; };
  while (!writes(s.calls[first])) first++;
  for (size_t i = first; i < last; i++) {
    const Call& c = s.calls[i];
    size_t slot = size_t(std::find(c.buffers.begin(), c.buffers.end(), state) - c.buffers.begin());
    if (slot < c.buffers.size() && (i > first || c.outputs != 1 || !element_by_element(c, i64(slot)))) return false;
  }
  return true;
}

}  // namespace

void update_state_in_place(Schedule& s) {
  for (size_t last = s.calls.size(); last-- > 0;) {
    const Call& c = s.calls[last];
    if (c.buffers.size() != 2 || s.buffers[c.buffers[0]].kind != Buffer::State || s.buffers[c.buffers[1]].kind != Buffer::Scratch) continue;
    u32 state = c.buffers[0], scratch = c.buffers[1];
    if (s.buffers[state].dtype != s.buffers[scratch].dtype || s.buffers[state].dims != s.buffers[scratch].dims) continue;
    if (!copies(c, 1) || !may_replace(s, last)) continue;
    s.calls.erase(s.calls.begin() + long(last));
    for (size_t i = 0; i < s.calls.size(); i++) {
      Call& user = s.calls[i];
      auto of = [&](u32 b) { return size_t(std::find(user.buffers.begin(), user.buffers.end(), b) - user.buffers.begin()); };
      size_t at = of(scratch), old = of(state);
      if (at == user.buffers.size()) continue;
      user.buffers[at] = state;
      if (old == user.buffers.size()) continue;
      // It writes the new state and reads the old one; a copy of it is nothing.
      bool copy = copies(user, i64(old));
      join_slots(user, std::min(at, old), std::max(at, old));
      if (copy) s.calls.erase(s.calls.begin() + long(i--));
    }
    last = std::min(last, s.calls.size());
  }
}

// The last register tile of a free axis makes rows twice (opt/opts.cc), which a sum of products must not have written over.
static bool repeats_rows(const Call& c, const Buffer& out) {
  if (!out.is_free()) return false;
  for (UOp u : toposort(c.ast))
    if (u.in(Op::Reduce | Op::Fold)) return true;
  return false;
}

void share_in_place(Schedule& s) {
  std::vector<i64> last(s.buffers.size(), -1), writers(s.buffers.size(), 0);
  for (size_t i = 0; i < s.calls.size(); i++) {
    for (u32 b : s.calls[i].buffers) last[b] = i64(i);
    for (u32 o = 0; o < s.calls[i].outputs; o++) writers[s.calls[i].buffers[o]]++;
  }
  for (size_t i = 0; i < s.calls.size(); i++) {
    Call& c = s.calls[i];
    u32 out = c.buffers[0];
    const Buffer& ob = s.buffers[out];
    if (c.outputs != 1 || ob.kind != Buffer::Scratch || writers[out] != 1 || c.border || repeats_rows(c, ob)) continue;
    for (size_t slot = 1; slot < c.buffers.size(); slot++) {
      u32 in = c.buffers[slot];
      const Buffer& ib = s.buffers[in];
      if (ib.kind != Buffer::Scratch || last[in] != i64(i) || ib.dtype != ob.dtype || ib.shape != ob.shape || !(ib.layout == ob.layout) || !ib.before.empty())
        continue;
      if (!element_by_element(c, i64(slot))) continue;
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
