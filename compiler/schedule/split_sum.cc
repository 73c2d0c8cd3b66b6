#include "schedule/split_sum.h"

#include <algorithm>
#include <cmath>

#include "ir/bounds.h"
#include "ir/regions.h"
#include "schedule/cone.h"

namespace tg {
namespace {

constexpr i64 kFewestTerms = 2048;
constexpr i64 kMostParts = 16;
constexpr f64 kPartCycles = 20e3;               // a part is at least so long
constexpr f64 kWorthCycles = 60e3;              // from where a second kernel costs a core under 2 %
constexpr f64 kKernelCycles = 1500;             // of another kernel
constexpr f64 kNearBytes = 60, kFarBytes = 20;  // a cycle, of what a core's own cache holds or not; measured on Zen 4
constexpr f64 kCostlyOps = 12;                  // a transcendental
constexpr i64 kTileVectors = 16, kFewRowsVectors = 8, kRowVectors = 4;  // accumulators of a register tile, which tasks do not cut

// What the elements that are summed take, where they are read.
struct Feed {
  f64 bytes = 0, ops = 0;
  i64 largest = 0;  // elements of a buffer
};
Feed feed_of(UOp x) {
  Feed f;
  Memo<u8> seen;
  for (std::vector<UOp> todo{x}; !todo.empty();) {
    UOp u = todo.back();
    todo.pop_back();
    if (seen[u] || u.in(Op::Const | Op::Stack | Op::Iota)) continue;
    seen[u] = 1;
    bool buffer = u.in(Op::Param | Op::Constant | Op::Reduce | Op::Get) || u.in(kOwnKernel) || is_kept(u);
    if (buffer) {
      i64 n = most_elems(shape(u));
      f.bytes += f64(byte_size(u.dtype().kind, n)), f.largest = std::max(f.largest, n);
      continue;
    }
    if (is_elementwise(u.op())) f.ops += u.in(kTranscendental) ? kCostlyOps : 1;
    if (is_movement(u.op()))
      todo.push_back(u.src(0));
    else
      todo.insert(todo.end(), u.src().begin(), u.src().end());
  }
  return f;
}

// The largest divisor of n up to `most`; such that what is left is a multiple of 16 if n is, so that lanes stay full.
i64 divisor(i64 n, i64 most) {
  i64 best = 1;
  for (i64 d = 2; d <= std::min(n, most); d++)
    if (n % d == 0 && (n % 16 || n / d % 16 == 0)) best = d;
  return best;
}

f64 on_threads(f64 cycles, i64 units, f64 kernels) {
  f64 sum = 0;
  for (i64 threads : {2, 4, 8})
    sum += (cycles / f64(std::min(threads, std::max<i64>(units, 1))) + kernels * kKernelCycles) * (threads == 2 ? 2 : 1);
  return sum / 4;
}

}  // namespace

std::optional<SplitSum> match_split_sum(UOp u, const Target& target, bool any) {
  if (!u.is(Op::Reduce) || target.max_tasks < 2 || !has_const_shape(u.src(0))) return {};
  const Kind kind = u.dtype().kind;
  if (kind != Kind::F32 && kind != Kind::F64 && kind != Kind::I32 && kind != Kind::I64) return {};
  SplitSum s;
  s.sum = u;
  Ints axes = u.arg<ReduceArg>().axes;
  std::vector<i64> size = const_shape(u.src(0));
  for (size_t i = 0; i < size.size(); i++) (std::binary_search(axes.begin(), axes.end(), i64(i)) ? s.terms : s.outputs) *= size[i];
  if (s.outputs < 1 || s.terms < (any ? 2 : kFewestTerms)) return {};

  const f64 all = f64(s.terms) * f64(s.outputs), lanes = f64(target.vector_bytes) / 4, vectors = std::ceil(f64(s.outputs) / lanes);
  Feed f = feed_of(u.src(0));
  bool products = false;  // each factor sees the summed axes, and not both see the others
  if (u.src(0).is(Op::Mul)) {
    i64 fewer = std::min(feed_of(u.src(0).src(0)).largest, feed_of(u.src(0).src(1)).largest);
    products = fewer >= s.terms && (s.outputs == 1 || f64(fewer) < all);
  }
  f64 arithmetic = products ? all / (f64(target.fma_per_cycle_bytes) / 4) : all / lanes * (0.5 + 0.5 * f.ops);
  f64 work = std::max(arithmetic, f.bytes / (f.bytes < f64(target.l2_bytes) / 2 ? kNearBytes : kFarBytes));
  // Loops that can be cut into tasks: register tiles, or where lanes go along the sum, outputs.
  bool in_rows = !products && !axes.empty() && axes.back() + 1 == i64(size.size());
  i64 tile = !products ? kRowVectors : all > 1.5 * f64(f.largest) ? kTileVectors : kFewRowsVectors;
  i64 units = in_rows ? s.outputs : i64(std::ceil(vectors / f64(tile)));

  i64 wish = any ? kMostParts : std::clamp<i64>(i64(work / kPartCycles), 2, kMostParts);
  s.parts.assign(size.size(), 1);
  for (i64 a : axes) {  // the outermost that can be cut
    i64 left = wish / s.count, n = size[size_t(a)];
    if (left < 2) break;
    s.parts[size_t(a)] = n <= left ? n : divisor(n, left);
    s.count *= s.parts[size_t(a)];
    if (n > left && s.parts[size_t(a)] > 1) break;
  }
  if (s.count < 2 || s.count >= s.terms) return {};
  s.whole_cycles = on_threads(work, units, 1);
  s.split_cycles = on_threads(work, std::max(units, s.count), 2);
  s.worth = work >= kWorthCycles && units < 4;
  return s;
}

UOp split_sum(const SplitSum& s, UOp x) {
  // Each cut axis as (parts, the rest); the parts first.
  Shape cut;
  Ints order, first, axes = s.sum.arg<ReduceArg>().axes;
  Ints inner, outer;  // the axes of either reduce
  for (size_t i = 0; i < s.parts.size(); i++) {
    i64 n = shape(x)[i].as_int();
    if (s.parts[i] > 1) first.push_back(i64(cut.size())), cut.push_back(idx(s.parts[i]));
    order.push_back(i64(cut.size()));
    cut.push_back(idx(n / s.parts[i]));
  }
  i64 k = i64(first.size());
  for (i64 a : axes) inner.push_back(k + a);
  for (i64 a = 0; a < k; a++) outer.push_back(a);
  order.insert(order.begin(), first.begin(), first.end());
  ReduceKind kind = s.sum.arg<ReduceArg>().kind;
  UOp partial = tensor::reduce(tensor::permute(tensor::reshape(x, cut), order), kind, inner);
  return tensor::reduce(tensor::contiguous(partial), kind, outer);
}

}  // namespace tg
