// In place: a kernel that reads a scratch buffer only element by element, at the element it stores, and is its last reader, stores into it.
#include <algorithm>
#include <map>

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

}  // namespace

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
    if (c.outputs != 1 || ob.kind != Buffer::Scratch || writers[out] != 1 || c.border) continue;
    for (size_t slot = 1; slot < c.buffers.size(); slot++) {
      u32 in = c.buffers[slot];
      const Buffer& ib = s.buffers[in];
      if (ib.kind != Buffer::Scratch || last[in] != i64(i) || ib.dtype != ob.dtype || ib.dims != ob.dims || !(ib.layout == ob.layout) || !ib.before.empty())
        continue;
      if (!element_by_element(c, i64(slot))) continue;
      // The two slots of this kernel become one, and all later calls read the input's buffer.
      Memo<UOp> to;
      for (UOp u : toposort(c.ast)) {
        std::vector<UOp> src;
        bool same = true;
        for (UOp x : u.src()) src.push_back(to[x]), same &= src.back() == x;
        if (u.is(Op::Param) && u.arg_int() >= i64(slot)) to[u] = node(Op::Param, u.dtype(), u.src(), u.arg_int() == i64(slot) ? 0 : u.arg_int() - 1);
        else to[u] = same ? u : with_src(u, src);
      }
      c.ast = to[c.ast];
      c.buffers.erase(c.buffers.begin() + long(slot));
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
