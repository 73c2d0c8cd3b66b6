// One statement a value; constants, addresses and AFTER are written where they are used.
#include "render/c_style.h"

#include <cmath>
#include <cstdio>
#include <algorithm>

#include "base/error.h"
#include "ir/canonical.h"
#include "ir/loops.h"

namespace tg {
namespace {

class Writer {
 public:
  Writer(std::span<const UOp> linear, const Lang& lang) : linear_(linear), lang_(lang) {}

  std::string program(std::string_view entry) {
    for (UOp u : linear_) statement(u);
    TG_CHECK(depth_ == 1, "a RANGE without END in ", entry);
    std::string s(lang_.prologue);
    for (const std::string& t : typedefs_) s += t;
    s += signature(entry) + " {\n" + head_ + body_ + "}\n";
    return s;
  }

 private:
  // --- types --------------------------------------------------------------------------------------------------------------------------
  std::string scalar(Kind k) {
    std::string_view t = lang_.type[int(k)];
    TG_CHECK(!t.empty(), lang_.name, " has no ", name(k), "; decompose() should have removed it");
    return std::string(t);
  }
  static std::string int_name(int bits) { return str("i", bits); }
  std::string type(DType d) {
    if (d.lanes == 1) return scalar(d.kind);
    if (!lang_.wide) {
      TG_CHECK(d.lanes == 2 || d.lanes == 4 || d.lanes == 8 || d.lanes == 16, lang_.name, " has no vectors of ", d.lanes, " lanes");
      return str(d.kind == Kind::Bool ? "char" : scalar(d.kind), d.lanes);
    }
    std::string base = d.kind == Kind::Bool ? "bool" : scalar(d.kind), t = str(base, "x", d.lanes);
    add_typedef(str("typedef ", scalar(d.kind), " ", t, " __attribute__((ext_vector_type(", d.lanes, ")));\n"));
    return t;
  }
  // The same vector in memory: aligned like one element, and bool is a byte.
  std::string unaligned(DType d) {
    if (d.kind == Kind::Bool) d.kind = Kind::U8;
    std::string t = str(scalar(d.kind), "x", d.lanes, "m");
    type(d);
    add_typedef(str("typedef ", scalar(d.kind), " ", t, " __attribute__((ext_vector_type(", d.lanes, "), aligned(", bits(d.kind) / 8, "), may_alias));\n"));
    return t;
  }
  void add_typedef(std::string t) {
    for (const std::string& have : typedefs_)
      if (have == t) return;
    typedefs_.push_back(std::move(t));
  }
  std::string in_memory(Kind k) { return scalar(k == Kind::Bool ? Kind::U8 : k); }

  // --- values -------------------------------------------------------------------------------------------------------------------------
  std::string number(UOp c) {
    Kind k = c.dtype().kind;
    if (k == Kind::Bool) return c.as_int() ? "1" : "0";
    if (is_float(k)) {
      f64 v = c.as_float();
      if (std::isnan(v)) return str("(", scalar(k), ")", lang_.nan);
      if (std::isinf(v)) return str(v < 0 ? "(-(" : "((", scalar(k), ")", lang_.inf, ")");
      char buf[64];
      std::snprintf(buf, sizeof buf, v < 0 || std::signbit(v) ? "(%a%s)" : "%a%s", v, k == Kind::F32 ? "f" : "");
      return k == Kind::F16 ? str("(", scalar(k), ")", buf) : buf;
    }
    i64 v = c.as_int();
    if (bits(k) < 32) return str("(", scalar(k), ")", v);
    if (k == Kind::I32) return v == int_min(k) ? "(-2147483647 - 1)" : v < 0 ? str("(", v, ")") : str(v);
    if (k == Kind::U32) return str(v, "u");
    std::string_view wide = lang_.wide ? "ll" : "l";
    if (k == Kind::U64) return str(u64(v), "u", wide);
    if (v == int_min(Kind::I64)) return str("(-9223372036854775807", wide, " - 1)");
    return v < 0 ? str("(", v, wide, ")") : str(v, wide);
  }
  std::string value(UOp u) {
    u = without_waits(u);
    if (u.is_const()) {
      if (u.dtype().lanes == 1) return number(u);
      std::string n = number(u);
      if (!lang_.wide && u.dtype().kind == Kind::Bool) n = u.as_int() ? "-1" : "0";
      return str("((", type(u.dtype()), ")(", n, "))");
    }
    const std::string& n = names_[u];
    TG_CHECK(!n.empty(), "used before it is defined: ", u.str());
    return n;
  }
  void line(const std::string& text) {
    body_.append(2 * size_t(depth_), ' ');
    body_ += text;
    body_ += '\n';
  }
  void define(UOp u, const std::string& expression) {
    names_[u] = str("v", count_++);
    line(str(type(u.dtype()), " ", names_[u], " = ", expression, ";"));
  }

  static std::string fill(std::string_view form, std::initializer_list<std::string> ops, const std::string& t = "") {
    std::string s;
    for (size_t i = 0; i < form.size(); i++) {
      if (form[i] == '{' && i + 2 < form.size() && form[i + 2] == '}') {
        s += form[i + 1] == 't' ? t : *(ops.begin() + (form[i + 1] - '0'));
        i += 2;
      } else {
        s += form[i];
      }
    }
    return s;
  }
  std::string_view spelling(Op op, DType d) {
    for (const Spelling& s : lang_.spell) {
      if (s.op != op) continue;
      bool fits = s.of == SpellFor::Any || (s.of == SpellFor::Float && is_float(d)) || (s.of == SpellFor::Int && is_int(d)) ||
                  (s.of == SpellFor::Bool && d.kind == Kind::Bool);
      if (fits) return d.lanes > 1 && !s.vector.empty() ? s.vector : s.scalar;
    }
    return {};
  }
  // The integer vector that a comparison of d gives, and that a select on d takes.
  DType mask_type(DType d) {
    constexpr Kind of[] = {Kind::I8, Kind::I16, Kind::I32, Kind::I64};
    int n = bits(d.kind);
    return {of[n == 8 ? 0 : n == 16 ? 1 : n == 32 ? 2 : 3], d.lanes};
  }
  std::string convert(const std::string& x, DType to) { return lang_.wide ? str("__builtin_convertvector(", x, ", ", type(to), ")") : str("convert_", type(to), "(", x, ")"); }
  std::string select(const std::string& c, const std::string& a, const std::string& b, DType d) {
    if (d.lanes == 1) return str(c, " ? ", a, " : ", b);
    if (d.kind == Kind::Bool) return str("(", c, " & ", a, ") | (~", c, " & ", b, ")");
    if (lang_.wide) return str("-", convert(c, mask_type(d)), " ? ", a, " : ", b);
    return str("select(", b, ", ", a, ", ", convert(c, mask_type(d)), ")");
  }
  std::string alu_text(UOp u) {
    DType d = u.src(u.is(Op::Where) ? 1 : 0).dtype();
    if (u.is(Op::Where)) return select(value(u.src(0)), value(u.src(1)), value(u.src(2)), u.dtype());
    std::string_view form = spelling(u.op(), d);
    TG_CHECK(!form.empty(), lang_.name, " cannot spell ", info(u.op()).name, " of ", name(d), ": ", u.str());
    std::string s[3];
    for (size_t i = 0; i < u.nsrc(); i++) s[i] = value(u.src(i));
    if (u.in(kComparison) && d.lanes > 1) {
      std::string t = str("(", fill(form, {s[0], s[1], s[2]}), ")");
      if (d.kind == Kind::Bool) TG_CHECK(u.in(Op::Eq | Op::Ne), "order of bool vectors: ", u.str());
      if (d.kind == Kind::Bool) return u.is(Op::Ne) ? str(s[0], " ^ ", s[1]) : str("~(", s[0], " ^ ", s[1], ")");
      return lang_.wide ? convert(t, {Kind::Bool, d.lanes}) : convert(t, {Kind::I8, d.lanes});
    }
    bool may_wrap = !lang_.wraps && (d.kind == Kind::I32 || d.kind == Kind::I64) && u.in(Op::Add | Op::Sub | Op::Mul | Op::Neg | Op::Shl | Op::MulAcc);
    if (may_wrap) {  // done on unsigned numbers, where overflow is defined
      DType un{d.kind == Kind::I32 ? Kind::U32 : Kind::U64, d.lanes};
      for (size_t i = 0; i < u.nsrc(); i++) s[i] = str("as_", type(un), "(", s[i], ")");
      return str("as_", type(d), "(", fill(form, {s[0], s[1], s[2]}), ")");
    }
    return fill(form, {s[0], s[1], s[2]}, type(u.dtype()));
  }
  std::string cast_text(UOp u) {
    DType from = u.src(0).dtype(), to = u.dtype();
    std::string x = value(u.src(0));
    if (to.kind == Kind::Bool) {
      if (to.lanes == 1) return str(x, " != 0");
      return lang_.wide ? convert(str("(", x, " != 0)"), to) : convert(str("(", x, " != (", type(from), ")(0))"), {Kind::I8, to.lanes});
    }
    if (to.lanes == 1) return str("(", type(to), ")", x);
    if (from.kind == Kind::Bool && !lang_.wide) return convert(str("(", x, " & (", type(from), ")(1))"), to);
    return convert(x, to);
  }
  std::string bitcast_text(UOp u) {
    DType from = u.src(0).dtype(), to = u.dtype();
    if (from.kind == Kind::Bool || to.kind == Kind::Bool) return cast_text(u);  // a byte of 0 or 1 in memory; lanes of bool are bits, or all ones
    std::string x = value(u.src(0));
    if (!lang_.wide) return str("as_", type(to), "(", x, ")");
    if (to.lanes > 1) return str("(", type(to), ")", x);
    return str("((union { ", type(from), " a; ", type(to), " b; }){", x, "}).b");
  }
  std::string lane(const std::string& v, i64 i) {
    constexpr char hex[] = "0123456789abcdef";
    return lang_.wide ? str(v, "[", i, "]") : str(v, ".s", std::string(1, hex[i]));
  }
  std::string pack(DType d, const std::vector<std::string>& v) {
    std::string all = join(v, ", ");
    return lang_.wide ? str("(", type(d), "){", all, "}") : str("(", type(d), ")(", all, ")");
  }
  std::string reduce_text(UOp u) {
    ReduceKind k = ReduceKind(u.arg_int());
    if (k == ReduceKind::MaxAny) k = ReduceKind::Max;
    DType d = u.src(0).dtype();
    std::vector<std::string> v;
    std::string whole = value(u.src(0));
    for (i64 i = 0; i < d.lanes; i++) {
      v.push_back(lane(whole, i));
      if (!lang_.wide && d.kind == Kind::Bool) v.back() = str("(", v.back(), " != 0)");
    }
    auto both = [&](const std::string& a, const std::string& b) -> std::string {
      if (is_float(d) && (k == ReduceKind::Max || k == ReduceKind::Min))  // NaN of either side stays
        return str("(", a, k == ReduceKind::Max ? " > " : " < ", b, " || ", a, " != ", a, " ? ", a, " : ", b, ")");
      return str("(", fill(spelling(alu_op(k), d.scalar()), {a, b, ""}), ")");
    };
    // Halves onto each other while they are vectors, so that the compiler sees vector operations.
    DType h = d;
    bool masks = d.kind == Kind::Bool || ((k == ReduceKind::Max || k == ReduceKind::Min) && is_float(d)) || (!lang_.wraps && is_sint(d));
    while (!masks && lang_.wide && h.lanes > 2 && h.lanes % 2 == 0) {
      h.lanes = u16(h.lanes / 2);
      std::string t = str("v", count_++);
      line(str(type(h), " ", t, " = ", fill(spelling(alu_op(k), h), {whole + ".lo", whole + ".hi", ""}), ";"));
      whole = t;
    }
    if (h.lanes != d.lanes) {
      v.clear();
      for (i64 i = 0; i < h.lanes; i++) v.push_back(lane(whole, i));
    }
    while (v.size() > 1) {
      std::vector<std::string> next;
      size_t half = (v.size() + 1) / 2;
      for (size_t i = 0; i < half; i++) {
        if (half + i >= v.size()) {
          next.push_back(v[i]);
          continue;
        }
        std::string t = str("v", count_++);
        line(str(type(d.scalar()), " ", t, " = ", both(v[i], v[half + i]), ";"));
        next.push_back(t);
      }
      v = std::move(next);
    }
    return v[0];
  }

  // --- memory -------------------------------------------------------------------------------------------------------------------------
  struct Address {
    UOp buffer, offset;
  };
  Address address(UOp at) {
    at = without_waits(at);
    TG_CHECK(at.is(Op::Index) && at.nsrc() == 2, "an access without a linear INDEX: ", at.str());
    return {memory_of(at), at.src(1)};
  }
  std::string space(UOp buffer) { return std::string(buffer.is(Op::Param) ? lang_.global : buffer.is(Op::Local) ? lang_.local : std::string_view()); }
  std::string from_memory(const std::string& x, DType d) {
    if (d.kind != Kind::Bool) return x;
    return d.lanes == 1 ? str("(", x, " != 0)") : lang_.wide ? convert(str("(", x, " != 0)"), d) : convert(str("(", x, " != (uchar", d.lanes, ")(0))"), {Kind::I8, d.lanes});
  }
  void load(UOp u) {
    UOp at = without_waits(u.src(0));
    if (at.is(Op::Reg)) return define(u, value(at));
    Address a = address(at);
    DType d = u.dtype();
    std::string p = value(a.buffer), o = value(a.offset);
    bool gated = u.nsrc() > 1;
    UOp gate = gated ? u.src(1) : UOp();
    std::string alt = gated ? value(u.src(2)) : "";
    if (d.lanes == 1) {
      std::string x = from_memory(str(p, "[", o, "]"), d);
      return define(u, gated ? str(value(gate), " ? ", x, " : ", alt) : x);
    }
    bool gather = a.offset.dtype().lanes > 1, lanes_gated = gated && gate.dtype().lanes > 1;
    DType m{d.kind == Kind::Bool ? Kind::U8 : d.kind, d.lanes};
    bool odd = d.lanes & (d.lanes - 1);  // clang reads and writes 4 elements for 3
    bool chosen_bools = lang_.wide && gated && d.kind == Kind::Bool;  // clang has no ?: of bool vectors
    if (!gather && !lanes_gated && !odd && !chosen_bools) {
      std::string x = from_memory(lang_.wide ? str("*(const ", unaligned(d), "*)(", p, " + ", o, ")") : str("vload", d.lanes, "(0, ", p, " + ", o, ")"), d);
      return define(u, gated ? str(value(gate), " ? ", x, " : ", alt) : x);
    }
    if (lang_.wide && gated && d.kind != Kind::Bool && !odd) {
      std::string g = lanes_gated ? value(gate) : str("((", type(DType(Kind::Bool, d.lanes)), ")(", value(gate), "))");
      if (!gather) return define(u, str("__builtin_masked_load(", g, ", ", p, " + ", o, ", ", alt, ")"));
      return define(u, str("__builtin_masked_gather(", g, ", ", o, ", ", p, ", ", alt, ")"));
    }
    std::vector<std::string> v;
    for (i64 i = 0; i < d.lanes; i++) {
      std::string x = from_memory(str(p, "[", gather ? lane(o, i) : str(o, " + ", i), "]"), d.scalar());
      if (gated) x = str(lanes_gated ? lane(value(gate), i) : value(gate), " ? ", x, " : ", lane(alt, i));
      if (!lang_.wide && d.kind == Kind::Bool) x = str("-(", x, ")");
      v.push_back(x);
    }
    define(u, pack(d, v));
  }
  void store(UOp u) {
    UOp at = without_waits(u.src(0)), x = u.src(1);
    if (at.is(Op::Reg)) return line(str(value(at), " = ", value(x), ";"));
    Address a = address(at);
    DType d = x.dtype();
    std::string p = value(a.buffer), o = value(a.offset), v = value(x);
    bool gated = u.nsrc() > 2 && u.src(2).dtype().kind == Kind::Bool;
    UOp gate = gated ? u.src(2) : UOp();
    std::string when = gated && gate.dtype().lanes == 1 ? str("if (", value(gate), ") ") : "";
    if (d.lanes == 1) return line(str(when, p, "[", o, "] = ", v, ";"));
    bool scatter = a.offset.dtype().lanes > 1, lanes_gated = gated && gate.dtype().lanes > 1;
    if (d.kind == Kind::Bool) {  // bytes of 0 and 1
      v = lang_.wide ? convert(v, {Kind::U8, d.lanes}) : str("convert_uchar", d.lanes, "(", v, " & (", type(d), ")(1))");
      d.kind = Kind::U8;
    }
    bool odd = d.lanes & (d.lanes - 1);
    if (!scatter && !lanes_gated && !odd) {
      if (lang_.wide) return line(str(when, "*(", unaligned(d), "*)(", p, " + ", o, ") = ", v, ";"));
      return line(str(when, "vstore", d.lanes, "(", v, ", 0, ", p, " + ", o, ");"));
    }
    if (lang_.wide && lanes_gated && !scatter && !odd) return line(str("__builtin_masked_store(", value(gate), ", ", v, ", ", p, " + ", o, ");"));
    std::string whole = str("v", count_++);
    line(str(type(d), " ", whole, " = ", v, ";"));
    for (i64 i = 0; i < d.lanes; i++)
      line(str(when, lanes_gated ? str("if (", lane(value(gate), i), ") ") : "", p, "[", scatter ? lane(o, i) : str(o, " + ", i), "] = ", lane(whole, i), ";"));
  }

  // --- statements ---------------------------------------------------------------------------------------------------------------------
  void statement(UOp u) {
    switch (u.op()) {
      case Op::Const:
      case Op::Index:
      case Op::After:
      case Op::Sink:
      case Op::Group:
      case Op::Stack: return;
      case Op::Param: {
        names_[u] = str("p", u.arg_int());
        for (UOp p : params_)
          if (p.arg_int() == u.arg_int()) {
            TG_CHECK(p.dtype() == u.dtype(), "PARAM ", u.arg_int(), " with two dtypes");
            return;
          }
        params_.push_back(u);
        return;
      }
      case Op::Var:
        names_[u] = str("n", var_number(u));
        ints_ = std::max(ints_, var_number(u) + 1);
        return;
      case Op::Special: return special(u);
      case Op::Range: {
        if (u.arg<RangeArg>().kind == AxisKind::Task) return task(u);
        names_[u] = str("r", count_++);
        line(str("for (", scalar(Kind::Index), " ", names_[u], " = 0; ", names_[u], " < ", value(u.src(0)), "; ", names_[u], "++) {"));
        depth_++;
        return;
      }
      case Op::End:
        if (u.src(0).arg<RangeArg>().kind == AxisKind::Task) return;
        depth_--;
        TG_CHECK(depth_ >= 1, "END without RANGE");
        return line("}");
      case Op::Reg:
        names_[u] = str("acc", u.arg_int());
        return line(str(type(u.dtype()), " ", names_[u], ";"));
      case Op::Row:
      case Op::Local: {
        names_[u] = str(u.is(Op::Row) ? "row" : "local", u.arg<RowArg>().number);
        TG_CHECK(u.src(0).is_const(), "an array of variable size: ", u.str());
        std::string align = lang_.wide ? " __attribute__((aligned(64)))" : "";
        return line(str(space(u), in_memory(u.dtype().kind), " ", names_[u], "[", u.src(0).as_int() * u.dtype().lanes, "]", align, ";"));
      }
      case Op::Barrier:
        TG_CHECK(!lang_.barrier.empty(), "a BARRIER on a CPU");
        return line(std::string(lang_.barrier));
      case Op::Load: return load(u);
      case Op::Store: return store(u);
      case Op::Prefetch: {
        Address a = address(u.src(0));
        std::string p = str(value(a.buffer), " + ", value(a.offset));
        return line(lang_.wide ? str("__builtin_prefetch(", p, ", 0, 2);") : str("prefetch(", p, ", 1);"));
      }
      case Op::Cast: return define(u, cast_text(u));
      case Op::Bitcast: return define(u, bitcast_text(u));
      case Op::Lookup: return lookup(u);
      case Op::Broadcast: return broadcast(u);
      case Op::Lanes: {
        std::vector<std::string> v;
        for (i64 i = 0; i < u.dtype().lanes; i++) v.push_back(str(i));
        return define(u, pack(u.dtype(), v));
      }
      case Op::HReduce: return define(u, reduce_text(u));
      case Op::Extract: {
        std::string x = lane(value(u.src(0)), u.arg_int());
        return define(u, !lang_.wide && u.dtype().kind == Kind::Bool ? str(x, " != 0") : x);
      }
      case Op::Pack: {
        std::vector<std::string> v;
        for (UOp s : u.src()) v.push_back(!lang_.wide && u.dtype().kind == Kind::Bool ? str("-(char)(", value(s), ")") : value(s));
        return define(u, pack(u.dtype(), v));
      }
      case Op::Shuffle: {
        std::string a = value(u.src(0)), b = value(u.src(1));
        i64 n = u.src(0).dtype().lanes;
        if (lang_.wide) return define(u, str("__builtin_shufflevector(", a, ", ", b, ", ", join(u.arg_ints()), ")"));
        std::vector<std::string> v;
        for (i64 i : u.arg_ints()) v.push_back(i < n ? lane(a, i) : lane(b, i - n));
        return define(u, pack(u.dtype(), v));
      }
      default:
        TG_CHECK(is_alu(u.op()), "not a linear op: ", u.str());
        return define(u, alu_text(u));
    }
  }
  // One instruction for 16 lanes of 32 numbers, where the compiler has it; else element by element from memory.
  void lookup(UOp u) {
    TG_CHECK(lang_.wide, lang_.name, " has no LOOKUP");
    DType d = u.dtype();
    i64 n = i64(u.arg_ints().size());
    std::string list, at = value(u.src(0));
    for (i64 v : u.arg_ints()) list += str(list.empty() ? "" : ", ", number(konst(d.scalar(), v)));
    std::string table = str("static const ", scalar(d.kind), " {}[", n, "] __attribute__((aligned(64))) = {", list, "};\n"), name;
    for (auto& [text, have] : tables_)
      if (text == table) name = have;
    if (name.empty()) {
      name = str("table", tables_.size());
      tables_.push_back({table, name});
      head_ += "  " + table.replace(table.find("{}"), 2, name);
    }
    std::vector<std::string> v;
    for (i64 i = 0; i < d.lanes; i++) v.push_back(str(name, "[", d.lanes == 1 ? at : lane(at, i), " & ", n - 1, "]"));
    if (d.lanes == 1) return define(u, v[0]);
    names_[u] = str("v", count_++);
    std::string start = str(type(d), " ", names_[u], " = ");
    bool one = d.lanes == 16 && n == 32;
    if (one) {
      add_typedef("typedef int words16 __attribute__((vector_size(64)));\n");
      line("#ifdef __AVX512F__");
      line(str(start, "(", type(d), ")__builtin_ia32_vpermi2vard512(*(const words16*)", name, ", (words16)", at, ", *(const words16*)(", name, " + 16));"));
      line("#else");
    }
    line(str(start, pack(d, v), ";"));
    if (one) line("#endif");
  }
  void broadcast(UOp u) {
    std::string x = value(u.src(0));
    if (!lang_.wide && u.dtype().kind == Kind::Bool) x = str("-(char)(", x, ")");
    define(u, str("(", type(u.dtype()), ")(", x, ")"));
  }
  // The loop over tasks is the launch.
  void task(UOp u) {
    if (lang_.group_id.empty()) names_[u] = "task";
    else define(u, fill(lang_.group_id, {"0"}));
  }
  void special(UOp u) {
    i64 a = u.arg_int();
    if (a == 0) {
      TG_CHECK(lang_.group_id.empty(), "a CPU task on ", lang_.name);
      names_[u] = "task";
      return;
    }
    TG_CHECK(!lang_.group_id.empty() && a >= 1 && a <= 6, "SPECIAL ", a, " on ", lang_.name);
    define(u, fill(a <= 3 ? lang_.group_id : lang_.local_id, {str((a - 1) % 3)}));
  }
  std::string signature(std::string_view entry) {
    std::sort(params_.begin(), params_.end(), [](UOp a, UOp b) { return a.arg_int() < b.arg_int(); });
    if (lang_.group_id.empty()) {
      for (UOp p : params_) {
        std::string t = in_memory(p.dtype().kind);
        // Buffers of one launch do not overlap: an in-place output is the same parameter as its input.
        head_ += str("  ", t, "* restrict p", p.arg_int(), " = (", t, "*)args[", p.arg_int(), "];\n");
      }
      for (i64 i = 0; i < ints_; i++) head_ += str("  i64 n", i, " = vars[", i, "];\n");
      return str(lang_.kernel, " ", entry, "(void* const* args, const i64* vars, i64 task)");
    }
    // A buffer and an offset in bytes: one allocation holds many tensors.
    std::vector<std::string> all;
    for (UOp p : params_) {
      i64 i = p.arg_int();
      std::string t = in_memory(p.dtype().kind);
      all.push_back(str(lang_.global, scalar(Kind::U8), "* b", i, ", ", scalar(Kind::U64), " o", i));
      head_ += str("  ", lang_.global, t, "* p", i, " = (", lang_.global, t, "*)(b", i, " + o", i, ");\n");
    }
    for (i64 i = 0; i < ints_; i++) all.push_back(str(scalar(Kind::I64), " n", i));
    return str(lang_.kernel, " ", entry, "(", join(all), ")");
  }

  std::span<const UOp> linear_;
  const Lang& lang_;
  Memo<std::string> names_;
  std::vector<UOp> params_;
  i64 ints_ = 0;  // of a launch
  std::vector<std::string> typedefs_;
  std::string head_, body_;
  std::vector<std::pair<std::string, std::string>> tables_;  // of LOOKUPs: text, name
  int depth_ = 1, count_ = 0;
};

}  // namespace

std::string render(std::span<const UOp> linear, std::string_view entry, const Lang& lang) { return Writer(linear, lang).program(entry); }

}  // namespace tg
