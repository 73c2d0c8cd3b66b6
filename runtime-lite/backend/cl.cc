// The OpenCL device, through the system's libOpenCL, which is opened at run time. A kernel's arguments are, for each parameter, the buffer and a
// 64-bit offset in bytes (so that one allocation holds all of a model's tensors, whatever the device's rule for sub-buffers), then the integers.
// A queue keeps the order of the steps. https://registry.khronos.org/OpenCL/specs/3.0-unified/html/OpenCL_API.html
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime-lite/src/backend.h"
#include "runtime-lite/src/os.h"

namespace tgb {
namespace {

// --- the part of CL/cl.h that is used ---------------------------------------------------------------------------------------------------
using cl_int = int32_t;
using cl_uint = uint32_t;
using cl_ulong = uint64_t;
using Handle = void*;  // platforms, devices, contexts, queues, buffers, programs, kernels, events
enum : cl_uint {
  kDeviceType = 0x1000, kDeviceName = 0x102B, kDeviceExtensions = 0x1030, kDeviceFpConfig = 0x101B,
  kBuildLog = 0x1183, kProfilingStart = 0x1282, kProfilingEnd = 0x1283,
};
enum : cl_ulong { kTypeCpu = 2, kTypeAll = 0xFFFFFFFF, kReadWrite = 1, kProfiling = 2, kRoundedDivide = 1 << 7 };

#define CL_FUNCTIONS(X)                                                                                                                     \
  X(clGetPlatformIDs, cl_int, (cl_uint, Handle*, cl_uint*))                                                                                \
  X(clGetDeviceIDs, cl_int, (Handle, cl_ulong, cl_uint, Handle*, cl_uint*))                                                                \
  X(clGetDeviceInfo, cl_int, (Handle, cl_uint, size_t, void*, size_t*))                                                                    \
  X(clCreateContext, Handle, (const intptr_t*, cl_uint, const Handle*, void (*)(const char*, const void*, size_t, void*), void*, cl_int*)) \
  X(clCreateCommandQueue, Handle, (Handle, Handle, cl_ulong, cl_int*))                                                                     \
  X(clCreateBuffer, Handle, (Handle, cl_ulong, size_t, void*, cl_int*))                                                                    \
  X(clCreateProgramWithSource, Handle, (Handle, cl_uint, const char**, const size_t*, cl_int*))                                            \
  X(clCreateProgramWithBinary, Handle, (Handle, cl_uint, const Handle*, const size_t*, const unsigned char**, cl_int*, cl_int*))           \
  X(clBuildProgram, cl_int, (Handle, cl_uint, const Handle*, const char*, void (*)(Handle, void*), void*))                                 \
  X(clGetProgramBuildInfo, cl_int, (Handle, Handle, cl_uint, size_t, void*, size_t*))                                                      \
  X(clCreateKernel, Handle, (Handle, const char*, cl_int*))                                                                                \
  X(clSetKernelArg, cl_int, (Handle, cl_uint, size_t, const void*))                                                                        \
  X(clEnqueueNDRangeKernel, cl_int, (Handle, Handle, cl_uint, const size_t*, const size_t*, const size_t*, cl_uint, const Handle*, Handle*)) \
  X(clEnqueueCopyBuffer, cl_int, (Handle, Handle, Handle, size_t, size_t, size_t, cl_uint, const Handle*, Handle*))                        \
  X(clEnqueueWriteBuffer, cl_int, (Handle, Handle, cl_uint, size_t, size_t, const void*, cl_uint, const Handle*, Handle*))                 \
  X(clEnqueueReadBuffer, cl_int, (Handle, Handle, cl_uint, size_t, size_t, void*, cl_uint, const Handle*, Handle*))                        \
  X(clGetEventProfilingInfo, cl_int, (Handle, cl_uint, size_t, void*, size_t*))                                                            \
  X(clFlush, cl_int, (Handle))                                                                                                             \
  X(clFinish, cl_int, (Handle))                                                                                                            \
  X(clRetainMemObject, cl_int, (Handle))                                                                                                   \
  X(clReleaseMemObject, cl_int, (Handle))                                                                                                  \
  X(clReleaseEvent, cl_int, (Handle))                                                                                                      \
  X(clReleaseKernel, cl_int, (Handle))                                                                                                     \
  X(clReleaseProgram, cl_int, (Handle))                                                                                                    \
  X(clReleaseCommandQueue, cl_int, (Handle))                                                                                               \
  X(clReleaseContext, cl_int, (Handle))

struct Api {
#define X(name, result, args) result(*name) args;
  CL_FUNCTIONS(X)
#undef X
};

struct Cl {
  Memory memory;
  void* library;
  Api api;
  Handle device, context, queue, timed;  // timed: a queue with profiling, made when first needed
  bool rounded_divide;
  char features[2048];
  char message[512];
};
Cl* cl(Device* d) { return reinterpret_cast<Cl*>(d); }

const char* code_text(cl_int code) {
  switch (code) {
    case -1: return "device not found";
    case -4: return "no memory for the object";
    case -5: return "out of resources";
    case -6: return "out of host memory";
    case -11: return "the program does not build";
    case -42: return "the binary is not this device's";
    case -46: return "no such kernel";
    case -52: return "wrong number of kernel arguments";
    case -54: return "the device refuses this group size";
    case -61: return "the device refuses this buffer size";
    default: return "see CL/cl.h";
  }
}
tgb_status failed(Cl* c, cl_int code, const char* what) {
  snprintf(c->message, sizeof c->message, "%s: OpenCL error %d (%s)", what, code, code_text(code));
  return code == -4 || code == -6 || code == -61 ? TGB_OUT_OF_MEMORY : TGB_DEVICE_ERROR;
}
void* take(Cl* c, size_t bytes) {
  void* p = c->memory.alloc(c->memory.ctx, bytes, 16);
  if (!p) snprintf(c->message, sizeof c->message, "no memory for %zu bytes", bytes);
  return p;
}

// --- device -----------------------------------------------------------------------------------------------------------------------------
bool load_api(Cl* c, char* error, size_t error_bytes) {
  c->library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!c->library) c->library = dlopen("libOpenCL.so", RTLD_NOW | RTLD_LOCAL);
  if (!c->library) {
    snprintf(error, error_bytes, "there is no libOpenCL.so.1 on this system");
    return false;
  }
#define X(name, result, args)                                        \
  *reinterpret_cast<void**>(&c->api.name) = dlsym(c->library, #name); \
  if (!c->api.name) return snprintf(error, error_bytes, "libOpenCL.so.1 lacks %s", #name), false;
  CL_FUNCTIONS(X)
#undef X
  return true;
}

// The device with this number over all platforms; without one the first that is not a CPU, else the first.
bool choose(Cl* c, const char* indices, char* error, size_t error_bytes) {
  Handle platforms[16], devices[16];
  cl_uint n_platforms = 0, seen = 0;
  if (c->api.clGetPlatformIDs(16, platforms, &n_platforms) != 0) n_platforms = 0;
  if (n_platforms > 16) n_platforms = 16;
  bool numbered = indices && *indices;
  char* end = nullptr;
  unsigned long want = numbered ? strtoul(indices, &end, 10) : 0;
  if (numbered && *end) return snprintf(error, error_bytes, "one device number is wanted, not %s", indices), false;
  for (cl_uint i = 0; i < n_platforms; i++) {
    cl_uint n = 0;
    if (c->api.clGetDeviceIDs(platforms[i], kTypeAll, 16, devices, &n) != 0) continue;
    for (cl_uint k = 0; k < n && k < 16; k++, seen++) {
      cl_ulong type = 0;
      c->api.clGetDeviceInfo(devices[k], kDeviceType, sizeof type, &type, nullptr);
      if (numbered && seen == want) return c->device = devices[k], true;
      if (numbered) continue;
      if (!(type & kTypeCpu)) return c->device = devices[k], true;
      if (!c->device) c->device = devices[k];
    }
  }
  if (c->device) return true;
  if (numbered) snprintf(error, error_bytes, "there are %u OpenCL devices, none with number %lu", seen, want);
  else snprintf(error, error_bytes, "OpenCL is installed, but no platform has a device");
  return false;
}

void close(Device* d) {
  Cl* c = cl(d);
  if (c->timed) c->api.clReleaseCommandQueue(c->timed);
  if (c->queue) c->api.clReleaseCommandQueue(c->queue);
  if (c->context) c->api.clReleaseContext(c->context);
  // The library stays: drivers keep threads that must not lose their code.
  c->memory.free(c->memory.ctx, c);
}

tgb_status open(const OpenDesc& desc, Device** out, char* error, size_t error_bytes) {
  if (desc.iface[0]) {
    snprintf(error, error_bytes, "CL has no interface %s", desc.iface);
    return TGB_NO_DEVICE;
  }
  Cl* c = static_cast<Cl*>(desc.memory.alloc(desc.memory.ctx, sizeof(Cl), alignof(Cl)));
  if (!c) return TGB_OUT_OF_MEMORY;
  *c = {};
  c->memory = desc.memory;
  cl_int code = 0;
  bool good = load_api(c, error, error_bytes) && choose(c, desc.indices, error, error_bytes);
  if (good) {
    c->context = c->api.clCreateContext(nullptr, 1, &c->device, nullptr, nullptr, &code);
    if (c->context) c->queue = c->api.clCreateCommandQueue(c->context, c->device, 0, &code);
    good = c->queue;
    if (!good) snprintf(error, error_bytes, "OpenCL error %d (%s)", code, code_text(code));
  }
  if (!good) {
    close(reinterpret_cast<Device*>(c));
    return TGB_NO_DEVICE;
  }
  c->features[0] = ' ';
  size_t length = 0;
  c->api.clGetDeviceInfo(c->device, kDeviceExtensions, sizeof c->features - 3, c->features + 1, &length);
  size_t at = strlen(c->features);
  c->features[at] = ' ', c->features[at + 1] = 0;
  cl_ulong config = 0;
  c->api.clGetDeviceInfo(c->device, kDeviceFpConfig, sizeof config, &config, nullptr);
  c->rounded_divide = config & kRoundedDivide;
  if (desc.debug >= 1) {
    char name[128] = "", line[192];
    c->api.clGetDeviceInfo(c->device, kDeviceName, sizeof name - 1, name, nullptr);
    snprintf(line, sizeof line, "opened device CL: %s\n", name);
    os_log(line);
  }
  *out = reinterpret_cast<Device*>(c);
  return TGB_OK;
}
void info(Device* d, DeviceInfo* out) { *out = {cl(d)->features, false}; }

// --- memory -----------------------------------------------------------------------------------------------------------------------------
tgb_status alloc(Device* d, const MemDesc& desc, Mem* out) {
  Cl* c = cl(d);
  if (desc.width) {
    snprintf(c->message, sizeof c->message, "images are not built yet");
    return TGB_UNSUPPORTED;
  }
  cl_int code = 0;
  Handle buffer = c->api.clCreateBuffer(c->context, kReadWrite, size_t(desc.bytes), nullptr, &code);
  if (!buffer) return failed(c, code, "a buffer");
  *out = {buffer, 0, desc.bytes};
  return TGB_OK;
}
void free(Device* d, const Mem& m) { cl(d)->api.clReleaseMemObject(m.handle); }

// Host memory is copied (a null handle says so); a cl_mem of this context is used as it is, and the caller keeps it alive.
tgb_status import(Device* d, uint32_t kind, void*, uint64_t handle, uint64_t bytes, Mem* out) {
  if (kind == TGB_HOST) return *out = {nullptr, 0, bytes}, TGB_OK;
  if (kind == TGB_CL_MEM && handle) return *out = {reinterpret_cast<void*>(uintptr_t(handle)), 0, bytes}, TGB_OK;
  snprintf(cl(d)->message, sizeof cl(d)->message, "CL takes host memory and cl_mem (tgb_tensor.memory is %u)", kind);
  return TGB_UNSUPPORTED;
}
tgb_status write(Device* d, const Mem& to, const void* from, uint64_t bytes) {
  Cl* c = cl(d);
  if (!bytes) return TGB_OK;
  cl_int code = c->api.clEnqueueWriteBuffer(c->queue, to.handle, 1, size_t(to.offset), size_t(bytes), from, 0, nullptr, nullptr);
  return code ? failed(c, code, "a write") : TGB_OK;
}
tgb_status read(Device* d, const Mem& from, void* to, uint64_t bytes) {
  Cl* c = cl(d);
  if (!bytes) return TGB_OK;
  cl_int code = c->api.clEnqueueReadBuffer(c->queue, from.handle, 1, size_t(from.offset), size_t(bytes), to, 0, nullptr, nullptr);
  return code ? failed(c, code, "a read") : TGB_OK;
}

// --- programs ---------------------------------------------------------------------------------------------------------------------------
enum : uint8_t { kSource = 1, kBinary = 2 };  // fb::ProgramKind

struct Loaded {
  uint32_t n_programs, n_kernels;
  Handle *programs, *kernels;
};
void unload(Device* d, Module* m) {
  Cl* c = cl(d);
  Loaded* l = reinterpret_cast<Loaded*>(m);
  for (uint32_t i = 0; i < l->n_kernels; i++)
    if (l->kernels[i]) c->api.clReleaseKernel(l->kernels[i]);
  for (uint32_t i = 0; i < l->n_programs; i++)
    if (l->programs[i]) c->api.clReleaseProgram(l->programs[i]);
  c->memory.free(c->memory.ctx, l);
}
tgb_status build(Cl* c, const Object& o, Handle* out) {
  cl_int code = 0, status = 0;
  size_t size = size_t(o.size);
  if (o.kind == kSource) {
    const char* text = static_cast<const char*>(o.bytes);
    *out = c->api.clCreateProgramWithSource(c->context, 1, &text, &size, &code);
  } else if (o.kind == kBinary) {
    const unsigned char* bytes = static_cast<const unsigned char*>(o.bytes);
    *out = c->api.clCreateProgramWithBinary(c->context, 1, &c->device, &size, &bytes, &status, &code);
  } else {
    snprintf(c->message, sizeof c->message, "CL runs OpenCL sources and binaries, not programs of kind %u", o.kind);
    return TGB_UNSUPPORTED;
  }
  if (!*out) return failed(c, code, "a program");
  // No option that relaxes floating point: kernels are written for exact rounding.
  code = c->api.clBuildProgram(*out, 1, &c->device, c->rounded_divide ? "-cl-fp32-correctly-rounded-divide-sqrt" : "", nullptr, nullptr);
  if (!code) return TGB_OK;
  char log[400] = "";
  size_t length = 0;
  c->api.clGetProgramBuildInfo(*out, c->device, kBuildLog, 0, nullptr, &length);
  if (char* whole = length ? static_cast<char*>(take(c, length + 1)) : nullptr) {
    whole[0] = 0;
    c->api.clGetProgramBuildInfo(*out, c->device, kBuildLog, length, whole, nullptr);
    whole[length] = 0;
    const char* at = strstr(whole, "error");
    snprintf(log, sizeof log, "%s", at ? at : whole);
    if (char* end = strchr(log, '\n')) *end = 0;
    c->memory.free(c->memory.ctx, whole);
  }
  snprintf(c->message, sizeof c->message, "a program does not build (%d): %s", code, log);
  return TGB_DEVICE_ERROR;
}
tgb_status load(Device* d, const Object* objects, uint32_t n, Entry* entries, uint32_t n_entries, Module** out) {
  Cl* c = cl(d);
  size_t bytes = sizeof(Loaded) + (n + n_entries) * sizeof(Handle);
  Loaded* l = static_cast<Loaded*>(take(c, bytes));
  if (!l) return TGB_OUT_OF_MEMORY;
  memset(l, 0, bytes);
  *l = {n, n_entries, reinterpret_cast<Handle*>(l + 1), reinterpret_cast<Handle*>(l + 1) + n};
  tgb_status status = TGB_OK;
  for (uint32_t i = 0; i < n && status == TGB_OK; i++) status = build(c, objects[i], &l->programs[i]);
  for (uint32_t i = 0; i < n_entries && status == TGB_OK; i++) {
    cl_int code = 0;
    entries[i].kernel = l->kernels[i] = c->api.clCreateKernel(l->programs[entries[i].object], entries[i].name, &code);
    if (!l->kernels[i]) status = failed(c, code, entries[i].name);
  }
  if (status == TGB_OK) return *out = reinterpret_cast<Module*>(l), TGB_OK;
  unload(d, reinterpret_cast<Module*>(l));
  return status;
}

// --- batches ----------------------------------------------------------------------------------------------------------------------------
struct Recorded {
  uint32_t n;
  bool timed;
  uint64_t ended;   // by the host's clock
  StepDesc* steps;
  Handle* events;   // of a timed batch
};
tgb_status record(Device* d, const StepDesc* steps, uint32_t n, uint32_t flags, Batch** out) {
  Cl* c = cl(d);
  bool timed = flags & kTimed;
  if (timed && !c->timed) {
    cl_int code = 0;
    c->timed = c->api.clCreateCommandQueue(c->context, c->device, kProfiling, &code);
    if (!c->timed) return failed(c, code, "a queue with profiling");
  }
  size_t bytes = sizeof(Recorded) + n * sizeof(StepDesc) + (timed ? n * sizeof(Handle) : 0);
  Recorded* r = static_cast<Recorded*>(take(c, bytes));
  if (!r) return TGB_OUT_OF_MEMORY;
  memset(r, 0, bytes);
  *r = {n, timed, 0, reinterpret_cast<StepDesc*>(r + 1), nullptr};
  r->events = reinterpret_cast<Handle*>(r->steps + n);
  memcpy(r->steps, steps, n * sizeof(StepDesc));
  *out = reinterpret_cast<Batch*>(r);
  return TGB_OK;
}
void drop_events(Cl* c, Recorded* r) {
  for (uint32_t i = 0; r->timed && i < r->n; i++)
    if (r->events[i]) c->api.clReleaseEvent(r->events[i]), r->events[i] = nullptr;
}
void forget(Device* d, Batch* b) {
  drop_events(cl(d), reinterpret_cast<Recorded*>(b));
  cl(d)->memory.free(cl(d)->memory.ctx, b);
}

tgb_status launch(Cl* c, const StepDesc& s, Handle queue, const Mem* table, const int64_t* values, Handle* event) {
  cl_uint at = 0;
  cl_int code = 0;
  for (uint32_t k = 0; k < s.n_args && !code; k++) {
    const Mem& m = table[s.args[k]];
    code = c->api.clSetKernelArg(s.kernel, at++, sizeof(Handle), &m.handle);
    if (!code) code = c->api.clSetKernelArg(s.kernel, at++, sizeof(cl_ulong), &m.offset);
  }
  for (uint32_t k = 0; k < s.n_ints && !code; k++) code = c->api.clSetKernelArg(s.kernel, at++, sizeof(int64_t), &values[s.ints + k]);
  if (code) return failed(c, code, "a kernel's arguments");
  size_t group[3] = {1, 1, 1}, items[3] = {1, 1, 1};
  bool empty = false;
  for (uint32_t i = 0; i < 3; i++) {
    group[i] = s.block[i] ? s.block[i] : 1;
    int64_t groups = i < s.n_grid ? values[s.grid[i]] : 1;
    if (groups < 0) groups = 0;
    empty |= groups == 0;
    items[i] = size_t(groups) * group[i];
  }
  if (empty) return TGB_OK;
  code = c->api.clEnqueueNDRangeKernel(queue, s.kernel, 3, nullptr, items, group, 0, nullptr, event);
  return code ? failed(c, code, "a launch") : TGB_OK;
}
tgb_status replay(Device* d, Batch* b, const Mem* table, const int64_t* values) {
  Cl* c = cl(d);
  if (!b) return TGB_OK;
  Recorded* r = reinterpret_cast<Recorded*>(b);
  Handle queue = r->timed ? c->timed : c->queue;
  drop_events(c, r);
  if (r->timed) c->api.clFinish(c->queue);  // two queues do not order each other
  for (uint32_t i = 0; i < r->n; i++) {
    const StepDesc& s = r->steps[i];
    Handle* event = r->timed ? &r->events[i] : nullptr;
    if (s.kernel) {
      tgb_status status = launch(c, s, queue, table, values, event);
      if (status != TGB_OK) return status;
      continue;
    }
    const Mem &from = table[s.from], &to = table[s.to];
    size_t bytes = size_t(values[s.bytes]);
    if (!bytes) continue;
    cl_int code = c->api.clEnqueueCopyBuffer(queue, from.handle, to.handle, size_t(from.offset) + size_t(values[s.from_offset]),
                                             size_t(to.offset) + size_t(values[s.to_offset]), bytes, 0, nullptr, event);
    if (code) return failed(c, code, "a copy");
  }
  cl_int code = r->timed ? c->api.clFinish(queue) : c->api.clFlush(queue);
  r->ended = os_clock_ns();
  return code ? failed(c, code, "the queue") : TGB_OK;
}
tgb_status fence(Device*, uint64_t* out) { return *out = 0, TGB_OK; }
tgb_status wait(Device* d, uint64_t, uint64_t) {
  cl_int code = cl(d)->api.clFinish(cl(d)->queue);
  return code ? failed(cl(d), code, "waiting") : TGB_OK;
}
// The device's clock, moved so that the last step ends when the host saw the batch end. A launch of no groups took no time.
tgb_status times(Device* d, Batch* b, uint64_t* start_end) {
  Cl* c = cl(d);
  Recorded* r = reinterpret_cast<Recorded*>(b);
  uint64_t last = 0;
  for (uint32_t i = 0; i < r->n; i++) {
    start_end[2 * i] = start_end[2 * i + 1] = last;
    if (!r->events[i]) continue;
    cl_int code = c->api.clGetEventProfilingInfo(r->events[i], kProfilingStart, 8, &start_end[2 * i], nullptr);
    if (!code) code = c->api.clGetEventProfilingInfo(r->events[i], kProfilingEnd, 8, &start_end[2 * i + 1], nullptr);
    if (code) return failed(c, code, "times");
    last = start_end[2 * i + 1];
  }
  for (uint32_t i = 0; i < 2 * r->n; i++) start_end[i] = start_end[i] + r->ended - last;
  return TGB_OK;
}
const char* message(Device* d) { return cl(d)->message; }

}  // namespace

extern const Backend kCl;
const Backend kCl = {"CL", open, close, info, alloc, free, import, nullptr, write, read, load, unload, record, replay, forget, fence, wait, times, message};

}  // namespace tgb
