#include "frontend/default_float.h"

#include <map>

#include "base/error.h"
#include "frontend/dequantized.h"

namespace tg {
namespace {

bool narrower(DType d) { return bits(d) < 32; }
bool widening(UOp u, DType d) { return u.is(Op::Cast) && u.dtype() == DType(Kind::F32) && u.src(0).dtype() == d; }

// u, of f32, as a value of d from which it differs by movement and widening alone; a constant is rounded. Null: there is arithmetic
// between.
class Narrower {
 public:
  explicit Narrower(DType d) : d_(d) {}
  UOp of(UOp u) {
    auto [it, fresh] = known_.try_emplace(u.id());
    if (!fresh) return it->second;
    UOp r = find(u);
    return known_[u.id()] = r;
  }

 private:
  UOp find(UOp u) {
    if (u.dtype() != DType(Kind::F32)) return {};
    if (widening(u, d_)) return u.src(0);
    if (u.is(Op::Constant)) return cast(u, d_);
    if (!is_movement(u.op()) && !u.is(Op::Gather)) return {};
    std::vector<UOp> src(u.src().begin(), u.src().end());
    size_t values = u.is(Op::Concat) ? src.size() : 1;
    for (size_t i = 0; i < values; i++)
      if (!(src[i] = of(src[i]))) return {};
    if (u.is(Op::Pad)) {
      if (!src[3].is_const()) return {};
      src[3] = cast(src[3], d_);
    }
    return Arena::current().make(u.op(), d_, src, u.node()->arg);
  }
  DType d_;
  std::map<u32, UOp> known_;
};

}  // namespace

Tensor narrowed(const Tensor& x, DType d) {
  UOp n = Narrower(d).of(x.uop());
  return n ? Tensor(n) : x.cast(d);
}

Tensor kept_in(const Tensor& x, DType d) {
  if (!x || x.dtype() != DType(Kind::F32) || d == DType(Kind::F32)) return x;
  if (!narrower(d)) return x.cast(d);
  if (made_of_constants(x)) return x;
  return narrowed(x, d).cast(Kind::F32);
}

UOp drop_roundings(UOp sink, DType d) {
  if (!narrower(d)) return sink;
  std::vector<UOp> order = toposort(sink);
  Memo<u32> uses;
  Memo<UOp> reader;
  uses[sink], reader[sink];
  for (UOp u : order)
    for (UOp s : u.src()) uses[s]++, reader[s] = u;
  std::vector<std::pair<UOp, UOp>> map;
  for (UOp p : order) {
    if (!widening(p, d)) continue;
    // Upwards: only moved, then read by arithmetic that is no product of a sum.
    UOp at = p;
    while (uses[at] == 1 && is_movement(reader[at].op()) && !reader[at].is(Op::Concat)) at = reader[at];
    if (uses[at] != 1) continue;
    UOp by = reader[at];
    bool sum = by.is(Op::Mul) && uses[by] == 1 && reader[by].is(Op::Reduce);
    if (!(is_alu(by.op()) && !sum) && !by.is(Op::Sink)) continue;
    // Downwards: moved, down to the rounding of an f32 value.
    std::vector<UOp> moves;
    UOp n = p.src(0);
    while (uses[n] == 1 && is_movement(n.op()) && !n.is(Op::Concat) && !n.is(Op::Pad)) moves.push_back(n), n = n.src(0);
    if (uses[n] != 1 || !n.is(Op::Cast) || n.src(0).dtype() != DType(Kind::F32)) continue;
    UOp v = n.src(0);
    for (size_t i = moves.size(); i-- > 0;) {
      std::vector<UOp> src(moves[i].src().begin(), moves[i].src().end());
      src[0] = v;
      v = Arena::current().make(moves[i].op(), Kind::F32, src, moves[i].node()->arg);
    }
    map.push_back({p, v});
  }
  // Sources first, so that no depth of the graph is a depth of calls.
  std::map<u32, UOp> instead, done;
  for (auto [p, v] : map) instead[p.id()] = v;
  auto rebuilt = [&](UOp u, auto& self) -> UOp {
    if (auto it = done.find(u.id()); it != done.end()) return it->second;
    auto it = instead.find(u.id());
    UOp from = it != instead.end() ? it->second : u;
    std::vector<UOp> src;
    bool same = true;
    for (UOp s : from.src()) src.push_back(self(s, self)), same &= src.back() == s;
    return done[u.id()] = same ? from : with_src(from, src);
  };
  for (UOp u : order) rebuilt(u, rebuilt);
  return rebuilt(sink, rebuilt);
}

}  // namespace tg
