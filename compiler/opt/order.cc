// SWAP and TILE: loops change their places.
#include <algorithm>
#include <functional>

#include "opt/apply.h"
#include "rules/symbolic.h"

namespace tg::opt {

namespace {

// Moves a loop within the lists of loops.
UOp reorder(UOp ast, const std::function<void(std::vector<UOp>&)>& change) {
  Memo<UOp> to;
  for (UOp u : toposort(ast)) {
    std::vector<UOp> src;
    for (UOp s : u.src()) src.push_back(to[s]);
    if (closes_ranges(u.op())) {
      std::vector<UOp> rs = closed_ranges(u), now = rs;
      change(now);
      if (now != rs) {
        size_t n = src.size() - rs.size();
        for (size_t i = 0; i < now.size(); i++) src[n + i] = to[now[i]];
      }
    }
    bool same = std::equal(src.begin(), src.end(), u.src().begin(), u.src().end());
    to[u] = same ? u : with_src(u, src);
  }
  return to[ast];
}

bool is_axis(UOp r, i64 id, i64 part) { return r.arg<RangeArg>().id == id && r.arg<RangeArg>().part == part; }

}  // namespace

R swap(const Kernel& k, const Opt& o) {
  Found f = find_axis(k, o);
  if (!f.why.empty()) return R::no(f.why);
  Opt other = o;
  other.target = o.arg, other.part = u8(o.arg2);
  Found g = find_axis(k, other);
  if (!g.why.empty()) return R::no(g.why);
  if (is_axis(f.axis.ranges[0], o.arg, o.arg2)) return R::no("an axis does not change places with itself");
  bool done = false;
  Kernel n = k;
  n.ast = reorder(k.ast, [&](std::vector<UOp>& rs) {
    size_t i = rs.size(), j = rs.size();
    for (size_t x = 0; x < rs.size(); x++) {
      if (is_axis(rs[x], o.target, o.part)) i = x;
      if (is_axis(rs[x], o.arg, o.arg2)) j = x;
    }
    if (i < rs.size() && j < rs.size()) std::swap(rs[i], rs[j]), done = true;
  });
  if (!done) return R::no("axes ", o.target, " and ", o.arg, " are loops of one list nowhere");
  n.opts.push_back(o);
  return n;
}

R tile(const Kernel& k, const Opt& o) {
  Found f = find_axis(k, o);
  if (!f.why.empty()) return R::no(f.why);
  const Axis& a = f.axis;
  if (o.arg < 1 || !a.divides(o.arg) || (!a.free && a.size == o.arg))
    return R::no("axis ", o.target, " of size ", a.size, " has no tiles of ", o.arg);
  if (a.kind != AxisKind::Loop && a.kind != AxisKind::Reduce) return R::no("axis ", o.target, " is no loop");
  i64 part = next_part(k.ast, a.id);
  std::map<u32, Split> map;
  for (UOp r : a.ranges) {
    if (o.arg == 1) continue;  // the whole loop moves
    UOp outer = piece(simplify(r.src(0) / o.arg), r, part, r.arg<RangeArg>().kind),
        in = piece(idx(o.arg), r, a.part, r.arg<RangeArg>().kind);
    map[r.id()] = {outer * idx(o.arg) + in, {outer, in}};
  }
  Kernel n = k;
  i64 moved = o.arg == 1 ? a.part : part;
  n.ast = reorder(simplify(replace_ranges(k.ast, map)), [&](std::vector<UOp>& rs) {
    // The outermost of those inside a loop that runs in its order.
    size_t first = 0;
    for (size_t x = 0; x < rs.size(); x++) {
      if (std::find(k.ordered.begin(), k.ordered.end(), rs[x].arg<RangeArg>().id) != k.ordered.end()) first = x + 1;
      if (is_axis(rs[x], o.target, moved) && x > first)
        std::rotate(rs.begin() + long(first), rs.begin() + long(x), rs.begin() + long(x) + 1);
    }
  });
  n.opts.push_back(o);
  return n;
}

}  // namespace tg::opt
