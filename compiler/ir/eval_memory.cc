#include "ir/eval_memory.h"

#include "base/error.h"

namespace tg {

EvalMemory::Array EvalMemory::array(UOp buffer, i64 n) {
  if (buffer.is(Op::Param)) {
    i64 slot = buffer.arg_int();
    if (slot < 0 || slot >= i64(buffers_.size())) fail("no buffer is given for ", buffer.str());
    Values& x = buffers_[slot];
    if (x.dtype == buffer.dtype()) return {&x.v, nullptr};
    Values& y = views_[slot];
    if (y.dtype.kind == Kind::Void) {
      std::vector<u8> bytes = encode(x);
      bytes.resize((bytes.size() * 8 / bits(buffer.dtype())) * bits(buffer.dtype()) / 8);
      y = decode(buffer.dtype(), {i64(bytes.size()) * 8 / bits(buffer.dtype())}, bytes);
    }
    if (y.dtype != buffer.dtype()) fail("PARAM ", slot, " is used as ", name(y.dtype), " and as ", name(buffer.dtype()));
    return {&y.v, nullptr};
  }
  Own& o = own_[{buffer.op(), buffer.arg_ints()[0]}];
  if (i64(o.v.size()) < n) o.v.resize(n), o.written.resize(n);
  return {&o.v, &o.written};
}

void EvalMemory::finish() {
  for (size_t i = 0; i < views_.size(); i++) {
    if (views_[i].dtype.kind == Kind::Void) continue;
    std::vector<u8> bytes = encode(buffers_[i]), changed = encode(views_[i]);
    std::copy(changed.begin(), changed.end(), bytes.begin());
    buffers_[i] = decode(buffers_[i].dtype, buffers_[i].dims, bytes);
  }
}

u64 EvalMemory::load(const Array& a, i64 i, UOp at) {
  if (i < 0 || i >= i64(a.v->size())) fail("element ", i, " of a buffer of ", a.v->size(), " is read in ", at.str());
  if (a.written && !(*a.written)[i]) fail("element ", i, " is read before it is written in ", at.str());
  return (*a.v)[i];
}

void EvalMemory::store(const Array& a, i64 i, u64 v, UOp at) {
  if (i < 0 || i >= i64(a.v->size())) fail("element ", i, " of a buffer of ", a.v->size(), " is written in ", at.str());
  (*a.v)[i] = v;
  if (a.written) (*a.written)[i] = 1;
}

}  // namespace tg
