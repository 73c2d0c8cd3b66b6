// A product with a one-hot matrix reads one row: sum over k of (i == k) * w[k, n] is w[i, n], or 0 where i is no k. Exporters of embeddings
// write it so. The weights must be finite and not -0, so that the zeros of the sum leave no trace.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "ir/loops.h"
#include "rules/symbolic.h"
#include "schedule/schedule.h"

namespace tg {
namespace {

class OneHot {
 public:
  OneHot(const Schedule& s, const Graph& g, const Call& c) : s_(s), g_(g), c_(c) {}

  // What the reduce u is, if it sums over a one-hot.
  std::optional<UOp> row_of(UOp u) const {
    if (!u.is(Op::Reduce) || u.arg<ReduceArg>().kind != ReduceKind::Add || u.nsrc() != 2 || u.dtype() != DType(Kind::F32)) return {};
    UOp body = u.src(0), k = u.src(1);
    if (!body.is(Op::Mul) || !k.is(Op::Range) || !k.src(0).is_const()) return {};
    for (int i : {0, 1})
      if (std::optional<Position> p = position(body.src(size_t(i)), k))
        if (std::optional<UOp> w = weight_at(body.src(size_t(1 - i)), k, *p)) return w;
    return {};
  }

 private:
  struct Position {  // 1 where i == first + k
    UOp i;
    i64 first;
  };
  static bool sees(UOp u, UOp k) {
    std::vector<UOp> all = toposort(u);
    return std::find(all.begin(), all.end(), k) != all.end();
  }
  const ConstantData* constant(UOp load) const {
    if (!load.is(Op::Load) || load.nsrc() != 1 || !load.src(0).src(0).is(Op::Param)) return nullptr;
    const Buffer& b = s_.buffers[c_.buffers[size_t(load.src(0).src(0).arg_int())]];
    return b.kind == Buffer::Constant ? &g_.constants[b.index] : nullptr;
  }
  // The coordinate that is k by itself, if no other one sees it; else 0.
  static size_t coordinate(UOp index, UOp k) {
    size_t at = 0;
    for (size_t i = 1; i < index.nsrc(); i++) {
      if (!sees(index.src(i), k)) continue;
      if (at || index.src(i) != k) return 0;
      at = i;
    }
    return at;
  }

  // x = (i == first + k) as a number.
  std::optional<Position> position(UOp x, UOp k) const {
    if (!x.is(Op::Cast) || !x.src(0).is(Op::Eq)) return {};
    for (int side : {0, 1}) {
      UOp i = x.src(0).src(size_t(side)), counts = x.src(0).src(size_t(1 - side));
      if (sees(i, k) || !is_int(i.dtype())) continue;
      if (counts.is(Op::Cast) ? counts.src(0) == k : counts == k) return Position{cast(i, Kind::Index), 0};
      const ConstantData* data = constant(counts);
      if (!data || !coordinate(counts.src(0), k)) continue;
      if (std::optional<i64> first = counting(*data, k.src(0).as_int())) return Position{cast(i, Kind::Index), *first};
    }
    return {};
  }
  // n values, each one more than that before; gives the first.
  static std::optional<i64> counting(const ConstantData& data, i64 n) {
    size_t size = size_t(bits(data.dtype)) / 8;
    if (!is_int(data.dtype) || (size != 4 && size != 8) || data.bytes.size() != size_t(n) * size) return {};
    auto value = [&](i64 i) {
      i64 v = 0;
      std::memcpy(&v, data.bytes.data() + size_t(i) * size, size);
      return size == 4 ? i64(i32(v)) : v;
    };
    for (i64 i = 1; i < n; i++)
      if (value(i) != value(0) + i) return {};
    return value(0);
  }

  std::optional<UOp> weight_at(UOp w, UOp k, const Position& p) const {
    const ConstantData* data = constant(w);
    size_t at = data ? coordinate(w.src(0), k) : 0;
    if (!at || data->dtype != DType(Kind::F32)) return {};
    for (size_t i = 0; i + 4 <= data->bytes.size(); i += 4) {
      u32 v;
      std::memcpy(&v, data->bytes.data() + i, 4);
      if (!std::isfinite(std::bit_cast<f32>(v)) || v == 0x80000000) return {};
    }
    std::vector<UOp> index(w.src(0).src().begin(), w.src(0).src().end());
    index[at] = p.i - p.first;
    UOp in = le(idx(p.first), p.i) & lt(p.i, k.src(0) + p.first);
    return node(Op::Load, w.dtype(), {node(Op::Index, w.src(0).dtype(), std::span<const UOp>(index)), in, konst_f(Kind::F32, 0)});
  }

  const Schedule& s_;
  const Graph& g_;
  const Call& c_;
};

}  // namespace

void read_one_hot_rows(Schedule& s, const Graph& g) {
  for (Call& c : s.calls) {
    OneHot find(s, g, c);
    std::vector<UOp> order = toposort(c.ast);
    Memo<UOp> to;
    bool any = false;
    for (UOp u : order) {
      if (std::optional<UOp> row = find.row_of(u)) {
        // What it reads lies below u, where nothing else can have been replaced: a one-hot's reduce holds no other.
        to[u] = *row, any = true;
        continue;
      }
      std::vector<UOp> src;
      for (UOp x : u.src()) src.push_back(to[x]);
      to[u] = std::equal(src.begin(), src.end(), u.src().begin()) ? u : with_src(u, src);
    }
    if (any) c.ast = simplify(to[c.ast]);
  }
}

}  // namespace tg
