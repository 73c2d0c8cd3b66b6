// What no Opt may make of the loops of a kernel.
#include <algorithm>
#include <map>

#include "opt/apply.h"
#include "opt/limits.h"

namespace tg::opt {
namespace {

bool unrolled(UOp u) {
  if (!u.is(Op::Range)) return false;
  AxisKind k = u.arg<RangeArg>().kind;
  return k == AxisKind::Upcast || k == AxisKind::Unroll || k == AxisKind::Dot;
}

}  // namespace

std::string not_whole(UOp ast) {
  std::vector<UOp> topo = toposort(ast);
  Memo<std::vector<UOp>> kept;  // by node: STOREs below it that an AFTER waits for
  Memo<std::vector<UOp>> open;  // by node: loops that it stands in
  Memo<u8> waited;
  kept[ast], open[ast];
  for (UOp u : topo)
    if (u.is(Op::After))
      for (UOp e : u.src().subspan(1)) waited[e] = 1;
  for (UOp u : topo) {
    for (UOp s : u.src())
      for (UOp e : kept[s])
        if (std::find(kept[u].begin(), kept[u].end(), e) == kept[u].end()) kept[u].push_back(e);
    if (u.is(Op::Range)) open[u] = {u};
    for (UOp s : u.src())
      for (UOp r : open[s])
        if (std::find(open[u].begin(), open[u].end(), r) == open[u].end()) open[u].push_back(r);
    if (closes_ranges(u.op())) {
      std::vector<UOp> loops = closed_ranges(u);
      std::erase_if(open[u], [&](UOp r) { return std::find(loops.begin(), loops.end(), r) != loops.end(); });
      for (UOp e : kept[u]) {
        std::vector<UOp> row = closed_ranges(e), below = toposort(e);
        UOp over;  // the first loop over the row
        for (UOp r : loops) {
          bool is_row = std::any_of(row.begin(), row.end(), [&](UOp x) { return x.arg<RangeArg>().id == r.arg<RangeArg>().id; });
          if (is_row && !over) over = r;
          if (over && r != over && !is_row && std::find(below.begin(), below.end(), r) != below.end())
            return str("the loop ", over.str(), " over a kept row would stand outside ", r.str());
        }
        UOp again;  // the first loop that the row is the same for
        for (UOp r : loops) {
          bool sees = std::find(open[e].begin(), open[e].end(), r) != open[e].end();
          if (!sees && !again) again = r;
          if (sees && again) return str("the loop ", again.str(), ", for all of which a row is one, would stand outside ", r.str());
        }
      }
    }
    if (u.is(Op::Store) && waited[u]) kept[u].push_back(u);
  }
  return "";
}

// Why the loops are no nest: a loop outside one that its size depends on, or in two places.
std::string not_nested(UOp ast) {
  std::map<u32, UOp> around;  // of a loop that is not the first of its list: the one before it
  for (UOp u : toposort(ast)) {
    if (!closes_ranges(u.op())) continue;
    std::vector<UOp> loops = closed_ranges(u);
    for (size_t i = 0; i < loops.size(); i++) {
      for (UOp x : toposort(loops[i].src(0))) {
        AxisKind kind = x.is(Op::Range) ? x.arg<RangeArg>().kind : AxisKind::Loop;
        if (kind == AxisKind::Vector || kind == AxisKind::Upcast || kind == AxisKind::Unroll)
          return str("the size of the loop ", loops[i].str(), " would differ between lanes or copies: ", x.str());
        if (std::find(loops.begin() + long(i), loops.end(), x) != loops.end())
          return str("the loop ", loops[i].str(), " would stand outside ", x.str());
      }
      UOp outer = i ? loops[i - 1] : UOp{};
      if (auto [it, fresh] = around.try_emplace(loops[i].id(), outer); !fresh && it->second != outer)
        return str("the loop ", loops[i].str(), " would be in two places");
    }
  }
  return "";
}

std::string too_many_unrolled(UOp ast) {
  size_t n = 0;
  for (UOp u : toposort(ast)) n += unrolled(u);
  return n > kMostUnrolledRanges ? str("it would have ", n, " unrolled loops; at most ", kMostUnrolledRanges, " are taken") : "";
}

}  // namespace tg::opt
