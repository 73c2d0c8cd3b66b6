// Tensor: a UOp with the habits of numpy. Operators broadcast; dtypes must be equal (nothing is promoted); axes may be negative. What does not
// fit is the model's fault and throws Error; the importer adds the node's name. Values that are constants fold when the importer takes them.
#pragma once
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ir/tensor.h"
#include "rules/sizes.h"

namespace tg {

struct ConvArgs {  // per spatial axis; empty: 0, 1, 1
  Ints pads;       // begin of each axis, then end of each axis
  Ints strides, dilations;
  i64 groups = 1;
};

enum class PadMode : u8 { Constant, Reflect, Edge, Wrap };

class Tensor;
// Where padding reads: positions i, which may lie outside 0..n-1, to positions inside, by Edge, Wrap or Reflect. Constant gives i itself.
Tensor padding_index(const Tensor& i, UOp n, PadMode mode);

// Fails if an operator would need a table of a * b elements made here, of more than any model has use for.
void check_table(i64 a, i64 b = 1);

class Tensor {
 public:
  Tensor() = default;
  Tensor(UOp u) : u_(u) {}
  explicit operator bool() const { return bool(u_); }
  UOp uop() const { return u_; }

  DType dtype() const { return u_.dtype(); }
  const Shape& shape() const {
    if (dtype() == DType(Kind::Void)) fail("a sequence or an optional without a value stands where a tensor is expected");
    return tg::shape(u_);
  }
  i64 rank() const { return i64(shape().size()); }
  i64 axis(i64 a) const;         // -rank..rank-1 -> 0..rank-1
  Ints axes(IntSpan a) const;    // the same for a list; ascending, duplicates are an Error
  Ints all_axes() const;
  UOp dim(i64 a) const { return shape()[axis(a)]; }
  i64 size(i64 a) const;         // dim(a), which must be a constant
  Ints sizes() const;            // all of them
  i64 numel() const;
  bool is_float() const { return tg::is_float(dtype()); }
  bool is_int() const { return tg::is_int(dtype()); }
  bool is_half() const { return dtype().kind == Kind::F16 || dtype().kind == Kind::BF16; }

  // --- making
  static Tensor scalar(DType d, f64 v);                  // shape (), stands for any shape in an elementwise op; integers: v is a whole number
  static Tensor integer(DType d, i64 v);                 // the same for any integer
  static Tensor full(const Shape& s, DType d, f64 v);
  static Tensor full(const Shape& s, UOp c);             // c: CONST
  static Tensor arange(UOp n, DType d = Kind::I64);      // 0, 1 .. n-1
  static Tensor arange(i64 n, DType d = Kind::I64) { return arange(idx(n), d); }
  static Tensor of(DType d, IntSpan sizes, std::span<const f64> v);   // a constant of the graph
  static Tensor of_ints(DType d, IntSpan sizes, IntSpan v);
  static Tensor ints(IntSpan v) { return of_ints(Kind::I64, Ints{i64(v.size())}, v); }
  static Tensor sizes_as_ints(std::span<const UOp> v);    // i64, index expressions as elements (frontend/size_list.h reads them)
  Tensor like(f64 v) const { return scalar(dtype(), v); }
  Tensor like(UOp size) const { return tg::cast(size, dtype()); }   // an index expression as a number

  // --- elementwise
  Tensor unary(Op op) const { return elementwise(op, {*this}); }
  Tensor binary(Op op, const Tensor& b) const { return elementwise(op, {*this, b}); }
  static Tensor elementwise(Op op, std::initializer_list<Tensor> src);
  Tensor neg() const { return unary(Op::Neg); }
  Tensor abs() const { return unary(Op::Abs); }
  Tensor exp() const { return unary(Op::Exp); }
  Tensor log() const { return unary(Op::Log); }
  Tensor sqrt() const { return unary(Op::Sqrt); }
  Tensor recip() const { return unary(Op::Recip); }
  Tensor floor() const { return is_float() ? unary(Op::Floor) : *this; }
  Tensor ceil() const { return is_float() ? unary(Op::Ceil) : *this; }
  Tensor trunc() const { return is_float() ? unary(Op::Trunc) : *this; }
  Tensor round() const { return is_float() ? unary(Op::Round) : *this; }  // ties to even
  Tensor sin() const { return unary(Op::Sin); }
  Tensor cos() const { return unary(Op::Cos); }
  Tensor tanh() const { return unary(Op::Tanh); }
  Tensor erf() const { return unary(Op::Erf); }
  Tensor relu() const { return max(like(0)); }           // NaN stays NaN
  Tensor leaky_relu(f64 alpha) const;
  Tensor sigmoid() const;                                // 1 / (1 + exp(-x))
  Tensor softplus() const;                               // log(1 + exp(x)), no overflow
  Tensor gelu(bool tanh_form = false) const;
  Tensor silu() const;
  Tensor hard_sigmoid(f64 alpha, f64 beta) const;        // max(0, min(1, alpha*x + beta))
  Tensor clip(const Tensor& lo, const Tensor& hi) const; // either may be absent; NaN stays NaN; lo > hi gives hi
  Tensor max(const Tensor& b) const { return binary(Op::Max, b); }
  Tensor min(const Tensor& b) const { return binary(Op::Min, b); }
  Tensor pow(const Tensor& b) const { return binary(Op::Pow, b); }   // floats
  Tensor square() const { return elementwise(Op::Mul, {*this, *this}); }
  Tensor lt(const Tensor& b) const { return binary(Op::Lt, b); }
  Tensor le(const Tensor& b) const { return binary(Op::Le, b); }
  Tensor gt(const Tensor& b) const { return b.lt(*this); }
  Tensor ge(const Tensor& b) const { return b.le(*this); }
  Tensor eq(const Tensor& b) const { return binary(Op::Eq, b); }
  Tensor ne(const Tensor& b) const { return binary(Op::Ne, b); }
  Tensor logical_not() const { return unary(Op::Not); }
  Tensor is_nan() const { return ne(*this); }
  Tensor floor_div(const Tensor& b) const;               // floats: floor(a / b)
  Tensor floor_mod(const Tensor& b) const;               // sign of b; floats too
  Tensor rem(const Tensor& b) const { return binary(Op::Rem, b); }   // sign of *this
  Tensor cast(DType d) const;                            // rounds to nearest even, float to integer truncates and saturates
  Tensor bitcast(DType d) const;
  Tensor widen() const { return is_half() ? cast(Kind::F32) : *this; }   // f16 and bf16 to f32, where sums are kept

  // --- movement
  Tensor reshape(const Shape& s) const;
  Tensor reshape(const Ints& s) const;                   // one dim may be -1
  Tensor reshape(Shape s, i64 rest) const;               // dim `rest` is what the others leave
  Tensor flatten(i64 from = 0, i64 to = -1) const;       // axes from..to become one
  Tensor permute(IntSpan order) const;
  Tensor permute(const Ints& order) const { return permute(IntSpan(order)); }
  Tensor transpose(i64 a = -1, i64 b = -2) const;
  Tensor expand(const Shape& s) const;                   // numpy broadcast_to
  Tensor expand(const Ints& s) const { return expand(dims(IntSpan(s))); }
  Tensor unsqueeze(IntSpan axes) const;                  // axes of the result
  Tensor unsqueeze(i64 a) const { return unsqueeze(Ints{a}); }
  Tensor squeeze(IntSpan axes) const;
  Tensor squeeze(i64 a) const { return squeeze(Ints{a}); }
  Tensor flip(IntSpan axes) const;
  Tensor slice(i64 axis, i64 begin, i64 end, i64 step = 1) const;    // numpy's clamping; negative steps too
  Tensor slice(i64 axis, UOp begin, UOp end, i64 step = 1) const;    // of index expressions
  Tensor shrink(i64 axis, i64 begin, i64 count) const { return shrink(axis, idx(begin), idx(count)); }   // exact, must lie inside
  Tensor shrink(i64 axis, UOp begin, UOp count) const;
  Tensor pad(IntSpan begin, IntSpan end, f64 value = 0) const;       // negative amounts cut
  Tensor pad(IntSpan begin, IntSpan end, PadMode mode, UOp value) const;   // value: CONST, read by Constant
  Tensor pad(const Shape& begin, const Shape& end, PadMode mode, UOp value) const;
  Tensor window(const WindowArg& w) const;
  static Tensor concat(std::span<const Tensor> xs, i64 axis);
  static Tensor concat(std::initializer_list<Tensor> xs, i64 axis) { return concat(std::span(xs.begin(), xs.size()), axis); }
  std::vector<Tensor> split(i64 axis, IntSpan sizes) const;
  std::vector<Tensor> split(i64 axis, const Shape& sizes) const;
  Tensor repeat(i64 axis, i64 n) const { return repeat(axis, idx(n)); }
  Tensor repeat(i64 axis, UOp n) const;                  // whole tensor n times along the axis (numpy's tile)

  // --- reductions. keepdims leaves dims of 1. f16 and bf16 sums, means and products are kept in f32.
  Tensor reduce(ReduceKind k, IntSpan axes, bool keepdims = false) const;
  Tensor sum(IntSpan axes, bool keepdims = false) const;
  Tensor sum(const Ints& axes, bool keepdims = false) const { return sum(IntSpan(axes), keepdims); }
  Tensor mean(IntSpan axes, bool keepdims = false) const;            // sum / n
  Tensor mean(const Ints& axes, bool keepdims = false) const { return mean(IntSpan(axes), keepdims); }
  Tensor max(IntSpan axes, bool keepdims) const { return reduce(ReduceKind::Max, axes, keepdims); }
  Tensor min(IntSpan axes, bool keepdims) const { return reduce(ReduceKind::Min, axes, keepdims); }
  Tensor prod(IntSpan axes, bool keepdims = false) const;
  Tensor softmax(i64 axis) const;
  Tensor log_softmax(i64 axis) const;
  Tensor cumsum(i64 axis, bool exclusive = false, bool reverse = false) const;
  std::pair<Tensor, Tensor> argmax(i64 axis, bool last = false) const;   // (index i64, value), axis removed; NaN is largest
  std::pair<Tensor, Tensor> argmin(i64 axis, bool last = false) const;   // NaN is smallest

  // --- products. acc: the dtype in which products are summed and the result is; none: f32 for halves (cast back), else the operands'.
  Tensor matmul(const Tensor& b, std::optional<DType> acc = {}) const;   // numpy's matmul
  // ONNX Conv. x (N, C, *in), w (M, C/groups, *k), bias (M) or absent; gives (N, M, *out).
  Tensor conv(const Tensor& w, const Tensor& bias, const ConvArgs& a, std::optional<DType> acc = {}) const;
  // (N, C, *in) -> (N, C, *out, *k), after padding with `value`.
  Tensor pool_windows(IntSpan k, const ConvArgs& a, UOp value) const;

  // --- indexing
  // out[p] = x[i0[p], i1[p] ..]: an index per axis, broadcast together. An absent one means the positions of that axis in order: at most one
  // run of present ones; the result has x's axes before it, the indices' shape, x's axes after it. Negative indices count from the end; what is
  // out of range is an Error for constants and is clamped otherwise.
  Tensor gather(std::span<const Tensor> indices) const;
  Tensor take(i64 axis, const Tensor& index) const;                    // numpy's take
  Tensor take_along(i64 axis, const Tensor& index) const;              // numpy's take_along_axis, index smaller where axes differ (GatherElements)
  Tensor scatter(std::span<const Tensor> indices, const Tensor& updates, ScatterKind k) const;   // an index per axis, all of updates' shape
  Tensor sort_order(i64 axis, bool descending) const { return tensor::sort(u_, {this->axis(axis), descending}); }
  Tensor contiguous() const { return tensor::contiguous(u_); }

 private:
  UOp u_;
};

Tensor where(const Tensor& c, const Tensor& a, const Tensor& b);
inline Tensor operator+(const Tensor& a, const Tensor& b) { return a.binary(Op::Add, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return a.binary(Op::Sub, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return a.binary(Op::Mul, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return a.binary(Op::Div, b); }   // integers: towards zero
inline Tensor operator&(const Tensor& a, const Tensor& b) { return a.binary(Op::And, b); }
inline Tensor operator|(const Tensor& a, const Tensor& b) { return a.binary(Op::Or, b); }
inline Tensor operator^(const Tensor& a, const Tensor& b) { return a.binary(Op::Xor, b); }
inline Tensor operator+(const Tensor& a, f64 b) { return a + a.like(b); }
inline Tensor operator-(const Tensor& a, f64 b) { return a - a.like(b); }
inline Tensor operator*(const Tensor& a, f64 b) { return a * a.like(b); }
inline Tensor operator/(const Tensor& a, f64 b) { return a / a.like(b); }
inline Tensor operator+(f64 a, const Tensor& b) { return b.like(a) + b; }
inline Tensor operator-(f64 a, const Tensor& b) { return b.like(a) - b; }
inline Tensor operator*(f64 a, const Tensor& b) { return b.like(a) * b; }
inline Tensor operator/(f64 a, const Tensor& b) { return b.like(a) / b; }
inline Tensor operator-(const Tensor& a) { return a.neg(); }

// The shape that numpy gives to an elementwise op of these, or an Error.
Shape broadcast(std::span<const Shape* const> shapes);
// A constant dim as a number; a variable one is an Error that names it.
i64 constant_dim(UOp d);
// n / d where that leaves nothing over, whatever the variables are.
std::optional<UOp> whole_quotient(UOp n, UOp d);

}  // namespace tg
