// Small evaluator and EXPECT_SIMPLIFIES for tests of rules.
#pragma once
#include <gtest/gtest.h>

#include <unordered_map>

#include "ir/eval_scalar.h"
#include "rules/symbolic.h"

namespace tg {

// The value of an elementwise expression; leaves (RANGE, VAR, PARAM..) are looked up.
class Evaluator {
 public:
  std::unordered_map<u32, u64> leaf;
  u64 operator()(UOp root) {
    done_.clear();
    for (UOp u : toposort(root)) done_.set(u, one(u));
    return *done_.find(root);
  }

 private:
  u64 one(UOp u) {
    if (auto it = leaf.find(u.id()); it != leaf.end()) return it->second;
    if (u.is_const()) return u.arg_bits();
    if (u.is(Op::Cast)) return eval_cast(u.dtype().kind, u.src(0).dtype().kind, *done_.find(u.src(0)));
    if (u.is(Op::Range) || u.is(Op::Var) || !is_alu(u.op())) return 0;
    u64 v[3];
    for (size_t i = 0; i < u.nsrc(); i++) v[i] = *done_.find(u.src(i));
    return eval_alu(u.op(), u.src(u.is(Op::Where) ? 1 : 0).dtype(), std::span(v, u.nsrc()));
  }
  IdMap<u64> done_;
};

inline UOp loop(i64 size, i64 id) { return range(idx(size), {.id = id}); }
inline UOp loop(UOp size, i64 id) { return range(size, {.id = id}); }
inline UOp free_value(DType d, i64 slot) { return node(Op::Param, d, {}, slot); }  // any value of its dtype

inline std::string simplified(UOp u) { return simplify(u).str(); }

#define EXPECT_SIMPLIFIES(expr, expected)                                            \
  do {                                                                               \
    ::tg::UOp e_ = (expr);                                                           \
    ::tg::UOp got_ = ::tg::simplify(e_), want_ = ::tg::as_uop(expected, e_.dtype()); \
    EXPECT_TRUE(got_ == want_) << e_.str() << "\n  became " << got_.str() << "\n  not    " << want_.str(); \
  } while (0)

inline UOp as_uop(UOp u, DType) { return u; }
inline UOp as_uop(i64 v, DType d) { return konst(d, v); }

class RulesTest : public ::testing::Test {
 protected:
  Arena arena_;
  Arena::Scope scope_{arena_};
};

}  // namespace tg
