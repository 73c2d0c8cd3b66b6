// TC a r: the innermost values of reduce axis a become the group of products that one dot instruction sums, row r of the target's table.
#include "opt/tc.h"

#include <algorithm>

#include "base/error.h"
#include "ir/loops.h"

namespace tg {

std::optional<Factors> dot_factors(UOp reduce) {
  if (!reduce.is(Op::Reduce) || reduce.arg<ReduceArg>().kind != ReduceKind::Add || !reduce.src(0).is(Op::Mul)) return {};
  UOp x = reduce.src(0).src(0), y = reduce.src(0).src(1);
  if (!x.is(Op::Cast) || !y.is(Op::Cast)) return {};
  return Factors{x.src(0), y.src(0)};
}

std::string refuse_tc(const Kernel& k, const Opt& o) {
  std::vector<DotRow> rows = dot_rows(*k.target);
  if (o.arg < 0 || o.arg >= i64(rows.size())) return str("no dot instruction ", o.arg, " in ", k.target->arch, ", which has ", rows.size());
  const DotRow& row = rows[size_t(o.arg)];
  bool sum = false;
  for (UOp u : toposort(k.ast)) {
    if (u.is(Op::Range) && u.arg<RangeArg>().kind == AxisKind::Dot) return "the kernel has a TC already";
    std::optional<Factors> f = dot_factors(u);
    if (!f) continue;
    std::vector<UOp> loops = closed_ranges(u);
    bool closes = std::any_of(loops.begin(), loops.end(),
                              [&](UOp r) { return r.arg<RangeArg>().id == o.target && r.arg<RangeArg>().part == o.part; });
    sum |= closes && find_dot(std::span(&row, 1), f->a.dtype().kind, f->b.dtype().kind, u.dtype().kind, row.group);
  }
  if (!sum)
    return str("no sum over axis ", o.target, " is of products of ", name(DType(row.a)), " and ", name(DType(row.b)), " in ",
               name(DType(row.sum)));
  return "";
}

}  // namespace tg
