// Several captures of one model at different sizes as one bundle, whose runtime takes the one that the inputs' actual shapes ask for.
#pragma once
#include <span>
#include <vector>

#include "base/hash.h"
#include "bundle/bundle.h"
#include "driver/compile.h"
#include "ir/graph.h"

namespace tg::driver {

// --shape given several times for an input makes variants: the k-th of each such input belong together, inputs given once are the same in
// all. An input given another number of times than another is an Error.
std::vector<std::vector<InputShape>> variants_of(const std::vector<InputShape>& shapes);

struct Captured {
  bundle::BundleDesc bundle;         // of one variant
  std::vector<u32> constant_of;      // constant of the graph -> of the bundle; afterwards of the bundle that is given back
  std::vector<Digest> keys;                 // by constant of the graph: equal ones have equal keys; empty if there is one capture
};
// Equal constants, forms and machine code are there once. A size that differs between the captures becomes a variable of the inputs, and an
// output's an expression of those. What else differs (names, dtypes, ranks, targets), or two captures of equal sizes, is an Error.
bundle::BundleDesc merge_variants(std::vector<Captured>& parts);

}  // namespace tg::driver
