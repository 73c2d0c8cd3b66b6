// Intervals and divisors of integer expressions, from the sizes of loops and the bounds of VARs. Index arithmetic is taken not to overflow;
// other kinds wrap, so where an interval leaves its kind the answer is the whole kind.
#pragma once
#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "ir/id_map.h"
#include "ir/sum.h"

namespace tg {

using i128 = __int128;

// lo <= value <= hi. For u64, hi == i64 max means "or more".
struct Bounds {
  i64 lo, hi;
  bool operator==(const Bounds&) const = default;
  bool single() const { return lo == hi; }
};
struct WideBounds {
  i128 lo, hi;
};

// Remembers by node. Plain, or under assumptions that hold where the expression is evaluated (a gate, a loop's guard).
class BoundsCache {
 public:
  Bounds operator()(UOp u) { return fact(u).bounds; }
  // False if u's own arithmetic may wrap. An Index never does.
  bool exact(UOp u) { return fact(u).exact; }
  // The constant that u always is.
  std::optional<i64> constant(UOp u);
  // The interval of a sum as a number, without wrapping.
  WideBounds wide(const Sum& s);
  // True if s, as a number, fits its kind: then the node it came from has this value.
  bool fits(const Sum& s);
  // s >= 0 for sure; also where loop sizes are symbolic: j < n gives n - j - 1 >= 0.
  bool never_negative(const Sum& s);

  // From here on u (a bool, or an integer expression) is within b, and so are the terms of the sum that u is.
  void assume(UOp u, Bounds b);
  void assume(const Sum& s, Bounds b);  // s as a number, without wrapping
  bool contradiction() const { return contradiction_; }  // no value satisfies the assumptions

 private:
  struct Fact {
    Bounds bounds;
    bool exact;
  };
  struct Known {
    Sum sum;  // without constant
    i128 lo, hi;
  };
  Fact fact(UOp u);
  Fact compute(UOp u);
  void pin(UOp u, Bounds b);
  WideBounds plain(const Sum& s);
  IdMap<Fact> facts_;
  std::vector<Known> known_;
  std::vector<std::pair<UOp, Bounds>> pins_;
  bool contradiction_ = false;
};

// Of the current arena, without assumptions.
BoundsCache& bounds_cache();
inline Bounds bounds(UOp u) { return bounds_cache()(u); }
// The largest value of a size, and of a product of sizes (at most 2^48): what is planned and chosen for where sizes are free.
inline i64 most(UOp size) { return size.is_const() ? size.as_int() : std::max<i64>(bounds(size).hi, 0); }
i64 most_elems(std::span<const UOp> dims);

// The largest c > 0 known to divide u; 0 if u is 0.
i64 const_factor(UOp u);
// u / c where c divides it for sure.
std::optional<UOp> divide_exact(UOp u, i64 c);

}  // namespace tg
