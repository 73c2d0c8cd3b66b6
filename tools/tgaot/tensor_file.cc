#include "tensor_file.h"

#include <charconv>
#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "formats/onnx.pb.h"

namespace tg {
namespace {

i64 product(const std::vector<i64>& dims, const std::string& path) {
  i64 n = 1;
  for (i64 d : dims)
    if (d < 0 || __builtin_mul_overflow(n, d, &n) || n > i64(1) << 40) fail(path, ": impossible shape [", join(dims), "]");
  return n;
}

std::vector<u8> pack(std::span<const u8> one_a_byte, int bits) {
  std::vector<u8> out((one_a_byte.size() * bits + 7) / 8);
  int per = 8 / bits;
  for (size_t i = 0; i < one_a_byte.size(); ++i) out[i / per] |= u8((one_a_byte[i] & ((1 << bits) - 1)) << (i % per * bits));
  return out;
}

// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
TensorFile read_npy(std::span<const u8> file, const std::string& path, tgf::Dtype wanted) {
  auto bad = [&](const char* why) { fail(path, ": not a readable .npy file: ", why); };
  if (file.size() < 10 || std::memcmp(file.data(), "\x93NUMPY", 6) != 0) bad("it does not begin with \\x93NUMPY");
  size_t length_bytes = file[6] >= 2 ? 4 : 2, length = 0;
  for (size_t i = 0; i < length_bytes; ++i) length |= size_t(file[8 + i]) << (8 * i);
  size_t data = 8 + length_bytes + length;
  if (data > file.size()) bad("its header is cut off");
  std::string_view header(reinterpret_cast<const char*>(file.data()) + 8 + length_bytes, length);
  auto after = [&](std::string_view key) {
    size_t at = header.find(key);
    if (at == header.npos) bad("a field of its header is missing");
    return header.substr(at + key.size());
  };
  std::string_view descr = after("'descr':");
  descr.remove_prefix(std::min(descr.find('\''), descr.size()));
  descr = descr.substr(descr.empty() ? 0 : 1);
  descr = descr.substr(0, descr.find('\''));
  std::string_view fortran = after("'fortran_order':");
  if (fortran.substr(0, 6).find("True") != fortran.npos) bad("it is in Fortran order; save numpy.ascontiguousarray of it");

  TensorFile t;
  std::string_view shape = after("'shape':");
  shape = shape.substr(0, shape.find(')'));
  for (size_t i = 0; i < shape.size();) {
    if (shape[i] < '0' || shape[i] > '9') {
      ++i;
      continue;
    }
    i64 d = 0;
    auto r = std::from_chars(shape.data() + i, shape.data() + shape.size(), d);
    i = size_t(r.ptr - shape.data());
    t.dims.push_back(d);
  }
  const tgf::DtypeRow& row = tgf::row(wanted);
  if (descr != row.npy) fail(path, ": holds numpy dtype ", descr, ", expected ", row.npy, " (", row.text, ")");
  t.dtype = wanted;
  i64 elems = product(t.dims, path), stored = row.bits < 8 ? elems : elems * row.bits / 8;
  if (i64(file.size() - data) != stored) bad("its data has another length than its shape");
  std::span<const u8> bytes = file.subspan(data);
  t.bytes = row.bits < 8 ? pack(bytes, row.bits) : std::vector<u8>(bytes.begin(), bytes.end());
  return t;
}

template <class T, class R>
void append(std::vector<u8>& out, const R& values) {
  for (auto v : values) {
    T x = T(v);
    const u8* p = reinterpret_cast<const u8*>(&x);
    out.insert(out.end(), p, p + sizeof x);
  }
}

TensorFile read_pb(std::span<const u8> file, const std::string& path, tgf::Dtype wanted) {
  tgonnx::TensorProto p;
  if (file.size() > 0x7fffffff || !p.ParseFromArray(file.data(), int(file.size()))) fail(path, ": not an ONNX TensorProto");
  TensorFile t;
  t.dims.assign(p.dims().begin(), p.dims().end());
  t.dtype = wanted;
  const tgf::DtypeRow& row = tgf::row(wanted);
  if (p.data_type() != row.onnx) fail(path, ": holds ONNX data type ", p.data_type(), ", expected ", int(row.onnx), " (", row.text, ")");
  if (p.data_location() == 1) fail(path, ": its data is in another file");
  if (p.has_raw_data()) {
    t.bytes.assign(p.raw_data().begin(), p.raw_data().end());
  } else if (wanted == tgf::Dtype::F32) {
    append<f32>(t.bytes, p.float_data());
  } else if (wanted == tgf::Dtype::F64) {
    append<f64>(t.bytes, p.double_data());
  } else if (wanted == tgf::Dtype::I64) {
    append<i64>(t.bytes, p.int64_data());
  } else if (wanted == tgf::Dtype::U64) {
    append<u64>(t.bytes, p.uint64_data());
  } else if (wanted == tgf::Dtype::U32) {
    append<u32>(t.bytes, p.uint64_data());
  } else if (row.bits == 32) {
    append<i32>(t.bytes, p.int32_data());
  } else if (row.bits == 16) {
    append<u16>(t.bytes, p.int32_data());
  } else {
    append<u8>(t.bytes, p.int32_data());  // kinds under 8 bits are packed already
  }
  if (i64(t.bytes.size()) != tgf::dense_bytes(wanted, product(t.dims, path))) fail(path, ": its data has another length than its shape");
  return t;
}

}  // namespace

TensorFile read_tensor_file(const std::string& path, tgf::Dtype wanted) {
  MappedFile file(path);
  if (path.ends_with(".npy")) return read_npy(file.bytes(), path, wanted);
  if (path.ends_with(".pb")) return read_pb(file.bytes(), path, wanted);
  fail(path, ": expected a .npy file or a .pb file with an ONNX TensorProto");
}

}  // namespace tg
