// Builds one kernel's expressions: a node at a coordinate, down to LOADs of stored values.
#pragma once
#include <functional>
#include <map>

#include "ir/graph.h"
#include "schedule/realize.h"

namespace tg {

// Coordinates in a reduce's input: `index` at the kept axes, `ranges` at the reduced ones.
Shape reduced_index(const Ints& axes, const Shape& index, const std::vector<UOp>& ranges);

// The value of integer tensor `u`, which reads no buffer, at a coordinate.
UOp build_index(UOp u, const Shape& index);

class Builder {
 public:
  // load(node, index, gate, alternative) gives the LOAD of a stored value, PARAM or CONSTANT; gate is null or a bool.
  using LoadFn = std::function<UOp(UOp node, const Shape& index, UOp gate, UOp alternative)>;
  Builder(UOp root, RangeMaker* ranges, Realized* realized, LoadFn load) : root_(root), ranges_(ranges), realized_(realized), load_(std::move(load)) {}

  // Value of `u` at `index`; where `gate` is given and false the value does not matter, but nothing outside a buffer may be read.
  UOp value(UOp u, const Shape& index, UOp gate = {});
  // The same for the node itself even if it is stored: the root of the kernel.
  UOp compute(UOp u, const Shape& index, UOp gate = {});

 private:
  UOp element(UOp u, const Shape& index, UOp gate);
  UOp kept(UOp u, const Shape& index);
  struct Key {
    u32 node, gate;
    std::vector<u32> index;
    auto operator<=>(const Key&) const = default;
  };
  UOp root_;
  RangeMaker* ranges_;
  Realized* realized_;
  LoadFn load_;
  std::map<Key, UOp> memo_;
};

}  // namespace tg
