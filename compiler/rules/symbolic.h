// The simplifier of index, integer and bool expressions. It works on kernel and linear form, and on the shapes of the tensor form (its other
// nodes have shapes that a constant would lose); floats change only where IEEE gives the same
// bits (or with FASTMATH=1). Equal expressions come out as one node, and simplifying twice changes nothing.
#pragma once
#include "ir/bounds.h"
#include "ir/rewrite.h"

namespace tg {

// The normal form of everything below root. Remembered in the arena.
UOp simplify(UOp root);

// A value equal to expr wherever `valid` (a bool) is true, usually simpler; what it is elsewhere is open. Loads inside expr are left alone: they
// run in any case.
UOp simplify_given(UOp expr, UOp valid);

// The same condition without the clauses that bounds or other clauses imply.
UOp simplify_valid(UOp cond);

// A condition that is true (or false) made into assumptions of b: the clauses of its ANDs, sums below and above constants.
void assume_condition(BoundsCache& b, UOp cond, bool value = true);

// The tables behind it: for tests, and for sets built on them.
namespace rules {
const RuleSet& bits_and_bools();
const RuleSet& integers();
const RuleSet& floats_exact();
const RuleSet& floats_fast();    // FASTMATH=1
const RuleSet& symbolic();       // all but floats_fast
}  // namespace rules

}  // namespace tg
