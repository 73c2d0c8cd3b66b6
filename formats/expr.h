// Integer expressions over the variables of a run, as bytecode for a stack of i64: sizes, offsets, launch sizes and integer arguments.
// Evaluation is exact: overflow and division by zero are failures, never wrong numbers.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace tgf {

// One byte each, operands little-endian behind it. a is below b on the stack.
enum class ExprOp : uint8_t {
  Const8 = 1,  // i8
  Const = 2,   // i64
  Var = 3,     // u16: index of a variable
  Add = 4,
  Sub = 5,
  Mul = 6,
  FloorDiv = 7,  // towards minus infinity
  FloorMod = 8,  // a - b * floordiv(a, b): the sign of b
  Min = 9,
  Max = 10,
  Lt = 11,  // 0 or 1
  Le = 12,
  Eq = 13,
  Ne = 14,
  And = 15,  // bitwise, as are the next two; enough for 0 and 1
  Or = 16,
  Xor = 17,
  Shl = 18,     // by 0..62
  Shr = 19,     // arithmetic, by 0..63
  Select = 20,  // pops c, a, b (b on top): c != 0 ? a : b; both sides are evaluated
};
constexpr uint32_t kExprStack = 32;

// Whether code is well-formed: known ops, whole operands, variables below n_vars, a stack that never underflows nor exceeds kExprStack and
// ends with one value.
bool expr_valid(const uint8_t* code, size_t bytes, uint32_t n_vars);

// The value of valid code. False: overflow or division by zero.
bool expr_eval(const uint8_t* code, size_t bytes, const int64_t* vars, int64_t* out);

}  // namespace tgf
