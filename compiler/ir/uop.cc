#include "ir/uop.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/hash.h"

namespace tg {

bool op_from_name(std::string_view s, Op* out) {
  for (int i = 0; i < kOps; i++)
    if (kOpInfo[i].name == s) return *out = Op(i), true;
  return false;
}

// --- arena ------------------------------------------------------------------------------------------------------------------------------
namespace {
thread_local Arena* t_arena = nullptr;
constexpr size_t kChunk = 1 << 18;
}  // namespace

Arena::Arena() : table_(1 << 12), lists_(1 << 8), strings_(1 << 6) {}
Arena::~Arena() = default;
Arena::Scope::Scope(Arena& a) : before_(t_arena) { t_arena = &a; }
Arena::Scope::~Scope() { t_arena = before_; }
Arena& Arena::current() {
  TG_CHECK(t_arena, "a UOp is built outside any Arena::Scope");
  return *t_arena;
}

void* Arena::alloc(size_t bytes) {
  bytes = (bytes + 7) & ~size_t(7);
  if (size_t(end_ - p_) < bytes) {
    size_t n = std::max(bytes, kChunk);
    chunks_.emplace_back(new char[n]);
    p_ = chunks_.back().get();
    end_ = p_ + n;
  }
  void* r = p_;
  p_ += bytes;
  return r;
}

void Arena::grow() {
  std::vector<const Node*> bigger(table_.size() * 2);
  for (const Node* n : table_) {
    if (!n) continue;
    size_t i = n->hash & (bigger.size() - 1);
    while (bigger[i]) i = (i + 1) & (bigger.size() - 1);
    bigger[i] = n;
  }
  table_.swap(bigger);
}

UOp Arena::make(Op op, DType dtype, std::span<const UOp> src, Arg arg) {
  TG_CHECK(src.size() < 65536, "a node has at most 65535 sources");
  u64 h = mix(u64(op) | u64(dtype.kind) << 8 | u64(dtype.lanes) << 16, arg.bits);
  for (UOp s : src) {
    TG_CHECK(s, "null source of ", info(op).name);
    h = mix(h, s.id());
  }
  u32 hash = u32(h ^ h >> 32);
  size_t mask = table_.size() - 1, i = hash & mask;
  for (; table_[i]; i = (i + 1) & mask) {
    const Node* n = table_[i];
    if (n->hash == hash && n->op == op && n->dtype == dtype && n->arg.bits == arg.bits && n->nsrc == src.size() &&
        (src.empty() || !std::memcmp(n->srcs, src.data(), src.size_bytes())))
      return UOp(n);
  }
  Node* n = static_cast<Node*>(alloc(sizeof(Node) + src.size_bytes()));
  n->op = op, n->dtype = dtype, n->nsrc = u16(src.size()), n->id = n_++, n->hash = hash, n->arg = arg, n->src_ops = {};
  for (size_t k = 0; k < src.size(); k++) {
    n->srcs[k] = src[k];
    n->src_ops = n->src_ops | src[k].op();
  }
  table_[i] = n;
  if (size_t(n_) * 2 > table_.size()) grow();
  return UOp(n);
}

namespace {
// Finds or adds a variable-length record in an open-addressing table of pointers to {u32 n; T v[]}.
template <class Rec, class T, class AllocFn>
const Rec* intern(std::vector<const void*>& table, u32& count, std::span<const T> v, AllocFn alloc) {
  auto slot = [&](std::vector<const void*>& t, std::span<const T> x) {
    size_t i = hash64(x.data(), x.size_bytes()) & (t.size() - 1);
    for (; t[i]; i = (i + 1) & (t.size() - 1)) {
      const Rec* r = static_cast<const Rec*>(t[i]);
      if (r->n == x.size() && (x.empty() || !std::memcmp(r->v, x.data(), x.size_bytes()))) break;
    }
    return i;
  };
  size_t i = slot(table, v);
  if (table[i]) return static_cast<const Rec*>(table[i]);
  if (size_t(count) * 2 >= table.size()) {
    std::vector<const void*> bigger(table.size() * 2);
    for (const void* p : table)
      if (p) {
        const Rec* r = static_cast<const Rec*>(p);
        bigger[slot(bigger, std::span<const T>(r->v, r->n))] = p;
      }
    table.swap(bigger);
    i = slot(table, v);
  }
  Rec* r = static_cast<Rec*>(alloc(sizeof(Rec) + v.size_bytes()));
  r->n = u32(v.size());
  if (!v.empty()) std::memcpy(r->v, v.data(), v.size_bytes());
  table[i] = r;
  count++;
  return r;
}
}  // namespace

Arg Arena::ints(IntSpan v) {
  Arg a;
  a.ints = intern<IntList, i64>(lists_, n_lists_, v, [this](size_t n) { return alloc(n); });
  return a;
}
Arg Arena::str(std::string_view s) {
  Arg a;
  a.str = intern<StrArg, char>(strings_, n_strings_, std::span(s.data(), s.size()), [this](size_t n) { return alloc(n); });
  return a;
}

// --- numbers ----------------------------------------------------------------------------------------------------------------------------
i64 wrap_int(Kind k, i64 v) {
  if (k == Kind::Bool) return v != 0;
  int n = bits(k);
  if (n == 64) return v;
  u64 m = u64(v) & ((u64(1) << n) - 1);
  return is_uint(k) ? i64(m) : i64(m << (64 - n)) >> (64 - n);
}

f64 round_float(Kind k, f64 v) {
  switch (k) {
    case Kind::F64: return v;
    case Kind::F32: return f32(v);
    case Kind::F16:
    case Kind::BF16: {
      if (!std::isfinite(v) || v == 0) return v;
      int mant = k == Kind::F16 ? 10 : 7, emin = k == Kind::F16 ? -14 : -126;
      f64 most = k == Kind::F16 ? 65504.0 : std::ldexp(255.0 / 128, 127);
      int e = std::max(std::ilogb(v), emin);
      f64 unit = std::ldexp(1.0, e - mant);
      f64 r = std::nearbyint(v / unit) * unit;  // exact: a power of two; the default mode rounds ties to even
      return std::abs(r) > most ? std::copysign(std::numeric_limits<f64>::infinity(), v) : r;
    }
    default: TG_CHECK(false, "no arithmetic in ", name(k)); return 0;
  }
}

// --- builders ---------------------------------------------------------------------------------------------------------------------------
UOp node(Op op, DType d, std::span<const UOp> src) {
  Arg a;
  a.bits = 0;
  TG_CHECK(info(op).arg == ArgKind::None, info(op).name, " needs an argument");
  return Arena::current().make(op, d, src, a);
}
UOp node(Op op, DType d, std::span<const UOp> src, i64 v) {
  Arg a;
  a.i = v;
  TG_CHECK(info(op).arg == ArgKind::Int, info(op).name, " takes no integer");
  return Arena::current().make(op, d, src, a);
}
UOp node(Op op, DType d, std::span<const UOp> src, IntSpan v) {
  TG_CHECK(info(op).arg == ArgKind::Ints, info(op).name, " takes no list");
  Arena& ar = Arena::current();
  return ar.make(op, d, src, ar.ints(v));
}
UOp node_str(Op op, DType d, std::span<const UOp> src, std::string_view s) {
  TG_CHECK(info(op).arg == ArgKind::Str, info(op).name, " takes no string");
  Arena& ar = Arena::current();
  return ar.make(op, d, src, ar.str(s));
}

UOp with_src(UOp u, std::span<const UOp> src) {
  if (is_alu(u.op()) && u.dtype().lanes == 1) {
    UOp r = alu(u.op(), src);
    if (r.dtype() == u.dtype()) return r;
  }
  if (u.op() == Op::Cast && u.dtype().lanes == 1) return cast(src[0], u.dtype());
  return Arena::current().make(u.op(), u.dtype(), src, u.node()->arg);
}
UOp with_dtype(UOp u, DType d) { return Arena::current().make(u.op(), d, u.src(), u.node()->arg); }

UOp konst_bits(DType d, u64 b) {
  Arg a;
  a.bits = b;
  return Arena::current().make(Op::Const, d, {}, a);
}
UOp konst_f(DType d, f64 v) {
  TG_CHECK(is_float(d), "konst_f of ", name(d));
  f64 r = is_storage(d.kind) ? v : round_float(d.kind, v);
  return konst_bits(d, std::bit_cast<u64>(r));
}
UOp konst(DType d, i64 v) { return is_float(d) ? konst_f(d, f64(v)) : konst_bits(d, u64(wrap_int(d.kind, v))); }

UOp identity(ReduceKind k, DType d) {
  constexpr f64 inf = std::numeric_limits<f64>::infinity();
  switch (k) {
    case ReduceKind::Add: return konst(d, 0);
    case ReduceKind::Mul: return konst(d, 1);
    case ReduceKind::Max:
    case ReduceKind::MaxAny: return is_float(d) ? konst_f(d, -inf) : konst(d, int_min(d.kind));
    case ReduceKind::Min: return is_float(d) ? konst_f(d, inf) : konst(d, d.kind == Kind::U64 ? -1 : int_max(d.kind));
    case ReduceKind::And: return konst(d, -1);
    case ReduceKind::Or: return konst(d, 0);
  }
  return {};
}

UOp var(std::string_view nm, i64 lo, i64 hi, i64 multiple) {
  UOp s[] = {idx(lo), idx(hi), idx(multiple)};
  return node_str(Op::Var, Kind::Index, s, nm);
}
UOp range(UOp size, const RangeArg& a) { return node(Op::Range, Kind::Index, {size}, a.ints()); }
UOp stack(std::span<const UOp> v) { return node(Op::Stack, Kind::Index, v); }

bool UOp::is_const(i64 v) const {
  if (op() != Op::Const) return false;
  if (is_float(dtype())) return arg_bits() == std::bit_cast<u64>(f64(v));
  return i64(arg_bits()) == v;
}
i64 UOp::as_int() const {
  TG_CHECK(op() == Op::Const && !is_float(dtype()), "not an integer constant: ", str());
  return i64(arg_bits());
}
f64 UOp::as_float() const {
  TG_CHECK(op() == Op::Const && is_float(dtype()), "not a float constant: ", str());
  return std::bit_cast<f64>(arg_bits());
}

namespace {
i64 floor_div(i64 a, i64 b) { return a / b - ((a % b != 0) && ((a % b < 0) != (b < 0))); }

// Folds an integer op on wrapped values of kind k; false where it must stay (division by zero, shifts out of range).
bool fold_int(Op op, Kind k, i64 a, i64 b, i64* out) {
  bool uns = k == Kind::U64;
  u64 ua = u64(a), ub = u64(b);
  switch (op) {
    case Op::Add: *out = i64(ua + ub); return true;
    case Op::Sub: *out = i64(ua - ub); return true;
    case Op::Mul: *out = i64(ua * ub); return true;
    case Op::Div:
    case Op::Rem:
      if (b == 0 || (b == -1 && !uns && a == std::numeric_limits<i64>::min())) return false;
      *out = op == Op::Div ? (uns ? i64(ua / ub) : a / b) : (uns ? i64(ua % ub) : a % b);
      return true;
    case Op::FloorDiv:
    case Op::FloorMod:
      if (b == 0 || (b == -1 && !uns && a == std::numeric_limits<i64>::min())) return false;
      if (uns) *out = op == Op::FloorDiv ? i64(ua / ub) : i64(ua % ub);
      else *out = op == Op::FloorDiv ? floor_div(a, b) : i64(ua - u64(floor_div(a, b)) * ub);
      return true;
    case Op::Max: *out = (uns ? ua > ub : a > b) ? a : b; return true;
    case Op::Min: *out = (uns ? ua < ub : a < b) ? a : b; return true;
    case Op::And: *out = a & b; return true;
    case Op::Or: *out = a | b; return true;
    case Op::Xor: *out = a ^ b; return true;
    case Op::Shl:
      if (b < 0 || b >= bits(k)) return false;
      *out = i64(ua << b);
      return true;
    case Op::Shr:
      if (b < 0 || b >= bits(k)) return false;
      *out = is_uint(k) ? i64(ua >> b) : a >> b;
      return true;
    case Op::Lt: *out = uns ? ua < ub : a < b; return true;
    case Op::Le: *out = uns ? ua <= ub : a <= b; return true;
    case Op::Eq: *out = a == b; return true;
    case Op::Ne: *out = a != b; return true;
    default: return false;
  }
}
}  // namespace

UOp alu(Op op, std::span<const UOp> src) {
  TG_CHECK(is_alu(op) && int(src.size()) == info(op).srcs, "alu(", info(op).name, ") with ", src.size(), " sources");
  UOp s[3];
  for (size_t i = 0; i < src.size(); i++) s[i] = src[i];
  if (is_binary(op)) {
    TG_CHECK(s[0].dtype() == s[1].dtype(), info(op).name, " of ", name(s[0].dtype()), " and ", name(s[1].dtype()), ": ", s[0].str(), " , ", s[1].str());
    if (kCommutative.has(op) && s[0].is_const() && !s[1].is_const()) std::swap(s[0], s[1]);
  }
  DType d = op == Op::Where ? s[1].dtype() : s[0].dtype();
  if (op == Op::Where)
    TG_CHECK(s[0].dtype().kind == Kind::Bool && s[1].dtype() == s[2].dtype(), "Where of ", name(s[0].dtype()), ", ", name(s[1].dtype()), ", ",
             name(s[2].dtype()));
  DType out = kComparison.has(op) ? DType(Kind::Bool, d.lanes) : d;
  if (d.lanes == 1) {
    if (op == Op::Where && s[0].is_const()) return s[0].as_int() ? s[1] : s[2];
    if (op == Op::Where && s[1] == s[2]) return s[1];
    bool integer = !is_float(d) && op != Op::Where;
    if (integer && is_binary(op) && s[0].is_const() && s[1].is_const()) {
      i64 v;
      if (fold_int(op, d.kind, s[0].as_int(), s[1].as_int(), &v)) return konst(out, v);
    }
    if (integer && op == Op::Neg && s[0].is_const()) return konst(d, i64(0 - u64(s[0].as_int())));
    if (integer && op == Op::Not && s[0].is_const()) return konst(d, d.kind == Kind::Bool ? !s[0].as_int() : ~s[0].as_int());
    if (integer && op == Op::Abs && s[0].is_const()) return konst(d, s[0].as_int() < 0 && !is_uint(d) ? i64(0 - u64(s[0].as_int())) : s[0].as_int());
    // Identities that hold for every integer; the rest are rows of rules/.
    if (integer && is_binary(op) && s[1].is_const()) {
      if ((op == Op::Add || op == Op::Sub || op == Op::Xor || op == Op::Shl || op == Op::Shr) && s[1].is_const(0)) return s[0];
      if ((op == Op::Mul || op == Op::FloorDiv || op == Op::Div) && s[1].is_const(1) && d.kind != Kind::Bool) return s[0];
      if (op == Op::Mul && s[1].is_const(0)) return s[1];
    }
  }
  Arg a;
  a.bits = 0;
  return Arena::current().make(op, out, std::span(s, src.size()), a);
}

UOp cast(UOp x, DType d) {
  if (x.dtype() == d) return x;
  if (x.is_const() && !is_storage(d.kind) && !is_storage(x.dtype().kind)) {
    if (is_float(x.dtype())) {
      f64 v = x.as_float();
      if (is_float(d)) return konst_f(d, v);
      if (d.kind == Kind::Bool) return konst(d, v != 0);  // NaN is true
      if (std::trunc(v) >= f64(int_min(d.kind)) && std::trunc(v) <= f64(int_max(d.kind)) && std::abs(v) < 9e18) return konst(d, i64(v));
    } else {
      // Rounded once: only where f64 holds the integer.
      if (is_float(d) && x.as_int() >= -(i64(1) << 53) && x.as_int() <= i64(1) << 53 && (x.dtype().kind != Kind::U64 || x.as_int() >= 0)) return konst_f(d, f64(x.as_int()));
      if (!is_float(d)) return konst(d, x.as_int());
    }
  }
  return node(Op::Cast, d, {x});
}
UOp bitcast(UOp x, DType d) {
  if (x.dtype() == d) return x;
  TG_CHECK(bits(x.dtype()) == bits(d), "bitcast of ", name(x.dtype()), " to ", name(d));
  return node(Op::Bitcast, d, {x});
}
UOp where(UOp c, UOp a, UOp b) { return alu(Op::Where, {c, a, b}); }
UOp operator+(UOp a, UOp b) { return alu(Op::Add, {a, b}); }
UOp operator-(UOp a, UOp b) { return alu(Op::Sub, {a, b}); }
UOp operator*(UOp a, UOp b) { return alu(Op::Mul, {a, b}); }
UOp operator/(UOp a, UOp b) { return alu(is_float(a.dtype()) ? Op::Div : Op::FloorDiv, {a, b}); }
UOp operator%(UOp a, UOp b) { return alu(is_float(a.dtype()) ? Op::Rem : Op::FloorMod, {a, b}); }
UOp operator&(UOp a, UOp b) { return alu(Op::And, {a, b}); }
UOp operator|(UOp a, UOp b) { return alu(Op::Or, {a, b}); }
UOp operator^(UOp a, UOp b) { return alu(Op::Xor, {a, b}); }
UOp operator-(UOp a) { return alu(Op::Neg, {a}); }
UOp lt(UOp a, UOp b) { return alu(Op::Lt, {a, b}); }
UOp le(UOp a, UOp b) { return alu(Op::Le, {a, b}); }
UOp eq(UOp a, UOp b) { return alu(Op::Eq, {a, b}); }
UOp ne(UOp a, UOp b) { return alu(Op::Ne, {a, b}); }
UOp max(UOp a, UOp b) { return alu(Op::Max, {a, b}); }
UOp min(UOp a, UOp b) { return alu(Op::Min, {a, b}); }
UOp logical_not(UOp a) { return alu(Op::Not, {a}); }

// --- walking ----------------------------------------------------------------------------------------------------------------------------
std::vector<UOp> toposort(std::span<const UOp> roots) {
  std::vector<UOp> out;
  Memo<u8> seen;
  std::vector<std::pair<UOp, u32>> stack;
  for (UOp r : roots) {
    if (seen[r]) continue;
    seen[r] = 1;
    stack.push_back({r, 0});
    while (!stack.empty()) {
      auto& [u, next] = stack.back();
      if (next == u.nsrc()) {
        out.push_back(u);
        stack.pop_back();
        continue;
      }
      UOp s = u.src(next++);
      if (!seen[s]) {
        seen[s] = 1;
        stack.push_back({s, 0});
      }
    }
  }
  return out;
}

UOp substitute(UOp root, std::span<const std::pair<UOp, UOp>> map) {
  Memo<UOp> to;
  for (auto [a, b] : map) to[a] = b;
  std::vector<std::pair<UOp, u32>> stack;
  std::vector<UOp> src;
  if (to[root]) return to[root];
  stack.push_back({root, 0});
  while (!stack.empty()) {
    auto& [u, next] = stack.back();
    if (next < u.nsrc()) {
      UOp s = u.src(next++);
      if (!to[s]) stack.push_back({s, 0});
      continue;
    }
    src.clear();
    bool changed = false;
    for (UOp s : u.src()) {
      src.push_back(to[s]);
      changed |= to[s] != s;
    }
    to[u] = changed ? with_src(u, src) : u;
    stack.pop_back();
  }
  return to[root];
}

}  // namespace tg
