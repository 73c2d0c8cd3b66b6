// Patterns as constexpr data. A rule reads as an equation:
//
//   static constexpr Rule kTable[] = {
//     {i + 0,          i},                                              // i j k: integers only
//     {i / i,          1,           [](M m) { return m.nonzero(i); }},  // a literal takes the matched node's dtype; third: a guard
//     {(i + c0) + c1,  i + (c0 + c1)},                                  // constants fold as they are built
//     {op(kIdem, {x, x}), x},                                           // a set of ops
//     {(i / c0) / c1,  [](M m) -> UOp { ... }},                         // where an equation is not enough; {} is a no
//   };
//
// A name that stands twice on the left must match the same node. On the left all orders of commutative sources are tried. A right side that
// uses a name the left does not bind, or a pattern over kMaxNodes nodes, does not compile.
#pragma once
#include <array>
#include <bit>
#include <initializer_list>
#include <string>

#include "base/error.h"
#include "ir/uop.h"

namespace tg::pat {

inline constexpr int kMaxNodes = 12, kSlots = 16, kMaxFlips = 5;

enum : u8 { kLit = 1, kLitFloat = 2, kFlip = 4, kEither = 8, kEach = 16, kMore = 32 };

constexpr u32 kinds_where(bool (*f)(Kind)) {
  u32 m = 0;
  for (int k = 0; k <= int(Kind::Void); k++)
    if (f(Kind(k))) m |= 1u << k;
  return m;
}
inline constexpr u32 kInts = kinds_where([](Kind k) { return is_int(k) && !is_storage(k); });
inline constexpr u32 kFloats = kinds_where([](Kind k) { return is_float(k) && !is_storage(k); });
inline constexpr u32 kBool = 1u << int(Kind::Bool);
inline constexpr u32 kIndex = 1u << int(Kind::Index);
static_assert(int(Kind::Void) < 32);

// One node of a pattern in preorder.
struct PNode {
  OpSet ops;        // any of these
  i64 lit = 0;      // kLit: the number; kLitFloat: its f64 bits
  u32 kinds = ~0u;  // dtype kinds allowed
  i8 slot = -1;     // the name it binds
  u8 nsrc = 0;
  u8 size = 1;      // nodes of this subtree
  u8 flags = 0;
  u8 bit = 0;       // kFlip, kEither: which bit of the orientation
};

struct Pat {
  std::array<PNode, kMaxNodes> n{};
  u8 len = 0;
  u8 flips = 0;
  u32 binds = 0;

  constexpr Pat() = default;
  constexpr Pat(int v) : Pat(i64(v)) {}
  constexpr Pat(i64 v) : len(1) { n[0].ops = Op::Const, n[0].lit = v, n[0].flags = kLit; }
  constexpr Pat(f64 v) : len(1) { n[0].ops = Op::Const, n[0].lit = i64(std::bit_cast<u64>(v)), n[0].flags = kLitFloat; }

  constexpr Pat as(const Pat& name) const {  // binds a name to an inner node: (x + y).as(z)
    Pat r = *this;
    r.n[0].slot = name.n[0].slot;
    r.binds |= name.binds;
    return r;
  }
  constexpr Pat of(u32 kinds) const {  // restricts the dtype: x.of(kFloats)
    Pat r = *this;
    r.n[0].kinds &= kinds;
    return r;
  }
  constexpr Pat more() const {  // further sources may follow
    Pat r = *this;
    r.n[0].flags |= kMore;
    return r;
  }
};

constexpr OpSet kAny = [] {
  OpSet s;
  s.lo = s.hi = ~0ull;
  return s;
}();

constexpr Pat name_of(int slot, u32 kinds = ~0u, OpSet ops = kAny) {
  Pat p;
  p.len = 1;
  p.n[0].ops = ops, p.n[0].slot = i8(slot), p.n[0].kinds = kinds;
  p.binds = 1u << slot;
  return p;
}

constexpr void append(Pat& r, const Pat& s) {
  if (r.len + s.len > kMaxNodes) throw "the pattern is too large";
  for (int i = 0; i < s.len; i++) r.n[r.len++] = s.n[i];
  r.n[0].size = r.len;
}

constexpr Pat op(OpSet ops, std::initializer_list<Pat> src) {
  Pat r;
  r.len = 1;
  r.n[0].ops = ops, r.n[0].nsrc = u8(src.size());
  for (const Pat& s : src) {
    append(r, s);
    r.binds |= s.binds;
  }
  if (src.size() == 1 && src.begin()->n[0].flags & kEach) r.n[0].flags |= kEach, r.n[1].flags &= u8(~kEach);
  return r;
}
// Every source of the op around it: op(Op::Pack, {each(c0)}).
constexpr Pat each(const Pat& p) {
  Pat r = p;
  r.n[0].flags |= kEach;
  return r;
}
constexpr Pat either(const Pat& p, const Pat& q) {
  Pat r;
  r.len = 1;
  r.n[0].ops = kAny, r.n[0].nsrc = 2, r.n[0].flags = kEither;
  append(r, p);
  append(r, q);
  r.binds = p.binds & q.binds;
  return r;
}

inline constexpr Pat some_const = [] {  // any constant, not named
  Pat p = name_of(0, ~0u, Op::Const);
  p.n[0].slot = -1, p.binds = 0;
  return p;
}();
inline constexpr Pat x = name_of(0), y = name_of(1), z = name_of(2), w = name_of(3);
inline constexpr Pat i = name_of(4, kInts), j = name_of(5, kInts), k = name_of(6, kInts);
inline constexpr Pat b = name_of(7, kBool), p = name_of(8, kBool), q = name_of(9, kBool);
inline constexpr Pat f = name_of(10, kFloats), g = name_of(11, kFloats), h = name_of(15, kFloats);
inline constexpr Pat c0 = name_of(12, ~0u, Op::Const), c1 = name_of(13, ~0u, Op::Const), c2 = name_of(14, ~0u, Op::Const);

// / and % are FloorDiv and FloorMod; div() is the division of floats and the truncating one of integers.
#define TG_PAT_BINARY(name, OP) \
  constexpr Pat name(const Pat& l, const Pat& r) { return op(Op::OP, {l, r}); }
TG_PAT_BINARY(operator+, Add)
TG_PAT_BINARY(operator-, Sub)
TG_PAT_BINARY(operator*, Mul)
TG_PAT_BINARY(operator/, FloorDiv)
TG_PAT_BINARY(operator%, FloorMod)
TG_PAT_BINARY(operator&, And)
TG_PAT_BINARY(operator|, Or)
TG_PAT_BINARY(operator^, Xor)
TG_PAT_BINARY(operator<<, Shl)
TG_PAT_BINARY(operator>>, Shr)
TG_PAT_BINARY(div, Div)
TG_PAT_BINARY(rem, Rem)
TG_PAT_BINARY(max, Max)
TG_PAT_BINARY(min, Min)
TG_PAT_BINARY(lt, Lt)
TG_PAT_BINARY(le, Le)
TG_PAT_BINARY(eq, Eq)
TG_PAT_BINARY(ne, Ne)
#undef TG_PAT_BINARY
constexpr Pat operator-(const Pat& a) { return op(Op::Neg, {a}); }
constexpr Pat operator~(const Pat& a) { return op(Op::Not, {a}); }
constexpr Pat where(const Pat& c, const Pat& a, const Pat& b) { return op(Op::Where, {c, a, b}); }
constexpr Pat cast(const Pat& a) { return op(Op::Cast, {a}); }

// What the names stand for.
struct Match {
  UOp root;
  void* context = nullptr;
  const void* context_type = nullptr;
  std::array<UOp, kSlots> bound{};

  UOp operator[](const Pat& name) const { return bound[size_t(name.n[0].slot)]; }
  template <class T>
  T& ctx() const {
    TG_CHECK(context_type == &type_key<T>, "this rule is used with another context or none");
    return *static_cast<T*>(context);
  }
  template <class T>
  static constexpr char type_key = 0;
};
using M = const Match&;
using Fn = UOp (*)(M);
using When = bool (*)(M);

// Which commutative nodes have two orders that can differ.
constexpr void orient(Pat& l) {
  int uses[kSlots] = {};
  for (int a = 0; a < l.len; a++)
    if (l.n[a].slot >= 0) uses[l.n[a].slot]++;
  auto free_name = [&](const PNode& s) { return s.ops == kAny && !s.nsrc && (s.slot < 0 || uses[s.slot] == 1); };
  l.flips = 0;
  for (int a = 0; a < l.len; a++) {
    PNode& s = l.n[a];
    if (!(s.flags & kEither)) {
      if (s.nsrc != 2 || s.flags & (kEach | kMore) || !s.ops.subset_of(kCommutative)) continue;
      const PNode& first = l.n[a + 1];
      const PNode& second = l.n[a + 1 + first.size];
      // Constants stand right already; two names that occur nowhere else are alike.
      if (second.ops == OpSet(Op::Const) && !(first.ops == OpSet(Op::Const))) continue;
      if (free_name(first) && free_name(second) && first.kinds == second.kinds) continue;
      s.flags |= kFlip;
    }
    s.bit = l.flips++;
  }
  if (l.flips > kMaxFlips) throw "the pattern has too many orientations";
}

struct Rule {
  Pat left, right;
  Fn fn = nullptr;
  When when = nullptr;

  consteval Rule(Pat l, Pat r, When w = nullptr) : left(l), right(r), when(w) {
    if ((l.binds & r.binds) != r.binds) throw "the right side uses a name that the left does not bind";
    for (int a = 0; a < r.len; a++) {
      if (r.n[a].slot >= 0 || r.n[a].flags & (kLit | kLitFloat)) continue;
      if (r.n[a].flags || !single(r.n[a].ops)) throw "a right side is made of single ops";
    }
    orient(left);
  }
  consteval Rule(Pat l, int v, When w = nullptr) : Rule(l, Pat(v), w) {}  // keeps 0 from being a null function
  consteval Rule(Pat l, Fn r) : left(l), fn(r) { orient(left); }

  static constexpr bool single(OpSet s) { return std::popcount(s.lo) + std::popcount(s.hi) == 1; }
};

constexpr Op only(OpSet s) { return s.lo ? Op(std::countr_zero(s.lo)) : Op(64 + std::countr_zero(s.hi)); }

std::string text(const Pat& p);   // "(i + c0) < c1"
std::string text(const Rule& r);

// Does u match p, in any orientation for which `when` (if given) says yes? Fills m.
bool match(const Pat& p, UOp u, Match& m, When when = nullptr);
UOp build(const Pat& p, const Match& m);

}  // namespace tg::pat
