// Tensors of the interpreter from bytes, from numbers, and back to bytes.
#include <cstring>

#include "base/error.h"
#include "ir/eval.h"
#include "ir/eval_scalar.h"

namespace tg {

i64 count(std::span<const i64> dims) {
  i64 n = 1;
  for (i64 d : dims) n *= d;
  return n;
}

f64 Values::number(i64 i) const {
  if (is_float(dtype)) return as_f64(v[i]);
  return dtype.kind == Kind::U64 ? f64(v[i]) : f64(i64(v[i]));
}

Values values(DType d, std::vector<i64> dims, std::span<const f64> numbers) {
  TG_CHECK(i64(numbers.size()) == count(dims), numbers.size(), " numbers for dims ", join(dims));
  Values r{d, std::move(dims), {}};
  for (f64 x : numbers) r.v.push_back(eval_cast(d.kind, Kind::F64, from_f64(x)));
  return r;
}

Values int_values(DType d, std::vector<i64> dims, std::span<const i64> numbers) {
  TG_CHECK(i64(numbers.size()) == count(dims), numbers.size(), " numbers for dims ", join(dims));
  Values r{d, std::move(dims), {}};
  for (i64 x : numbers) r.v.push_back(eval_cast(d.kind, Kind::I64, u64(x)));
  return r;
}

Values decode(DType d, std::vector<i64> dims, std::span<const u8> bytes) {
  i64 n = count(dims);
  TG_CHECK(is_stored(d.kind) || d.kind == Kind::Index, "no bytes hold ", name(d));
  if (i64(bytes.size()) != byte_size(d.kind, n))
    fail("a tensor of ", n, " ", name(d), " elements takes ", byte_size(d.kind, n), " bytes, got ", bytes.size());
  Values r{d, std::move(dims), std::vector<u64>(n)};
  int width = bits(d);
  for (i64 i = 0; i < n; i++) {
    u64 b = 0;
    if (width >= 8) std::memcpy(&b, bytes.data() + i * (width / 8), width / 8);
    else b = bytes[i * width / 8] >> (i * width % 8) & ((1 << width) - 1);
    r.v[i] = d.kind == Kind::Bool ? b != 0 : from_bits(d.kind, b);
  }
  return r;
}

std::vector<u8> encode(const Values& x) {
  std::vector<u8> bytes(byte_size(x.dtype.kind, x.elems()));
  int width = bits(x.dtype);
  for (i64 i = 0; i < x.elems(); i++) {
    u64 b = to_bits(x.dtype.kind, x.v[i]);
    if (width >= 8) std::memcpy(bytes.data() + i * (width / 8), &b, width / 8);
    else bytes[i * width / 8] |= u8(b << (i * width % 8));
  }
  return bytes;
}

}  // namespace tg
