// What the rules of this folder share: the bounds in force and the entry points of the larger rules.
#pragma once
#include <limits>

#include "rules/symbolic.h"

namespace tg::rules {

// The context of a rewrite: m.ctx<Symbolic>().
struct Symbolic {
  BoundsCache& bounds;
  IdMap<UOp>& memo;    // normal forms under these bounds
  bool given = false;  // under assumptions: one branch deep is enough
};
UOp normal(UOp u, Symbolic& s);  // of an expression that a rule makes and must look at

// Over the whole numbers (kind Index) to the ring of a kind and back.
Sum in_kind(const Sum& s, Kind k);
inline Sum whole(const Sum& s) { return {Kind::Index, s.terms, s.c}; }
inline i64 floor_div(i64 a, i64 b) { return a / b - (a % b != 0 && (a % b < 0) != (b < 0)); }
inline i64 floor_mod(i64 a, i64 b) { return a - floor_div(a, b) * b; }
i64 gcd_of(const Sum& s);  // of the coefficients; 0 if there are none

UOp fold_sum(pat::M m);      // + - * and negation: like terms, order, x//c*c + x%c
UOp fold_floor(pat::M m);    // FloorDiv, FloorMod
UOp fold_compare(pat::M m);  // Lt Le Eq Ne of integers
UOp fold_clauses(pat::M m);  // And, Or of bools

// a < b over integers as sum < 0 (Le: sum <= 0 becomes sum - 1 < 0). Nothing if the operands may wrap.
std::optional<Sum> difference(UOp a, UOp b, BoundsCache& bounds);
std::vector<UOp> clauses(UOp cond, Op op);  // the operands of a tree of ANDs or ORs

}  // namespace tg::rules
