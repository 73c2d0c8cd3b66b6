// What lies behind a tgb_model. Everything is allocated at open, from blocks that tgb_close frees together.
#pragma once
#include "formats/bundle_generated.h"
#include "formats/check.h"
#include "formats/dtype.h"
#include "formats/target.h"
#include "runtime-lite/src/backend.h"

namespace fb = tgf::fb;

namespace tgb {

constexpr uint32_t kNone = UINT32_MAX;
constexpr int64_t kUnknown = INT64_MIN;  // an expression that overflows for the present variables

template <class T>
uint32_t count(const flatbuffers::Vector<T>* v) {
  return v ? v->size() : 0;
}

// A block tree as straight code with jumps.
struct Command {
  enum Kind : uint8_t { Batch, ReadVar, SetVar, JumpUnless, Jump, Enter, Count } kind;
  uint32_t a;     // Batch: batch; ReadVar, SetVar: variable; JumpUnless: value; Enter, Count: loop
  uint32_t b;     // ReadVar: buffer; SetVar: value
  uint32_t c;     // ReadVar: value of the offset; jumps: where to
  uint64_t most;  // Count: rounds allowed
};

struct OpenBatch {
  uint32_t device;
  uint32_t steps, n_steps;    // of OpenVariant::steps
  uint32_t values, n_values;  // that its steps use
  uint32_t n_records;
  Batch** records;                 // one, or one a step
  uint64_t checked;                // the version of the values that was found good
  uint64_t kernels, flops, bytes;  // of one replay, for counters
};

struct StepNote {  // beside StepDesc: what the core keeps for people
  const char* name;
  uint32_t flops, bytes;  // values, or kNone
};

struct OpenVariant {
  const fb::Variant* v;
  const char* target;  // as DEV writes it
  bool open;
  uint32_t kernels;
  uint64_t memory_bytes;

  uint32_t n_buffers;
  Mem* table;                              // what each buffer is in this run
  int64_t* bytes;                          // of each buffer in this run
  int64_t* offsets;                        // in its arena
  uint8_t* written;                        // whether a step writes it
  uint32_t *input_buffer, *output_buffer;  // by input and output; kNone: the variant does not use it

  uint32_t n_values;
  const fb::Expr** exprs;
  uint32_t* varying;   // those of the values that are no constants
  uint32_t n_varying;
  int64_t* values;
  uint64_t version;  // of the values: grows when variables change
  bool planned;      // bytes, offsets and values are those of the model's variables
  bool fixed;        // nothing depends on a variable
  bool sets_vars;    // a command gives a variable its value

  uint32_t n_steps, n_batches, n_commands, n_prepare, n_loops;  // commands [0, n_prepare) prepare, the rest run
  StepDesc* steps;
  StepNote* notes;
  OpenBatch* batches;
  Command* commands;
  uint64_t* rounds;  // of each loop
};

struct OpenDevice {
  const Backend* backend;
  Device* device;
  uint32_t target;
  DeviceInfo info;
  Mem arena;
  Module* module;
};

struct Binding {
  bool set;
  bool direct;  // kernels use this memory in this run; else the tensor is copied in or out
  tgb_tensor tensor;
  Mem memory;  // as the device sees it; handle null: it must be copied
};

struct Signature {
  const fb::Signature* s;
  int64_t* dims;  // the largest
  const char** vars;
  int64_t* now;          // in the last run
  Binding bound, given;  // by tgb_bind; by tgb_run
  Binding* used;         // in this run; null: neither
};

struct Block {
  Block* next;
};

struct Held {  // device memory to free at close
  Held* next;
  uint32_t device;
  Mem memory;
};

}  // namespace tgb

struct tgb_model {
  tgb::Memory memory;
  tgb::Block* blocks;
  tgb::Held* held;
  char* bump;  // room left in the newest block
  size_t bump_left;
  uint64_t memory_bytes;  // taken from the allocator, tensors included

  tgb_options options;
  const uint8_t* file;
  uint64_t file_bytes;
  bool mapped;  // by us
  const fb::Bundle* b;
  char name[256];  // of the file, for messages
  char message[640];

  uint32_t n_inputs, n_outputs, n_vars, n_variants, n_devices;
  tgb::Signature *inputs, *outputs;
  tgb::OpenVariant* variants;
  tgb::OpenDevice devices[16];
  const uint8_t** segments;  // unpacked; null where not needed
  tgb::Mem** forms;          // of each constant, each form
  tgb::Mem* states;
  void** kernels;  // by program

  int64_t* vars;  // values of this run
  int64_t* next;  // of the run that is being prepared; kUnknown: no input says
  tgb::OpenVariant* current;
  bool started, ran;
  uint64_t fence;
  uint64_t run_start;
  tgb_tensor* user_outputs;
  uint32_t n_user_outputs;
  tgb_counters counters;
  tgb_profiler profiler;
  void* profiler_ctx;
  bool timed;
  uint64_t* times;  // room for the longest batch, when timed
};

namespace tgb {

// Says why and returns the status: `return fail(m, TGB_BAD_ARGUMENT, "input '%s': ...", name)`.
__attribute__((format(printf, 3, 4))) tgb_status fail(tgb_model* m, tgb_status status, const char* format, ...);
// The device's words with what was being done.
tgb_status device_failed(tgb_model* m, const OpenDevice& d, tgb_status status, const char* doing);

void* take_bytes(tgb_model* m, size_t bytes);  // zeros, aligned to 16; null: no memory (the message is set)
template <class T>
T* take(tgb_model* m, size_t n) {
  return static_cast<T*>(take_bytes(m, n * sizeof(T)));
}

// Copies the caller's struct over zeros, or ours into the caller's, up to the smaller size.
template <class T>
T from_caller(const T* p, uint32_t size) {
  T t = {};
  __builtin_memcpy(&t, p, size < sizeof(T) ? size : sizeof(T));
  return t;
}
template <class T>
tgb_status to_caller(T t, T* out) {
  uint32_t size = out->size < sizeof(T) ? out->size : uint32_t(sizeof(T));
  t.size = out->size;
  __builtin_memcpy(out, &t, size);
  return TGB_OK;
}

int64_t evaluate(const fb::Expr* e, const int64_t* vars);  // null: 0; kUnknown: it overflows
inline uint64_t align_up(uint64_t v, uint64_t to) { return (v + to - 1) & ~(to - 1); }

tgb_status unpack(tgb_model* m, uint32_t segment);        // m->segments[segment], allocated at the first call if it must be
tgb_status open_variant(tgb_model* m, OpenVariant* v);    // buffers, code, steps; no device work
tgb_status record_variant(tgb_model* m, OpenVariant* v);  // batches, timed or not
void forget_variant(tgb_model* m, OpenVariant* v);
tgb_status plan_variant(tgb_model* m, OpenVariant* v);  // sizes and places for the present variables
tgb_status execute(tgb_model* m, OpenVariant* v, uint32_t first, uint32_t last);
// vars: null for the largest sizes; ends: room for one number a buffer
uint64_t arena_bytes(const fb::Variant& v, uint32_t device, const int64_t* vars, int64_t* ends);
OpenDevice* device_of(tgb_model* m, const OpenVariant& v, uint32_t index);

}  // namespace tgb
