// One run: the caller's tensors are checked against the signature, variables are read off their shapes, the first variant that fits is
// taken, its memory planned if sizes changed, inputs and outputs put in place without a copy where that is allowed, and its commands
// executed.
#include <stdio.h>
#include <string.h>

#include "runtime-lite/src/model.h"
#include "runtime-lite/src/os.h"

using namespace tgb;

namespace {

const char* side_name(tgb_side side) { return side == TGB_INPUT ? "input" : "output"; }
tgf::Dtype dtype_of(const fb::Signature& s) { return tgf::Dtype(s.dtype()); }

// "[1,3,N]" of a signature, "[1,3,4]" of numbers.
const char* shape_text(char* room, size_t bytes, uint32_t rank, const int64_t* dims, const char* const* vars) {
  size_t at = size_t(snprintf(room, bytes, "["));
  for (uint32_t i = 0; i < rank && at < bytes; i++) {
    const char* comma = i ? "," : "";
    at += vars && vars[i] ? size_t(snprintf(room + at, bytes - at, "%s%s", comma, vars[i]))
                          : size_t(snprintf(room + at, bytes - at, "%s%lld", comma, (long long)dims[i]));
  }
  if (at < bytes) snprintf(room + at, bytes - at, "]");
  return room;
}

bool dense_bytes(const fb::Signature& s, const int64_t* dims, uint32_t rank, uint64_t* out) {
  int64_t n = 1;
  for (uint32_t i = 0; i < rank; i++)
    if (dims[i] < 0 || __builtin_mul_overflow(n, dims[i], &n)) return false;
  if (n > tgf::kMaxBytes) return false;
  *out = uint64_t(tgf::dense_bytes(dtype_of(s), n));
  return true;
}

// dtype, rank and fixed sizes; variables of inputs go to m->next.
tgb_status check_tensor(tgb_model* m, tgb_side side, const Signature& s, const tgb_tensor& t) {
  const char* name = s.s->name()->c_str();
  uint32_t rank = count(s.s->dims());
  char got[160], want[160];
  uint32_t dtype;  // the caller's enum may hold anything
  memcpy(&dtype, &t.dtype, sizeof dtype);
  if (dtype != uint32_t(s.s->dtype()))
    return fail(m, TGB_BAD_ARGUMENT, "%s '%s' is %s, expected %s", side_name(side), name,
                dtype < tgf::kDtypes ? tgf::kDtypeRows[dtype].text : "no dtype", tgf::row(dtype_of(*s.s)).text);
  if (!t.dims) {
    for (uint32_t k = 0; side == TGB_INPUT && k < rank; k++)
      if (s.vars[k]) return fail(m, TGB_BAD_ARGUMENT, "input '%s' has free sizes: dims must be given", name);
    return TGB_OK;
  }
  bool good = t.rank == rank;
  for (uint32_t k = 0; good && k < rank; k++) good = t.dims[k] >= 0 && (s.vars[k] || t.dims[k] == s.dims[k]);
  if (!good)
    return fail(m, TGB_BAD_ARGUMENT, "%s '%s' has shape %s, expected %s", side_name(side), name,
                shape_text(got, sizeof got, t.rank, t.dims, nullptr), shape_text(want, sizeof want, rank, s.dims, s.vars));
  if (side == TGB_OUTPUT) return TGB_OK;
  for (uint32_t k = 0; k < rank; k++) {
    int32_t var = s.s->dims()->Get(k)->var();
    if (var < 0) continue;
    const fb::Var& v = *m->b->vars()->Get(uint32_t(var));
    int64_t& value = m->next[var];
    if (value != kUnknown && value != t.dims[k])
      return fail(m, TGB_BAD_ARGUMENT, "input '%s' has %s = %lld, an earlier input has %lld", name, v.name()->c_str(), (long long)t.dims[k],
                  (long long)value);
    value = t.dims[k];
    if (value < v.min() || value > v.max() || value % v.multiple())
      return fail(m, TGB_BAD_ARGUMENT, "input '%s' has %s = %lld, allowed are multiples of %lld from %lld to %lld", name, v.name()->c_str(),
                  (long long)value, (long long)v.multiple(), (long long)v.min(), (long long)v.max());
  }
  return TGB_OK;
}

// Host memory is what kernels of a host device use as it is.
void see(tgb_model* m, Binding* b) {
  b->memory = {};
  if (b->tensor.memory == TGB_HOST && m->devices[0].info.host) b->memory = {b->tensor.data, 0, b->tensor.bytes};
}

// What the caller gives for one side in this run, or what is bound.
tgb_status gather(tgb_model* m, tgb_side side, const tgb_tensor* tensors, uint32_t n) {
  uint32_t expected = side == TGB_INPUT ? m->n_inputs : m->n_outputs;
  Signature* list = side == TGB_INPUT ? m->inputs : m->outputs;
  if (n && n != expected) return fail(m, TGB_BAD_ARGUMENT, "%u %ss given, the model has %u", n, side_name(side), expected);
  for (uint32_t i = 0; i < expected; i++) {
    Signature& s = list[i];
    s.used = s.bound.set ? &s.bound : nullptr;
    if (n) {
      uint32_t stride = tensors[0].size;
      auto* p = reinterpret_cast<const tgb_tensor*>(reinterpret_cast<const char*>(tensors) + size_t(i) * stride);
      tgb_tensor t = from_caller(p, stride);
      bool empty = side == TGB_INPUT && !t.bytes && t.dims;  // a tensor of no elements
      if (t.data || empty) {
        if (t.memory != TGB_HOST)
          return fail(m, TGB_BAD_ARGUMENT, "%s '%s': device memory must be bound by tgb_bind", side_name(side), s.s->name()->c_str());
        s.given.tensor = t;
        see(m, &s.given);
        s.used = &s.given;
      }
    }
    if (side == TGB_INPUT && !s.used) return fail(m, TGB_BAD_ARGUMENT, "input '%s' is neither given nor bound", s.s->name()->c_str());
    if (!s.used) continue;
    tgb_status status = check_tensor(m, side, s, s.used->tensor);
    if (status != TGB_OK) return status;
  }
  return TGB_OK;
}

// The shape of s for the present variables, and its bytes.
tgb_status shape_now(tgb_model* m, tgb_side side, Signature& s, uint64_t* bytes) {
  uint32_t rank = count(s.s->dims());
  for (uint32_t k = 0; k < rank; k++)
    if (s.vars[k]) s.now[k] = evaluate(s.s->dims()->Get(k)->size(), m->vars);
  if (!dense_bytes(*s.s, s.now, rank, bytes))
    return fail(m, TGB_BAD_ARGUMENT, "%s '%s' has no size at these variables", side_name(side), s.s->name()->c_str());
  return TGB_OK;
}

OpenVariant* fitting_variant(tgb_model* m) {
  for (uint32_t i = 0; i < m->n_variants; i++) {
    OpenVariant& v = m->variants[i];
    bool fits = v.open;
    for (uint32_t k = 0; fits && k < count(v.v->bounds()); k++) {
      const fb::Bound& b = *v.v->bounds()->Get(k);
      int64_t value = m->next[b.var()];
      fits = value == kUnknown || (value >= b.min() && value <= b.max());
    }
    if (fits) return &v;
  }
  return nullptr;
}

// Takes m->next over into m->vars; what no input says has its upper bound until a command sets it.
bool update_vars(tgb_model* m, const OpenVariant& v) {
  bool same = true;
  for (uint32_t i = 0; i < m->n_vars; i++) {
    int64_t value = m->next[i];
    if (value == kUnknown) {
      value = m->b->vars()->Get(i)->max();
      for (uint32_t k = 0; k < count(v.v->bounds()); k++)
        if (v.v->bounds()->Get(k)->var() == i) value = v.v->bounds()->Get(k)->max();
    }
    same &= m->vars[i] == value;
    m->vars[i] = value;
  }
  return same;
}

bool overlap(const tgb_tensor& a, const tgb_tensor& b) {
  uint64_t x = uint64_t(a.data), y = uint64_t(b.data);
  return a.memory == TGB_HOST && b.memory == TGB_HOST && x < y + b.bytes && y < x + a.bytes;
}

bool suits(const Binding& b, const fb::Buffer& buffer, uint64_t bytes) {
  return (b.memory.handle || !bytes) && b.tensor.bytes >= bytes && (uint64_t(b.memory.handle) + b.memory.offset) % buffer.align() == 0;
}

tgb_status place_outputs(tgb_model* m, OpenVariant* v) {
  for (uint32_t i = 0; i < m->n_outputs; i++) {
    Signature& s = m->outputs[i];
    if (!s.used) continue;
    uint64_t bytes;
    tgb_status status = shape_now(m, TGB_OUTPUT, s, &bytes);
    if (status != TGB_OK) return status;
    const tgb_tensor& t = s.used->tensor;
    if (!v->sets_vars) {  // else the shape is known after the run only
      uint32_t rank = count(s.s->dims());
      char got[160], want[160];
      for (uint32_t k = 0; t.dims && k < rank; k++)
        if (t.dims[k] != s.now[k])
          return fail(m, TGB_BAD_ARGUMENT, "output '%s' has shape %s, expected %s", s.s->name()->c_str(),
                      shape_text(got, sizeof got, rank, t.dims, nullptr), shape_text(want, sizeof want, rank, s.now, nullptr));
      if (t.bytes < bytes)
        return fail(m, TGB_BAD_ARGUMENT, "output '%s' needs %llu bytes, %zu given", s.s->name()->c_str(), (unsigned long long)bytes,
                    t.bytes);
    }
    for (uint32_t k = 0; k < i; k++)
      if (m->outputs[k].used && overlap(m->outputs[k].used->tensor, t))
        return fail(m, TGB_BAD_ARGUMENT, "outputs '%s' and '%s' overlap in memory", m->outputs[k].s->name()->c_str(), s.s->name()->c_str());
    uint32_t buffer = v->output_buffer[i];
    if ((s.used->direct = suits(*s.used, *v->v->buffers()->Get(buffer), uint64_t(v->bytes[buffer])))) v->table[buffer] = s.used->memory;
  }
  return TGB_OK;
}

tgb_status place_inputs(tgb_model* m, OpenVariant* v) {
  for (uint32_t i = 0; i < m->n_inputs; i++) {
    Signature& s = m->inputs[i];
    const tgb_tensor& t = s.used->tensor;
    const char* name = s.s->name()->c_str();
    uint64_t bytes;
    tgb_status status = shape_now(m, TGB_INPUT, s, &bytes);
    if (status != TGB_OK) return status;
    char got[160], want[160];
    for (uint32_t k = 0; t.dims && k < t.rank; k++)
      if (t.dims[k] != s.now[k])
        return fail(m, TGB_BAD_ARGUMENT, "input '%s' has shape %s, expected %s at these variables", name,
                    shape_text(got, sizeof got, t.rank, t.dims, nullptr), shape_text(want, sizeof want, t.rank, s.now, nullptr));
    if (t.bytes != bytes)
      return fail(m, TGB_BAD_ARGUMENT, "input '%s' has %zu bytes, expected %llu", name, t.bytes, (unsigned long long)bytes);
    uint32_t buffer = v->input_buffer[i];
    if (buffer == kNone) continue;  // the model does not look at it
    if (uint64_t(v->bytes[buffer]) > bytes) return fail(m, TGB_BAD_BUNDLE, "input '%s' is read beyond its end", name);
    bool direct = !v->written[buffer] && suits(*s.used, *v->v->buffers()->Get(buffer), bytes);
    for (uint32_t k = 0; direct && k < m->n_outputs; k++)
      direct = !(m->outputs[k].used && m->outputs[k].used->direct && overlap(t, m->outputs[k].used->tensor));
    s.used->direct = direct;
    if (direct) {
      v->table[buffer] = s.used->memory;
      continue;
    }
    OpenDevice* d = device_of(m, *v, v->v->buffers()->Get(buffer)->device());
    if (s.used->tensor.memory != TGB_HOST) return fail(m, TGB_UNSUPPORTED, "input '%s' would have to be copied from device memory", name);
    status = d->backend->write(d->device, v->table[buffer], t.data, uint64_t(v->bytes[buffer]));
    if (status != TGB_OK) return device_failed(m, *d, status, "take an input");
  }
  return TGB_OK;
}

// The buffer's own place again, where a run before had put the caller's memory.
void restore(tgb_model* m, OpenVariant* v, uint32_t buffer) {
  if (buffer == kNone) return;
  const OpenDevice& d = *device_of(m, *v, v->v->buffers()->Get(buffer)->device());
  v->table[buffer] = {d.arena.handle, d.arena.offset + uint64_t(v->offsets[buffer]), uint64_t(v->bytes[buffer])};
}

tgb_status start(tgb_model* m, const tgb_tensor* inputs, uint32_t n_inputs, tgb_tensor* outputs, uint32_t n_outputs) {
  if (m->options.inspect) return fail(m, TGB_BAD_ARGUMENT, "the model was opened to inspect it, not to run");
  if (m->started) return fail(m, TGB_BAD_ARGUMENT, "a run is going on: call tgb_wait first");
  m->run_start = os_clock_ns();
  for (uint32_t i = 0; i < m->n_devices; i++) m->devices[i].backend->replay(m->devices[i].device, nullptr, nullptr, nullptr);
  for (uint32_t i = 0; i < m->n_vars; i++) m->next[i] = kUnknown;
  tgb_status s = gather(m, TGB_INPUT, inputs, n_inputs);
  if (s == TGB_OK) s = gather(m, TGB_OUTPUT, outputs, n_outputs);
  if (s != TGB_OK) return s;
  OpenVariant* v = fitting_variant(m);
  if (!v) return fail(m, TGB_BAD_ARGUMENT, "no variant in the bundle is compiled for these sizes; see them with: tgb info");
  bool same = update_vars(m, *v) && v == m->current;
  m->current = v;
  if (!v->planned || !(same || v->fixed)) s = plan_variant(m, v);
  if (s != TGB_OK) return s;
  for (uint32_t i = 0; i < m->n_inputs; i++) restore(m, v, v->input_buffer[i]);
  for (uint32_t i = 0; i < m->n_outputs; i++) restore(m, v, v->output_buffer[i]);
  if ((s = place_outputs(m, v)) != TGB_OK || (s = place_inputs(m, v)) != TGB_OK) return s;
  if ((s = execute(m, v, v->n_prepare, v->n_commands)) != TGB_OK) return s;
  OpenDevice& d = m->devices[0];
  s = d.backend->fence(d.device, &m->fence);
  if (s != TGB_OK) return device_failed(m, d, s, "set a fence");
  m->user_outputs = outputs, m->n_user_outputs = n_outputs;
  m->started = true;
  return TGB_OK;
}

// Hands one output over: copied to where it is wanted, or shown in the model's own memory.
tgb_status deliver(tgb_model* m, OpenVariant* v, uint32_t i) {
  Signature& s = m->outputs[i];
  uint64_t bytes;
  tgb_status status = shape_now(m, TGB_OUTPUT, s, &bytes);
  if (status != TGB_OK) return status;
  uint32_t buffer = v->output_buffer[i];
  if (bytes > uint64_t(v->bytes[buffer])) return fail(m, TGB_BAD_BUNDLE, "output '%s' is larger than its buffer", s.s->name()->c_str());
  OpenDevice* d = device_of(m, *v, v->v->buffers()->Get(buffer)->device());
  if (s.used && !s.used->direct) {
    const tgb_tensor& t = s.used->tensor;
    if (t.bytes < bytes)
      return fail(m, TGB_BAD_ARGUMENT, "output '%s' needs %llu bytes, %zu given", s.s->name()->c_str(), (unsigned long long)bytes, t.bytes);
    status = d->backend->read(d->device, v->table[buffer], t.data, bytes);
    if (status != TGB_OK) return device_failed(m, *d, status, "give an output");
  }
  if (s.used || !m->n_user_outputs) return TGB_OK;
  uint32_t stride = m->user_outputs[0].size;
  auto* p = reinterpret_cast<tgb_tensor*>(reinterpret_cast<char*>(m->user_outputs) + size_t(i) * stride);
  tgb_tensor t = from_caller(p, stride);
  if (!d->backend->map) return fail(m, TGB_UNSUPPORTED, "output '%s' is in device memory: give it a place", s.s->name()->c_str());
  status = d->backend->map(d->device, v->table[buffer], &t.data);
  if (status != TGB_OK) return device_failed(m, *d, status, "show an output");
  t.dtype = tgb_dtype(s.s->dtype()), t.bytes = bytes, t.rank = count(s.s->dims()), t.dims = s.now;
  memcpy(p, &t, stride < sizeof t ? stride : sizeof t);
  return TGB_OK;
}

}  // namespace

tgb_status tgb_start(tgb_model* m, const tgb_tensor* inputs, uint32_t n_inputs, tgb_tensor* outputs, uint32_t n_outputs) {
  return start(m, inputs, n_inputs, outputs, n_outputs);
}

tgb_status tgb_wait(tgb_model* m, uint64_t timeout_ns) {
  if (!m->started) return fail(m, TGB_BAD_ARGUMENT, "no run was started");
  OpenDevice& d = m->devices[0];
  tgb_status s = d.backend->wait(d.device, m->fence, timeout_ns);
  if (s == TGB_TIMEOUT) return s;
  m->started = false;
  if (s != TGB_OK) return device_failed(m, d, s, "finish a run");
  for (uint32_t i = 0; i < m->n_outputs; i++)
    if ((s = deliver(m, m->current, i)) != TGB_OK) return s;
  m->ran = true;
  m->counters.runs++;
  m->counters.last_ns = os_clock_ns() - m->run_start;
  m->counters.total_ns += m->counters.last_ns;
  return TGB_OK;
}

tgb_status tgb_run(tgb_model* m, const tgb_tensor* inputs, uint32_t n_inputs, tgb_tensor* outputs, uint32_t n_outputs) {
  tgb_status s = start(m, inputs, n_inputs, outputs, n_outputs);
  return s == TGB_OK ? tgb_wait(m, UINT64_MAX) : s;
}

tgb_status tgb_bind(tgb_model* m, tgb_side side, uint32_t index, const tgb_tensor* tensor) {
  if (m->options.inspect) return fail(m, TGB_BAD_ARGUMENT, "the model was opened to inspect it, not to run");
  uint32_t n = side == TGB_INPUT ? m->n_inputs : m->n_outputs;
  if (index >= n) return fail(m, TGB_BAD_ARGUMENT, "%s %u does not exist: the model has %u", side_name(side), index, n);
  Signature& s = (side == TGB_INPUT ? m->inputs : m->outputs)[index];
  if (!tensor) {
    s.bound = {};
    return TGB_OK;
  }
  Binding b = {true, false, from_caller(tensor, tensor->size), {}};
  for (uint32_t i = 0; i < m->n_vars; i++) m->next[i] = kUnknown;
  tgb_status status = check_tensor(m, side, s, b.tensor);
  if (status != TGB_OK) return status;
  OpenDevice& d = m->devices[0];
  if (d.backend->import) {
    status = d.backend->import(d.device, uint32_t(b.tensor.memory), b.tensor.data, b.tensor.handle, b.tensor.bytes, &b.memory);
    if (status != TGB_OK) return device_failed(m, d, status, "bind memory");
  } else if (b.tensor.memory != TGB_HOST) {
    return fail(m, TGB_UNSUPPORTED, "%s takes host memory only", d.backend->name);
  }
  s.bound = b;
  return TGB_OK;
}

tgb_status tgb_reset(tgb_model* m) {
  if (m->options.inspect) return TGB_OK;
  for (uint32_t v = 0; v < m->n_variants; v++)
    for (uint32_t i = 0; m->variants[v].open && i < m->variants[v].n_buffers; i++) {
      const fb::Buffer& b = *m->variants[v].v->buffers()->Get(i);
      if (b.kind() != fb::BufferKind::State) continue;
      OpenDevice* d = device_of(m, m->variants[v], b.device());
      const fb::State& s = *m->b->states()->Get(b.index());
      const Mem& to = m->variants[v].table[i];
      tgb_status status = TGB_OK;
      if (s.init() >= 0) {
        const fb::Form& f = *m->b->constants()->Get(uint32_t(s.init()))->forms()->Get(0);
        if ((status = unpack(m, uint32_t(f.segment()))) != TGB_OK) return status;
        status = d->backend->write(d->device, to, m->segments[f.segment()] + f.offset(), s.bytes());
      } else {
        static const char zeros[256] = {};
        for (uint64_t at = 0; status == TGB_OK && at < s.bytes(); at += sizeof zeros) {
          Mem part = {to.handle, to.offset + at, s.bytes() - at};
          status = d->backend->write(d->device, part, zeros, part.bytes < sizeof zeros ? part.bytes : sizeof zeros);
        }
      }
      if (status != TGB_OK) return device_failed(m, *d, status, "reset state");
    }
  return TGB_OK;
}

tgb_status tgb_profile(tgb_model* m, tgb_profiler profiler, void* ctx) {
  if (m->options.inspect) return fail(m, TGB_BAD_ARGUMENT, "the model was opened to inspect it, not to run");
  m->profiler = profiler, m->profiler_ctx = ctx;
  bool timed = profiler != nullptr;
  if (timed == m->timed) return TGB_OK;
  m->timed = timed;
  for (uint32_t i = 0; i < m->n_variants; i++) {
    if (!m->variants[i].open) continue;
    forget_variant(m, &m->variants[i]);
    tgb_status s = record_variant(m, &m->variants[i]);
    if (s != TGB_OK) return s;
  }
  return TGB_OK;
}
