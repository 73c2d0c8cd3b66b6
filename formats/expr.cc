#include "formats/expr.h"

#include <string.h>

namespace tgf {
namespace {

// How many bytes follow an op and how many values it takes; every op leaves one value. {0xff}: not an op.
struct Row {
  uint8_t operand, pops;
};
constexpr Row kRows[] = {{0xff, 0}, {1, 0}, {8, 0}, {2, 0}, {0, 2}, {0, 2}, {0, 2}, {0, 2}, {0, 2}, {0, 2}, {0, 2},
                         {0, 2},    {0, 2}, {0, 2}, {0, 2}, {0, 2}, {0, 2}, {0, 2}, {0, 2}, {0, 2}, {0, 3}};
static_assert(sizeof kRows / sizeof kRows[0] == size_t(ExprOp::Select) + 1);

bool floor_div(int64_t a, int64_t b, int64_t* q, int64_t* r) {
  if (b == 0 || (a == INT64_MIN && b == -1)) return false;
  *q = a / b, *r = a % b;
  if (*r && (*r < 0) != (b < 0)) --*q, *r += b;
  return true;
}

}  // namespace

bool expr_valid(const uint8_t* code, size_t bytes, uint32_t n_vars) {
  uint32_t depth = 0;
  for (size_t at = 0; at < bytes;) {
    uint8_t op = code[at++];
    if (op >= sizeof kRows / sizeof kRows[0] || kRows[op].operand == 0xff) return false;
    Row row = kRows[op];
    if (bytes - at < row.operand || depth < row.pops) return false;
    if (ExprOp(op) == ExprOp::Var && uint32_t(code[at] | code[at + 1] << 8) >= n_vars) return false;
    at += row.operand;
    depth += 1u - row.pops;
    if (depth > kExprStack) return false;
  }
  return depth == 1;
}

bool expr_eval(const uint8_t* code, size_t bytes, const int64_t* vars, int64_t* out) {
  int64_t stack[kExprStack + 1];
  int64_t* top = stack;  // one above the uppermost value
  for (size_t at = 0; at < bytes;) {
    ExprOp op = ExprOp(code[at++]);
    if (op == ExprOp::Const8) {
      *top++ = int8_t(code[at]);
      at += 1;
      continue;
    }
    if (op == ExprOp::Const) {
      memcpy(top++, code + at, 8);
      at += 8;
      continue;
    }
    if (op == ExprOp::Var) {
      *top++ = vars[code[at] | code[at + 1] << 8];
      at += 2;
      continue;
    }
    if (op == ExprOp::Select) {
      top -= 2;
      top[-1] = top[-1] ? top[0] : top[1];
      continue;
    }
    int64_t b = *--top, &a = top[-1], q = 0, r = 0;
    switch (op) {
      case ExprOp::Add:
        if (__builtin_add_overflow(a, b, &a)) return false;
        break;
      case ExprOp::Sub:
        if (__builtin_sub_overflow(a, b, &a)) return false;
        break;
      case ExprOp::Mul:
        if (__builtin_mul_overflow(a, b, &a)) return false;
        break;
      case ExprOp::FloorDiv:
        if (!floor_div(a, b, &q, &r)) return false;
        a = q;
        break;
      case ExprOp::FloorMod:
        if (!floor_div(a, b, &q, &r)) return false;
        a = r;
        break;
      case ExprOp::Min: a = a < b ? a : b; break;
      case ExprOp::Max: a = a > b ? a : b; break;
      case ExprOp::Lt: a = a < b; break;
      case ExprOp::Le: a = a <= b; break;
      case ExprOp::Eq: a = a == b; break;
      case ExprOp::Ne: a = a != b; break;
      case ExprOp::And: a &= b; break;
      case ExprOp::Or: a |= b; break;
      case ExprOp::Xor: a ^= b; break;
      case ExprOp::Shl:
        if (b < 0 || b > 62 || __builtin_mul_overflow(a, int64_t(1) << b, &a)) return false;
        break;
      case ExprOp::Shr:
        if (b < 0 || b > 63) return false;
        a >>= b;
        break;
      default: return false;
    }
  }
  *out = stack[0];
  return true;
}

}  // namespace tgf
