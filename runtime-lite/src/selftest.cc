// tgb_check and tgb_selftest: is the file intact, and does it compute here what it did where it was made?
#include <math.h>
#include <string.h>

#include "runtime-lite/src/model.h"

using namespace tgb;

tgb_status tgb_check(tgb_model* m) {
  for (uint32_t i = 0; i < count(m->b->segments()); i++)
    if (!tgf::segment_intact(m->file, *m->b->segments()->Get(i)))
      return fail(m, TGB_BAD_BUNDLE, "segment %u is damaged (digest); copy the file again", i);
  return TGB_OK;
}

namespace {

template <class T>
T load(const void* p, uint64_t i) {
  T v;
  memcpy(&v, static_cast<const char*>(p) + i * sizeof v, sizeof v);
  return v;
}

double half(uint16_t h) {
  int exponent = h >> 10 & 31, fraction = h & 1023;
  double v = exponent == 31 ? (fraction ? double(NAN) : double(INFINITY))
             : exponent     ? (1024 + fraction) * 0x1p-25 * double(1u << exponent)
                            : fraction * 0x1p-24;
  return h >> 15 ? -v : v;
}

// Element i as a double; false: a kind that is compared bit by bit.
bool number(tgf::Dtype d, const void* p, uint64_t i, double* out) {
  switch (d) {
    case tgf::Dtype::F16: *out = half(load<uint16_t>(p, i)); return true;
    case tgf::Dtype::BF16: {
      uint32_t bits = uint32_t(load<uint16_t>(p, i)) << 16;
      *out = double(load<float>(&bits, 0));
      return true;
    }
    case tgf::Dtype::F32: *out = double(load<float>(p, i)); return true;
    case tgf::Dtype::F64: *out = load<double>(p, i); return true;
    default: return false;
  }
}

tgb_status compare(tgb_model* m, const fb::TestVector& t, uint32_t index, const fb::TestTensor& want, const tgb_tensor& got) {
  const Signature& s = m->outputs[index];
  const char* test = t.name() ? t.name()->c_str() : "test";
  const void* expected = m->file + m->b->segments()->Get(want.segment())->offset() + want.offset();
  if (want.bytes() != got.bytes)
    return fail(m, TGB_MISMATCH, "%s: output '%s' has %zu bytes, expected %llu", test, s.s->name()->c_str(), got.bytes,
                (unsigned long long)want.bytes());
  tgf::Dtype d = tgf::Dtype(s.s->dtype());
  double a, b;
  if (!got.bytes || !number(d, got.data, 0, &a)) {
    if (!memcmp(got.data, expected, got.bytes)) return TGB_OK;
    return fail(m, TGB_MISMATCH, "%s: output '%s' is not what it must be", test, s.s->name()->c_str());
  }
  uint64_t n = got.bytes * 8 / tgf::row(d).bits;
  for (uint64_t i = 0; i < n; i++) {
    number(d, got.data, i, &a), number(d, expected, i, &b);
    bool same = a == b || (a != a && b != b) || fabs(a - b) <= t.absolute() + t.relative() * fabs(b);
    if (!same)
      return fail(m, TGB_MISMATCH, "%s: output '%s', element %llu is %g, expected %g", test, s.s->name()->c_str(), (unsigned long long)i, a,
                  b);
  }
  return TGB_OK;
}

}  // namespace

tgb_status tgb_selftest(tgb_model* m) {
  if (!count(m->b->tests())) return fail(m, TGB_UNSUPPORTED, "the bundle has no test vectors: compile with --embed-test");
  if (m->options.inspect) return fail(m, TGB_BAD_ARGUMENT, "the model was opened to inspect it, not to run");
  constexpr uint32_t kMost = 64;
  if (m->n_inputs > kMost || m->n_outputs > kMost) return fail(m, TGB_UNSUPPORTED, "more than 64 inputs or outputs");
  for (uint32_t i = 0; i < count(m->b->tests()); i++) {
    const fb::TestVector& t = *m->b->tests()->Get(i);
    tgb_tensor inputs[kMost] = {}, outputs[kMost] = {};
    for (uint32_t k = 0; k < m->n_inputs; k++) {
      const fb::TestTensor& x = *t.inputs()->Get(k);
      const fb::Segment& s = *m->b->segments()->Get(x.segment());
      if (s.codec() != fb::Codec::Plain) return fail(m, TGB_UNSUPPORTED, "test vectors are compressed");
      if (!tgf::segment_intact(m->file, s)) return fail(m, TGB_BAD_BUNDLE, "the test vectors are damaged (digest); copy the file again");
      inputs[k].size = sizeof inputs[k];
      inputs[k].dtype = tgb_dtype(m->inputs[k].s->dtype());
      inputs[k].data = const_cast<uint8_t*>(m->file + s.offset() + x.offset()), inputs[k].bytes = x.bytes();
      inputs[k].rank = count(x.dims()), inputs[k].dims = x.dims() ? reinterpret_cast<const int64_t*>(x.dims()->Data()) : nullptr;
    }
    for (uint32_t k = 0; k < m->n_outputs; k++) outputs[k].size = sizeof outputs[k];
    tgb_status s = tgb_run(m, inputs, m->n_inputs, outputs, m->n_outputs);
    for (uint32_t k = 0; s == TGB_OK && k < m->n_outputs; k++)
      if (outputs[k].data) s = compare(m, t, k, *t.outputs()->Get(k), outputs[k]);
    if (s != TGB_OK) return s;
  }
  return TGB_OK;
}
