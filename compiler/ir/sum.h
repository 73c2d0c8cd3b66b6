// Integer expressions as sums: coefficient times term, plus a constant. The order of terms does not depend on when nodes were made, so equal
// sums have equal terms in equal order. Also how to read an access's stride: coefficient(offset, range).
#pragma once
#include <optional>
#include <vector>

#include "ir/uop.h"

namespace tg {

// Total order by structure (op, dtype, argument, sources); 0 only for the same node. Loop variables come first, outermost first, then VARs.
int structural_order(UOp a, UOp b);
inline bool structural_less(UOp a, UOp b) { return structural_order(a, b) < 0; }

// The greatest common divisor, also of i64's smallest (then half of it at most: still a divisor).
i64 gcd(i64 a, i64 b);
// Modulo 2^64, without overflow.
constexpr i64 wrap_neg(i64 a) { return i64(u64(0) - u64(a)); }
constexpr i64 wrap_mul(i64 a, i64 b) { return i64(u64(a) * u64(b)); }
constexpr i64 wrap_add(i64 a, i64 b) { return i64(u64(a) + u64(b)); }

struct Term {
  UOp x;         // never a constant, a sum or a multiple
  i64 a = 0;     // signed also for unsigned kinds; not 0
  bool operator==(const Term&) const = default;
};

// The order of terms in a sum: what no loop changes first, then by the innermost loop that a term depends on, so that the front of a sum does
// not change in inner loops.
bool term_less(UOp a, UOp b);

// sum(a * x) + c, in the ring of `kind`: coefficients are kept modulo 2^bits, as the signed number nearest to 0.
struct Sum {
  Kind kind = Kind::Index;
  std::vector<Term> terms;  // by term_less
  i64 c = 0;

  bool is_const() const { return terms.empty(); }
  i64 coefficient(UOp x) const;
  void add(UOp x, i64 a);          // x as a term of its own
  void add(const Sum& s, i64 k);   // += k * s
  Sum scaled(i64 k) const;
  UOp uop() const;                 // canonical: products first, then subtractions, the constant last
  bool operator==(const Sum&) const = default;
};

// Of a scalar integer or index node. Products are distributed over sums where a factor is constant or depends on VARs alone.
Sum sum_of(UOp u);
// a - b over the whole numbers: no wrapping. Nothing if a coefficient does not fit i64.
std::optional<Sum> exact_difference(const Sum& a, const Sum& b);
// Factors of a term (a MUL of non-constants flattened), ordered.
std::vector<UOp> factors(UOp term);
// The product of factors as sum terms spell it: what depends on VARs alone is one factor at the end.
UOp product(std::vector<UOp> factors);

// How often r counts in u: u == coefficient*r + something without r. Nothing if r occurs in another way (under a division, squared..).
std::optional<i64> coefficient(UOp u, UOp r);
bool depends_on(UOp u, UOp r);
bool is_uniform(UOp u);  // an integer expression of VARs and constants alone: the same for a whole run

}  // namespace tg
