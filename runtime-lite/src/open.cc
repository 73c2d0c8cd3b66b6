// tgb_open: from bytes to a model that can run. Everything is checked before anything is used, and everything is allocated here.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime-lite/src/model.h"
#include "runtime-lite/src/os.h"
#ifdef TGB_ZSTD
#define ZSTD_STATIC_LINKING_ONLY  // for a context in the caller's memory
#include <zstd.h>
#endif

namespace tgb {

static __thread char open_message[640];

tgb_status fail(tgb_model* m, tgb_status status, const char* format, ...) {
  va_list args;
  va_start(args, format);
  int n = m->name[0] ? snprintf(m->message, sizeof m->message, "%s: ", m->name) : 0;
  vsnprintf(m->message + n, sizeof m->message - size_t(n), format, args);
  va_end(args);
  return status;
}

tgb_status device_failed(tgb_model* m, const OpenDevice& d, tgb_status status, const char* doing) {
  return fail(m, status, "%s cannot %s: %s", d.backend->name, doing, d.backend->message(d.device));
}

void* take_bytes(tgb_model* m, size_t bytes) {
  bytes = align_up(bytes ? bytes : 1, 16);
  if (bytes > m->bump_left) {
    size_t want = bytes > 4000 ? bytes : 16000;
    Block* b = static_cast<Block*>(m->memory.alloc(m->memory.ctx, want + 16, 16));
    if (!b) {
      fail(m, TGB_OUT_OF_MEMORY, "no memory for %zu bytes", want);
      return nullptr;
    }
    b->next = m->blocks, m->blocks = b;
    m->memory_bytes += want + 16;
    char* room = reinterpret_cast<char*>(b) + 16;
    memset(room, 0, want);
    if (bytes > 4000) return room;  // a block of its own; what the last one has left stays in use
    m->bump = room, m->bump_left = want;
  }
  void* p = m->bump;
  m->bump += bytes, m->bump_left -= bytes;
  return p;
}

constexpr size_t kHuge = size_t(2) << 20;

// The unpacked bytes of a segment: where it is mapped if that serves, else in memory of its own.
tgb_status unpack(tgb_model* m, uint32_t index) {
  if (m->segments[index]) return TGB_OK;
  const fb::Segment& s = *m->b->segments()->Get(index);
  const uint8_t* stored = m->file + s.offset();
  if (s.codec() == fb::Codec::Plain && !m->options.huge) {
    m->segments[index] = stored;
    return TGB_OK;
  }
#ifndef TGB_ZSTD
  if (s.codec() == fb::Codec::Zstd)
    return fail(m, TGB_UNSUPPORTED, "its weights are compressed, and this runtime was built without TGB_ZSTD; compile without --compress");
#endif
  uint64_t align = m->options.huge ? kHuge : 256;
  char* room = take<char>(m, s.size() + align);
  if (!room) return TGB_OUT_OF_MEMORY;
  room = reinterpret_cast<char*>(align_up(uint64_t(room), align));
  if (m->options.huge) os_hint_huge(room, s.size());
  if (s.codec() == fb::Codec::Plain) memcpy(room, stored, s.size());
#ifdef TGB_ZSTD
  if (s.codec() == fb::Codec::Zstd) {
    if (!tgf::segment_intact(m->file, s)) return fail(m, TGB_BAD_BUNDLE, "segment %u is damaged (digest); copy the file again", index);
    ZSTD_customMem custom = {[](void* ctx, size_t n) { return static_cast<Memory*>(ctx)->alloc(static_cast<Memory*>(ctx)->ctx, n, 16); },
                             [](void* ctx, void* p) {
                               if (p) static_cast<Memory*>(ctx)->free(static_cast<Memory*>(ctx)->ctx, p);
                             },
                             &m->memory};
    ZSTD_DCtx* dctx = ZSTD_createDCtx_advanced(custom);
    if (!dctx) return fail(m, TGB_OUT_OF_MEMORY, "no memory to unpack segment %u", index);
    size_t bytes = ZSTD_decompressDCtx(dctx, room, s.size(), stored, s.stored());
    ZSTD_freeDCtx(dctx);
    if (bytes != s.size()) return fail(m, TGB_BAD_BUNDLE, "segment %u does not unpack to its size", index);
  }
#endif
  m->segments[index] = reinterpret_cast<uint8_t*>(room);
  return TGB_OK;
}

namespace {

void* default_alloc(void*, size_t bytes, size_t align) {
  bool huge = bytes >= 2 * kHuge;
  if (huge && align < kHuge) align = kHuge;
  if (align < sizeof(void*)) align = sizeof(void*);
  void* p = nullptr;
  if (posix_memalign(&p, align, bytes)) return nullptr;
  if (huge) os_hint_huge(p, bytes);
  return p;
}
void default_free(void*, void* p) { free(p); }

// An integer variable of the environment; `most` bounds it.
bool environment(tgb_model* m, const char* name, uint32_t most, uint32_t* out) {
  const char* text = getenv(name);
  if (!text || !*text) return true;
  char* end;
  unsigned long value = strtoul(text, &end, 10);
  if (*end || *text < '0' || *text > '9' || value > most) {
    fail(m, TGB_BAD_ARGUMENT, "%s=%.40s: must be a whole number from 0 to %u", name, text, most);
    return false;
  }
  *out = uint32_t(value);
  return true;
}

bool settings(tgb_model* m) {
  uint32_t jit = 1;
  if (m->options.jit == TGB_JIT_DEFAULT) {
    if (!environment(m, "JIT", 2, &jit)) return false;
    m->options.jit = jit == 0 ? TGB_JIT_OFF : jit == 1 ? TGB_JIT_GRAPH : TGB_JIT_BATCH;
  }
  if (!m->options.threads && !environment(m, "NUM_CPU_THREADS", 1024, &m->options.threads)) return false;
  return m->options.debug || environment(m, "DEBUG", 100, &m->options.debug);
}

bool signatures(tgb_model* m, const flatbuffers::Vector<flatbuffers::Offset<fb::Signature>>* list, uint32_t* n, Signature** out) {
  *n = count(list);
  *out = take<Signature>(m, *n);
  if (!*out) return false;
  for (uint32_t i = 0; i < *n; i++) {
    Signature& s = (*out)[i];
    s.s = list->Get(i);
    uint32_t rank = count(s.s->dims());
    s.dims = take<int64_t>(m, rank), s.now = take<int64_t>(m, rank), s.vars = take<const char*>(m, rank);
    if (!s.dims || !s.now || !s.vars) return false;
    for (uint32_t k = 0; k < rank; k++) {
      const fb::Dim& d = *s.s->dims()->Get(k);
      s.now[k] = s.dims[k] = d.size()->value();
      s.vars[k] = d.name() ? d.name()->c_str() : nullptr;
    }
  }
  return true;
}

const char* target_text(tgb_model* m, const fb::Target& t) {
  const char* renderer = t.renderer() ? t.renderer()->c_str() : "";
  const char* arch = t.arch() ? t.arch()->c_str() : "";
  size_t room = t.device()->size() + strlen(renderer) + strlen(arch) + 3;
  char* text = take<char>(m, room);
  if (text) snprintf(text, room, "%s%s%s%s%s", t.device()->c_str(), *renderer || *arch ? ":" : "", renderer, *arch ? ":" : "", arch);
  return text;
}

// What of the bundle can be known without a device.
tgb_status describe(tgb_model* m) {
  const fb::Bundle& b = *m->b;
  m->n_vars = count(b.vars()), m->n_variants = count(b.variants());
  m->vars = take<int64_t>(m, m->n_vars), m->next = take<int64_t>(m, m->n_vars);
  m->variants = take<OpenVariant>(m, m->n_variants);
  m->segments = take<const uint8_t*>(m, count(b.segments()));
  if (!m->vars || !m->next || !m->variants || !m->segments) return TGB_OUT_OF_MEMORY;
  if (!signatures(m, b.inputs(), &m->n_inputs, &m->inputs) || !signatures(m, b.outputs(), &m->n_outputs, &m->outputs))
    return TGB_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < m->n_vars; i++) m->vars[i] = b.vars()->Get(i)->max();
  for (uint32_t i = 0; i < m->n_variants; i++) {
    OpenVariant& v = m->variants[i];
    v.v = b.variants()->Get(i);
    v.target = target_text(m, *b.targets()->Get(v.v->targets()->Get(0)));
    int64_t* ends = take<int64_t>(m, count(v.v->buffers()));
    if (!v.target || !ends) return TGB_OUT_OF_MEMORY;
    for (uint32_t d = 0; d < v.v->targets()->size(); d++) v.memory_bytes += arena_bytes(*v.v, d, nullptr, ends);
    for (uint32_t k = 0; k < count(b.states()); k++) v.memory_bytes += b.states()->Get(k)->bytes();
    for (uint32_t k = 0; k < count(v.v->buffers()); k++) {
      const fb::Buffer& x = *v.v->buffers()->Get(k);
      if (x.kind() != fb::BufferKind::Weight) continue;
      const fb::Form& f = *b.constants()->Get(x.index())->forms()->Get(x.form());
      if (f.segment() < 0) v.memory_bytes += f.bytes();
    }
  }
  for (uint32_t i = 0; i < count(b.segments()); i++) {
    const fb::Segment& s = *b.segments()->Get(i);
    if (s.content() == fb::Content::Weights && s.codec() == fb::Codec::Zstd)
      for (uint32_t k = 0; k < m->n_variants; k++) m->variants[k].memory_bytes += s.size();
    bool check = s.content() == fb::Content::Programs || (m->options.verify && s.content() == fb::Content::Weights);
    if (check && !tgf::segment_intact(m->file, s)) return fail(m, TGB_BAD_BUNDLE, "segment %u is damaged (digest); copy the file again", i);
  }
  return TGB_OK;
}

bool matches(const tgf::Target& want, const fb::Target& have) {
  auto same = [](const char* w, const flatbuffers::String* h) { return !*w || !strcmp(w, "native") || (h && !strcmp(w, h->c_str())); };
  return same(want.device, have.device()) && same(want.renderer, have.renderer()) && same(want.arch, have.arch());
}

// Appends to the message what was tried; the whole is shown if nothing opens.
void note(tgb_model* m, const char* target, const char* why) {
  size_t n = strlen(m->message);
  snprintf(m->message + n, sizeof m->message - n, "%s%s: %s", n ? "; " : "", target, why);
}

// Opens the device of a target and compares what it has with what the target needs. Unless TGB_OK, `why` says what stands against it.
tgb_status open_device(tgb_model* m, uint32_t target, const tgf::Target& want, char* why, size_t why_bytes) {
  const fb::Target& t = *m->b->targets()->Get(target);
  OpenDevice& d = m->devices[m->n_devices];
  d = {};
  d.backend = find_backend(t.device()->c_str());
  d.target = target;
  if (!d.backend) {
    snprintf(why, why_bytes, "this build of the runtime has no such device");
    return TGB_NO_DEVICE;
  }
  OpenDesc desc = {m->memory, want.iface, want.indices, m->options.threads, m->options.debug};
  snprintf(why, why_bytes, "does not open");
  tgb_status s = d.backend->open(desc, &d.device, why, why_bytes);
  if (s != TGB_OK) return s;
  d.backend->info(d.device, &d.info);
  size_t at = size_t(snprintf(why, why_bytes, "this one lacks"));
  bool good = true;
  for (uint32_t i = 0; i < count(t.needs()); i++) {
    char word[66];
    const char* need = t.needs()->Get(i)->c_str();
    snprintf(word, sizeof word, " %.63s ", need);
    if (strstr(d.info.features, word)) continue;
    if (at < why_bytes) at += size_t(snprintf(why + at, why_bytes - at, "%s %s", good ? "" : ",", need));
    good = false;
  }
  if (good)
    m->n_devices++;
  else
    d.backend->close(d.device);
  return good ? TGB_OK : TGB_NO_DEVICE;
}

void close_devices(tgb_model* m) {
  while (m->n_devices) {
    OpenDevice& d = m->devices[--m->n_devices];
    d.backend->close(d.device);
  }
}

// Takes the first variant whose devices open, in the order of DEV, then of the bundle. Returns its index, or kNone with the reasons.
uint32_t choose(tgb_model* m, tgb_status* status) {
  tgf::Target want[tgf::kMaxTargets];
  uint32_t n = 0;
  const char* dev = m->options.device ? m->options.device : getenv("DEV");
  char why[256];
  if (!tgf::parse_targets(dev ? dev : "", want, &n, why, sizeof why)) {
    *status = fail(m, TGB_BAD_ARGUMENT, "%s", why);
    return kNone;
  }
  *status = TGB_NO_DEVICE;
  if (!n) want[n++] = {};
  m->message[0] = 0;
  for (uint32_t w = 0; w < n; w++)
    for (uint32_t i = 0; i < m->n_variants; i++) {
      const fb::Variant& v = *m->variants[i].v;
      if (!matches(want[w], *m->b->targets()->Get(v.targets()->Get(0)))) continue;
      bool seen = false;  // another variant of the same target, which did not open
      for (uint32_t k = 0; k < i; k++) seen |= m->variants[k].v->targets()->Get(0) == v.targets()->Get(0);
      if (seen) continue;
      tgb_status s = TGB_OK;
      for (uint32_t k = 0; s == TGB_OK && k < v.targets()->size(); k++) s = open_device(m, v.targets()->Get(k), want[w], why, sizeof why);
      if (s == TGB_OK) return i;
      close_devices(m);
      if (s == TGB_OUT_OF_MEMORY) {
        *status = fail(m, s, "no memory to open %s", m->variants[i].target);
        return kNone;
      }
      note(m, m->variants[i].target, why);
    }
  char tried[sizeof m->message];
  memcpy(tried, m->message, sizeof tried);
  if (tried[0]) {
    fail(m, TGB_NO_DEVICE, "no target of the bundle runs here: %s. Compile or retune it for this machine", tried);
  } else {
    fail(m, TGB_NO_DEVICE, "DEV=%.100s names none of its targets:", dev ? dev : "");
    for (uint32_t i = 0; i < m->n_variants; i++) {
      size_t at = strlen(m->message);
      snprintf(m->message + at, sizeof m->message - at, " %s", m->variants[i].target);
    }
  }
  return kNone;
}

tgb_status load_programs(tgb_model* m, OpenDevice* d) {
  uint32_t n = count(m->b->programs()), objects = 0, entries = 0;
  Object* object = take<Object>(m, n);
  Entry* entry = take<Entry>(m, n);
  uint32_t* program = take<uint32_t>(m, n);
  if (!object || !entry || !program) return TGB_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < n; i++) {
    const fb::Program& p = *m->b->programs()->Get(i);
    if (p.target() != d->target) continue;
    const uint8_t* bytes = m->file + m->b->segments()->Get(p.segment())->offset() + p.offset();
    uint32_t k = objects;  // programs of one object mostly follow each other
    while (k > 0 && (object[k - 1].bytes != bytes || object[k - 1].size != p.bytes())) k--;
    if (!k) object[objects++] = {bytes, p.bytes(), uint8_t(p.kind())}, k = objects;
    program[entries] = i;
    entry[entries++] = {k - 1, p.entry()->c_str(), nullptr};
  }
  tgb_status s = d->backend->load(d->device, object, objects, entry, entries, &d->module);
  if (s != TGB_OK) return device_failed(m, *d, s, "load the programs");
  for (uint32_t i = 0; i < entries; i++) m->kernels[program[i]] = entry[i].kernel;
  return TGB_OK;
}

tgb_status device_alloc(tgb_model* m, OpenDevice* d, uint64_t bytes, uint32_t align, Mem* out) {
  Held* held = take<Held>(m, 1);
  if (!held) return TGB_OUT_OF_MEMORY;
  tgb_status s = d->backend->alloc(d->device, {bytes ? bytes : 1, align, 0, 0, 0}, out);
  if (s != TGB_OK) return device_failed(m, *d, s, "allocate");
  *held = {m->held, uint32_t(d - m->devices), *out};
  m->held = held;
  m->memory_bytes += bytes;
  return TGB_OK;
}

// Places the constants that the variant uses, once for all variants.
tgb_status place_weights(tgb_model* m, OpenVariant* v) {
  for (uint32_t i = 0; i < v->n_buffers; i++) {
    const fb::Buffer& b = *v->v->buffers()->Get(i);
    OpenDevice* d = device_of(m, *v, b.device());
    if (b.kind() == fb::BufferKind::State) {
      Mem* state = &m->states[b.index()];
      if (!state->handle) {
        tgb_status s = device_alloc(m, d, b.bytes()->value() ? uint64_t(b.bytes()->value()) : 1, 256, state);
        if (s != TGB_OK) return s;
      }
      v->table[i] = *state;
    }
    if (b.kind() != fb::BufferKind::Weight) continue;
    const fb::Form& f = *m->b->constants()->Get(b.index())->forms()->Get(b.form());
    Mem* form = &m->forms[b.index()][b.form()];
    if (!form->handle) {
      const uint8_t* bytes = nullptr;
      tgb_status s = TGB_OK;
      if (f.segment() >= 0) {
        s = unpack(m, uint32_t(f.segment()));
        if (s != TGB_OK) return s;
        bytes = m->segments[f.segment()] + f.offset();
      }
      if (bytes && d->info.host) {
        s = d->backend->import(d->device, TGB_HOST, const_cast<uint8_t*>(bytes), 0, f.bytes(), form);
        if (s != TGB_OK) return device_failed(m, *d, s, "use a constant");
      } else {
        s = device_alloc(m, d, f.bytes(), 256, form);
        if (s != TGB_OK) return s;
        if (bytes) s = d->backend->write(d->device, *form, bytes, f.bytes());
        if (s != TGB_OK) return device_failed(m, *d, s, "write a constant");
      }
    }
    v->table[i] = *form;
  }
  return TGB_OK;
}

// Opens all variants that run on the chosen one's targets: a run then takes the first whose bounds hold.
tgb_status open_variants(tgb_model* m, uint32_t chosen) {
  const fb::Bundle& b = *m->b;
  m->kernels = take<void*>(m, count(b.programs()));
  m->states = take<Mem>(m, count(b.states()));
  m->forms = take<Mem*>(m, count(b.constants()));
  if (!m->kernels || !m->states || !m->forms) return TGB_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < count(b.constants()); i++)
    if (!(m->forms[i] = take<Mem>(m, b.constants()->Get(i)->forms()->size()))) return TGB_OUT_OF_MEMORY;
  tgb_status s = TGB_OK;
  for (uint32_t i = 0; s == TGB_OK && i < m->n_devices; i++) s = load_programs(m, &m->devices[i]);
  auto* targets = m->variants[chosen].v->targets();
  uint32_t longest = 1;
  for (uint32_t i = 0; s == TGB_OK && i < m->n_variants; i++) {
    OpenVariant* v = &m->variants[i];
    v->open =
        v->v->targets()->size() == targets->size() && !memcmp(v->v->targets()->data(), targets->data(), targets->size() * sizeof(uint32_t));
    if (!v->open) continue;
    if ((s = open_variant(m, v)) != TGB_OK) return s;
    for (uint32_t d = 0; d < targets->size(); d++) {
      uint64_t bytes = arena_bytes(*v->v, d, nullptr, v->bytes);
      OpenDevice* device = device_of(m, *v, d);
      if (bytes > device->arena.bytes) device->arena.bytes = bytes;
    }
    for (uint32_t k = 0; k < v->n_batches; k++)
      if (v->batches[k].n_steps > longest) longest = v->batches[k].n_steps;
  }
  m->times = take<uint64_t>(m, 2 * size_t(longest));
  if (s == TGB_OK && !m->times) return TGB_OUT_OF_MEMORY;
  for (uint32_t i = 0; s == TGB_OK && i < m->n_devices; i++) {
    uint64_t bytes = m->devices[i].arena.bytes;
    s = device_alloc(m, &m->devices[i], bytes, 4096, &m->devices[i].arena);
    m->devices[i].arena.bytes = bytes;
  }
  for (uint32_t i = 0; s == TGB_OK && i < m->n_variants; i++) {
    OpenVariant* v = &m->variants[i];
    if (!v->open) continue;
    s = place_weights(m, v);
    if (s == TGB_OK) s = record_variant(m, v);
    if (s == TGB_OK && (v->fixed || v->n_prepare)) s = plan_variant(m, v);
  }
  if (s == TGB_OK) s = tgb_reset(m);
  // Derived forms are the same for all variants: what one prepared, the next prepares again to the same bytes.
  for (uint32_t i = 0; s == TGB_OK && i < m->n_variants; i++)
    if (m->variants[i].open && m->variants[i].n_prepare) s = execute(m, &m->variants[i], 0, m->variants[i].n_prepare);
  m->current = &m->variants[chosen];
  return s;
}

void print_event(void* ctx, const tgb_event* e) {
  tgb_model* m = static_cast<tgb_model*>(ctx);
  double us = double(e->end_ns - e->start_ns) * 1e-3;
  char line[256];
  snprintf(line, sizeof line, "*** %s %-40.80s %5lld groups  tm %10.2fus/%10.2fms (%8.1f GFLOPS %7.1f GB/s)\n", m->devices[0].backend->name,
           e->name, (long long)e->groups, us, double(e->end_ns) * 1e-6, us > 0 ? double(e->flops) / us * 1e-3 : 0,
           us > 0 ? double(e->bytes) / us * 1e-3 : 0);
  os_log(line);
}

tgb_status open_model(tgb_model* m) {
  if (m->options.require_key) return fail(m, TGB_UNSUPPORTED, "this runtime cannot check signatures yet; leave require_key empty");
  if (!settings(m)) return TGB_BAD_ARGUMENT;
  char why[512];
  tgf::Verdict verdict = tgf::check_bundle(m->file, m->file_bytes, &m->b, why, sizeof why);
  if (verdict != tgf::Verdict::Good) return fail(m, verdict == tgf::Verdict::TooNew ? TGB_TOO_NEW : TGB_BAD_BUNDLE, "%s", why);
  tgb_status s = describe(m);
  if (s != TGB_OK || m->options.inspect) return s;
  uint32_t chosen = choose(m, &s);
  if (chosen == kNone) return s;
  m->message[0] = 0;
  m->timed = m->options.debug >= 2;
  if (m->timed) m->profiler = print_event, m->profiler_ctx = m;
  s = open_variants(m, chosen);
  m->counters = {};
  return s;
}

tgb_status start_open(const tgb_options* options, const char* path, tgb_model** out) {
  tgb_options o = {};
  if (options) o = from_caller(options, options->size);
  Memory memory = {o.alloc, o.free, o.ctx};
  if (!o.alloc || !o.free) memory = {default_alloc, default_free, nullptr};
  tgb_model* m = static_cast<tgb_model*>(memory.alloc(memory.ctx, sizeof(tgb_model), 64));
  if (!m) {
    snprintf(open_message, sizeof open_message, "no memory");
    return TGB_OUT_OF_MEMORY;
  }
  memset(static_cast<void*>(m), 0, sizeof *m);
  m->memory = memory, m->options = o, m->memory_bytes = sizeof *m;
  snprintf(m->name, sizeof m->name, "%s", path);
  *out = m;
  return TGB_OK;
}

tgb_status finish_open(tgb_model* m, tgb_status s, tgb_model** out) {
  *out = s == TGB_OK ? m : nullptr;
  if (s == TGB_OK) return s;
  memcpy(open_message, m->message, sizeof open_message);
  tgb_close(m);
  return s;
}

}  // namespace
}  // namespace tgb

using namespace tgb;

tgb_status tgb_open_file(const char* path, const tgb_options* options, tgb_model** out) {
  *out = nullptr;
  tgb_model* m = nullptr;
  tgb_status s = start_open(options, path, &m);
  if (s != TGB_OK) return s;
  const void* bytes = nullptr;
  char why[256];
  if (!os_map_file(path, &bytes, &m->file_bytes, why, sizeof why)) return finish_open(m, fail(m, TGB_IO_ERROR, "%s", why), out);
  m->file = static_cast<const uint8_t*>(bytes), m->mapped = true;
  return finish_open(m, open_model(m), out);
}

tgb_status tgb_open_memory(const void* bytes, size_t size, const tgb_options* options, tgb_model** out) {
  *out = nullptr;
  tgb_model* m = nullptr;
  tgb_status s = start_open(options, "", &m);
  if (s != TGB_OK) return s;
  if (uint64_t(bytes) % 64) return finish_open(m, fail(m, TGB_BAD_ARGUMENT, "the bytes of a bundle must lie at a multiple of 64"), out);
  m->file = static_cast<const uint8_t*>(bytes), m->file_bytes = size;
  return finish_open(m, open_model(m), out);
}

void tgb_close(tgb_model* m) {
  if (!m) return;
  for (uint32_t i = 0; i < m->n_variants; i++)
    if (m->variants && m->variants[i].open && m->variants[i].batches) forget_variant(m, &m->variants[i]);
  for (uint32_t i = 0; i < m->n_devices; i++) {
    OpenDevice& d = m->devices[i];
    if (d.module) d.backend->unload(d.device, d.module);
  }
  for (Held* h = m->held; h; h = h->next) m->devices[h->device].backend->free(m->devices[h->device].device, h->memory);
  close_devices(m);
  if (m->mapped) os_unmap_file(m->file, m->file_bytes);
  Memory memory = m->memory;
  while (Block* b = m->blocks) {
    m->blocks = b->next;
    memory.free(memory.ctx, b);
  }
  memory.free(memory.ctx, m);
}

const char* tgb_message(const tgb_model* model) { return model ? model->message : open_message; }
