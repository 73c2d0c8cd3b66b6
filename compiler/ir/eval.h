// The interpreter: slow and obvious, the judge of all compiled code, and what folds small constants. Tensor form here; kernel and linear form
// in eval_kernel.h and eval_linear.h. What a model can get wrong (an index out of range) throws Error naming the node.
#pragma once
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph.h"

namespace tg {

// A tensor as the interpreter holds it: row-major, one u64 an element, see eval_scalar.h (an i64, or the bits of an f64 for float dtypes).
struct Values {
  DType dtype;
  std::vector<i64> dims;
  std::vector<u64> v;

  i64 elems() const { return i64(v.size()); }
  f64 number(i64 i) const;  // element i as a number, whatever the dtype
  bool operator==(const Values&) const = default;
};

i64 count(std::span<const i64> dims);
// From numbers, wrapped or rounded to d. For tests and attributes.
Values values(DType d, std::vector<i64> dims, std::span<const f64> numbers);
Values int_values(DType d, std::vector<i64> dims, std::span<const i64> numbers);

// Densely packed little-endian bytes, kinds under 8 bits as in formats/dtype.h. decode fails if there are not byte_size(dims) bytes.
Values decode(DType d, std::vector<i64> dims, std::span<const u8> bytes);
std::vector<u8> encode(const Values& x);

struct EvalEnv {
  std::vector<Values> params;                                // PARAM slot
  const std::vector<ConstantData>* constants = nullptr;      // CONSTANT index
  std::vector<std::pair<std::string, i64>> vars;             // VAR by name
};

// Any tensor-form node, index expressions included (they give a scalar of shape ()). Nothing is remembered between calls.
Values eval(UOp u, const EvalEnv& env);
std::vector<Values> eval(std::span<const UOp> roots, const EvalEnv& env);
i64 eval_index(UOp u, const EvalEnv& env = {});  // an integer expression of constants and VARs

// All outputs of a graph. Free sizes are bound by the inputs' dims; a size that the dims leave open must be in vars.
std::vector<Values> eval_graph(const Graph& g, std::span<const Values> inputs, std::vector<std::pair<std::string, i64>> vars = {});

}  // namespace tg
