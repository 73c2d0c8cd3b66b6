// From options to a model with inputs: files are read and checked against the signature, free sizes settled, the rest filled at random.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tgb/tgb.h"

tgb_model* open_model(const char* path, const RunOptions& o) {
  const char* profile = getenv("PROFILE");
  if (profile && *profile && strcmp(profile, "0")) fprintf(stderr, "tgb: PROFILE is not built yet; for the times of kernels: tgb bench\n");
  tgb_options options = {};
  options.size = sizeof options;
  options.device = o.device, options.threads = uint32_t(o.threads > 1024 ? 1024 : o.threads);
  tgb_model* m = nullptr;
  if (tgb_open_file(path, &options, &m) != TGB_OK) die("%s", tgb_message(nullptr));
  return m;
}

static tgb_signature input_of(tgb_model* m, uint32_t i) {
  tgb_signature s = {};
  s.size = sizeof s;
  if (tgb_input(m, i, &s) != TGB_OK) die("%s", tgb_message(m));
  return s;
}

Tensor like(const tgb_signature& s) {
  Tensor t = {};
  t.dtype = tgf::Dtype(s.dtype), t.rank = s.rank;
  memcpy(t.dims, s.dims, s.rank * sizeof *s.dims);
  return t;
}

// Which input "NAME_OR_INDEX=FILE" means. Names and files may hold '=' themselves: the first cut that gives an input counts.
static uint32_t find_input(tgb_model* m, const char* path, const char* text, const char** file) {
  uint32_t n = tgb_input_count(m);
  for (const char* cut = strchr(text, '='); cut; cut = strchr(cut + 1, '=')) {
    size_t length = size_t(cut - text);
    *file = cut + 1;
    for (uint32_t i = 0; i < n; i++)
      if (strlen(input_of(m, i).name) == length && !strncmp(input_of(m, i).name, text, length)) return i;
    char* end;
    unsigned long index = strtoul(text, &end, 10);
    if (end == cut && *text >= '0' && *text <= '9' && index < n) return uint32_t(index);
  }
  if (!strchr(text, '=')) die_usage("--input %s: must be NAME_OR_INDEX=FILE", text);
  char names[400] = "";
  size_t at = 0;
  for (uint32_t i = 0; i < n && at < sizeof names; i++)
    at += size_t(snprintf(names + at, sizeof names - at, "%s%s", i ? ", " : "", input_of(m, i).name));
  die("%s has no input '%.*s'; it has: %s", path, int(strchr(text, '=') - text), text, n ? names : "none");
}

static uint64_t next_random(uint64_t* state) {  // splitmix64 (https://prng.di.unimi.it/splitmix64.c)
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

static uint16_t to_half(float f) {  // for |f| in [2^-14, 1]; smaller ones become 0
  uint32_t b;
  memcpy(&b, &f, 4);
  int exponent = int(b >> 23 & 255) - 112;
  return exponent <= 0 ? uint16_t(b >> 16 & 0x8000) : uint16_t((b >> 16 & 0x8000) | uint32_t(exponent) << 10 | (b >> 13 & 0x3ff));
}

// Floats in [-1, 1), bytes of any value, wider integers 0..9 (they are often indices), bools both.
static void fill(Tensor* t, uint64_t* state) {
  uint32_t bits = tgf::row(t->dtype).bits;
  uint8_t* p = static_cast<uint8_t*>(t->data);
  if (bits < 8) {
    for (size_t i = 0; i < t->bytes; i++) p[i] = uint8_t(next_random(state));
    return;
  }
  for (int64_t i = 0, n = elements(*t); i < n; i++, p += bits / 8) {
    uint64_t r = next_random(state);
    double f = double(r >> 11) * 0x1p-52 - 1;
    float f32 = float(f);
    uint64_t v = r % 10;
    switch (t->dtype) {
      case tgf::Dtype::F64: memcpy(&v, &f, 8); break;
      case tgf::Dtype::F32: v = 0, memcpy(&v, &f32, 4); break;
      case tgf::Dtype::BF16: v = 0, memcpy(&v, &f32, 4), v >>= 16; break;
      case tgf::Dtype::F16: v = to_half(f32); break;
      case tgf::Dtype::Bool: v = r & 1; break;
      case tgf::Dtype::I8:
      case tgf::Dtype::U8: v = r & 255; break;
      // Small floats: sign and low exponents only, so never NaN nor infinity.
      case tgf::Dtype::F8E8M0: v = 120 + r % 8; break;
      case tgf::Dtype::F8E4M3FN:
      case tgf::Dtype::F8E4M3FNUZ:
      case tgf::Dtype::F8E5M2:
      case tgf::Dtype::F8E5M2FNUZ: v = (r & 0x80) | (1 + r % 56); break;
      default: break;
    }
    memcpy(p, &v, bits / 8);
  }
}

// The value of a variable: what --var says, else what a given input has, else the largest.
static int64_t var_value(tgb_model* m, const char* name, const RunOptions& o, const Tensor* given, const char* const* from) {
  size_t length = strlen(name);
  for (uint32_t i = 0; i < o.vars.n; i++)
    if (!strncmp(o.vars.item[i], name, length) && o.vars.item[i][length] == '=') {
      char* end;
      int64_t v = strtoll(o.vars.item[i] + length + 1, &end, 10);
      if (*end || end == o.vars.item[i] + length + 1) die_usage("--var %s: must be NAME=N", o.vars.item[i]);
      return v;
    }
  for (uint32_t i = 0; i < tgb_input_count(m); i++) {
    tgb_signature s = input_of(m, i);
    for (uint32_t k = 0; from[i] && k < s.rank && k < given[i].rank; k++)
      if (s.vars[k] && !strcmp(s.vars[k], name)) return given[i].dims[k];
  }
  for (uint32_t i = 0; i < tgb_var_count(m); i++) {
    tgb_var v = {};
    v.size = sizeof v;
    if (tgb_variable(m, i, &v) == TGB_OK && !strcmp(v.name, name)) return v.max;
  }
  return -1;
}

Tensor* make_inputs(tgb_model* m, const char* path, const RunOptions& o, const char*** from) {
  uint32_t n = tgb_input_count(m);
  Tensor* tensors = static_cast<Tensor*>(must_alloc(n * sizeof(Tensor)));
  const char** files = static_cast<const char**>(must_alloc(n * sizeof(char*)));
  for (uint32_t i = 0; i < o.vars.n; i++) {
    bool known = false;
    for (uint32_t k = 0; k < tgb_var_count(m); k++) {
      tgb_var v = {};
      v.size = sizeof v;
      tgb_variable(m, k, &v);
      known |= !strncmp(o.vars.item[i], v.name, strlen(v.name)) && o.vars.item[i][strlen(v.name)] == '=';
    }
    if (!known) die("%s has no free size as in --var %s; see: tgb info %s", path, o.vars.item[i], path);
  }
  for (uint32_t pass = 0; pass < 2; pass++)  // .bin files need the sizes that the others tell
    for (uint32_t i = 0; i < o.inputs.n; i++) {
      const char* file;
      uint32_t k = find_input(m, path, o.inputs.item[i], &file);
      size_t length = strlen(file);
      bool raw = length > 4 && !strcmp(file + length - 4, ".bin");
      if (raw != (pass == 1)) continue;
      if (files[k]) die("input '%s' is given twice", input_of(m, k).name);
      tgb_signature s = input_of(m, k);
      Tensor expected = like(s);
      for (uint32_t a = 0; raw && a < s.rank; a++)
        if (s.vars[a]) expected.dims[a] = var_value(m, s.vars[a], o, tensors, files);
      tensors[k] = read_tensor(file, expected);
      files[k] = file;
    }
  uint64_t state = o.seed;
  for (uint32_t i = 0; i < n; i++) {
    if (files[i]) continue;
    tgb_signature s = input_of(m, i);
    Tensor t = like(s);
    for (uint32_t a = 0; a < s.rank; a++) {
      if (s.vars[a]) t.dims[a] = var_value(m, s.vars[a], o, tensors, files);
      if (t.dims[a] < 0) die("input '%s' has the size %s, which cannot be guessed: give it with --input", s.name, s.vars[a]);
    }
    t.bytes = size_t(tgf::dense_bytes(t.dtype, elements(t)));
    t.data = must_alloc(t.bytes);
    fill(&t, &state);
    tensors[i] = t;
  }
  *from = files;
  return tensors;
}

tgb_tensor to_tgb(const Tensor& t) {
  tgb_tensor x = {};
  x.size = sizeof x, x.dtype = tgb_dtype(t.dtype), x.data = t.data, x.bytes = t.bytes, x.rank = t.rank, x.dims = t.dims;
  return x;
}

const char* shape_text(char* room, size_t bytes, const tgb_tensor& t) {
  size_t at = size_t(snprintf(room, bytes, "%s[", tgb_dtype_name(t.dtype)));
  for (uint32_t i = 0; i < t.rank && at < bytes; i++)
    at += size_t(snprintf(room + at, bytes - at, "%s%lld", i ? "," : "", (long long)t.dims[i]));
  if (at < bytes) snprintf(room + at, bytes - at, "]");
  return room;
}

void print_element(const tgb_tensor& t, int64_t i) {
  const tgf::DtypeRow& row = tgf::row(tgf::Dtype(t.dtype));
  const uint8_t* p = static_cast<const uint8_t*>(t.data) + i * row.bits / 8;
  uint64_t raw = 0;
  memcpy(&raw, p, row.bits < 8 ? 1 : row.bits / 8);
  if (row.bits < 8) raw = raw >> (i * row.bits % 8) & ((1u << row.bits) - 1);
  float f;
  double d;
  switch (tgf::Dtype(t.dtype)) {
    case tgf::Dtype::F32: memcpy(&f, &raw, 4), printf(" %.6g", double(f)); break;
    case tgf::Dtype::F64: memcpy(&d, &raw, 8), printf(" %.6g", d); break;
    case tgf::Dtype::BF16: {
      uint32_t bits = uint32_t(raw) << 16;
      memcpy(&f, &bits, 4), printf(" %.4g", double(f));
      break;
    }
    case tgf::Dtype::F16: {
      int exponent = int(raw >> 10 & 31), fraction = int(raw & 1023);
      d = exponent == 31 ? (fraction ? double(NAN) : double(INFINITY))
          : exponent     ? (1024 + fraction) * 0x1p-25 * double(1u << exponent)
                         : fraction * 0x1p-24;
      printf(" %.4g", raw >> 15 ? -d : d);
      break;
    }
    default:
      if (row.cls == tgf::Class::Int)
        printf(" %lld", (long long)(int64_t(raw << (64 - row.bits)) >> (64 - row.bits)));
      else if (row.cls == tgf::Class::Float)
        printf(" 0x%llx", (unsigned long long)raw);
      else
        printf(" %llu", (unsigned long long)raw);
  }
}
