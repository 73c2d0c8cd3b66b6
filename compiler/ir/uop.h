// UOp: the one node type from tensor graph to linear program, interned in an arena: same content, same pointer; == is identity and identity
// is structural equality. Integer and index constants fold as nodes are built, and constants stand right on commutative ops.
#pragma once
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"
#include "ir/args.h"
#include "ir/dtype.h"
#include "ir/op.h"

namespace tg {

class Arena;
struct Node;

class UOp {  // 8 bytes, passed by value; lives as long as its arena
 public:
  constexpr UOp() = default;
  constexpr explicit UOp(const Node* n) : n_(n) {}
  explicit operator bool() const { return n_; }
  bool operator==(const UOp&) const = default;  // identity

  Op op() const;
  DType dtype() const;
  std::span<const UOp> src() const;
  UOp src(size_t i) const;
  size_t nsrc() const;
  u32 id() const;       // dense in its arena, sources before users
  OpSet src_ops() const;  // union of the sources' own ops
  bool is(Op o) const { return op() == o; }
  bool in(OpSet s) const { return s.has(op()); }

  i64 arg_int() const;                // ArgKind::Int
  u64 arg_bits() const;               // ArgKind::Bits
  IntSpan arg_ints() const;           // ArgKind::Ints
  std::string_view arg_str() const;   // ArgKind::Str
  template <class T>
  T arg() const { return T::of(arg_ints()); }

  bool is_const() const { return op() == Op::Const; }
  bool is_const(i64 v) const;         // a CONST equal to v (float dtypes compare as numbers; -0.0 is not 0)
  i64 as_int() const;                 // CONST of an integer, bool or index dtype; anything else is a bug
  f64 as_float() const;               // CONST of a float dtype
  const Node* node() const { return n_; }
  std::string str() const;            // text of this node and its sources, for messages

 private:
  const Node* n_ = nullptr;
};

struct IntList {  // interned
  u32 n;
  i64 v[];
};
struct StrArg {  // interned
  u32 n;
  char v[];
};
union Arg {
  i64 i;
  u64 bits;
  const IntList* ints;
  const StrArg* str;
};

struct Node {
  Op op;
  DType dtype;
  u16 nsrc;
  u32 id, hash;
  Arg arg;
  OpSet src_ops;
  UOp srcs[];
};

// Owns nodes and interns them; freed all at once. One thread at a time.
class Arena {
 public:
  Arena();
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Builders below build into the innermost scope of the calling thread.
  class Scope {
   public:
    explicit Scope(Arena& a);
    ~Scope();
    Scope(const Scope&) = delete;

   private:
    Arena* before_;
  };
  static Arena& current();

  UOp make(Op op, DType dtype, std::span<const UOp> src, Arg arg);
  Arg ints(IntSpan v);
  Arg str(std::string_view s);
  u32 size() const { return n_; }  // ids are below this
  // Room for one record a node, filled by ir/tensor.h: shapes.
  std::vector<std::unique_ptr<std::vector<UOp>>>& shapes() { return shapes_; }
  // One record of type T an arena, made on first use: what a file remembers about nodes (bounds, normal forms).
  template <class T>
  T& side() {
    static const char key = 0;
    for (auto& [k, p] : side_)
      if (k == &key) return *static_cast<T*>(p.get());
    side_.emplace_back(&key, std::make_shared<T>());
    return *static_cast<T*>(side_.back().second.get());
  }

 private:
  void* alloc(size_t bytes);
  void grow();
  std::vector<std::unique_ptr<char[]>> chunks_;
  char *p_ = nullptr, *end_ = nullptr;
  std::vector<const Node*> table_;
  std::vector<const void*> lists_, strings_;
  std::vector<std::unique_ptr<std::vector<UOp>>> shapes_;
  std::vector<std::pair<const void*, std::shared_ptr<void>>> side_;
  u32 n_ = 0, n_lists_ = 0, n_strings_ = 0;
};

// --- builders -------------------------------------------------------------------------------------------------------------------------
// node(): as is, nothing folded; sources and dtype must be legal. alu(): canonical and folded; the dtype follows from the sources.
UOp node(Op op, DType dtype, std::span<const UOp> src);
UOp node(Op op, DType dtype, std::span<const UOp> src, i64 arg);
UOp node(Op op, DType dtype, std::span<const UOp> src, IntSpan arg);
UOp node_str(Op op, DType dtype, std::span<const UOp> src, std::string_view arg);
inline UOp node(Op op, DType d, std::initializer_list<UOp> s) { return node(op, d, std::span(s.begin(), s.size())); }
inline UOp node(Op op, DType d, std::initializer_list<UOp> s, i64 a) { return node(op, d, std::span(s.begin(), s.size()), a); }
inline UOp node(Op op, DType d, std::initializer_list<UOp> s, const Ints& a) { return node(op, d, std::span(s.begin(), s.size()), IntSpan(a)); }
UOp with_src(UOp u, std::span<const UOp> src);   // the same node over other sources; ALU nodes are folded again
UOp with_dtype(UOp u, DType d);

UOp alu(Op op, std::span<const UOp> src);
inline UOp alu(Op op, std::initializer_list<UOp> s) { return alu(op, std::span(s.begin(), s.size())); }

UOp konst(DType d, i64 v);        // wrapped to d; for float dtypes the number v
UOp konst_f(DType d, f64 v);      // rounded to d
UOp konst_bits(DType d, u64 b);   // the Bits argument as it is
inline UOp idx(i64 v) { return konst(Kind::Index, v); }
// The identity of a reduce: 0, 1, lowest, highest, all ones.
UOp identity(ReduceKind k, DType d);

UOp var(std::string_view name, i64 min, i64 max, i64 multiple = 1);
UOp range(UOp size, const RangeArg& a);
UOp stack(std::span<const UOp> v);
inline UOp stack(const std::vector<UOp>& v) { return stack(std::span<const UOp>(v)); }
UOp cast(UOp x, DType d);         // nothing if x has dtype d; constants fold
UOp bitcast(UOp x, DType d);
UOp where(UOp c, UOp a, UOp b);

// Binary operators take an i64 on the right as a constant of the left's dtype. On integers / and % are FloorDiv and FloorMod.
UOp operator+(UOp a, UOp b);
UOp operator-(UOp a, UOp b);
UOp operator*(UOp a, UOp b);
UOp operator/(UOp a, UOp b);
UOp operator%(UOp a, UOp b);
UOp operator&(UOp a, UOp b);
UOp operator|(UOp a, UOp b);
UOp operator^(UOp a, UOp b);
inline UOp operator+(UOp a, i64 b) { return a + konst(a.dtype(), b); }
inline UOp operator-(UOp a, i64 b) { return a - konst(a.dtype(), b); }
inline UOp operator*(UOp a, i64 b) { return a * konst(a.dtype(), b); }
inline UOp operator/(UOp a, i64 b) { return a / konst(a.dtype(), b); }
inline UOp operator%(UOp a, i64 b) { return a % konst(a.dtype(), b); }
UOp operator-(UOp a);
UOp lt(UOp a, UOp b);
UOp le(UOp a, UOp b);
UOp eq(UOp a, UOp b);
UOp ne(UOp a, UOp b);
UOp max(UOp a, UOp b);
UOp min(UOp a, UOp b);
UOp logical_not(UOp a);

// --- constants ------------------------------------------------------------------------------------------------------------------------
// A number as arithmetic sees it: integers wrapped to their kind, floats rounded to it.
i64 wrap_int(Kind k, i64 v);
f64 round_float(Kind k, f64 v);   // f16, bf16, f32, f64; to nearest, ties to even

// --- walking --------------------------------------------------------------------------------------------------------------------------
// All nodes below the roots, sources first, each once, in the order in which they are first met.
std::vector<UOp> toposort(std::span<const UOp> roots);
inline std::vector<UOp> toposort(UOp root) { return toposort(std::span(&root, 1)); }

// A value by node id. Grows as nodes are made.
template <class T>
class Memo {
 public:
  T& operator[](UOp u) {
    if (u.id() >= v_.size()) v_.resize(std::max<size_t>(u.id() + 1, v_.size() * 2));
    return v_[u.id()];
  }

 private:
  std::vector<T> v_;
};
template <>
class Memo<bool>;  // vector<bool> gives no references: use Memo<u8>

// The graph with some nodes replaced; the replacements are not entered.
UOp substitute(UOp root, std::span<const std::pair<UOp, UOp>> map);

// --- inline -----------------------------------------------------------------------------------------------------------------------------
inline Op UOp::op() const { return n_->op; }
inline DType UOp::dtype() const { return n_->dtype; }
inline std::span<const UOp> UOp::src() const { return {n_->srcs, n_->nsrc}; }
inline UOp UOp::src(size_t i) const { return n_->srcs[i]; }
inline size_t UOp::nsrc() const { return n_->nsrc; }
inline u32 UOp::id() const { return n_->id; }
inline OpSet UOp::src_ops() const { return n_->src_ops; }
inline i64 UOp::arg_int() const { return n_->arg.i; }
inline u64 UOp::arg_bits() const { return n_->arg.bits; }
inline IntSpan UOp::arg_ints() const { return {n_->arg.ints->v, n_->arg.ints->n}; }
inline std::string_view UOp::arg_str() const { return {n_->arg.str->v, n_->arg.str->n}; }

}  // namespace tg
