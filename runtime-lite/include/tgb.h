/* tgb.h: open a .tgb bundle and run it. C11; no other header is public.
 *
 * Ownership: a tgb_model is owned by the caller who opened it and freed by tgb_close. Bytes given to tgb_open_memory are borrowed and must
 * outlive the model; so is memory given to tgb_bind, until it is bound anew. Strings and arrays that a model hands out live as long as it.
 * Threads: one thread at a time per model; models are independent of each other.
 * Memory: after a successful open nothing is allocated, on host or device.
 * Errors: calls return a tgb_status; tgb_message(model) says what failed and what to do. After a failed call the model stays usable.
 * Structs: every struct begins with `size`, which the caller sets to its sizeof; fields past it read as zero and are not written. Arrays of
 * structs are strided by the size of their first element. Enums only grow. */
#ifndef TGB_H
#define TGB_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

#if defined(TGB_BUILD) && defined(__GNUC__)
#define TGB_API __attribute__((visibility("default")))
#else
#define TGB_API
#endif

typedef enum {
  TGB_OK = 0,
  TGB_BAD_BUNDLE,   /* not a .tgb, truncated, damaged, or failed verification */
  TGB_TOO_NEW,      /* written for a later runtime than this one */
  TGB_NO_DEVICE,    /* no device here matches a target of the bundle */
  TGB_BAD_ARGUMENT, /* wrong name, dtype, shape or size from the caller */
  TGB_OUT_OF_MEMORY,
  TGB_DEVICE_ERROR, /* the driver refused; the message carries its own code and words */
  TGB_UNSUPPORTED,  /* in the header, not built yet or left out of this build */
  TGB_IO_ERROR,     /* the file cannot be read */
  TGB_TIMEOUT,      /* tgb_wait only: still running */
  TGB_MISMATCH      /* tgb_selftest only: an output is not what it must be */
} tgb_status;

/* Kinds under 8 bits are packed, the first element in the low bits of a byte. */
typedef enum {
  TGB_BOOL,
  TGB_I8,
  TGB_I16,
  TGB_I32,
  TGB_I64,
  TGB_U8,
  TGB_U16,
  TGB_U32,
  TGB_U64,
  TGB_F16,
  TGB_BF16,
  TGB_F32,
  TGB_F64,
  TGB_I2,
  TGB_U2,
  TGB_I4,
  TGB_U4,
  TGB_F8E4M3FN,
  TGB_F8E4M3FNUZ,
  TGB_F8E5M2,
  TGB_F8E5M2FNUZ,
  TGB_F8E8M0,
  TGB_F4E2M1
} tgb_dtype;
TGB_API const char* tgb_dtype_name(tgb_dtype dtype); /* "f32" */
TGB_API uint32_t tgb_dtype_bits(tgb_dtype dtype);    /* 0: no such dtype */

typedef struct tgb_model tgb_model;

typedef enum { TGB_HOST = 0, TGB_DMA_BUF, TGB_CL_MEM, TGB_METAL_BUFFER, TGB_CUDA_POINTER } tgb_memory;

/* A tensor: row-major, densely packed. bytes are exactly the product of dims times the dtype's size. dims are checked; they may be NULL
 * where the signature has no free size. memory is TGB_HOST for `data`, else `handle` names device memory. */
typedef struct {
  uint32_t size;
  tgb_dtype dtype;
  void* data;
  size_t bytes;
  uint32_t rank;
  const int64_t* dims;
  tgb_memory memory;
  uint64_t handle;
} tgb_tensor;

/* What the model calls one of its inputs or outputs. vars[i] is NULL where dims[i] is fixed; else the variable's name (or the text of an
 * expression), and dims[i] is the largest size. */
typedef struct {
  uint32_t size;
  tgb_dtype dtype;
  const char* name;
  uint32_t rank;
  const int64_t* dims;
  const char* const* vars;
} tgb_signature;

typedef struct {
  uint32_t size;
  const char* name;
  int64_t min, max, multiple; /* a multiple of `multiple` within min..max */
} tgb_var;

typedef enum {
  TGB_JIT_DEFAULT = 0, /* the environment's JIT, else batches */
  TGB_JIT_OFF,         /* JIT=0: every kernel alone and waited for */
  TGB_JIT_GRAPH,       /* JIT=1: each batch as one graph of the device */
  TGB_JIT_BATCH        /* JIT=2: batches, launched kernel by kernel */
} tgb_jit;

/* All zero is a good choice. Options come before the environment (DEV, JIT, DEBUG, NUM_CPU_THREADS). */
typedef struct {
  uint32_t size;
  const char* device;                                    /* targets as in DEV: "CPU", ":1+CL"; NULL: the first variant that opens */
  void* (*alloc)(void* ctx, size_t bytes, size_t align); /* host memory for the runtime itself; NULL: the C library's */
  void (*free)(void* ctx, void* p);
  void* ctx;
  tgb_jit jit;
  uint32_t threads;           /* of a CPU device; 0: NUM_CPU_THREADS, else the cores this process may use */
  uint32_t debug;             /* as DEBUG; 0: the environment's */
  uint32_t verify;            /* 1: check the digests of weights too, now */
  uint32_t huge;              /* 1: copy weights into huge pages */
  uint32_t inspect;           /* 1: open no device: the model can be asked, checked and closed, not run */
  const uint8_t* require_key; /* 32 bytes: refuse bundles that are not signed with this Ed25519 key (TGB_UNSUPPORTED in this version) */
} tgb_options;

TGB_API uint32_t tgb_version(void); /* of the runtime; bundles with a higher min_runtime are refused */

/* options may be NULL. On failure *out is NULL and tgb_message(NULL) has the reason. */
TGB_API tgb_status tgb_open_file(const char* path, const tgb_options* options, tgb_model** out);
/* bytes must be aligned to 64. */
TGB_API tgb_status tgb_open_memory(const void* bytes, size_t size, const tgb_options* options, tgb_model** out);
TGB_API void tgb_close(tgb_model* model); /* NULL is allowed */

/* The last failure of the model; NULL: this thread's last failed open. "" if none. */
TGB_API const char* tgb_message(const tgb_model* model);

TGB_API uint32_t tgb_input_count(const tgb_model* model);
TGB_API uint32_t tgb_output_count(const tgb_model* model);
TGB_API uint32_t tgb_var_count(const tgb_model* model);
TGB_API uint32_t tgb_variant_count(const tgb_model* model);
TGB_API tgb_status tgb_input(const tgb_model* model, uint32_t index, tgb_signature* out);
TGB_API tgb_status tgb_output(const tgb_model* model, uint32_t index, tgb_signature* out);
TGB_API tgb_status tgb_variable(const tgb_model* model, uint32_t index, tgb_var* out);

/* A target with a range of sizes, as compiled into the bundle. */
typedef struct {
  uint32_t size;
  const char* target;    /* "CPU:LLVM:x86_64,znver4" */
  uint32_t open;         /* 1: this model can run it */
  uint32_t kernels;      /* launches of one run, not counting repetitions */
  uint64_t memory_bytes; /* as tgb_memory_needed */
  const char* note;      /* or NULL */
} tgb_variant_info;
TGB_API tgb_status tgb_variant(const tgb_model* model, uint32_t index, tgb_variant_info* out);

/* Memory that running the variant takes beside the bundle's own bytes: buffers at the largest sizes, state, unpacked or derived weights. */
TGB_API tgb_status tgb_memory_needed(const tgb_model* model, uint32_t variant, uint64_t* bytes);

/* The same where variable i has the size values[i]; n is tgb_var_count. */
TGB_API tgb_status tgb_memory_at(const tgb_model* model, uint32_t variant, const int64_t* values, uint32_t n, uint64_t* bytes);

typedef struct {
  uint32_t size;
  const char *made_by, *model, *model_digest, *licence; /* NULL: not stated */
  uint32_t min_runtime;
  uint64_t features;
  uint64_t file_bytes, weight_bytes, program_bytes; /* as stored */
} tgb_provenance;
TGB_API tgb_status tgb_about(const tgb_model* model, tgb_provenance* out);

/* Uses the caller's memory for an input or output from the next run on, without a copy where the device can; tgb_run then takes NULL and 0
 * for that side. NULL unbinds. The same memory may be bound to several inputs. An input whose memory is also an output's, or is written by
 * the model, is copied first. Memory whose address does not suit the kernels is copied. */
typedef enum { TGB_INPUT = 0, TGB_OUTPUT } tgb_side;
TGB_API tgb_status tgb_bind(tgb_model* model, tgb_side side, uint32_t index, const tgb_tensor* tensor);

/* Runs the model once and waits. Tensors are in signature order; n is the signature's count, or 0: what is bound. An input or output with
 * data NULL stands for what is bound; an output that is not bound either gets data, bytes, rank and dims of the model's own memory, valid
 * until the next run. Memory of outputs may be larger than the output. On failure outputs are unspecified. */
TGB_API tgb_status tgb_run(tgb_model* model, const tgb_tensor* inputs, uint32_t n_inputs, tgb_tensor* outputs, uint32_t n_outputs);

/* The same in two parts. The tensors' memory is borrowed until tgb_wait returns TGB_OK or an error. On a CPU device tgb_start does the
 * work. */
TGB_API tgb_status tgb_start(tgb_model* model, const tgb_tensor* inputs, uint32_t n_inputs, tgb_tensor* outputs, uint32_t n_outputs);
TGB_API tgb_status tgb_wait(tgb_model* model, uint64_t timeout_ns);

/* The shape that output `index` had in the last run. rank: in, the room in dims; out, the rank. Before any run: the largest sizes. */
TGB_API tgb_status tgb_output_shape(const tgb_model* model, uint32_t index, int64_t* dims, uint32_t* rank);

/* Sets state back to its first value. */
TGB_API tgb_status tgb_reset(tgb_model* model);

typedef struct {
  uint32_t size;
  uint64_t runs, kernels, flops, bytes; /* since open */
  uint64_t memory_bytes;                /* in use */
  uint64_t last_ns, total_ns;           /* of runs */
} tgb_counters;
TGB_API tgb_status tgb_count(const tgb_model* model, tgb_counters* out);

/* Called during a run, after each batch, once a kernel or copy, in order. */
typedef struct {
  uint32_t size;
  const char* name;
  uint64_t start_ns, end_ns; /* from the start of the run */
  int64_t flops, bytes, groups;
} tgb_event;
typedef void (*tgb_profiler)(void* ctx, const tgb_event* event);
/* Times every kernel from now on; NULL: no longer. Records the batches anew, so it may allocate. */
TGB_API tgb_status tgb_profile(tgb_model* model, tgb_profiler profiler, void* ctx);

TGB_API tgb_status tgb_check(tgb_model* model);    /* digests of all segments */
TGB_API tgb_status tgb_selftest(tgb_model* model); /* runs the bundle's test vectors; TGB_UNSUPPORTED: it has none */

#ifdef __cplusplus
}
#endif
#endif
