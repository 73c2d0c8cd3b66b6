// BYPASS: stores into a slot pass the caches by. A result that no cache holds is then written once, where a plain store reads each line first and
// pushes others out; one that a cache holds would be fetched from memory by its reader. The backend does so for stores of whole lines alone, and
// a FENCE stands at the end of each task.
#include "ir/loops.h"
#include "opt/apply.h"

namespace tg::opt {

R bypass(const Kernel& k, const Opt& o) {
  i64 line = k.target->bypass_bytes;
  if (!line) return R::no("the target has no stores past its caches");
  if (o.target < 0 || o.target >= i64(k.slots.size())) return R::no("there is no slot ", o.target);
  if (k.slots[size_t(o.target)].past) return R::no("slot ", o.target, " is stored so already");
  bool lanes = false, read = false;
  for (UOp u : toposort(k.ast)) {
    if (!u.in(Op::Load | Op::Store) || !memory_of(u.src(0)).is(Op::Param) || memory_of(u.src(0)).arg_int() != o.target) continue;
    if (u.is(Op::Load)) read = true;
    else
      for (UOp r : closed_ranges(u))
        lanes |= r.arg<RangeArg>().kind == AxisKind::Vector && r.src(0).is_const() && r.src(0).as_int() * bits(u.src(1).dtype()) == 8 * line;
  }
  if (read) return R::no("slot ", o.target, " is read here");
  if (!lanes) return R::no("slot ", o.target, " is not stored by ", line, " bytes at once");
  Kernel n = k;
  n.slots[size_t(o.target)].past = true;
  n.opts.push_back(o);
  return n;
}

}  // namespace tg::opt
