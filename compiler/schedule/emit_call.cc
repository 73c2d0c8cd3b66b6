// One call: what a kernel loads and stores, and its name.
#include "base/error.h"
#include "ir/eval.h"
#include "schedule/scheduler.h"

namespace tg {

Shape Scheduler::shifted(const Shape& index, const Shape& begin) {
  if (begin.empty()) return index;
  Shape r = index;
  for (size_t i = 0; i < r.size(); i++) r[i] = simplify(r[i] + begin[i]);
  return r;
}

UOp Scheduler::index_of(Params& p, const Place& pl, const Shape& index) {
  std::vector<UOp> src{p.slot(s_, pl.buffer)};
  src.insert(src.end(), pl.lead.begin(), pl.lead.end());
  for (UOp i : shifted(index, pl.begin)) src.push_back(i);
  return node(Op::Index, src[0].dtype(), std::span<const UOp>(src));
}

UOp Scheduler::load(Params& p, UOp u, const Shape& index, UOp gate, UOp alternative) {
  if (u.is(Op::Constant)) {
    const ConstantData& c = g_.constants[size_t(u.arg_int())];
    i64 n = 1;
    for (i64 d : c.dims) n *= d;
    if (n == 1 && !is_storage(c.dtype.kind)) {
      UOp v = konst_bits(c.dtype, decode(c.dtype, c.dims, c.bytes).v[0]);
      return gate && alternative != v ? where(gate, v, alternative) : v;
    }
  }
  UOp at = index_of(p, place_of(u), index);
  DType d = at.dtype();
  if (gate && !gate.is_const(1)) return cast(node(Op::Load, d, {at, gate, cast(alternative, d)}), u.dtype());
  return cast(node(Op::Load, d, {at}), u.dtype());
}

Builder Scheduler::builder(UOp root, Params& p) {
  return Builder(root, &ranges_, &realized_, [this, &p](UOp n, const Shape& i, UOp gate, UOp alt) { return load(p, n, i, gate, alt); });
}

UOp Scheduler::store(Params& p, const Place& pl, const Shape& index, UOp value, std::span<const UOp> ranges, UOp gate) {
  std::vector<UOp> src{index_of(p, pl, index), value};
  src[1] = cast(value, src[0].dtype());
  if (gate) src.push_back(gate);
  for (UOp r : ranges)
    if (r.is(Op::Range)) src.push_back(r);
  return node(Op::Store, Kind::Void, std::span<const UOp>(src));
}

void Scheduler::finish(std::vector<UOp> stores, Params& p, u32 outputs, std::string name, std::vector<i64> ordered) {
  Call c;
  c.ast = simplify(without_steps(node(Op::Sink, Kind::Void, std::span<const UOp>(stores))));
  c.buffers = p.buffers, c.outputs = outputs, c.name = std::move(name), c.ordered = std::move(ordered);
  steps_of_call_->push_back({.kind = Step::Call, .call = u32(s_.calls.size())});
  s_.calls.push_back(std::move(c));
}

UOp Scheduler::without_steps(UOp u) {
  if (rounds_.empty()) return u;
  std::vector<std::pair<UOp, UOp>> map;
  for (UOp x : toposort(u))
    if (x.is(Op::Step)) map.push_back({x, rounds_.at(x.arg_int())});
  return map.empty() ? u : substitute(u, map);
}

void Scheduler::copy_into(UOp u, const Place& p) {
  if (realized_.stored[u] || is_kept(u)) {
    Place own = place_of(u);
    if (own.buffer == p.buffer && own.begin == p.begin && own.lead == p.lead) return;
  }
  emit_plain(u, u, p, "copy");
}

std::string Scheduler::shape_name(UOp u) {
  std::string n;
  for (UOp d : shape(u)) n += "_" + (d.is_const() ? str(d.as_int()) : std::string("n"));
  return n;
}

bool Scheduler::empty(UOp u) {
  for (UOp d : shape(u))
    if (d.is_const(0)) return true;
  return false;
}

std::string Scheduler::work_name(UOp ast) {
  bool reduce = false, window = false, places = false, product = false, transcendental = false, fold = false, row = false;
  int reduces = 0;
  for (UOp u : toposort(ast)) {
    if (u.is(Op::Reduce)) {
      reduce = true, reduces++;
      UOp b = u.src(0);
      while (b.is(Op::Cast)) b = b.src(0);
      if (b.is(Op::Mul) && u.arg<ReduceArg>().kind == ReduceKind::Add) product = true, window |= u.nsrc() > 3;
    }
    places |= u.is(Op::Eq) && u.src(0).in(Op::Range | Op::FloorMod) && u.src(1).is_const();
    fold |= u.is(Op::Fold);
    row |= u.is(Op::Row);
    transcendental |= u.in(kTranscendental);
  }
  if (row && places) return "winograd";
  if (row) return "attention";
  if (product) return window ? "conv" : "matmul";
  if (fold) return "fold";
  if (reduces > 1) return transcendental ? "softmax" : "norm";
  if (reduce) return "reduce";
  return places ? "transform" : "elementwise";
}

std::vector<UOp> Scheduler::rows_outside(UOp value, std::vector<UOp> loops) {
  std::vector<UOp> fills;
  for (UOp x : toposort(value))
    if (x.is(Op::Store)) fills.push_back(x);
  // What more of them wait for stands outside what fewer do.
  Memo<i64> seen;
  for (UOp r : loops) seen[r];
  for (UOp f : fills)
    for (UOp r : ranges_in(std::span(&f, 1))) seen[r]++;
  std::stable_sort(loops.begin(), loops.end(), [&](UOp a, UOp b) { return seen[a] > seen[b]; });
  return loops;
}

bool Scheduler::is_there(UOp s, const Place& box) {
  if (!s.is(Op::Shrink) || !(s.src(0).is(Op::Carry) || s.src(0).is(Op::Param))) return false;
  Place own = place_of(s.src(0));
  if (own.buffer != box.buffer || own.lead != box.lead) return false;
  for (size_t i = 0; i < rank(s); i++) {
    if (!s.src(3).src(i).is_const(1)) return false;
    UOp at = own.begin.empty() ? s.src(1).src(i) : own.begin[i] + s.src(1).src(i);
    if (simplify(at) != simplify(box.begin[i])) return false;
  }
  return true;
}

void Scheduler::copy_output(u32 i) {
  UOp u = g_.sink.src(i);
  if ((realized_.stored[u] || is_result(u)) && places_[u].buffer == output_[i]) return;
  if (u.is(Op::Param) && input_[size_t(u.arg_int())] == output_[i]) return;  // a state that stays as it is
  emit_plain(u, u, {output_[i], {}, {}}, "copy");
}

}  // namespace tg
