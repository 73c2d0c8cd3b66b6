// PEEL: what is left of an axis after whole multiples gets a copy of the loop nest.
#include <algorithm>

#include "opt/apply.h"
#include "opt/few.h"
#include "opt/prepare.h"
#include "rules/symbolic.h"

namespace tg::opt {

R peel(const Kernel& k, const Opt& o) {
  Found f = find_axis(k, o);
  if (!f.why.empty()) return R::no(f.why);
  const Axis& a = f.axis;
  if (!a.output || a.reduce || a.ranges.size() != 1) return R::no("PEEL is for an output axis of one loop");
  if (o.arg < 2 || a.divides(o.arg) || a.size < o.arg)
    return R::no("axis ", o.target, " of size ", a.size, " leaves no remainder of ", o.arg);
  if (a.kind != AxisKind::Loop) return R::no("axis ", o.target, " is no loop");
  UOp r = a.ranges[0];
  if (!k.ordered.empty() && k.ast.nsrc() > 1) return R::no("loops that wait for one another have no second copy");
  UOp main = simplify(a.extent() / o.arg * o.arg), rest = simplify(a.extent() - main);
  // The second copy has loops of its own: the remainder is axis 100 + id, or the next hundred that is free; the others are later phases.
  i64 next_phase = 100, next_id = remainder_of(k.ast, a.id), more_rows = next_row(k.ast);
  for (UOp u : toposort(k.ast))
    if (u.is(Op::Range)) next_phase = std::max(next_phase, u.arg<RangeArg>().phase + 1);
  std::vector<UOp> stores;
  Kernel n = k;
  for (int copy = 0; copy < 2; copy++) {
    for (UOp s : k.ast.src()) {
      if (std::find(s.src().begin(), s.src().end(), r) == s.src().end()) {
        if (!copy) stores.push_back(s);
        continue;
      }
      // Reduces, inner loops and rows of the second copy are its own.
      RangeArg ra = r.arg<RangeArg>();
      std::map<u32, Split> map;
      if (copy) {
        ra.id = next_id;
        UOp tail = range(rest, ra);
        map[r.id()] = {tail + main, {tail}};
        if (rest.is_const(1)) map[r.id()] = {main, {}};
        bool inner = false;
        std::vector<UOp> outer;
        std::vector<std::pair<UOp, UOp>> renamed{{r, map[r.id()].value}};
        for (UOp x : closed_ranges(s)) {
          if (x == r) inner = true;
          if (!inner) outer.push_back(x);
        }
        for (UOp u : toposort(s))
          if (u.is(Op::Range) && u != r && std::find(outer.begin(), outer.end(), u) == outer.end()) {
            RangeArg x = u.arg<RangeArg>();
            x.phase += next_phase;
            UOp fresh = range(simplify(substitute(u.src(0), renamed)), x);  // sizes come before the loops that have them
            renamed.push_back({u, fresh});
            map[u.id()] = {fresh, {fresh}};
          }
      } else {
        UOp head = range(main, ra);
        map[r.id()] = {head, {head}};
      }
      UOp one = replace_ranges(s, map);
      std::vector<std::pair<UOp, UOp>> rows;
      if (copy)
        for (UOp u : toposort(one))
          if (u.is(Op::Row)) {
            RowArg row = u.arg<RowArg>();
            row.number += more_rows;
            rows.push_back({u, node(Op::Row, u.dtype(), {u.src(0)}, row.ints())});
          }
      stores.push_back(rows.empty() ? one : substitute(one, rows));
    }
  }
  n.ast = simplify(node(Op::Sink, Kind::Void, std::span<const UOp>(stores)));
  n.opts.push_back(o);
  return n;
}

}  // namespace tg::opt
