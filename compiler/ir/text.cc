#include "ir/text.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "base/error.h"

namespace tg {
namespace {

std::string const_text(UOp u) {
  // A NaN other than the plain one keeps its bits.
  if (is_float(u.dtype()) && std::isnan(u.as_float()) && u.arg_bits() != std::bit_cast<u64>(std::numeric_limits<f64>::quiet_NaN()))
    return str("bits:", u.arg_bits());
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

// --- printing ---------------------------------------------------------------------------------------------------------------------------
std::string upper(std::string_view s) {
  std::string r(s);
  for (char& c : r) c = c >= 'a' && c <= 'z' ? char(c - 'a' + 'A') : c;
  return r;
}

std::string quoted(std::string_view s) {
  std::string r = "\"";
  for (char c : s) {
    if (c == '"' || c == '\\') r += '\\', r += c;
    else if (u8(c) < 32 || u8(c) == 127) r += str("\\", "0123456789abcdef"[u8(c) >> 4], "0123456789abcdef"[u8(c) & 15]);
    else r += c;
  }
  return r + '"';
}

std::string arg_text(UOp u) {
  switch (info(u.op()).arg) {
    case ArgKind::None: return "";
    case ArgKind::Int: return str(" #", u.arg_int());
    case ArgKind::Bits: return str(' ', const_text(u));
    case ArgKind::Ints: return str(" [", join(u.arg_ints()), ']');
    case ArgKind::Str: return str(' ', quoted(u.arg_str()));
  }
  return "";
}

void line(std::string& out, UOp u, Memo<u32>& number) {
  out += str('%', number[u] - 1, " = ", upper(info(u.op()).name), ' ', name(u.dtype()), arg_text(u));
  for (UOp s : u.src()) out += str(" %", number[s] - 1);
  out += '\n';
}

// --- parsing ----------------------------------------------------------------------------------------------------------------------------
const std::unordered_map<std::string, Op>& ops_by_name() {
  static const std::unordered_map<std::string, Op> map = [] {
    std::unordered_map<std::string, Op> m;
    for (int i = 0; i < kOps; i++) m[upper(kOpInfo[i].name)] = Op(i);
    return m;
  }();
  return map;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  struct Line {
    UOp node;
    bool let;
  };
  std::vector<Line> run() {
    std::vector<Line> lines;
    while (true) {
      space();
      if (done()) return lines;
      if (peek() == '\n') {
        next();
        continue;
      }
      lines.push_back(one());
    }
  }

 private:
  template <class... A>
  [[noreturn]] void no(size_t at, const A&... what) {
    size_t row = 1, col = 1;
    for (size_t i = 0; i < at; i++) text_[i] == '\n' ? (row++, col = 1) : col++;
    fail(row, ':', col, ": ", str(what...));
  }
  bool done() const { return at_ >= text_.size(); }
  char peek() const { return done() ? '\0' : text_[at_]; }
  char next() { return text_[at_++]; }
  void space() {
    while (!done() && (peek() == ' ' || peek() == '\t' || peek() == '\r')) at_++;
    if (peek() == ';')
      while (!done() && peek() != '\n') at_++;
  }
  bool end_of_line() {
    space();
    return done() || peek() == '\n';
  }
  static bool ends_word(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == ',' || c == ']' || c == ';' || c == '='; }
  std::string_view word(std::string_view what) {
    space();
    size_t from = at_;
    while (!done() && !ends_word(peek())) at_++;
    if (at_ == from) no(from, "expected ", what);
    return text_.substr(from, at_ - from);
  }
  void expect(char c) {
    space();
    if (peek() != c) no(at_, "expected '", c, "'");
    at_++;
  }
  template <class T>
  T number(std::string_view w, size_t at, std::string_view what) {
    T v;
    auto [end, err] = std::from_chars(w.data(), w.data() + w.size(), v);
    if (err != std::errc() || end != w.data() + w.size()) no(at, "expected ", what, ", got ", w);
    return v;
  }
  i64 integer() {
    space();
    size_t at = at_;
    return number<i64>(word("an integer"), at, "an integer");
  }

  Line one() {
    bool let = false;
    std::string_view w = word("%name = OP ...");
    size_t at = at_ - w.size();
    if (w == "let") {
      let = true;
      w = word("%name = OP ...");
      at = at_ - w.size();
    }
    if (w[0] != '%') no(at, "expected %name = OP ..., got ", w);
    std::string name(w);
    expect('=');
    w = word("an op");
    auto op = ops_by_name().find(upper(w));
    if (op == ops_by_name().end()) no(at_ - w.size(), w, " is no op");
    Op o = op->second;
    w = word("a dtype");
    size_t dtype_at = at_ - w.size();
    DType d = dtype(w);
    Arg arg = argument(o, d, dtype_at);
    std::vector<UOp> src;
    while (!end_of_line()) {
      size_t from = at_;
      std::string_view s = word("a source");
      auto it = names_.find(std::string(s));
      if (it == names_.end()) no(from, "no value ", s, " above this line");
      src.push_back(it->second);
    }
    if (info(o).srcs >= 0 && int(src.size()) != info(o).srcs) no(at, info(o).name, " has ", info(o).srcs, " sources, got ", src.size());
    UOp u = Arena::current().make(o, d, src, arg);
    if (!names_.emplace(name, u).second) no(at, "a second ", name);
    return {u, let};
  }

  DType dtype(std::string_view w) {
    size_t at = at_ - w.size();
    // The lanes follow the last x, unless the whole word is a kind.
    Kind k;
    if (kind_from_name(w, &k)) return k;
    size_t x = w.rfind('x');
    if (x == std::string_view::npos || !kind_from_name(w.substr(0, x), &k)) no(at, w, " is no dtype");
    i64 lanes = number<i64>(w.substr(x + 1), at + x + 1, "a number of lanes");
    if (lanes < 1 || lanes > 65535) no(at + x + 1, lanes, " lanes");
    return DType(k, u16(lanes));
  }

  Arg argument(Op o, DType d, size_t dtype_at) {
    Arg a;
    a.bits = 0;
    switch (info(o).arg) {
      case ArgKind::None: break;
      case ArgKind::Int: expect('#'), a.i = integer(); break;
      case ArgKind::Bits: a.bits = value(d, dtype_at); break;
      case ArgKind::Ints: {
        Ints v;
        expect('[');
        space();
        while (peek() != ']') {
          if (!v.empty()) expect(',');
          v.push_back(integer());
          space();
        }
        expect(']');
        return Arena::current().ints(v);
      }
      case ArgKind::Str: return Arena::current().str(text());
    }
    return a;
  }

  u64 value(DType d, size_t dtype_at) {
    std::string_view w = word("a value");
    size_t at = at_ - w.size();
    if (is_float(d)) {
      if (w.substr(0, 5) == "bits:") return number<u64>(w.substr(5), at + 5, "bits");
      return konst_f(d, number<f64>(w, at, "a number")).arg_bits();
    }
    if (d.kind == Kind::Void) no(dtype_at, "a CONST of void");
    if (d.kind == Kind::Bool) {
      if (w != "true" && w != "false") no(at, "expected true or false, got ", w);
      return w == "true";
    }
    if (d.kind == Kind::U64) return number<u64>(w, at, "an integer");
    i64 v = number<i64>(w, at, "an integer");
    if (wrap_int(d.kind, v) != v) no(at, v, " is outside ", name(d));
    return u64(v);
  }

  std::string text() {
    expect('"');
    std::string r;
    while (true) {
      if (done() || peek() == '\n') no(at_, "a string without an end");
      char c = next();
      if (c == '"') return r;
      if (c != '\\') {
        r += c;
        continue;
      }
      if (peek() == '"' || peek() == '\\') {
        r += next();
        continue;
      }
      auto digit = [&] {
        char h = done() ? '\0' : next();
        if (h >= '0' && h <= '9') return h - '0';
        if (h >= 'a' && h <= 'f') return h - 'a' + 10;
        no(at_ - 1, "expected two hex digits after \\");
      };
      int hi = digit();
      r += char(hi * 16 + digit());
    }
  }

  std::string_view text_;
  size_t at_ = 0;
  std::unordered_map<std::string, UOp> names_;
};

}  // namespace

std::string UOp::str() const {
  std::string s;
  short_text(*this, 4, s);
  return s;
}

std::string print(std::span<const UOp> roots) {
  std::string out;
  Memo<u32> number;
  u32 n = 0;
  for (UOp u : toposort(roots)) {
    number[u] = ++n;
    line(out, u, number);
  }
  return out;
}
std::string print(UOp root) { return print(std::span(&root, 1)); }

std::string print_list(std::span<const UOp> list) {
  std::string out;
  Memo<u32> number;
  u32 n = 0;
  std::vector<std::pair<UOp, u32>> stack;
  for (UOp u : list) {
    // A member that is used above its own line is printed by its first user too, as a let: the text shows the fault and still reads back.
    stack.assign(1, {u, 0});
    while (!stack.empty()) {
      auto& [x, at] = stack.back();
      if (at < x.nsrc()) {
        UOp s = x.src(at++);
        if (!number[s]) stack.push_back({s, 0});
        continue;
      }
      if (x == u || !number[x]) {
        number[x] = ++n;
        if (x != u) out += "let ";
        line(out, x, number);
      }
      stack.pop_back();
    }
  }
  return out;
}

UOp parse(std::string_view text) {
  std::vector<Parser::Line> lines = Parser(text).run();
  if (lines.empty()) fail("1:1: expected %name = OP ..., got nothing");
  return lines.back().node;
}

std::vector<UOp> parse_list(std::string_view text) {
  std::vector<UOp> r;
  for (const Parser::Line& l : Parser(text).run())
    if (!l.let) r.push_back(l.node);
  return r;
}

}  // namespace tg
