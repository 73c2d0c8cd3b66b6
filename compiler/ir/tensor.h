// Tensor form: the shape of a node, and builders of movement, reduce and indexing ops that check their arguments. A shape is a list of index
// expressions; a CONST has shape () and stands for any shape where it meets another in an elementwise op.
#pragma once
#include <vector>

#include "ir/uop.h"

namespace tg {

using Shape = std::vector<UOp>;

// The shape of a tensor-form node. Lives as long as the arena.
const Shape& shape(UOp u);
inline size_t rank(UOp u) { return shape(u).size(); }
bool has_const_shape(UOp u);
std::vector<i64> const_shape(UOp u);   // every dim a constant, else a bug
bool same_shape(const Shape& a, const Shape& b);
UOp elems(const Shape& s);             // product of the dims
// A size as shapes spell it: sizes that are equal for all values of their variables are one node, as far as the simplifier sees. rules/ sets
// it, which stands above this layer.
UOp normal_dim(UOp d);
void set_normal_dim(UOp (*f)(UOp));
Shape dims(std::initializer_list<i64> v);
Shape dims(std::span<const i64> v);
std::string shape_text(const Shape& s);  // "(1, 64, n, 56)"

namespace tensor {
UOp param(i64 slot, DType d, const Shape& s);
UOp constant(i64 index, DType d, const Shape& s);
UOp iota(UOp n, DType d = Kind::Index);                     // shape (n)
UOp reshape(UOp x, const Shape& s);                         // same number of elements, row-major order kept
UOp permute(UOp x, IntSpan order);
UOp expand(UOp x, const Shape& s);                          // same rank; dims of 1 are repeated
UOp broadcast_to(UOp x, const Shape& s);                    // numpy: new leading dims, then expand
UOp pad(UOp x, const Shape& begin, const Shape& end, UOp value);
UOp shrink(UOp x, const Shape& begin, const Shape& end, const Shape& step);
UOp slice(UOp x, size_t axis, UOp begin, UOp end);          // one axis, step 1
UOp flip(UOp x, IntSpan axes);
UOp window(UOp x, const WindowArg& w);                      // (..n..) -> (..out..) + (k of each axis of w)
UOp concat(std::span<const UOp> xs, size_t axis);
UOp reduce(UOp x, ReduceKind k, Ints axes);                 // the axes are removed; accumulates in x's dtype
// FOLD over axes: inputs share a shape; inits are scalars (CONST); steps and merges are scalar expressions over placeholders of `number`
// (see FoldArg). Returns the FOLD; project states with get(fold, i).
UOp fold(std::span<const UOp> inputs, std::span<const UOp> inits, std::span<const UOp> steps, std::span<const UOp> merges, Ints axes);
UOp placeholder(PlaceholderArg a, DType d);
UOp get(UOp fold, i64 state);                               // of a FOLD, LOOP or BRANCH
// LOOP, see LoopArg. next, scans and next_go are built from carry() and step() of the same id, one id a LOOP of the graph.
UOp loop(i64 id, UOp count, UOp go, std::span<const UOp> inits, UOp next_go, std::span<const UOp> nexts, std::span<const UOp> scans);
UOp carry(CarryArg a, DType d, const Shape& s);
UOp step(i64 loop, UOp most);                               // most: index expression, no fewer than the rounds; usable in index arithmetic
// BRANCH: both sides have one length, and value i of both one dtype and shape.
UOp branch(UOp cond, std::span<const UOp> yes, std::span<const UOp> no);
UOp gather(UOp x, std::span<const UOp> indices);            // an integer tensor per axis of x, all of one shape
UOp scatter(UOp x, UOp updates, std::span<const UOp> indices, ScatterKind k);
UOp sort(UOp x, const SortArg& a);                          // i64 indices along the axis, x's shape, stable; NaN is largest
UOp scan(UOp x, const ScanArg& a);
UOp contiguous(UOp x);
}  // namespace tensor

}  // namespace tg
