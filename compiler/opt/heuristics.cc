// The hand-written choice of Opts, good on every target. Contractions get a register tile of lanes along the axis that one operand (usually the
// weights) and the output share, and rows along an axis that this operand does not see; everything else gets lanes along the axis that most
// accesses walk one by one.
#include "opt/heuristics_attention.h"
#include "opt/heuristics_blocks.h"
#include "opt/heuristics_dot.h"
#include "opt/keep.h"
#include "opt/planner.h"
#include "opt/trim.h"

namespace tg::heuristic {
namespace {

// The loops that are in the list of every STORE, and those that run in their order.
std::vector<UOp> common_loops(const Kernel& k) {
  std::vector<UOp> out;
  for (UOp r : loops_of(k.ast.src(0)))
    if (std::all_of(k.ast.src().begin(), k.ast.src().end(), [&](UOp s) {
          std::vector<UOp> l = loops_of(s);
          return std::find(l.begin(), l.end(), r) != l.end();
        }))
      out.push_back(r);
  return out;
}

// Is it nests that wait for one another inside a loop that runs in its order (schedule/rounds_kernel.cc)?
bool has_rounds(const Kernel& k) { return !k.ordered.empty() && k.ast.nsrc() > 1; }

// The nests of such a kernel as kernels of their own: what a nest waits for is taken as there, and loops around several nests have no Opts.
std::vector<Kernel> nests(const Kernel& k) {
  std::vector<std::vector<UOp>> groups, loops;
  for (UOp s : k.ast.src()) {
    std::vector<UOp> l = loops_of(s);
    auto it = std::find(loops.begin(), loops.end(), l);
    if (it == loops.end()) loops.push_back(l), groups.push_back({s});
    else groups[size_t(it - loops.begin())].push_back(s);
  }
  std::vector<i64> ordered = k.ordered;
  for (UOp r : common_loops(k)) ordered.push_back(r.arg<RangeArg>().id);
  std::vector<Kernel> out;
  for (const std::vector<UOp>& g : groups) {
    UOp sink = node(Op::Sink, Kind::Void, std::span<const UOp>(g));
    Memo<UOp> to;
    for (UOp u : toposort(sink)) {
      std::vector<UOp> src;
      for (UOp s : u.src()) src.push_back(to[s]);
      to[u] = u.is(Op::After) ? src[0] : with_src(u, src);
    }
    Kernel n = k;
    n.ast = to[sink], n.ordered = ordered, n.opts.clear();
    out.push_back(std::move(n));
  }
  return out;
}

}  // namespace

std::vector<Opt> Planner::run_nest() {
  for (UOp u : toposort(k_.ast))
    if (u.is(Op::Param) && bits(u.dtype()) < 8) return {};
  view();
  if (std::optional<Kernel> d = plan_dot(k_)) k_ = std::move(*d);
  else if (!contraction()) stream(unroll_places());
  return k_.opts;
}

Kernel Planner::run() {
  for (UOp u : toposort(k_.ast))
    if (u.is(Op::Param) && bits(u.dtype()) < 8) return k_;
  if (has_rounds(k_)) {
    for (Kernel& n : nests(k_))
      for (const Opt& o : Planner(std::move(n), true).run_nest()) apply(o);
    return with_tasks(std::move(k_));
  }
  if (std::optional<Kernel> b = k_.ordered.empty() ? plan_blocks(k_) : std::nullopt) return with_tasks(std::move(*b));
  view();
  if (std::optional<Kernel> a = k_.ordered.empty() ? plan_attention(k_) : std::nullopt) {
    k_ = std::move(*a);
  } else if (std::optional<Kernel> d = k_.ordered.empty() ? plan_dot(k_) : std::nullopt) {
    k_ = std::move(*d);
  } else if (k_.ordered.empty()) {
    if (!contraction() && !row_in_registers()) {
      for (i64 value = 0; value < i64(kept_values(k_.ast).size()); value++)
        if (apply({OptKind::Keep, value, i64(RowPlace::Out)}) || apply({OptKind::Keep, value, i64(RowPlace::Stack)})) break;
      view();
      stream(unroll_places());
    }
    store_past_caches();
  }
  return with_trims(with_tasks(std::move(k_)));
}

// What its reader finds in no cache anyway. Elements one by one only: a kernel that reads its rows several times, or turns them, lives in the caches.
void Planner::store_past_caches() {
  view();
  for (const Axis& a : v_.axes)
    if (a.kind == AxisKind::Vector)
      for (const Access& x : v_.accesses)
        if (auto s = step(x, a); !s || *s < 0 || *s > 1) return;
  for (UOp u : toposort(k_.ast))
    if (u.in(Op::Reduce | Op::Fold | Op::Row)) return;
  for (UOp u : toposort(k_.ast))
    if (u.is(Op::Param) && k_.slots[size_t(u.arg_int())].layout.elems() * bits(u.dtype()) / 8 >= k_.target->l3_bytes / 2)
      apply({OptKind::Bypass, u.arg_int()});
}

void Planner::view() {
  v_ = view_of(k_);
  std::erase_if(v_.axes, [&](const Axis& a) { return std::find(k_.ordered.begin(), k_.ordered.end(), a.id) != k_.ordered.end(); });
}

bool Planner::apply(const Opt& o) {
  // A nest that others wait for has no second copy.
  if (nest_ && o.kind == OptKind::Peel) return false;
  Result<Kernel> n = k_.with(o);
  if (!n) return false;
  k_ = std::move(*n);
  return true;
}

const Axis* Planner::find(i64 id, i64 part) {
  now_ = axes(k_.ast);
  for (const Axis& a : now_)
    if (a.id == id && a.part == part) return &a;
  return nullptr;
}

}  // namespace tg::heuristic

tg::Kernel tg::heuristics(Kernel k) { return heuristic::Planner(std::move(k)).run(); }
