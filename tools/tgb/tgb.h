// What the verbs of tgb share: the table of options, errors, tensors in files.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "formats/dtype.h"
#include "runtime-lite/include/tgb.h"

// ---- errors: one line on stderr, exit code 1 (2: the command line itself)

[[noreturn]] __attribute__((format(printf, 1, 2))) void die(const char* format, ...);
[[noreturn]] __attribute__((format(printf, 1, 2))) void die_usage(const char* format, ...);
void* must_alloc(size_t bytes);  // zeros; never null
double now_ms();

// ---- the command line

struct Option {
  const char* name;   // "--runs"
  const char* value;  // what its value is called in the help; null: a flag
  const char* help;
  enum Kind : uint8_t { Flag, Number, Text, List } kind;
  void* out;  // bool*, uint64_t*, const char**, List*
};
constexpr uint32_t kMaxList = 256;
struct List {
  const char* item[kMaxList];
  uint32_t n;
};
// Reads argv[0..argc) into the options and the one positional argument. Prints help and leaves for --help; what it does not know is an
// error.
const char* parse(int argc, char** argv, const char* verb, const char* positional, const char* about, const Option* options, uint32_t n);

// ---- models and tensors

struct Tensor {
  tgf::Dtype dtype;
  uint32_t rank;
  int64_t dims[32];
  void* data;
  size_t bytes;
};
int64_t elements(const Tensor& t);

// Reads .npy, .pb (an ONNX TensorProto) or .bin (raw, of `like`'s dtype and dims). `like` tells what is expected: its dtype decides how
// integers of a .npy are meant. Errors end the program and name the file.
Tensor read_tensor(const char* path, const Tensor& like);
// Writes a .npy. False: errno has the reason.
bool write_npy(const char* path, const Tensor& t);

// The options that run and bench share, and the model and tensors that follow from them.
struct RunOptions {
  List inputs, vars;
  const char* device;
  uint64_t threads, seed;
};
#define RUN_OPTIONS(o)                                                                                                            \
  {"--input", "NAME_OR_INDEX=FILE", "an input: .npy, .pb (ONNX TensorProto) or .bin (raw); random if not given", Option::List,    \
   &(o).inputs},                                                                                                                  \
      {"--var", "NAME=N", "the value of a free size that no given input has; the largest if not given", Option::List, &(o).vars}, \
      {"--device", "DEV", "target as in DEV", Option::Text, &(o).device},                                                         \
      {"--threads", "N", "threads of a CPU; NUM_CPU_THREADS, else all cores, if not given", Option::Number, &(o).threads}, {      \
    "--seed", "N", "of random inputs", Option::Number, &(o).seed                                                                  \
  }

tgb_model* open_model(const char* path, const RunOptions& o);
Tensor like(const tgb_signature& s);  // dtype and largest dims
// All inputs of the model, read or random, with `from` saying which file each came from (null: random).
Tensor* make_inputs(tgb_model* m, const char* path, const RunOptions& o, const char*** from);
tgb_tensor to_tgb(const Tensor& t);
const char* shape_text(char* room, size_t bytes, const tgb_tensor& t);  // "f32[1,3,224,224]"
// Element i for people.
void print_element(const tgb_tensor& t, int64_t i);

struct Verb {
  const char* name;
  const char* about;
  int (*run)(int argc, char** argv);
};
int verb_run(int argc, char** argv);
int verb_bench(int argc, char** argv);
int verb_info(int argc, char** argv);
int verb_check(int argc, char** argv);
int verb_selftest(int argc, char** argv);
int verb_unbuilt(int argc, char** argv);
