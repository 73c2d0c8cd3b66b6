// The constants of the graph being imported, and what is known about values: weights, small values folded while importing, splats. A value of
// up to kFoldElems elements whose sources are all constants is computed at once by the interpreter (movement included).
#pragma once
#include <deque>
#include <unordered_map>
#include <vector>

#include "ir/eval.h"
#include "ir/graph.h"

namespace tg {

constexpr i64 kFoldElems = 4096;      // largest value that is folded
constexpr i64 kFoldWork = 1 << 16;    // most elements of any value on the way to it; larger work is for the driver's fold

class Pool {
 public:
  // Constants are made in the innermost scope of the calling thread, like nodes in Arena::current().
  class Scope {
   public:
    explicit Scope(Pool& p);
    ~Scope();
    Scope(const Scope&) = delete;

   private:
    Pool* before_;
  };
  static Pool& current();

  UOp add(ConstantData c);                            // a CONSTANT; one element, or small and all the same: a CONST (see splat)
  UOp add(const Values& v, std::string name = {});    // equal values are one constant

  // The value of u if it depends on constants alone and is small enough; null if not. Valid as long as the pool.
  const Values* value(UOp u);
  // u, or the CONSTANT or CONST that has its value.
  UOp fold(UOp u);

  DType default_float = Kind::F32;                    // what products of f32 take their factors in (frontend/default_float.h)
  i64 next_fold() { return folds_++; }                // a number for the placeholders of a new FOLD
  i64 next_loop() { return loops_++; }                // a number for a new LOOP

  const std::vector<ConstantData>& constants() const { return constants_; }

 private:
  bool foldable(UOp u);
  i64 folds_ = 0, loops_ = 0;
  std::vector<ConstantData> constants_;
  std::unordered_map<u64, std::vector<i64>> by_content_;
  Memo<u8> foldable_;                                 // 0 unknown, 1 no, 2 yes
  std::unordered_map<u32, Values> values_;            // by node id; nodes never go while the arena lives
};

// Elements of a shape; -1 if it is variable, or more than any tensor may have (2^48).
i64 known_elems(const Shape& s);
// CONST c seen through RESHAPE and EXPAND (every element is c); null if u is anything else.
UOp splat(UOp u);
// Every element is `c`, of shape s.
UOp full(const Shape& s, UOp c);

}  // namespace tg
