// What the runtime asks of the operating system: clock, threads, log, map, load, wait. A port supplies these and nothing else.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace tgb {

uint64_t os_clock_ns();

struct OsThread {
  uintptr_t id;
};
bool os_thread_start(OsThread* t, void (*fn)(void*), void* arg);
void os_thread_join(OsThread t);
uint32_t os_cores();  // that this process may use

void os_log(const char* line);

// A file's bytes, read-only. False: `error` has the system's words.
bool os_map_file(const char* path, const void** bytes, uint64_t* size, char* error, size_t error_bytes);
void os_unmap_file(const void* bytes, uint64_t size);

// Memory for code: writable until sealed, never writable and executable at once. Of the sealed pages the first `exec` bytes may be executed
// and the next `read` bytes read, the rest stays writable; both are multiples of the page size.
constexpr size_t kPage = 16384;  // covers 4, 16 KiB pages
void* os_code_alloc(size_t bytes);
bool os_code_seal(void* p, size_t exec, size_t read);
void os_code_free(void* p, size_t bytes);
void os_hint_huge(void* p, size_t bytes);  // large pages would serve this memory well

// Sleeps while *word == value, until woken; may return early.
void os_wait(uint32_t* word, uint32_t value);
void os_wake_all(uint32_t* word);

}  // namespace tgb
