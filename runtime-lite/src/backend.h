// A device as the core sees it: one table of 18 functions. "null:" says what the core does where a device has none. Functions return a
// tgb_status; message() then has the driver's own words.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "runtime-lite/include/tgb.h"

namespace tgb {

struct Memory {  // host memory from the caller's allocator
  void* (*alloc)(void* ctx, size_t bytes, size_t align);
  void (*free)(void* ctx, void* p);
  void* ctx;
};

struct OpenDesc {
  Memory memory;
  const char *iface, *indices;  // of the target in DEV; "" if not stated
  uint32_t threads, debug;
};

struct DeviceInfo {
  const char* features;  // words with spaces around them: " x86_64 sse2 avx2 "; a target's needs are looked up here
  bool host;             // memory is host memory: tgb_mem.handle is an address, and weights are used where they are mapped
};

// Part of an allocation. The handle is the device's own.
struct Mem {
  void* handle;
  uint64_t offset, bytes;
};
struct MemDesc {
  uint64_t bytes;
  uint32_t align;
  uint32_t width, height;  // an image if not 0
  uint8_t dtype;
};

struct Object {  // what one load brings to the device
  const void* bytes;
  uint64_t size;
  uint8_t kind;  // fb::ProgramKind
};
struct Entry {
  uint32_t object;
  const char* name;
  void* kernel;  // out
};

// One step of a batch. Numbers that may change from run to run are indices into the values given to replay.
struct StepDesc {
  void* kernel;          // null: a copy
  const uint32_t* args;  // indices into the table given to replay
  uint32_t n_args;
  uint32_t ints, n_ints;  // values[ints .. ints + n_ints)
  uint32_t grid[3], n_grid;
  uint32_t block[3], local_bytes;
  uint32_t from, to, from_offset, to_offset, bytes;  // of a copy; from and to index the table
};
enum RecordFlags : uint32_t { kGraph = 1, kTimed = 2 };

struct Device;  // the backend's own
struct Module;
struct Batch;

struct Backend {
  const char* name;  // as in DEV
  tgb_status (*open)(const OpenDesc& desc, Device** out, char* error, size_t error_bytes);
  void (*close)(Device* d);
  void (*info)(Device* d, DeviceInfo* out);
  tgb_status (*alloc)(Device* d, const MemDesc& desc, Mem* out);
  void (*free)(Device* d, const Mem& m);
  tgb_status (*import)(Device* d, uint32_t kind, void* data, uint64_t handle, uint64_t bytes, Mem* out);  // null: copy
  tgb_status (*map)(Device* d, const Mem& m, void** out);                                                 // null: read and write copy
  tgb_status (*write)(Device* d, const Mem& to, const void* from, uint64_t bytes);
  tgb_status (*read)(Device* d, const Mem& from, void* to, uint64_t bytes);
  tgb_status (*load)(Device* d, const Object* objects, uint32_t n, Entry* entries, uint32_t n_entries, Module** out);
  void (*unload)(Device* d, Module* m);
  tgb_status (*record)(Device* d, const StepDesc* steps, uint32_t n, uint32_t flags, Batch** out);
  // Patches addresses, integers and launch sizes. A null batch says that a run begins: what sleeps may wake.
  tgb_status (*replay)(Device* d, Batch* b, const Mem* table, const int64_t* values);
  void (*forget)(Device* d, Batch* b);
  tgb_status (*fence)(Device* d, uint64_t* out);
  tgb_status (*wait)(Device* d, uint64_t fence, uint64_t timeout_ns);
  // Start and end of each step of a timed batch, by os_clock_ns, after wait. null: host clock around the batch.
  tgb_status (*times)(Device* d, Batch* b, uint64_t* start_end);
  const char* (*message)(Device* d);
};

const Backend* find_backend(const char* device);  // null: this build has none

}  // namespace tgb
