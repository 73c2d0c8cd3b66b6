// The three parts of the CPU device: its features, its loader of objects and its threads.
#pragma once
#include "runtime-lite/src/backend.h"

namespace tgb {

// Words with spaces around them, by LLVM's names: " x86_64 avx2 fma ". Only what the operating system lets programs use counts.
const char* cpu_features(char* room, size_t bytes);

// Objects in executable memory.
struct Image {
  void* base;
  uint64_t bytes;
};
// Loads ELF relocatable objects into one image and finds the entries. On failure `error` names the object's symbol or relocation.
tgb_status load_objects(const Memory& memory, const Object* objects, uint32_t n, Entry* entries, uint32_t n_entries, Image* out,
                        char* error, size_t error_bytes);
void unload_objects(const Image& image);

using Kernel = void (*)(void* const* args, const int64_t* ints, int64_t task);

// Threads that share the tasks of a kernel. Which thread runs which task is open; a kernel's result must not depend on it.
struct Pool;
tgb_status pool_open(const Memory& memory, uint32_t threads, Pool** out);
void pool_close(Pool* p);
void pool_wake(Pool* p);  // work is about to come
void pool_run(Pool* p, Kernel kernel, void* const* args, const int64_t* ints, uint32_t tasks);

}  // namespace tgb
