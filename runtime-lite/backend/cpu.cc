// The CPU device: memory is the caller's, programs are ELF objects, a batch is a list of kernels called in order by one thread with the
// pool's help. Replay is done when it returns, so fences are trivial.
#include "runtime-lite/backend/cpu.h"

#include <stdio.h>
#include <string.h>

#include "formats/header.h"
#include "runtime-lite/src/os.h"

namespace tgb {
namespace {

struct Cpu {
  Memory memory;
  Pool* pool;
  bool parallel;  // a kernel of several tasks has run: the next run may want the threads
  char features[512];
  char message[256];
};
Cpu* cpu(Device* d) { return reinterpret_cast<Cpu*>(d); }

void* take(Cpu* c, uint64_t bytes, size_t align = 16) {
  void* p = c->memory.alloc(c->memory.ctx, size_t(bytes), align);
  if (!p) snprintf(c->message, sizeof c->message, "no memory for %llu bytes", (unsigned long long)bytes);
  return p;
}
void* address(const Mem& m) { return static_cast<char*>(m.handle) + m.offset; }

tgb_status open(const OpenDesc& desc, Device** out, char* error, size_t error_bytes) {
  if (desc.iface[0]) {
    snprintf(error, error_bytes, "a CPU has no interface %s", desc.iface);
    return TGB_NO_DEVICE;
  }
  Cpu* c = static_cast<Cpu*>(desc.memory.alloc(desc.memory.ctx, sizeof(Cpu), alignof(Cpu)));
  if (!c) return TGB_OUT_OF_MEMORY;
  *c = {};
  c->memory = desc.memory;
  cpu_features(c->features, sizeof c->features);
  uint32_t threads = desc.threads ? desc.threads : os_cores();
  if (threads > 1024) threads = 1024;
  tgb_status status = pool_open(c->memory, threads, &c->pool);
  if (status != TGB_OK) {
    snprintf(error, error_bytes, "the system refuses %u threads; set NUM_CPU_THREADS", threads);
    desc.memory.free(desc.memory.ctx, c);
    return status;
  }
  if (desc.debug >= 1) {
    char line[640];
    snprintf(line, sizeof line, "opened device CPU: %u threads,%s\n", threads, c->features);
    os_log(line);
  }
  *out = reinterpret_cast<Device*>(c);
  return TGB_OK;
}
void close(Device* d) {
  pool_close(cpu(d)->pool);
  cpu(d)->memory.free(cpu(d)->memory.ctx, d);
}
void info(Device* d, DeviceInfo* out) { *out = {cpu(d)->features, true}; }

tgb_status alloc(Device* d, const MemDesc& desc, Mem* out) {
  if (desc.width) {
    snprintf(cpu(d)->message, sizeof cpu(d)->message, "a CPU has no images");
    return TGB_UNSUPPORTED;
  }
  void* p = take(cpu(d), desc.bytes, desc.align);
  if (!p) return TGB_OUT_OF_MEMORY;
  *out = {p, 0, desc.bytes};
  return TGB_OK;
}
void free(Device* d, const Mem& m) { cpu(d)->memory.free(cpu(d)->memory.ctx, m.handle); }

tgb_status import(Device* d, uint32_t kind, void* data, uint64_t, uint64_t bytes, Mem* out) {
  if (kind != TGB_HOST) {
    snprintf(cpu(d)->message, sizeof cpu(d)->message, "a CPU uses host memory only (tgb_tensor.memory is %u)", kind);
    return TGB_UNSUPPORTED;
  }
  *out = {data, 0, bytes};
  return TGB_OK;
}
tgb_status map(Device*, const Mem& m, void** out) { return *out = address(m), TGB_OK; }
tgb_status write(Device*, const Mem& to, const void* from, uint64_t bytes) { return memcpy(address(to), from, size_t(bytes)), TGB_OK; }
tgb_status read(Device*, const Mem& from, void* to, uint64_t bytes) { return memcpy(to, address(from), size_t(bytes)), TGB_OK; }

tgb_status load(Device* d, const Object* objects, uint32_t n, Entry* entries, uint32_t n_entries, Module** out) {
  for (uint32_t i = 0; i < n; i++)
    if (objects[i].kind != 0) {
      snprintf(cpu(d)->message, sizeof cpu(d)->message, "a CPU runs ELF objects, not programs of kind %u", objects[i].kind);
      return TGB_UNSUPPORTED;
    }
  Image* image = static_cast<Image*>(take(cpu(d), sizeof(Image)));
  if (!image) return TGB_OUT_OF_MEMORY;
  tgb_status status = load_objects(cpu(d)->memory, objects, n, entries, n_entries, image, cpu(d)->message, sizeof cpu(d)->message);
  if (status != TGB_OK) {
    cpu(d)->memory.free(cpu(d)->memory.ctx, image);
    return status;
  }
  *out = reinterpret_cast<Module*>(image);
  return TGB_OK;
}
void unload(Device* d, Module* m) {
  unload_objects(*reinterpret_cast<Image*>(m));
  cpu(d)->memory.free(cpu(d)->memory.ctx, m);
}

struct Recorded {
  uint32_t n;
  StepDesc* steps;
  void** args;      // room for the longest argument list
  uint64_t* times;  // two a step, or null
};

tgb_status record(Device* d, const StepDesc* steps, uint32_t n, uint32_t flags, Batch** out) {
  uint32_t longest = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (steps[i].kernel && (steps[i].n_grid != 1)) {
      snprintf(cpu(d)->message, sizeof cpu(d)->message, "a kernel for a CPU is launched with one number of tasks, not %u sizes",
               steps[i].n_grid);
      return TGB_BAD_BUNDLE;
    }
    if (steps[i].n_args > longest) longest = steps[i].n_args;
  }
  uint64_t at_args = sizeof(Recorded) + n * sizeof(StepDesc), at_times = at_args + longest * sizeof(void*);
  char* p = static_cast<char*>(take(cpu(d), at_times + (flags & kTimed ? 2 * n * sizeof(uint64_t) : 0)));
  if (!p) return TGB_OUT_OF_MEMORY;
  Recorded* r = reinterpret_cast<Recorded*>(p);
  r->n = n;
  r->steps = reinterpret_cast<StepDesc*>(p + sizeof(Recorded));
  r->args = reinterpret_cast<void**>(p + at_args);
  r->times = flags & kTimed ? reinterpret_cast<uint64_t*>(p + at_times) : nullptr;
  for (uint32_t i = 0; i < n; i++) r->steps[i] = steps[i];
  *out = reinterpret_cast<Batch*>(r);
  return TGB_OK;
}

tgb_status replay(Device* d, Batch* b, const Mem* table, const int64_t* values) {
  if (!b) {
    if (cpu(d)->parallel) pool_wake(cpu(d)->pool);
    return TGB_OK;
  }
  const Recorded* r = reinterpret_cast<const Recorded*>(b);
  for (uint32_t i = 0; i < r->n; i++) {
    const StepDesc& s = r->steps[i];
    if (r->times) r->times[2 * i] = os_clock_ns();
    if (s.kernel) {
      for (uint32_t k = 0; k < s.n_args; k++) r->args[k] = address(table[s.args[k]]);
      Kernel kernel;
      memcpy(&kernel, &s.kernel, sizeof kernel);
      uint32_t tasks = uint32_t(values[s.grid[0]]);
      if (tasks > 1) cpu(d)->parallel = true;
      pool_run(cpu(d)->pool, kernel, r->args, values + s.ints, tasks);
    } else {
      memmove(static_cast<char*>(address(table[s.to])) + values[s.to_offset],
              static_cast<char*>(address(table[s.from])) + values[s.from_offset], size_t(values[s.bytes]));
    }
    if (r->times) r->times[2 * i + 1] = os_clock_ns();
  }
  return TGB_OK;
}
void forget(Device* d, Batch* b) { cpu(d)->memory.free(cpu(d)->memory.ctx, b); }
tgb_status fence(Device*, uint64_t* out) { return *out = 0, TGB_OK; }
tgb_status wait(Device*, uint64_t, uint64_t) { return TGB_OK; }
tgb_status times(Device*, Batch* b, uint64_t* start_end) {
  const Recorded* r = reinterpret_cast<const Recorded*>(b);
  memcpy(start_end, r->times, 2 * r->n * sizeof(uint64_t));
  return TGB_OK;
}
const char* message(Device* d) { return cpu(d)->message; }

}  // namespace

extern const Backend kCpu;
const Backend kCpu = {"CPU", open,   close,  info,   alloc,  free,  import, map,   write,  read,
                      load,  unload, record, replay, forget, fence, wait,   times, message};

}  // namespace tgb
