// A PAD of a scratch buffer costs nothing where it is read: the buffer lies with a border of the fill value around it, which its producer
// stores too, and the readers' bounds tests go away.
#include <algorithm>
#include <map>
#include <optional>

#include "ir/bounds.h"
#include "ir/loops.h"
#include "rules/symbolic.h"
#include "schedule/schedule.h"
#include "schedule/steps.h"

namespace tg {
namespace {

struct Need {
  bool ok = true, any = false;
  u64 fill = 0;
  std::vector<i64> before, after;
};

std::vector<UOp> clauses(UOp gate) {
  std::vector<UOp> out, todo{gate};
  while (!todo.empty()) {
    UOp g = todo.back();
    todo.pop_back();
    if (g.is(Op::And) && g.dtype().kind == Kind::Bool) todo.push_back(g.src(0)), todo.push_back(g.src(1));
    else out.push_back(g);
  }
  return out;
}

// Does the gate say no more than that the coordinates are inside the buffer?
bool only_bounds(UOp load, const Shape& dims) {
  UOp ix = load.src(0);
  for (UOp c : clauses(load.src(1))) {
    bool found = false;
    for (size_t a = 0; a < dims.size() && !found; a++) {
      UOp x = ix.src(a + 1);
      found = simplify(le(idx(0), x)) == c || simplify(lt(x, dims[a])) == c;
    }
    if (!found) return false;
  }
  return true;
}

// How many places beyond the last one, size - 1, the coordinate reaches at most, whatever the sizes: loops at their ends.
std::optional<i64> beyond(UOp x, UOp size) {
  if (simplify(lt(x, size)).is_const(1)) return 0;
  UOp e = x;
  for (UOp r : toposort(x)) {
    if (!r.is(Op::Range)) continue;
    auto l = linear_in(e, r);
    if (!l || !is_uniform(r.src(0))) return {};
    e = l->rest + (l->factor > 0 ? (r.src(0) - 1) * l->factor : idx(0));
  }
  if (!is_uniform(e)) return {};
  return std::max<i64>(bounds(simplify(e - size + 1)).hi, 0);
}

}  // namespace

void make_borders(Schedule& s) {
  std::map<u32, Need> needs;
  for (const Call& c : s.calls)
    for (UOp u : toposort(c.ast)) {
      if (!u.is(Op::Load) || u.nsrc() != 3 || !u.src(0).src(0).is(Op::Param)) continue;
      u32 b = c.buffers[size_t(u.src(0).src(0).arg_int())];
      const Buffer& buf = s.buffers[b];
      if (buf.kind != Buffer::Scratch || bits(buf.dtype) < 8 || !u.src(2).is_const() || !only_bounds(u, buf.shape)) continue;
      Need& n = needs[b];
      if (n.any && n.fill != u.src(2).arg_bits()) n.ok = false;
      if (!n.any) n.any = true, n.fill = u.src(2).arg_bits(), n.before.assign(buf.dims.size(), 0), n.after.assign(buf.dims.size(), 0);
      for (size_t a = 0; a < buf.dims.size(); a++) {
        Bounds r = bounds(u.src(0).src(a + 1));
        std::optional<i64> after = buf.shape[a].is_const() ? r.hi - buf.dims[a] + 1 : beyond(u.src(0).src(a + 1), buf.shape[a]);
        if (!after || r.lo < -4096 || *after > 4096) n.ok = false;
        else n.before[a] = std::max(n.before[a], -r.lo), n.after[a] = std::max(n.after[a], *after);
      }
    }
  Timeline time = timeline(s);
  // The producer must run before every reader: not in one side of a branch alone.
  auto always_made = [&](u32 b) {
    std::vector<i64> at;
    for (size_t t = 0; t < time.uses.size(); t++)
      if (std::find(time.uses[t].begin(), time.uses[t].end(), b) != time.uses[t].end()) at.push_back(i64(t));
    return std::all_of(time.sides.begin(), time.sides.end(), [&](const Span& side) { return !side.holds(at.front()) || side.holds(at.back()); });
  };
  // A call stores the border of its first slot.
  auto stores_it = [&](u32 b) {
    for (const Call& c : s.calls)
      if (std::find(c.buffers.begin(), c.buffers.end(), b) != c.buffers.end()) return c.buffers[0] == b;
    return false;
  };
  for (auto& [b, n] : needs) {
    Buffer& buf = s.buffers[b];
    if (!always_made(b) || !stores_it(b)) continue;
    double grown = 1;
    bool any = false;
    for (size_t a = 0; a < buf.dims.size(); a++) {
      grown *= double(buf.dims[a] + n.before[a] + n.after[a]) / double(std::max<i64>(buf.dims[a], 1));
      any |= n.before[a] || n.after[a];
    }
    if (!n.ok || !any || grown > 4) continue;
    buf.before = n.before, buf.after = n.after, buf.fill = n.fill;
    Shape inner = buf.shape;
    for (size_t a = 0; a < buf.dims.size(); a++) {
      buf.shape[a] = buf.shape[a] + (n.before[a] + n.after[a]);
      buf.dims[a] += n.before[a] + n.after[a];
    }
    buf.layout = Layout::row_major(buf.dims);
    bool first = true;
    for (Call& c : s.calls) {
      auto it = std::find(c.buffers.begin(), c.buffers.end(), b);
      if (it == c.buffers.end()) continue;
      i64 slot = it - c.buffers.begin();
      if (first && slot == 0) c.border = true, first = false;
      Memo<UOp> to;
      UOp wide = tensor::param(slot, buf.dtype, buf.shape);
      for (UOp u : toposort(c.ast)) {
        std::vector<UOp> src;
        bool same = true;
        for (UOp x : u.src()) src.push_back(to[x]), same &= src.back() == x;
        if (u.is(Op::Param) && u.arg_int() == slot) {
          to[u] = wide;
          continue;
        }
        if (u.is(Op::Index) && without_waits(u.src(0)).is(Op::Param) && without_waits(u.src(0)).arg_int() == slot) {
          for (size_t a = 0; a < inner.size(); a++) src[a + 1] = src[a + 1] + n.before[a];
          same = false;
        }
        if (u.is(Op::Load) && u.nsrc() == 3 && memory_of(u.src(0)).is(Op::Param) && memory_of(u.src(0)).arg_int() == slot && u.src(2).is_const() &&
            only_bounds(u, inner))
          src.resize(1), same = false;
        to[u] = same ? u : with_src(u, src);
      }
      c.ast = simplify(to[c.ast]);
    }
  }
}

}  // namespace tg
