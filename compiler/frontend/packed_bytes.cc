#include "frontend/packed_bytes.h"

#include "frontend/tensor.h"

namespace tg {
namespace {

bool packed(DType d) { return d.kind == Kind::I2 || d.kind == Kind::U2 || d.kind == Kind::I4 || d.kind == Kind::U4; }

// (.., n) numbers of a few bits as (.., n) of i8 or u8.
Tensor parts_of(UOp c, Pool& pool) {
  ConstantData data = pool.constants()[size_t(c.arg_int())];
  i64 width = bits(data.dtype), each = 8 / width;
  bool is_signed = data.dtype.kind == Kind::I2 || data.dtype.kind == Kind::I4;
  if (data.dims.empty() || data.dims.back() % each) return {};
  data.dtype = Kind::U8;
  data.dims.back() /= each;
  Shape apart = shape(c), whole = shape(c);
  apart.back() = idx(data.dims.back());
  apart.push_back(idx(each));
  Tensor bytes = Tensor(pool.add(std::move(data))).unsqueeze(-1).expand(apart);
  Tensor place = Tensor(tensor::iota(idx(each), Kind::U8)) * Tensor::integer(Kind::U8, width);
  Shape ones(apart.size(), idx(1));
  ones.back() = idx(each);
  place = place.reshape(ones).expand(apart);
  Tensor v;
  if (is_signed) {  // its sign to the top of the byte, and back
    Tensor top = bytes.binary(Op::Shl, Tensor::integer(Kind::U8, 8 - width) - place);
    v = top.bitcast(Kind::I8).binary(Op::Shr, Tensor::integer(Kind::I8, 8 - width));
  } else {
    v = bytes.binary(Op::Shr, place) & Tensor::integer(Kind::U8, (1 << width) - 1);
  }
  return v.reshape(whole);
}

}  // namespace

UOp read_as_bytes(UOp sink, Pool& pool) {
  Memo<UOp> bytes, to;  // a node of few bits as bytes, where that can be; the graph
  for (UOp u : toposort(sink)) {
    if (packed(u.dtype())) {
      if (u.is(Op::Constant)) {
        if (Tensor t = parts_of(u, pool)) bytes[u] = t.uop();
      } else if (is_movement(u.op()) && !u.in(Op::Concat | Op::Pad)) {
        if (UOp x = bytes[u.src(0)]) {
          std::vector<UOp> src(u.src().begin(), u.src().end());
          src[0] = x;
          bytes[u] = with_src(with_dtype(u, x.dtype()), src);
        }
      }
    }
    std::vector<UOp> src;
    bool same = true;
    for (UOp s : u.src()) src.push_back(to[s]), same &= src.back() == s;
    if (u.is(Op::Cast) && bytes[u.src(0)]) to[u] = cast(bytes[u.src(0)], u.dtype());
    else to[u] = same ? u : with_src(u, src);
  }
  return to[sink];
}

}  // namespace tg
