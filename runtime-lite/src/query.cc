// What a model says about itself.
#include <string.h>

#include "runtime-lite/src/model.h"

using namespace tgb;

#define TGF_X(Name, NAME, text, bits, cls, onnx, npy) static_assert(uint32_t(tgf::Dtype::Name) == uint32_t(TGB_##NAME));
TGF_DTYPES(TGF_X)
#undef TGF_X

uint32_t tgb_version(void) { return tgf::kRuntimeVersion; }
const char* tgb_dtype_name(tgb_dtype d) { return uint32_t(d) < tgf::kDtypes ? tgf::kDtypeRows[uint32_t(d)].text : "no dtype"; }
uint32_t tgb_dtype_bits(tgb_dtype d) { return uint32_t(d) < tgf::kDtypes ? tgf::kDtypeRows[uint32_t(d)].bits : 0; }

uint32_t tgb_input_count(const tgb_model* m) { return m->n_inputs; }
uint32_t tgb_output_count(const tgb_model* m) { return m->n_outputs; }
uint32_t tgb_var_count(const tgb_model* m) { return m->n_vars; }
uint32_t tgb_variant_count(const tgb_model* m) { return m->n_variants; }

// A query does not change the model but for its message.
static tgb_status missing(const tgb_model* m, const char* what, uint32_t index, uint32_t n) {
  return fail(const_cast<tgb_model*>(m), TGB_BAD_ARGUMENT, "%s %u does not exist: the model has %u", what, index, n);
}

static tgb_status signature(const Signature& s, tgb_signature* out) {
  tgb_signature t = {};
  t.dtype = tgb_dtype(s.s->dtype()), t.name = s.s->name()->c_str();
  t.rank = count(s.s->dims()), t.dims = s.dims, t.vars = s.vars;
  return to_caller(t, out);
}
tgb_status tgb_input(const tgb_model* m, uint32_t i, tgb_signature* out) {
  return i < m->n_inputs ? signature(m->inputs[i], out) : missing(m, "input", i, m->n_inputs);
}
tgb_status tgb_output(const tgb_model* m, uint32_t i, tgb_signature* out) {
  return i < m->n_outputs ? signature(m->outputs[i], out) : missing(m, "output", i, m->n_outputs);
}

tgb_status tgb_variable(const tgb_model* m, uint32_t i, tgb_var* out) {
  if (i >= m->n_vars) return missing(m, "variable", i, m->n_vars);
  const fb::Var& v = *m->b->vars()->Get(i);
  tgb_var t = {0, v.name()->c_str(), v.min(), v.max(), v.multiple()};
  return to_caller(t, out);
}

static uint32_t launches(const fb::Block* b) {
  uint32_t n = 0;
  for (uint32_t i = 0; b && i < count(b->commands()); i++) {
    fb::Command type = b->commands_type()->Get(i);
    if (type == fb::Command::Batch) {
      const fb::Batch& x = *b->commands()->GetAs<fb::Batch>(i);
      for (uint32_t k = 0; k < count(x.steps()); k++) n += x.steps_type()->Get(k) == fb::Step::Launch;
    } else if (type == fb::Command::If) {
      n += launches(b->commands()->GetAs<fb::If>(i)->then()) + launches(b->commands()->GetAs<fb::If>(i)->otherwise());
    } else if (type == fb::Command::While) {
      n += launches(b->commands()->GetAs<fb::While>(i)->body());
    }
  }
  return n;
}

tgb_status tgb_variant(const tgb_model* m, uint32_t i, tgb_variant_info* out) {
  if (i >= m->n_variants) return missing(m, "variant", i, m->n_variants);
  const OpenVariant& v = m->variants[i];
  tgb_variant_info t = {0, v.target, v.open, launches(v.v->body()), v.memory_bytes, v.v->note() ? v.v->note()->c_str() : nullptr};
  return to_caller(t, out);
}

tgb_status tgb_memory_needed(const tgb_model* m, uint32_t i, uint64_t* bytes) {
  if (i >= m->n_variants) return missing(m, "variant", i, m->n_variants);
  *bytes = m->variants[i].memory_bytes;
  return TGB_OK;
}

tgb_status tgb_memory_at(const tgb_model* m, uint32_t i, const int64_t* values, uint32_t n, uint64_t* bytes) {
  if (i >= m->n_variants) return missing(m, "variant", i, m->n_variants);
  tgb_model* owner = const_cast<tgb_model*>(m);
  if (n != m->n_vars) return fail(owner, TGB_BAD_ARGUMENT, "%u values given for %u variables", n, m->n_vars);
  for (uint32_t k = 0; k < n; k++) {
    const fb::Var& v = *m->b->vars()->Get(k);
    if (values[k] < v.min() || values[k] > v.max())
      return fail(owner, TGB_BAD_ARGUMENT, "%s = %lld is outside %lld..%lld", v.name()->c_str(), (long long)values[k], (long long)v.min(), (long long)v.max());
  }
  const OpenVariant& v = m->variants[i];
  size_t room = count(v.v->buffers()) * sizeof(int64_t);
  int64_t* ends = static_cast<int64_t*>(m->memory.alloc(m->memory.ctx, room ? room : 1, 16));
  if (!ends) return fail(owner, TGB_OUT_OF_MEMORY, "no memory for %zu bytes", room);
  *bytes = v.memory_bytes;
  for (uint32_t d = 0; d < v.v->targets()->size(); d++) *bytes += arena_bytes(*v.v, d, values, ends) - arena_bytes(*v.v, d, nullptr, ends);
  m->memory.free(m->memory.ctx, ends);
  return TGB_OK;
}

tgb_status tgb_about(const tgb_model* m, tgb_provenance* out) {
  auto text = [](const flatbuffers::String* s) { return s ? s->c_str() : nullptr; };
  tgb_provenance t = {};
  if (const fb::Provenance* p = m->b->provenance())
    t.made_by = text(p->made_by()), t.model = text(p->model()), t.model_digest = text(p->model_digest()), t.licence = text(p->licence());
  t.min_runtime = m->b->min_runtime(), t.features = m->b->features(), t.file_bytes = m->file_bytes;
  for (uint32_t i = 0; i < count(m->b->segments()); i++) {
    const fb::Segment& s = *m->b->segments()->Get(i);
    if (s.content() == fb::Content::Weights) t.weight_bytes += s.stored();
    if (s.content() == fb::Content::Programs) t.program_bytes += s.stored();
  }
  return to_caller(t, out);
}

tgb_status tgb_output_shape(const tgb_model* m, uint32_t i, int64_t* dims, uint32_t* rank) {
  if (i >= m->n_outputs) return missing(m, "output", i, m->n_outputs);
  const Signature& s = m->outputs[i];
  uint32_t n = count(s.s->dims()), room = *rank;
  *rank = n;
  if (room < n)
    return fail(const_cast<tgb_model*>(m), TGB_BAD_ARGUMENT, "output '%s' has %u axes, room for %u given", s.s->name()->c_str(), n, room);
  memcpy(dims, m->ran ? s.now : s.dims, n * sizeof *dims);
  return TGB_OK;
}

tgb_status tgb_count(const tgb_model* m, tgb_counters* out) {
  tgb_counters c = m->counters;
  c.memory_bytes = m->memory_bytes;
  return to_caller(c, out);
}
