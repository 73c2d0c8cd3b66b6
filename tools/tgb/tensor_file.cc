// Tensors in files: .npy (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html), ONNX's TensorProto (onnx.proto; the wire
// format: https://protobuf.dev/programming-guides/encoding), and raw bytes.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/tgb/tgb.h"

namespace {

struct Bytes {
  const uint8_t* at;
  size_t size;
};

Bytes read_file(const char* path) {
  FILE* f = fopen(path, "rb");
  if (!f) die("%s: %s", path, strerror(errno));
  struct stat st;
  if (fstat(fileno(f), &st) || S_ISDIR(st.st_mode)) die("%s: is no file", path);
  size_t size = size_t(st.st_size);
  uint8_t* p = static_cast<uint8_t*>(must_alloc(size));
  if (fread(p, 1, size, f) != size) die("%s: cannot be read", path);
  fclose(f);
  return {p, size};
}

bool ends_with(const char* s, const char* tail) {
  size_t n = strlen(s), t = strlen(tail);
  return n >= t && !strcmp(s + n - t, tail);
}

// Checks that the product of dims fits and sets bytes.
void set_bytes(const char* path, Tensor* t) {
  int64_t n = 1;
  for (uint32_t i = 0; i < t->rank; i++)
    if (t->dims[i] < 0 || __builtin_mul_overflow(n, t->dims[i], &n) || n > int64_t(1) << 46)
      die("%s: its shape has no sensible size", path);
  t->bytes = size_t(tgf::dense_bytes(t->dtype, n));
}

// One value a byte -> packed, the first in the low bits.
void pack(Tensor* t, const uint8_t* from) {
  uint32_t bits = tgf::row(t->dtype).bits, per = 8 / bits;
  uint8_t* to = static_cast<uint8_t*>(t->data);
  for (int64_t i = 0, n = elements(*t); i < n; i++) to[i / per] |= uint8_t((from[i] & ((1u << bits) - 1)) << (i % per * bits));
}

// ---- .npy

// The text of a key's value in the header's dictionary.
const char* value_of(const char* header, const char* key) {
  char quoted[32];
  snprintf(quoted, sizeof quoted, "'%s'", key);
  const char* p = strstr(header, quoted);
  if (!p) return nullptr;
  p += strlen(quoted);
  while (*p == ' ' || *p == ':') p++;
  return p;
}

tgf::Dtype npy_dtype(const char* path, const char* descr, size_t size, const Tensor& like) {
  char text[8] = {};
  if (size < sizeof text) memcpy(text, descr, size);
  if (text[0] == '=') text[0] = '<';
  const char* expected = tgf::row(like.dtype).npy;
  // Raw bytes of the right width stand for what npy cannot name: numpy writes ml_dtypes as V1 and V2.
  bool raw = text[1] == 'V' && text[2] == expected[2] && expected[1] == 'u';
  if (raw || !strcmp(text + 1, expected + 1)) {
    if (text[0] != '>' || text[2] == '1') return like.dtype;
    die("%s: is big-endian ('%s'); save it as little-endian", path, text);
  }
  if (tgf::row(like.dtype).bits < 8 && (!strcmp(text + 1, "i1") || !strcmp(text + 1, "u1"))) return like.dtype;
  for (uint32_t d = 0; d < tgf::kDtypes; d++)
    if (text[0] != '>' && !strcmp(text + 1, tgf::kDtypeRows[d].npy + 1)) return tgf::Dtype(d);
  die("%s: holds '%.*s', expected '%s' (%s)", path, int(size > 40 ? 40 : size), descr, expected, tgf::row(like.dtype).text);
}

// Column-major elements of `width` bytes into row-major order.
void from_fortran(const Tensor& t, const uint8_t* from, uint8_t* to, size_t width) {
  int64_t index[32] = {}, stride[32];
  int64_t s = 1;
  for (uint32_t i = 0; i < t.rank; i++) stride[i] = s, s *= t.dims[i];
  for (int64_t n = elements(t), i = 0; i < n; i++) {
    int64_t at = 0;
    for (uint32_t k = 0; k < t.rank; k++) at += index[k] * stride[k];
    memcpy(to + size_t(i) * width, from + size_t(at) * width, width);
    for (uint32_t k = t.rank; k-- > 0 && ++index[k] == t.dims[k];) index[k] = 0;
  }
}

Tensor read_npy(const char* path, const Tensor& like) {
  Bytes b = read_file(path);
  if (b.size < 12 || memcmp(b.at, "\x93NUMPY", 6)) die("%s: is not a .npy file", path);
  size_t wide = b.at[6] >= 2 ? 4 : 2, length = b.at[8] | size_t(b.at[9]) << 8;
  if (wide == 4) length |= size_t(b.at[10]) << 16 | size_t(b.at[11]) << 24;
  size_t start = 8 + wide;
  if (length > b.size - start) die("%s: is truncated", path);
  char* header = static_cast<char*>(must_alloc(length + 1));
  memcpy(header, b.at + start, length);
  const char *descr = value_of(header, "descr"), *fortran = value_of(header, "fortran_order"), *shape = value_of(header, "shape");
  if (!descr || !fortran || !shape || *descr != '\'' || *shape != '(')
    die("%s: has a header that is not understood (structured arrays are not)", path);
  Tensor t = {};
  t.dtype = npy_dtype(path, descr + 1, strcspn(descr + 1, "'"), like);
  for (const char* p = shape + 1; *p != ')';) {
    while (*p == ' ' || *p == ',') p++;
    if (*p == ')') break;
    char* end;
    if (t.rank == 32) die("%s: has more than 32 axes", path);
    t.dims[t.rank++] = strtoll(p, &end, 10);
    if (end == p) die("%s: has a header that is not understood", path);
    p = *end == 'L' ? end + 1 : end;
  }
  set_bytes(path, &t);
  uint32_t bits = tgf::row(t.dtype).bits;
  size_t width = bits < 8 ? 1 : bits / 8, n = size_t(elements(t)) * width;
  const uint8_t* data = b.at + start + length;
  if (n != b.size - start - length) die("%s: has %zu bytes of data, its shape needs %zu", path, b.size - start - length, n);
  if (!strncmp(fortran, "True", 4)) {
    uint8_t* turned = static_cast<uint8_t*>(must_alloc(n));
    from_fortran(t, data, turned, width);
    data = turned;
  }
  t.data = must_alloc(t.bytes);
  if (bits < 8)
    pack(&t, data);
  else
    memcpy(t.data, data, t.bytes);
  return t;
}

// ---- TensorProto

struct Wire {
  const char* path;
  const uint8_t *at, *end;

  [[noreturn]] void bad() { die("%s: is not an ONNX TensorProto", path); }
  uint64_t varint() {
    uint64_t v = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at == end) bad();
      uint8_t byte = *at++;
      v |= uint64_t(byte & 127) << shift;
      if (!(byte & 128)) return v;
    }
    bad();
  }
  Wire bytes() {
    uint64_t n = varint();
    if (n > uint64_t(end - at)) bad();
    Wire w = {path, at, at + n};
    at += n;
    return w;
  }
  void skip(uint32_t type) {
    if (type == 0)
      varint();
    else if (type == 2)
      bytes();
    else if (type == 1 || type == 5) {
      size_t n = type == 1 ? 8 : 4;
      if (n > size_t(end - at)) bad();
      at += n;
    } else
      bad();
  }
};

// Values of one of the *_data fields, appended as integers (their bits, for float and double).
struct Values {
  uint64_t* v;
  size_t n, room;
  void add(uint64_t x) {
    if (n == room) {
      room = room ? 2 * room : 1024;
      v = static_cast<uint64_t*>(realloc(v, room * sizeof *v));
      if (!v) die("no memory for %zu values", room);
    }
    v[n++] = x;
  }
  void add_field(Wire& w, uint32_t type, size_t fixed) {  // fixed: bytes of a value; 0: varints
    Wire list = w;
    if (type == 2) {
      list = w.bytes();
    } else if (fixed ? type != (fixed == 4 ? 5u : 1u) : type != 0) {
      w.bad();
    }
    do {
      if (type == 2 && list.at == list.end) return;
      if (fixed) {
        if (size_t(list.end - list.at) < fixed) w.bad();
        uint64_t x = 0;
        memcpy(&x, list.at, fixed);
        list.at += fixed;
        add(x);
      } else {
        add(list.varint());
      }
    } while (type == 2);
    if (type != 2) w.at = list.at;
  }
};

Tensor read_pb(const char* path, const Tensor& like) {
  Bytes b = read_file(path);
  Wire w = {path, b.at, b.at + b.size};
  Tensor t = {};
  uint64_t onnx = 0, location = 0;
  Values dims = {}, values = {};
  Wire raw = {};
  while (w.at != w.end) {
    uint64_t key = w.varint();
    uint32_t field = uint32_t(key >> 3), type = uint32_t(key & 7);
    if (!field) w.bad();
    if (field == 1)
      dims.add_field(w, type, 0);
    else if (field == 2 && type == 0)
      onnx = w.varint();
    else if (field == 4)
      values.add_field(w, type, 4);  // float_data
    else if (field == 5 || field == 7 || field == 11)
      values.add_field(w, type, 0);  // int32_data, int64_data, uint64_data
    else if (field == 10)
      values.add_field(w, type, 8);  // double_data
    else if (field == 9 && type == 2)
      raw = w.bytes();
    else if (field == 14 && type == 0)
      location = w.varint();
    else
      w.skip(type);
  }
  if (location) die("%s: keeps its data in another file, which is not read", path);
  uint32_t d = 0;
  while (d < tgf::kDtypes && tgf::kDtypeRows[d].onnx != onnx) d++;
  if (d == tgf::kDtypes)
    die("%s: has ONNX data type %llu, expected %u (%s)", path, (unsigned long long)onnx, tgf::row(like.dtype).onnx,
        tgf::row(like.dtype).text);
  t.dtype = tgf::Dtype(d);
  if (dims.n > 32) die("%s: has more than 32 axes", path);
  for (t.rank = 0; t.rank < dims.n; t.rank++) t.dims[t.rank] = int64_t(dims.v[t.rank]);
  set_bytes(path, &t);
  t.data = must_alloc(t.bytes);
  if (raw.at) {
    if (size_t(raw.end - raw.at) != t.bytes) die("%s: has %zu bytes of data, its shape needs %zu", path, size_t(raw.end - raw.at), t.bytes);
    memcpy(t.data, raw.at, t.bytes);
  } else {
    // A value of int32_data holds one element, or one byte of packed ones.
    size_t width = tgf::row(t.dtype).bits < 8 ? 1 : tgf::row(t.dtype).bits / 8, n = t.bytes / width;
    if (values.n != n) die("%s: has %zu values, its shape needs %zu", path, values.n, n);
    for (size_t i = 0; i < n; i++) memcpy(static_cast<char*>(t.data) + i * width, &values.v[i], width);
  }
  free(dims.v);
  free(values.v);
  return t;
}

Tensor read_bin(const char* path, const Tensor& like) {
  Bytes b = read_file(path);
  Tensor t = like;
  set_bytes(path, &t);
  if (b.size != t.bytes) die("%s: has %zu bytes, expected %zu", path, b.size, t.bytes);
  t.data = const_cast<uint8_t*>(b.at);
  return t;
}

}  // namespace

int64_t elements(const Tensor& t) {
  int64_t n = 1;
  for (uint32_t i = 0; i < t.rank; i++) n *= t.dims[i];
  return n;
}

Tensor read_tensor(const char* path, const Tensor& like) {
  if (ends_with(path, ".npy")) return read_npy(path, like);
  if (ends_with(path, ".pb")) return read_pb(path, like);
  if (ends_with(path, ".bin")) return read_bin(path, like);
  die("%s: unknown kind of file; known: .npy, .pb (ONNX TensorProto), .bin (raw)", path);
}

bool write_npy(const char* path, const Tensor& t) {
  char header[1024];
  int n = snprintf(header + 10, sizeof header - 10, "{'descr': '%s', 'fortran_order': False, 'shape': (", tgf::row(t.dtype).npy) + 10;
  for (uint32_t i = 0; i < t.rank; i++)
    n += snprintf(header + n, sizeof header - size_t(n), "%lld%s", (long long)t.dims[i], i + 1 < t.rank ? ", " : t.rank == 1 ? "," : "");
  n += snprintf(header + n, sizeof header - size_t(n), "), }");
  while ((n + 1) % 64) header[n++] = ' ';
  header[n++] = '\n';
  memcpy(header, "\x93NUMPY\x01\x00", 8);
  header[8] = char((n - 10) & 255), header[9] = char((n - 10) >> 8);
  FILE* f = fopen(path, "wb");
  if (!f) return false;
  bool good = fwrite(header, 1, size_t(n), f) == size_t(n);
  uint32_t bits = tgf::row(t.dtype).bits;
  if (bits < 8) {
    const uint8_t* from = static_cast<const uint8_t*>(t.data);
    for (int64_t i = 0, e = elements(t); good && i < e; i++)
      good = fputc(from[i * bits / 8] >> (i * bits % 8) & ((1 << bits) - 1), f) != EOF;
  } else {
    good = good && fwrite(t.data, 1, t.bytes, f) == t.bytes;
  }
  good &= fclose(f) == 0;
  return good;
}
