// The ops, their classes and sets of them; one row each in ops.def.
#pragma once
#include <string_view>

#include "base/types.h"

namespace tg {

enum class Op : u8 {
#define OP(name, srcs, cls, arg) name,
#include "ir/ops.def"
  COUNT
};
inline constexpr int kOps = int(Op::COUNT);

enum class OpClass : u8 { Struct, Memory, Convert, Unary, Binary, Ternary, Movement, Tensor, Vector };
enum class ArgKind : u8 { None, Int, Bits, Ints, Str };
struct OpInfo {
  std::string_view name;
  int srcs;  // -1: a list
  OpClass cls;
  ArgKind arg;
};
inline constexpr OpInfo kOpInfo[] = {
#define OP(name, srcs, cls, arg) {#name, srcs, OpClass::cls, ArgKind::arg},
#include "ir/ops.def"
};
constexpr const OpInfo& info(Op op) { return kOpInfo[int(op)]; }

struct OpSet {
  u64 lo = 0, hi = 0;
  constexpr OpSet() = default;
  constexpr OpSet(Op o) { int(o) < 64 ? lo = 1ull << int(o) : hi = 1ull << (int(o) - 64); }
  constexpr bool has(Op o) const { return int(o) < 64 ? lo >> int(o) & 1 : hi >> (int(o) - 64) & 1; }
  constexpr OpSet operator|(OpSet b) const {
    OpSet r;
    r.lo = lo | b.lo, r.hi = hi | b.hi;
    return r;
  }
  constexpr bool subset_of(OpSet b) const { return !(lo & ~b.lo) && !(hi & ~b.hi); }
  constexpr bool empty() const { return !lo && !hi; }
  constexpr bool operator==(const OpSet&) const = default;
};
static_assert(kOps <= 128, "OpSet is two words");
constexpr OpSet operator|(Op a, Op b) { return OpSet(a) | OpSet(b); }

constexpr bool is_unary(Op o) { return info(o).cls == OpClass::Unary; }
constexpr bool is_binary(Op o) { return info(o).cls == OpClass::Binary; }
constexpr bool is_ternary(Op o) { return info(o).cls == OpClass::Ternary; }
constexpr bool is_alu(Op o) { return is_unary(o) || is_binary(o) || is_ternary(o); }
constexpr bool is_elementwise(Op o) { return is_alu(o) || info(o).cls == OpClass::Convert; }
constexpr bool is_movement(Op o) { return info(o).cls == OpClass::Movement; }
constexpr OpSet kCommutative = Op::Add | Op::Mul | Op::Max | Op::Min | Op::And | Op::Or | Op::Xor | Op::Eq | Op::Ne;
constexpr OpSet kComparison = Op::Lt | Op::Le | Op::Eq | Op::Ne;
// Costly enough that a schedule stores a value rather than compute it twice.
constexpr OpSet kTranscendental = Op::Exp | Op::Exp2 | Op::Log | Op::Log2 | Op::Sin | Op::Cos | Op::Tan | Op::Asin | Op::Acos | Op::Atan | Op::Sinh |
                                  Op::Cosh | Op::Tanh | Op::Asinh | Op::Acosh | Op::Atanh | Op::Erf | Op::Pow;

bool op_from_name(std::string_view s, Op* out);

}  // namespace tg
