#include "base/error.h"
#include "ir/uop.h"

namespace tg {
namespace {

std::string const_text(UOp u) {
  if (is_float(u.dtype())) return number_text(u.as_float());
  if (u.dtype().kind == Kind::Bool) return u.as_int() ? "true" : "false";
  return u.dtype().kind == Kind::U64 ? std::to_string(u64(u.as_int())) : std::to_string(u.as_int());
}

std::string_view infix(Op op) {
  switch (op) {
    case Op::Add: return "+";
    case Op::Sub: return "-";
    case Op::Mul: return "*";
    case Op::FloorDiv: return "/";
    case Op::FloorMod: return "%";
    case Op::Lt: return "<";
    case Op::Le: return "<=";
    case Op::Eq: return "==";
    case Op::Ne: return "!=";
    case Op::And: return "&";
    case Op::Or: return "|";
    default: return "";
  }
}

// For people: index arithmetic as a formula, other nodes as name, dtype, [argument] and sources down to `depth`.
void short_text(UOp u, int depth, std::string& out) {
  if (!u) return void(out += "null");
  if (out.size() > 600) return void(out += "...");
  if (u.is_const()) return void(out += const_text(u));
  if (u.is(Op::Var)) return void(out += u.arg_str());
  if (u.is(Op::Range)) {
    RangeArg a = u.arg<RangeArg>();
    out += str("r", a.id, a.part ? str(".", a.part) : "", a.phase ? str("'", a.phase) : "");
    return;
  }
  Kind k = u.nsrc() ? u.src(0).dtype().kind : Kind::Void;
  if (depth > 0 && !infix(u.op()).empty() && u.nsrc() == 2 && (k == Kind::Index || k == Kind::Bool)) {
    out += '(';
    short_text(u.src(0), depth - 1, out);
    out += infix(u.op());
    short_text(u.src(1), depth - 1, out);
    out += ')';
    return;
  }
  out += info(u.op()).name;
  if (u.dtype().kind != Kind::Void && !u.is(Op::Stack)) out += ' ', out += name(u.dtype());
  switch (info(u.op()).arg) {
    case ArgKind::Int: out += str('[', u.arg_int(), ']'); break;
    case ArgKind::Ints: out += str('[', join(u.arg_ints()), ']'); break;
    case ArgKind::Str: out += str("[\"", u.arg_str(), "\"]"); break;
    default: break;
  }
  if (u.nsrc() == 0) return;
  if (depth <= 0) return void(out += "(...)");
  out += '(';
  for (size_t i = 0; i < u.nsrc(); i++) {
    if (i) out += ", ";
    if (i == 12) return void(out += "...)");
    short_text(u.src(i), depth - 1, out);
  }
  out += ')';
}

}  // namespace

std::string UOp::str() const {
  std::string s;
  short_text(*this, 4, s);
  return s;
}

}  // namespace tg
