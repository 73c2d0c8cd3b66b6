#include "codegen/decompose.h"

#include <cmath>

#include "base/error.h"
#include "codegen/decompose_float.h"
#include "codegen/narrow_float.h"
#include "codegen/transcendental.h"
#include "ir/bounds.h"
#include "ir/eval_scalar.h"
#include "ir/id_map.h"
#include "ir/loops.h"
#include "target/target.h"

namespace tg {
namespace {

DType like(UOp x, Kind k) { return {k, x.dtype().lanes}; }
UOp c(UOp x, i64 v) { return konst(x.dtype(), v); }
UOp shl(UOp a, i64 n) { return alu(Op::Shl, {a, c(a, n)}); }
UOp shr(UOp a, i64 n) { return alu(Op::Shr, {a, c(a, n)}); }
bool narrow_float(Kind k) { return k == Kind::F16 || k == Kind::BF16 || (is_float(k) && is_storage(k)); }
bool small_int(Kind k) { return is_int(k) && is_storage(k); }

class Decomposer {
 public:
  explicit Decomposer(const DecompFlags& f) : flags_(f) {}

  UOp legal(UOp root) {
    std::vector<std::pair<UOp, u32>> stack{{root, 0}};
    std::vector<UOp> src;
    while (!stack.empty()) {
      auto& [u, next] = stack.back();
      if (to_.find(u)) {
        stack.pop_back();
        continue;
      }
      if (next < u.nsrc()) {
        UOp s = u.src(next++);
        if (!to_.find(s)) stack.push_back({s, 0});
        continue;
      }
      src.clear();
      for (UOp s : u.src()) src.push_back(*to_.find(s));
      UOp done = u;
      stack.pop_back();
      UOp r = visit(done, src);
      to_.set(done, r);
      if (!to_.find(r)) to_.set(r, r);
    }
    return *to_.find(root);
  }

 private:
  // A node that is legal as it stands over legal sources.
  UOp final(UOp u) {
    if (!to_.find(u)) to_.set(u, u);
    return u;
  }
  UOp final_alu(Op op, std::initializer_list<UOp> s) { return final(alu(op, s)); }

  // How a value of kind k is held after decomposition.
  Kind held(Kind k) {
    if (k == Kind::F16 && flags_.f16) return k;
    if (narrow_float(k)) return holder(k);
    return small_int(k) ? Kind::U8 : k;
  }
  DType held(DType d) { return {held(d.kind), d.lanes}; }

  // The f32 value of a held narrow float, and back.
  UOp widen(Kind k, UOp b) {
    if (k == Kind::F16 && flags_.f16) return final(node(Op::Cast, like(b, Kind::F32), {b}));
    return narrow_to_f32(k, b);
  }
  UOp narrowed(Kind k, UOp x) {
    if (k == Kind::F16 && flags_.f16) return final(node(Op::Cast, like(x, Kind::F16), {legal(x)}));
    if (k == Kind::BF16 && flags_.bf16) return final(node(Op::Bitcast, like(x, Kind::U16), {final(node(Op::Cast, like(x, Kind::BF16), {legal(x)}))}));
    return narrow_from_f32(k, x);
  }

  // `s`: the sources of u, made legal.
  UOp visit(UOp u, std::vector<UOp>& s) {
    Kind k = u.dtype().kind;
    switch (u.op()) {
      case Op::Const: return held(k) == k ? u : konst_bits(held(u.dtype()), to_bits(k, u.arg_bits()));
      case Op::Cast: return legal(cast_to(k, u.src(0).dtype().kind, s[0]));
      case Op::Bitcast: return s[0].dtype().kind == held(k) ? s[0] : rebuilt(u, s);
      case Op::Load: return packed(u.src(0)) ? legal(load_packed(u, s)) : rebuilt(u, s);
      case Op::Store: return packed(u.src(0)) && !u.src(0).is(Op::Reg) ? legal(store_packed(u, s)) : rebuilt(u, s);
      case Op::Reduce:
      case Op::HReduce: return reduce(u, s);
      default: break;
    }
    if (!is_alu(u.op())) return rebuilt(u, s);
    if (u.in(kTranscendental)) return transcendental(u, s);
    Kind of = u.src(u.is(Op::Where) ? 1 : 0).dtype().kind;
    if (u.is(Op::Where)) return rebuilt(u, s);
    TG_CHECK(!is_storage(of), info(u.op()).name, " on the storage kind ", name(of), ": cast it first: ", u.str());
    if (narrow_float(of)) return narrow_alu(u, of, s);
    if (is_float(of)) return float_alu(u, s);
    if (of == Kind::Bool) return bool_alu(u, s);
    return int_alu(u, s);
  }

  UOp rebuilt(UOp u, std::vector<UOp>& s) {
    DType d = held(u.dtype());
    bool same = d == u.dtype();
    for (size_t i = 0; i < s.size(); i++) same &= s[i] == u.src(i);
    if (same) return u;
    return Arena::current().make(u.op(), d, s, u.node()->arg);
  }

  // --- memory of kinds under 8 bits ---------------------------------------------------------------------------------------------------
  static bool packed(UOp index) {
    UOp b = memory_of(index);
    return b.is(Op::Param) && bits(b.dtype().kind) < 8;
  }
  // Element offset to byte and shift. `at` is the INDEX made legal.
  struct Bits {
    UOp buffer, byte, shift;
    int width;
    i64 mask;
  };
  Bits place(UOp at, Kind k, UOp offset) {
    int w = bits(k), per = w == 4 ? 1 : 2;  // log2 of elements a byte
    UOp within = offset & c(offset, (1 << per) - 1);
    return {at.src(0), shr(offset, per), shl(node(Op::Cast, like(offset, Kind::U8), {within}), w == 4 ? 2 : 1), w, (1 << w) - 1};
  }
  // n neighbouring elements as one offset each.
  static UOp lane_offsets(UOp offset, int n) {
    if (n == 1 || offset.dtype().lanes == n) return offset;
    DType d(offset.dtype().kind, u16(n));
    return node(Op::Broadcast, d, {offset}) + node(Op::Lanes, d, {});
  }
  UOp load_packed(UOp u, std::vector<UOp>& s) {
    UOp at = without_waits(s[0]);
    Bits b = place(at, u.dtype().kind, lane_offsets(at.src(1), u.dtype().lanes));
    DType d(Kind::U8, u.dtype().lanes);
    UOp index = node(Op::Index, Kind::U8, {b.buffer, b.byte});
    UOp byte;
    if (u.nsrc() > 1) byte = final(node(Op::Load, d, {legal(index), s[1], konst(d, 0)}));
    else byte = final(node(Op::Load, d, {legal(index)}));
    UOp v = final_alu(Op::Shr, {byte, legal(b.shift)}) & konst(d, b.mask);
    if (u.nsrc() == 1) return v;
    UOp gate = s[1];
    if (gate.dtype().lanes != d.lanes) gate = node(Op::Broadcast, {Kind::Bool, d.lanes}, {gate});
    return where(gate, v, s[2]);
  }
  UOp store_packed(UOp u, std::vector<UOp>& s) {
    UOp at = without_waits(s[0]), offset = at.src(1), v = s[1];
    Kind k = memory_of(u.src(0)).dtype().kind;
    int n = v.dtype().lanes, per = 8 / bits(k);
    std::vector<UOp> rest(s.begin() + 2, s.end());
    bool lane_gate = !rest.empty() && rest[0].dtype().kind == Kind::Bool && rest[0].dtype().lanes > 1;
    if (n > 1 && n % per == 0 && offset.dtype().lanes == 1 && !lane_gate && const_factor(without_waits(u.src(0)).src(1)) % per == 0) {
      // Whole bytes: every per-th lane from each position, shifted into its place.
      UOp sum;
      for (int i = 0; i < per; i++) {
        Ints pick;
        for (int j = i; j < n; j += per) pick.push_back(j);
        DType d(Kind::U8, u16(n / per));
        UOp part = n == per ? node(Op::Extract, Kind::U8, {v}, i64(i)) : node(Op::Shuffle, d, {v, v}, pick);
        part = shl(part, i * bits(k));
        sum = sum ? sum | part : part;
      }
      return stored({at.src(0), shr(offset, per == 2 ? 1 : 2), {}, 0, 0}, sum, rest);
    }
    if (n == 1) return merged(place(at, k, offset), v, rest);
    std::vector<UOp> all;
    for (int i = 0; i < n; i++) {
      UOp o = offset.dtype().lanes == 1 ? offset + i : node(Op::Extract, offset.dtype().scalar(), {offset}, i64(i));
      std::vector<UOp> mine = rest;
      if (lane_gate) mine[0] = node(Op::Extract, Kind::Bool, {rest[0]}, i64(i));
      all.push_back(merged(place(at, k, o), node(Op::Extract, Kind::U8, {v}, i64(i)), mine));
    }
    return all.size() == 1 ? all[0] : node(Op::Group, Kind::Void, std::span<const UOp>(all));
  }
  // Each sees the byte that the one before it left: lanes, copies of a tile and nests that follow one another may share a byte.
  UOp merged(Bits b, UOp v, const std::vector<UOp>& rest) {
    if (UOp* before = last_store_.find(memory_of(b.buffer))) b.buffer = final(node(Op::After, b.buffer.dtype(), {b.buffer, *before}));
    UOp shift = legal(b.shift);
    UOp hole = final_alu(Op::Shl, {konst(Kind::U8, b.mask), shift});
    UOp index = legal(node(Op::Index, Kind::U8, {b.buffer, b.byte}));
    // Nothing is read where nothing is stored: the address may be outside.
    bool gated = !rest.empty() && rest[0].dtype().kind == Kind::Bool;
    UOp old = final(gated ? node(Op::Load, Kind::U8, {index, rest[0], konst(Kind::U8, 0)}) : node(Op::Load, Kind::U8, {index}));
    return stored(b, (old & alu(Op::Not, {hole})) | final_alu(Op::Shl, {legal(v), shift}), rest);
  }
  UOp stored(Bits b, UOp v, const std::vector<UOp>& rest) {
    std::vector<UOp> s{legal(node(Op::Index, Kind::U8, {b.buffer, b.byte})), legal(v)};
    s.insert(s.end(), rest.begin(), rest.end());
    UOp store = final(node(Op::Store, Kind::Void, std::span<const UOp>(s)));
    last_store_.set(memory_of(b.buffer), store);
    return store;
  }

  // --- casts --------------------------------------------------------------------------------------------------------------------------
  // x: held, of kind `from`. The result may hold ops that are not legal yet.
  UOp cast_to(Kind to, Kind from, UOp x) {
    if (to == from) return x;
    if (narrow_float(from)) return cast_to(to, Kind::F32, widen(from, x));
    if (small_int(from)) {
      UOp v = node(Op::Cast, like(x, Kind::I32), {x});
      if (is_sint(from)) {
        i64 sign = i64(1) << (bits(from) - 1);
        v = (v ^ c(v, sign)) - c(v, sign);
      }
      return cast_to(to, Kind::I32, v);
    }
    if (to == Kind::Bool) return ne(x, c(x, 0));
    if (narrow_float(to)) {
      // f8e8m0 is defined from the f32 value; integers beyond f32's 24 bits are beyond f16's largest number.
      bool fits = from == Kind::Bool || bits(from) < 32 || to == Kind::F8E8M0 || (to == Kind::F16 && from != Kind::F64);
      if (from == Kind::F32) return narrowed(to, x);
      return narrowed(to, fits ? final_cast(Kind::F32, x) : odd_f32(x));
    }
    if (is_float(from) && !is_float(to)) return float_to_int(to, x);
    if (small_int(to)) {
      UOp b = x.dtype().kind == Kind::U8 ? x : final_cast(Kind::U8, x);
      return b & c(b, (i64(1) << bits(to)) - 1);
    }
    return final_cast(to, x);
  }
  UOp final_cast(Kind to, UOp x) { return final(node(Op::Cast, like(x, to), {legal(x)})); }

  // round(v) + z, a whole number: cut off before it is rounded, so that rounding and the cast are one instruction, and moved as an integer. NaN
  // gives the lower end.
  UOp rounded_to_int(Kind to, UOp x) {
    f64 zero = 0;
    if (x.is(Op::Add) && x.src(1).is_const()) zero = x.src(1).as_float(), x = x.src(0);
    if (!x.is(Op::Round) || x.dtype().kind != Kind::F32 || zero != std::nearbyint(zero) || std::abs(zero) > 0x1p15 || bits(to) > 16) return {};
    UOp y = x.src(0), lo = c(y, -i64(zero)), hi = c(y, int_max(to) - i64(zero));
    y = where(lt(lo, y), y, lo);
    y = where(lt(y, hi), y, hi);
    UOp i = final_cast(Kind::I32, alu(Op::Round, {y}));
    return cast_to(to, Kind::I32, zero == 0 ? i : i + c(i, i64(zero)));
  }

  UOp float_to_int(Kind to, UOp x) {
    UOp zero = c(x, 0);
    if (bits(to) < 32) {  // both ends are floats
      if (is_uint(to))
        if (UOp r = rounded_to_int(to, x)) return r;
      UOp lo = c(x, int_min(to)), hi = c(x, int_max(to));
      // Each an instruction that gives its last operand where either is NaN: with 0 at the lower end that is all.
      UOp y = is_uint(to) ? x : where(eq(x, x), x, zero);
      y = where(lt(lo, y), y, lo);
      y = where(lt(y, hi), y, hi);
      UOp i = final_cast(Kind::I32, y);
      return cast_to(to, Kind::I32, i);
    }
    bool uns = is_uint(to);
    f64 end = uns ? (bits(to) == 32 ? 0x1p32 : 0x1p64) : (bits(to) == 32 ? 0x1p31 : 0x1p63);
    UOp above = le(konst_f(x.dtype(), end), x);
    UOp below = uns ? lt(x, zero) : lt(x, konst_f(x.dtype(), -end));
    UOp in = alu(Op::And, {alu(Op::Not, {alu(Op::Or, {above, below})}), eq(x, x)});
    UOp i = final_cast(to, where(in, x, zero));
    i = where(above, konst(i.dtype(), to == Kind::U64 ? -1 : int_max(to)), i);
    return uns ? i : where(below, konst(i.dtype(), int_min(to)), i);
  }

  // --- reduces ------------------------------------------------------------------------------------------------------------------------
  UOp reduce(UOp u, std::vector<UOp>& s) {
    Kind k = u.dtype().kind;
    if (k == Kind::Bool) return logical(u, s);
    if (!narrow_float(k)) return rebuilt(u, s);
    for (UOp& x : s)
      if (!x.is(Op::Range)) x = legal(widen(k, x));
    UOp r = final(Arena::current().make(u.op(), {Kind::F32, u.dtype().lanes}, s, u.node()->arg));
    return legal(narrowed(k, r));
  }

  UOp logical(UOp u, std::vector<UOp>& s) {
    bool whole = u.is(Op::HReduce);
    ReduceKind k = whole ? ReduceKind(u.arg_int()) : u.arg<ReduceArg>().kind;
    ReduceKind to = k == ReduceKind::Add || k == ReduceKind::Max || k == ReduceKind::Or ? ReduceKind::Or : ReduceKind::And;
    if (k == to) return rebuilt(u, s);
    if (whole) return final(node(Op::HReduce, u.dtype(), std::span<const UOp>(s), i64(to)));
    ReduceArg a = u.arg<ReduceArg>();
    a.kind = to;
    return final(node(Op::Reduce, u.dtype(), std::span<const UOp>(s), a.ints()));
  }

  // --- arithmetic ---------------------------------------------------------------------------------------------------------------------
  UOp transcendental(UOp u, std::vector<UOp>& s) {
    Kind k = u.dtype().kind;
    if (!narrow_float(k)) return legal(lower_transcendental(alu(u.op(), s)));
    for (UOp& x : s) x = legal(widen(k, x));
    return legal(narrowed(k, lower_transcendental(alu(u.op(), s))));
  }
  UOp narrow_alu(UOp u, Kind k, std::vector<UOp>& s) {
    if (u.is(Op::MulAcc)) {  // exact in f64 to one rounding at the end
      for (UOp& x : s) x = legal(cast_to(Kind::F64, Kind::F32, widen(k, x)));
      return legal(narrowed(k, odd_f32(odd_sum(s[0] * s[1], s[2]))));
    }
    for (UOp& x : s) x = legal(widen(k, x));
    UOp r = alu(u.op(), s);
    if (u.in(kComparison)) return legal(r);
    return legal(narrowed(k, legal(r)));
  }
  UOp float_alu(UOp u, std::vector<UOp>& s) {
    switch (u.op()) {
      case Op::Recip: return legal(c(s[0], 1) / s[0]);
      case Op::Rem: return legal(exact_fmod(s[0], s[1]));
      case Op::Floor:
      case Op::Ceil:
      case Op::Trunc:
      case Op::Round: return flags_.round ? rebuilt(u, s) : legal(round_by_sums(u.op(), s[0]));
      case Op::MulAcc: return flags_.fma ? rebuilt(u, s) : legal(exact_fma(s[0], s[1], s[2]));
      case Op::Max:
      case Op::Min: return extreme(u.is(Op::Max), s[0], s[1]);
      default: return rebuilt(u, s);
    }
  }
  // A compare and select each is one instruction on most machines, and gives its last operand where either is NaN.
  UOp extreme(bool most, UOp a, UOp b) {
    auto pick = [&](UOp x, UOp y) { return where(most ? lt(y, x) : lt(x, y), x, y); };
    if (b.is_const() && b.as_float() == b.as_float()) return legal(pick(b, a));
    if (a.is_const() && a.as_float() == a.as_float()) return legal(pick(a, b));
    if (flags_.extremes) return final_alu(most ? Op::Max : Op::Min, {a, b});
    return legal(where(ne(a, a), a, pick(a, b)));
  }
  UOp bool_alu(UOp u, std::vector<UOp>& s) {
    auto inverse = [](UOp x) { return alu(Op::Not, {x}); };
    switch (u.op()) {
      case Op::Neg:
      case Op::Abs: return s[0];
      case Op::Max:
      case Op::Add: return legal(alu(Op::Or, {s[0], s[1]}));
      case Op::Min:
      case Op::Mul: return legal(alu(Op::And, {s[0], s[1]}));
      case Op::Sub: return legal(alu(Op::Xor, {s[0], s[1]}));
      case Op::MulAcc: return legal(alu(Op::Or, {alu(Op::And, {s[0], s[1]}), s[2]}));
      case Op::Lt: return legal(alu(Op::And, {inverse(s[0]), s[1]}));
      case Op::Le: return legal(alu(Op::Or, {inverse(s[0]), s[1]}));
      default: return rebuilt(u, s);
    }
  }
  UOp int_alu(UOp u, std::vector<UOp>& s) {
    switch (u.op()) {
      case Op::Floor:
      case Op::Ceil:
      case Op::Trunc:
      case Op::Round: return s[0];
      case Op::Abs: return is_uint(u.dtype()) ? s[0] : rebuilt(u, s);
      case Op::Recip: return divide(Op::Div, c(s[0], 1), s[0], {0, 1}, whole(u.dtype()), u.dtype());
      case Op::MulAcc: return legal(s[0] * s[1] + s[2]);
      case Op::Shl:
      case Op::Shr: return shift(u, s);
      case Op::Div:
      case Op::Rem:
      case Op::FloorDiv:
      case Op::FloorMod: return divide(u.op(), s[0], s[1], bounds(u.src(0)), bounds(u.src(1)), u.dtype());
      default: return rebuilt(u, s);
    }
  }
  static Bounds whole(DType d) { return {int_min(d.kind), int_max(d.kind)}; }

  UOp shift(UOp u, std::vector<UOp>& s) {
    int n = bits(u.dtype());
    UOp a = s[0], by = s[1];
    Bounds b = bounds(u.src(1));
    if (b.lo >= 0 && b.hi < n) return rebuilt(u, s);
    UOp in = is_uint(u.dtype()) ? lt(by, c(by, n)) : alu(Op::And, {le(c(by, 0), by), lt(by, c(by, n))});
    if (u.is(Op::Shr) && is_sint(u.dtype())) return legal(final_alu(Op::Shr, {a, legal(where(in, by, c(by, n - 1)))}));
    return legal(where(in, final_alu(u.op(), {a, legal(by & c(by, n - 1))}), c(a, 0)));
  }

  static int log2_of(i64 v) { return v > 0 && !(v & (v - 1)) ? __builtin_ctzll(u64(v)) : -1; }
  UOp divide(Op op, UOp a, UOp b, Bounds ba, Bounds bb, DType d) {
    bool uns = is_uint(d), floor = op == Op::FloorDiv || op == Op::FloorMod, quotient = op == Op::Div || op == Op::FloorDiv;
    bool same_sign = uns || (ba.lo >= 0 && bb.lo >= 0);
    if (b.is_const() && b.as_int() != 0 && (floor || same_sign)) {
      int n = log2_of(b.as_int());  // FloorDiv by a power of two is a shift for either sign
      if (n >= 0) return legal(quotient ? shr(a, n) : a & c(a, b.as_int() - 1));
    }
    bool zero = bb.lo <= 0 && bb.hi >= 0;
    bool wraps = !uns && bb.lo <= -1 && bb.hi >= -1 && ba.lo <= int_min(d.kind);
    UOp none = eq(b, c(b, 0)), safe = b;
    if (zero && !wraps) safe = where(none, c(b, 1), b);
    if (wraps) {
      UOp bad = alu(Op::And, {eq(b, c(b, -1)), eq(a, c(a, int_min(d.kind)))});
      safe = where(zero ? alu(Op::Or, {none, bad}) : bad, c(b, 1), b);
    }
    safe = legal(safe);
    UOp q = final_alu(Op::Div, {a, safe}), r;
    if (!quotient || (floor && !same_sign)) r = final_alu(Op::Rem, {a, safe});
    if (floor && !same_sign) {
      UOp off = alu(Op::And, {ne(r, c(r, 0)), lt(r ^ safe, c(r, 0))});
      q = q - where(off, c(q, 1), c(q, 0));
      r = r + where(off, safe, c(r, 0));
    }
    UOp v = quotient ? q : r;
    if (zero) v = where(none, quotient ? c(a, 0) : a, v);
    return legal(v);
  }

  const DecompFlags& flags_;
  IdMap<UOp> to_;
  IdMap<UOp> last_store_;  // by buffer of a kind under 8 bits
};

}  // namespace

DecompFlags decomp_flags(const Target& t) {
  bool x86 = t.arch.starts_with("x86_64") || t.triple.starts_with("x86_64");
  // Every x86 core with FMA has SSE4.1's roundps; the other CPUs here round and fuse in their base set.
  return {.fma = t.has_fma || !x86, .round = t.has_fma || !x86, .extremes = t.renderer == "LLVM", .f16 = t.has_f16c};
}

UOp decompose(UOp root, const DecompFlags& flags) { return Decomposer(flags).legal(root); }

std::vector<UOp> decompose(std::span<const UOp> linear, const DecompFlags& flags) {
  Decomposer d(flags);
  std::vector<UOp> out;
  Memo<u32> made;   // when a node last entered the list; 0: not there, or its loop is closed
  Memo<u32> walked;  // the last entry for which a node was looked at
  Memo<u8> listed;  // what an entry of the given list became: the given order decides when it is made
  std::vector<std::vector<UOp>> scopes(1);  // what each open loop defines: it ends with the loop
  auto stale = [&](UOp v) {
    if (!made[v]) return true;
    for (UOp s : v.src())
      if (made[s] > made[v]) return true;
    return false;
  };
  u32 entry = 0;
  for (UOp u : linear) {
    UOp root = d.legal(u);
    entry++;
    // A list may name one node twice: an access is done again, and so is what depends on it.
    bool again = root.in(Op::Load | Op::Store | Op::Barrier | Op::End | Op::Range);
    std::vector<std::pair<UOp, u32>> stack{{root, 0}};
    while (!stack.empty()) {
      auto& [v, next] = stack.back();
      // What AFTER and BARRIER wait for stands where the list had it.
      if (next < (v.is(Op::After) ? 1 : v.is(Op::Barrier) ? 0 : v.nsrc())) {
        UOp s = v.src(next++);
        if (walked[s] != entry && (!made[s] || !listed[s])) walked[s] = entry, stack.push_back({s, 0});
        continue;
      }
      UOp done = v;
      stack.pop_back();
      if (!(done == root && again) && !stale(done)) continue;
      if (done.is(Op::End)) {
        TG_CHECK(scopes.size() > 1, "END without RANGE");
        for (UOp inside : scopes.back()) made[inside] = 0;
        scopes.pop_back();
      }
      out.push_back(done);
      made[done] = u32(out.size());
      scopes.back().push_back(done);
      if (done.is(Op::Range)) scopes.push_back({});
    }
    listed[root] = 1;
  }
  return out;
}

}  // namespace tg
