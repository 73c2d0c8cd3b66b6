#include "rules/sizes.h"

#include "ir/id_map.h"
#include "ir/sum.h"
#include "rules/symbolic.h"

namespace tg {
namespace {

// Variables that are multiples of m, as m times a variable of their own, and what that variable is.
struct Units {
  std::vector<std::pair<UOp, UOp>> to, from;
  explicit Units(UOp d) {
    for (UOp v : toposort(d)) {
      if (!v.is(Op::Var) || v.src(2).is_const(1)) continue;
      i64 m = v.src(2).as_int();
      UOp unit = var(std::string(v.arg_str()) + "/" + std::to_string(m), v.src(0).as_int() / m, v.src(1).as_int() / m);
      to.push_back({v / m, unit}), to.push_back({v, unit * m}), from.push_back({unit, v / m});
    }
  }
};

// a * x, where x is a product: the variables whose multiple divides a stand for themselves, the first ones first.
void add_term(const Term& t, const Units& units, Sum* sum) {
  i64 a = t.a;
  std::vector<UOp> fs;
  for (UOp f : factors(t.x)) {
    UOp back = substitute(f, units.from);
    if (f.is(Op::Var) && back != f)
      if (i64 m = back.src(1).as_int(); a % m == 0) a /= m, back = back.src(0);
    fs.push_back(back);
  }
  sum->add(product(fs), a);
}

}  // namespace

UOp normal_size(UOp d) {
  struct Known {
    IdMap<UOp> m;
  };
  IdMap<UOp>& known = Arena::current().side<Known>().m;
  if (UOp* k = known.find(d)) return *k;
  UOp r;
  if (Units units(d); units.to.empty()) {
    r = simplify(d);
  } else {
    Sum in_units = sum_of(simplify(substitute(d, units.to))), sum;
    sum.c = in_units.c;
    for (const Term& t : in_units.terms) add_term(t, units, &sum);
    r = sum.uop();
  }
  known.set(d, r);
  known.set(r, r);
  return r;
}

}  // namespace tg
