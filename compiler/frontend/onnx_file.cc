#include "frontend/onnx_file.h"

#include <limits.h>

#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "frontend/onnx_op.h"

namespace tg {
namespace {

// --- the wire: https://protobuf.dev/programming-guides/encoding/
// ---------------------------------------------------------------------------- The file is copied without the bytes of large raw_data;
// protobuf parses the copy. What matters of a message is which of its fields are messages that may hold tensors.
enum class Msg : u8 { Model, Graph, Node, Attribute, Function, Tensor, Other };
Msg field_message(Msg m, u64 field) {
  switch (m) {
    case Msg::Model: return field == 7 ? Msg::Graph : field == 25 ? Msg::Function : Msg::Other;
    case Msg::Graph: return field == 1 ? Msg::Node : field == 5 ? Msg::Tensor : Msg::Other;
    case Msg::Node: return field == 5 ? Msg::Attribute : Msg::Other;
    case Msg::Attribute: return field == 5 || field == 10 ? Msg::Tensor : field == 6 || field == 11 ? Msg::Graph : Msg::Other;
    case Msg::Function: return field == 7 ? Msg::Node : field == 11 ? Msg::Attribute : Msg::Other;
    default: return Msg::Other;
  }
}
constexpr u64 kRawData = 9, kBorrowedOffset = 536870000, kBorrowedBytes = 536870001;
constexpr u64 kBorrowFrom = 256;  // shorter raw_data is parsed as it is

class Stripper {
 public:
  Stripper(const std::string& path, std::span<const u8> file) : path_(path), base_(file.data()) {}

  void strip(std::span<const u8> in, Msg m, int depth, std::string* out) {
    if (depth > kMaxGraphDepth) fail(path_, ": graphs are nested more than ", kMaxGraphDepth, " deep");
    const u8 *p = in.data(), *end = p + in.size();
    while (p < end) {
      const u8* begin = p;
      u64 tag = varint(&p, end), field = tag >> 3;
      switch (tag & 7) {
        case 0: varint(&p, end); break;
        case 1: skip(&p, end, 8); break;
        case 5: skip(&p, end, 4); break;
        case 2: {
          u64 n = varint(&p, end);
          const u8* body = p;
          skip(&p, end, n);
          Msg inner = field_message(m, field);
          if (inner != Msg::Other) {
            std::string copy;
            strip({body, size_t(n)}, inner, depth + (inner == Msg::Graph), &copy);
            put(out, tag);
            put(out, copy.size());
            out->append(copy);
            continue;
          }
          if (m == Msg::Tensor && field == kRawData && n >= kBorrowFrom) {
            put(out, kBorrowedOffset << 3);
            put(out, u64(body - base_));
            put(out, kBorrowedBytes << 3);
            put(out, n);
            continue;
          }
          break;
        }
        default: bad(begin, str("wire type ", tag & 7));
      }
      if (field == 0) bad(begin, "field number 0");
      if (m == Msg::Tensor && (field == kBorrowedOffset || field == kBorrowedBytes)) continue;
      out->append(reinterpret_cast<const char*>(begin), size_t(p - begin));
    }
  }

 private:
  [[noreturn]] void bad(const u8* at, const std::string& why) {
    fail(path_, ": not an ONNX file, or a damaged one: ", why, " at byte ", at - base_);
  }
  u64 varint(const u8** p, const u8* end) {
    u64 v = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (*p == end) bad(*p, "it ends inside a number");
      u8 b = *(*p)++;
      v |= u64(b & 127) << shift;
      if (b < 128) return v;
    }
    bad(*p, "a number of more than 10 bytes");
  }
  void skip(const u8** p, const u8* end, u64 n) {
    if (n > u64(end - *p)) bad(*p, str("a field of ", n, " bytes where ", end - *p, " are left; the file is cut off or damaged"));
    *p += n;
  }
  static void put(std::string* out, u64 v) {
    for (; v >= 128; v >>= 7) out->push_back(char(v | 128));
    out->push_back(char(v));
  }
  const std::string& path_;
  const u8* base_;
};

template <class T, class R>
std::shared_ptr<std::vector<u8>> bytes_of(const R& repeated) {
  auto v = std::make_shared<std::vector<u8>>(size_t(repeated.size()) * sizeof(T));
  T* p = reinterpret_cast<T*>(v->data());
  for (auto e : repeated) *p++ = T(e);
  return v;
}

std::shared_ptr<std::vector<u8>> typed_data(const tgonnx::TensorProto& t, DType d) {
  switch (d.kind) {
    case Kind::F32: return bytes_of<f32>(t.float_data());
    case Kind::F64: return bytes_of<f64>(t.double_data());
    case Kind::I64: return bytes_of<i64>(t.int64_data());
    case Kind::U64: return bytes_of<u64>(t.uint64_data());
    case Kind::U32: return bytes_of<u32>(t.uint64_data());
    case Kind::I32: return bytes_of<i32>(t.int32_data());
    default:  // int32_data: one element each, or for kinds under 8 bits one packed byte each
      return bits(d) == 16 ? bytes_of<u16>(t.int32_data()) : bytes_of<u8>(t.int32_data());
  }
}

}  // namespace

OnnxFile::OnnxFile(const std::string& path) : path_(path), file_(std::make_shared<MappedFile>(path)) {
  if (file_->bytes().empty()) fail(path, ": the file is empty");
  std::string small;
  Stripper(path_, file_->bytes()).strip(file_->bytes(), Msg::Model, 0, &small);
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const u8*>(small.data()), int(std::min<size_t>(small.size(), INT_MAX)));
  in.SetRecursionLimit(kMaxGraphDepth * 3 + 16);  // graph, node, attribute at each level
  if (small.size() > INT_MAX) fail(path, ": more than 2 GiB beside the weights");
  if (!model_.ParseFromCodedStream(&in) || !in.ConsumedEntireMessage()) fail(path, ": not an ONNX file, or a damaged one");
  if (!model_.has_graph()) fail(path, ": not an ONNX file: it holds no graph");
}

ConstantData OnnxFile::tensor(const tgonnx::TensorProto& t, const std::string& what) {
  ConstantData c;
  c.name = t.name();
  c.dtype = onnx_dtype(t.data_type(), what);
  u64 elems = 1;
  for (i64 d : t.dims()) {
    if (d < 0) fail(what, " has a dimension of ", d);
    if (__builtin_mul_overflow(elems, u64(d), &elems) || elems > (u64(1) << 48)) fail(what, " has too many elements");
    c.dims.push_back(d);
  }
  u64 bytes = u64(byte_size(c.dtype.kind, i64(elems)));
  if (t.data_location() == 1) {
    c.bytes = external(t, bytes, what, &c.owner);
  } else if (t.has_borrowed_offset()) {
    c.bytes = file_->bytes().subspan(t.borrowed_offset(), t.borrowed_bytes());
    c.owner = file_;
  } else {
    auto v = t.has_raw_data() ? std::make_shared<std::vector<u8>>(t.raw_data().begin(), t.raw_data().end()) : typed_data(t, c.dtype);
    c.bytes = *v;
    c.owner = v;
  }
  if (c.bytes.size() != bytes)
    fail(what, " has ", c.bytes.size(), " bytes of data, ", bytes, " are needed for ", elems, " elements of ", name(c.dtype));
  if (c.dtype.kind == Kind::Bool && std::any_of(c.bytes.begin(), c.bytes.end(), [](u8 b) { return b > 1; })) {
    auto v = std::make_shared<std::vector<u8>>(c.bytes.begin(), c.bytes.end());
    for (u8& b : *v) b = b != 0;
    c.bytes = *v;
    c.owner = v;
  }
  return c;
}

std::span<const u8> OnnxFile::external(const tgonnx::TensorProto& t, u64 bytes, const std::string& what,
                                       std::shared_ptr<const void>* owner) {
  std::string location;
  u64 offset = 0, length = bytes;
  auto number = [&](const std::string& v) {
    char* end;
    errno = 0;
    u64 n = std::strtoull(v.c_str(), &end, 10);
    if (v.empty() || *end || errno || v[0] == '-') fail(what, ": external data has the bad number \"", v, "\"");
    return n;
  };
  for (const auto& e : t.external_data()) {
    if (e.key() == "location") location = e.value();
    if (e.key() == "offset") offset = number(e.value());
    if (e.key() == "length") length = number(e.value());
  }
  if (location.empty()) fail(what, ": external data without a location");
  if (location[0] == '/') fail(what, ": external data \"", location, "\" is an absolute path; it must be relative to the model's folder");
  // The place after links are resolved must be inside the model's folder.
  size_t slash = path_.rfind('/');
  std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : path_.substr(0, slash);
  char real_folder[PATH_MAX], real[PATH_MAX];
  if (!realpath(folder.c_str(), real_folder)) fail(folder, ": ", std::strerror(errno));
  if (!realpath((folder + "/" + location).c_str(), real))
    fail(what, ": external data \"", location, "\" cannot be read: ", std::strerror(errno));
  std::string inside = std::string(real_folder) == "/" ? "/" : std::string(real_folder) + "/";
  if (std::strncmp(real, inside.c_str(), inside.size())) fail(what, ": external data \"", location, "\" lies outside the model's folder");
  auto& file = others_[real];
  if (!file) file = std::make_shared<MappedFile>(real);
  u64 size = file->bytes().size();
  if (offset > size || length > size - offset)
    fail(what, ": external data \"", location, "\" has ", size, " bytes, ", length, " from byte ", offset, " on are needed");
  *owner = file;
  return file->bytes().subspan(offset, length);
}

ConstantData read_tensor_proto(const std::string& path) {
  MappedFile f(path);
  tgonnx::TensorProto t;
  if (!t.ParseFromArray(f.bytes().data(), int(f.bytes().size()))) fail(path, ": not a TensorProto");
  if (t.has_borrowed_offset() || t.data_location() == 1) fail(path, ": a TensorProto whose data is elsewhere");
  ConstantData c{t.name(), onnx_dtype(t.data_type(), path), {t.dims().begin(), t.dims().end()}, {}, {}};
  auto v = t.has_raw_data() ? std::make_shared<std::vector<u8>>(t.raw_data().begin(), t.raw_data().end()) : typed_data(t, c.dtype);
  c.bytes = *v;
  c.owner = v;
  return c;
}

}  // namespace tg
