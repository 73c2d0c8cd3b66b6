// Rows on the stack that are never needed at once become one: a row whose elements are read for the last time where another row is filled, each
// for the element at its own place. Softmax's exponentials take the place of the scores.
#include <algorithm>

#include "codegen/lower.h"
#include "ir/loops.h"

namespace tg {
namespace {

bool same_kind(UOp a, UOp b) { return a != b && a.dtype() == b.dtype() && a.src(0) == b.src(0) && a.arg<RowArg>().place == b.arg<RowArg>().place; }

// May `to`, which the STORE fills, lie where `from` lies?
bool takes_over(UOp ast, UOp store, UOp from) {
  Memo<u8> inside, reads;  // below the STORE's value; in its loops
  std::vector<UOp> below = toposort(store.src(1));
  inside[ast], reads[ast];
  std::vector<UOp> loops = closed_ranges(store);
  for (UOp u : below) {
    inside[u] = 1;
    reads[u] = std::find(loops.begin(), loops.end(), u) != loops.end();
    if (u.is(Op::After)) continue;  // what it waits for is past
    for (UOp s : u.src()) reads[u] |= reads[s];
    if (closes_ranges(u.op()))
      for (UOp r : closed_ranges(u))
        if (std::find(loops.begin(), loops.end(), r) != loops.end()) return false;
  }
  bool any = false;
  for (UOp u : toposort(ast)) {
    if (!u.is(Op::Load) || memory_of(u.src(0)) != from) continue;
    if (!inside[u]) return false;
    if (reads[u] && u.src(0).src(1) != store.src(0).src(1)) return false;
    any |= reads[u];
  }
  return any;
}

}  // namespace

UOp share_rows(UOp ast) {
  for (bool changed = true; changed;) {
    changed = false;
    std::vector<UOp> topo = toposort(ast), rows, stores;
    for (UOp u : topo) {
      if (u.is(Op::Row)) rows.push_back(u);
      if (u.is(Op::Store) && memory_of(u.src(0)).is(Op::Row)) stores.push_back(u);
    }
    for (UOp store : stores)
      for (UOp from : rows) {
        UOp to = memory_of(store.src(0));
        bool once = std::count_if(stores.begin(), stores.end(), [&](UOp s) { return memory_of(s.src(0)) == to; }) == 1;
        if (changed || !once || !same_kind(from, to) || !takes_over(ast, store, from)) continue;
        std::pair<UOp, UOp> one{from, to};
        ast = substitute(ast, std::span(&one, 1));
        changed = true;
      }
  }
  return ast;
}

}  // namespace tg
