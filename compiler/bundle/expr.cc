// Builds expression bytecode. Constants fold at once, so that what depends on no variable is stored as a number.
#include <cstring>

#include "base/error.h"
#include "bundle/bundle.h"

namespace tg::bundle {

Bytes Bytes::view(std::span<const u8> b) {
  Bytes r;
  r.borrowed = b, r.size = b.size();
  return r;
}
Bytes Bytes::own(std::vector<u8> b) {
  Bytes r;
  r.size = b.size(), r.owned = std::move(b);
  return r;
}
Bytes Bytes::lazy(u64 size, std::function<void(std::span<u8>)> make) {
  Bytes r;
  r.size = size, r.make = std::move(make);
  return r;
}

namespace {

void push(std::vector<u8>& code, const Expr& e) {
  if (!e.is_constant()) {
    code.insert(code.end(), e.code.begin(), e.code.end());
  } else if (e.value == i8(e.value)) {
    code.push_back(u8(tgf::ExprOp::Const8));
    code.push_back(u8(e.value));
  } else {
    code.push_back(u8(tgf::ExprOp::Const));
    u8 bytes[8];
    std::memcpy(bytes, &e.value, 8);
    code.insert(code.end(), bytes, bytes + 8);
  }
}

Expr build(tgf::ExprOp op, std::initializer_list<const Expr*> args) {
  Expr r;
  bool constant = true;
  for (const Expr* a : args) push(r.code, *a), constant &= a->is_constant();
  r.code.push_back(u8(op));
  if (!constant) return r;
  i64 value = 0;
  TG_CHECK(tgf::expr_eval(r.code.data(), r.code.size(), nullptr, &value), "constant expression overflows or divides by zero");
  return Expr(value);
}

}  // namespace

Expr Expr::var(u32 index) {
  TG_CHECK(index < 65536, "variable ", index);
  Expr r;
  r.code = {u8(tgf::ExprOp::Var), u8(index), u8(index >> 8)};
  return r;
}

Expr Expr::op(tgf::ExprOp op, const Expr& a, const Expr& b) {
  TG_CHECK(op >= tgf::ExprOp::Add && op < tgf::ExprOp::Select, "op ", u32(op));
  return build(op, {&a, &b});
}

Expr Expr::select(const Expr& cond, const Expr& a, const Expr& b) {
  if (cond.is_constant()) return cond.value ? a : b;
  return build(tgf::ExprOp::Select, {&cond, &a, &b});
}

}  // namespace tg::bundle
