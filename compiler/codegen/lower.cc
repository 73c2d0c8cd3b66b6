#include "codegen/lower.h"

#include <algorithm>

#include "base/error.h"
#include "base/settings.h"
#include "codegen/decompose.h"
#include "codegen/patterns.h"
#include "codegen/transcendental.h"
#include "ir/spec.h"
#include "rules/symbolic.h"

namespace tg {
namespace {

UOp lower_functions(UOp ast, bool tables) {
  Memo<UOp> to;
  for (UOp u : toposort(ast)) {
    std::vector<UOp> src;
    bool same = true;
    for (UOp s : u.src()) src.push_back(to[s]), same &= src.back() == s;
    UOp v = same ? u : with_src(u, src);
    to[u] = v.in(kTranscendental) ? lower_transcendental(v, tables) : v;
  }
  return to[ast];
}

// Sums of few products of bytes are exact in f32, which machines multiply faster, where no dot instruction takes them.
UOp sums_in_floats(UOp ast) {
  constexpr i64 kMostProducts = (i64(1) << 24) / (255 * 128);
  std::vector<UOp> order = toposort(ast);
  for (UOp u : order)
    if (u.is(Op::Range) && u.arg<RangeArg>().kind == AxisKind::Dot) return ast;
  auto widened = [](UOp u) { return u.is(Op::Cast) && bits(u.src(0).dtype()) == 8 && is_int(u.src(0).dtype()); };
  std::vector<std::pair<UOp, UOp>> map;
  for (UOp u : order) {
    if (!u.is(Op::Reduce) || u.dtype() != DType(Kind::I32) || u.arg<ReduceArg>().kind != ReduceKind::Add || !u.src(0).is(Op::Mul)) continue;
    UOp a = u.src(0).src(0), b = u.src(0).src(1);
    i64 n = 1;
    std::vector<UOp> loops = closed_ranges(u);
    for (UOp r : loops) n = r.src(0).is_const() && n <= kMostProducts ? n * r.src(0).as_int() : kMostProducts + 1;
    if (!widened(a) || !widened(b) || a.src(0).dtype() == b.src(0).dtype() || n > kMostProducts) continue;
    std::vector<UOp> src{alu(Op::Mul, {cast(a.src(0), Kind::F32), cast(b.src(0), Kind::F32)})};
    src.insert(src.end(), loops.begin(), loops.end());
    map.push_back({u, cast(node(Op::Reduce, Kind::F32, std::span<const UOp>(src), ReduceArg{ReduceKind::Add, {}}.ints()), Kind::I32)});
  }
  return map.empty() ? ast : substitute(ast, map);
}

// The task is a number that the launch passes, no loop.
UOp tasks_to_special(UOp ast) {
  Memo<UOp> to;
  for (UOp u : toposort(ast)) {
    std::vector<UOp> src;
    std::vector<UOp> closed = closed_ranges(u);
    for (size_t i = 0; i < u.nsrc(); i++) {
      UOp s = u.src(i);
      bool loop = i + closed.size() >= u.nsrc();
      if (loop && s.arg<RangeArg>().kind == AxisKind::Task) continue;
      src.push_back(to[s]);
    }
    if (u.is(Op::Range) && u.arg<RangeArg>().kind == AxisKind::Task) to[u] = node(Op::Special, Kind::Index, {src[0]}, 0);
    else to[u] = src.size() == u.nsrc() && std::equal(src.begin(), src.end(), u.src().begin()) ? u : with_src(u, src);
  }
  return to[ast];
}

i64 task_count(UOp ast) {
  for (UOp u : toposort(ast))
    if (u.is(Op::Range) && u.arg<RangeArg>().kind == AxisKind::Task) return u.src(0).as_int();
  return 1;
}

// Slots that BYPASS names.
void fence(const Kernel& k, std::vector<UOp>& linear) {
  std::vector<UOp> buffers;
  for (UOp u : linear)
    if (u.is(Op::Param) && k.slots[size_t(u.arg_int())].past) buffers.push_back(u);
  if (!buffers.empty()) linear.push_back(node(Op::Fence, Kind::Void, std::span<const UOp>(buffers)));
}

}  // namespace

Lowered lower(const Kernel& k) {
  Lowered out;
  UOp ast = k.ast;
  if (settings::SPEC()) check(Spec::Kernel, ast, "opts");
  out.tasks = task_count(ast);
  ast = add_border(ast, k.slots, *k.target);
  ast = sums_in_floats(tasks_to_special(ast));
  ast = share_rows(ast);
  // While coordinates are logical: once they are sums, two loops over one row no longer look alike.
  bool tables = k.target->lookup >= kTableEntries;
  ast = lower_patterns(ast, tables);
  std::vector<Slot> slots = k.slots;
  for (UOp u : toposort(ast))  // nobody knows at compile time how far a buffer of free size may be read
    if (u.is(Op::Param) && std::any_of(u.src().begin(), u.src().end(), [](UOp d) { return !d.is_const(); })) slots[size_t(u.arg_int())].layout.pieces = {{0, 0}};
  ast = lower_offsets(ast, k.slots);
  ast = simplify(ast);
  // From here every access is INDEX(buffer, offset).
  ast = lower_functions(ast, tables);
  ast = expand(ast, dot_rows(*k.target));
  ast = simplify(ast);
  // From here no UPCAST, UNROLL or DOT range is left.
  DecompFlags flags = decomp_flags(*k.target);
  // The instruction makes denormals 0: where the model asks for bf16 itself they are kept.
  flags.bf16 = settings::DEFAULT_FLOAT() == "bfloat16" && k.target->has_bf16 && k.target->renderer == "LLVM";
  ast = turn_strided(vectorize(ast, slots));
  ast = decompose(ast, flags);
  // From here every node is one that the target can spell.
  out.linear = linearize(ast, k.target->has_fma);
  std::vector<i64> ahead;
  for (size_t s = 0; s < k.slots.size(); s++)
    if (k.slots[s].ahead) ahead.push_back(i64(s));
  out.linear = prefetch(std::move(out.linear), ahead, k.target->l2_bytes / 2);
  fence(k, out.linear);
  if (settings::SPEC()) check(out.linear, "linearize");
  return out;
}

}  // namespace tg
