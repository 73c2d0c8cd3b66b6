// Names for the integers in a node's argument. Each struct turns into an interned list (ints()) and is read back from one (of()).
#pragma once
#include <span>
#include <vector>

#include "base/types.h"
#include "ir/op.h"

namespace tg {

using Ints = std::vector<i64>;
using IntSpan = std::span<const i64>;

// How a REDUCE, SCAN or HREDUCE combines.
// MaxAny: as Max, but what it gives where a float is NaN is open.
enum class ReduceKind : u8 { Add, Mul, Max, Min, And, Or, MaxAny };
constexpr Op alu_op(ReduceKind k) {
  constexpr Op kOp[] = {Op::Add, Op::Mul, Op::Max, Op::Min, Op::And, Op::Or, Op::Max};
  return kOp[int(k)];
}
enum class ScatterKind : u8 { Set, Add, Mul, Max, Min };

enum class AxisKind : u8 { Global, Local, Warp, Task, Loop, Upcast, Vector, Unroll, Reduce, GroupReduce, Dot };
constexpr bool is_reduce(AxisKind k) { return k >= AxisKind::Unroll; }

// A loop variable. Ranges made from one tensor dimension share id over the phases of a kernel; part 0 is what remains of an axis, part n the
// n-th piece split off. order: position in the loop nest, outermost first (equal id, part and phase means the same loop).
struct RangeArg {
  i64 id = 0;
  i64 part = 0;
  i64 phase = 0;
  AxisKind kind = AxisKind::Loop;
  Ints ints() const { return {id, part, phase, i64(kind)}; }
  static RangeArg of(IntSpan v) { return {v[0], v[1], v[2], AxisKind(v[3])}; }
  bool operator==(const RangeArg&) const = default;
};

struct ReduceArg {
  ReduceKind kind = ReduceKind::Add;
  Ints axes;  // tensor form, ascending; empty in kernel form
  Ints ints() const {
    Ints v{i64(kind)};
    v.insert(v.end(), axes.begin(), axes.end());
    return v;
  }
  static ReduceArg of(IntSpan v) { return {ReduceKind(v[0]), Ints(v.begin() + 1, v.end())}; }
};

// Sources of a FOLD, in order: `inputs` values of the body, `states` initial values (the identity of merge), `states` steps, `states`
// merges, then in kernel form its ranges.
struct FoldArg {
  i64 inputs = 0, states = 0;
  Ints axes;  // tensor form, ascending
  Ints ints() const {
    Ints v{inputs, states};
    v.insert(v.end(), axes.begin(), axes.end());
    return v;
  }
  static FoldArg of(IntSpan v) { return {v[0], v[1], Ints(v.begin() + 2, v.end())}; }
};

// What a FOLD's step and merge see: input i, state i (of the step), or state i of side 0 or 1 (of the merge). fold numbers the FOLD.
struct PlaceholderArg {
  enum Role : u8 { Input, State, Side0, Side1 } role = Input;
  i64 index = 0, fold = 0;
  Ints ints() const { return {i64(role), index, fold}; }
  static PlaceholderArg of(IntSpan v) { return {Role(v[0]), v[1], v[2]}; }
};

// Sources of a LOOP, in order: count (index expression, or an integer of shape ()): most rounds; go: is there a first round; `carried` initial
// values; next_go: is there a next round; the `carried` values for the next round; `scans` values. What is next and what is scanned is computed
// from CARRY and STEP of this id; all else a round reads is the same in each. Results: the last carried values; then each scanned value of
// all rounds along a new first axis of size count.
struct LoopArg {
  i64 id = 0, carried = 0, scans = 0;
  Ints ints() const { return {id, carried, scans}; }
  static LoopArg of(IntSpan v) { return {v[0], v[1], v[2]}; }
  // Places of sources.
  size_t init(i64 i) const { return size_t(2 + i); }
  size_t next_go() const { return size_t(2 + carried); }
  size_t next(i64 i) const { return size_t(3 + carried + i); }
  size_t scan(i64 i) const { return size_t(3 + 2 * carried + i); }
  size_t sources() const { return size_t(3 + 2 * carried + scans); }
};

struct CarryArg {
  i64 loop = 0, index = 0;
  Ints ints() const { return {loop, index}; }
  static CarryArg of(IntSpan v) { return {v[0], v[1]}; }
};

// Where a row buffer lives (the Opt KEEP).
enum class RowPlace : u8 { Stack, Reg, Local, Out };
struct RowArg {
  i64 number = 0;
  RowPlace place = RowPlace::Stack;
  Ints ints() const { return {number, i64(place)}; }
  static RowArg of(IntSpan v) { return {v[0], RowPlace(v[1])}; }
};

// WINDOW along several axes at once; out = (n - d*(k-1) - 1)/s + 1.
struct WindowArg {
  Ints axes, k, stride, dilation;
  Ints ints() const {
    Ints v;
    for (const Ints* p : {&axes, &k, &stride, &dilation}) v.insert(v.end(), p->begin(), p->end());
    return v;
  }
  static WindowArg of(IntSpan v) {
    size_t n = v.size() / 4;
    auto part = [&](size_t i) { return Ints(v.begin() + i * n, v.begin() + (i + 1) * n); };
    return {part(0), part(1), part(2), part(3)};
  }
};

struct SortArg {
  i64 axis = 0;
  bool descending = false;
  Ints ints() const { return {axis, descending}; }
  static SortArg of(IntSpan v) { return {v[0], v[1] != 0}; }
};

struct ScanArg {
  ReduceKind kind = ReduceKind::Add;
  i64 axis = 0;
  bool exclusive = false, reverse = false;
  Ints ints() const { return {i64(kind), axis, exclusive, reverse}; }
  static ScanArg of(IntSpan v) { return {ReduceKind(v[0]), v[1], v[2] != 0, v[3] != 0}; }
};

}  // namespace tg
