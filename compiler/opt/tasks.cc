// THREAD: an output axis is cut into tasks, each of which is a call of the kernel with its number.
#include <algorithm>

#include "opt/apply.h"
#include "rules/symbolic.h"

namespace tg::opt {

namespace {

// Where the kernel has versions for few values (FEW): the loop of each that is the same axis.
std::vector<UOp> versions_of(const Kernel& k, const Axis& a) {
  std::vector<UOp> out{a.ranges[0]};
  if (std::none_of(k.opts.begin(), k.opts.end(), [](const Opt& o) { return o.kind == OptKind::Few; })) return out;
  for (const Axis& x : axes(k.ast))
    if (x.id != a.id && x.id % 100 == a.id % 100 && x.part == a.part && x.size >= 0 && x.output && !x.reduce && x.ranges.size() == 1 &&
        x.kind == AxisKind::Loop)
      out.push_back(x.ranges[0]);
  return out;
}

}  // namespace

R thread(const Kernel& k, const Opt& o) {
  Found f = find_axis(k, o);
  if (!f.why.empty()) return R::no(f.why);
  const Axis& a = f.axis;
  if (!a.output || a.reduce || a.ranges.size() != 1) return R::no("THREAD is for an output axis of one loop");
  if (a.kind != AxisKind::Loop) return R::no("axis ", o.target, " is no loop");
  if (o.arg < 2 || o.arg > k.target->max_tasks || o.arg > a.size)
    return R::no("THREAD of ", o.arg, " over ", a.size, "; at most ", k.target->max_tasks);
  std::vector<UOp> loops = versions_of(k, a);
  for (UOp s : k.ast.src()) {
    std::vector<UOp> l = closed_ranges(s);
    if (std::count_if(l.begin(), l.end(), [&](UOp r) { return std::find(loops.begin(), loops.end(), r) != loops.end(); }) != 1)
      return R::no("axis ", o.target, " does not surround the whole kernel");
    if (s.is(Op::Store) && bits(s.src(0).dtype()) < 8) return R::no("tasks would store into one byte");
  }
  for (UOp u : toposort(k.ast))
    if (u.is(Op::Range) && u.arg<RangeArg>().kind == AxisKind::Task) return R::no("the kernel has tasks already");
  i64 part = next_part(k.ast, a.id);
  UOp task = piece(idx(o.arg), loops[0], part, AxisKind::Task);
  std::map<u32, Split> map;
  for (UOp r : loops) {
    UOp size = r.src(0);
    if (size.is_const(o.arg)) {
      map[r.id()] = {task, {task}};
    } else if (const_factor(size) % o.arg == 0) {
      UOp share = simplify(size / o.arg), in = piece(share, r, a.part, AxisKind::Loop);
      map[r.id()] = {task * share + in, {task, in}};
    } else {
      // Even shares: task t takes [t*size/n, (t+1)*size/n).
      UOp begin = (task * size) / idx(o.arg), end = ((task + 1) * size) / idx(o.arg);
      UOp in = piece(end - begin, r, a.part, AxisKind::Loop);
      map[r.id()] = {begin + in, {task, in}};
    }
  }
  Kernel n = k;
  n.ast = simplify(replace_ranges(k.ast, map));
  n.opts.push_back(o);
  return n;
}

}  // namespace tg::opt
