// Linux and Android.
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "runtime-lite/src/os.h"

namespace tgb {

uint64_t os_clock_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return uint64_t(t.tv_sec) * 1000000000u + uint64_t(t.tv_nsec);
}

namespace {
struct Start {
  void (*fn)(void*);
  void* arg;
  uint32_t taken;
};
void* thread_main(void* p) {
  Start* s = static_cast<Start*>(p);
  void (*fn)(void*) = s->fn;
  void* arg = s->arg;
  __atomic_store_n(&s->taken, 1u, __ATOMIC_RELEASE);
  os_wake_all(&s->taken);
  fn(arg);
  return nullptr;
}
}  // namespace

bool os_thread_start(OsThread* t, void (*fn)(void*), void* arg) {
  Start s{fn, arg, 0};
  pthread_t id;
  if (pthread_create(&id, nullptr, thread_main, &s)) return false;
  while (!__atomic_load_n(&s.taken, __ATOMIC_ACQUIRE)) os_wait(&s.taken, 0);
  t->id = uintptr_t(id);
  return true;
}
void os_thread_join(OsThread t) { pthread_join(pthread_t(t.id), nullptr); }

uint32_t os_cores() {
  unsigned long set[64] = {};  // 4096 cores
  long bytes = syscall(SYS_sched_getaffinity, 0, sizeof set, set);
  uint32_t n = 0;
  for (long i = 0; i < bytes / long(sizeof set[0]); i++) n += uint32_t(__builtin_popcountl(set[i]));
  return n ? n : 1;
}

void os_log(const char* line) {
  ssize_t done = write(2, line, strlen(line));
  (void)done;
}

bool os_map_file(const char* path, const void** bytes, uint64_t* size, char* error, size_t error_bytes) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  struct stat st = {};
  void* p = MAP_FAILED;
  if (fd >= 0 && fstat(fd, &st) == 0) {
    if (S_ISDIR(st.st_mode)) {
      errno = EISDIR;
    } else if (st.st_size == 0) {
      *bytes = "", *size = 0;  // a caller sees that it is no bundle
      close(fd);
      return true;
    } else {
      p = mmap(nullptr, size_t(st.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
    }
  }
  int e = errno;
  if (fd >= 0) close(fd);
  if (p == MAP_FAILED) {
    snprintf(error, error_bytes, "%s", strerror(e));
    return false;
  }
  *bytes = p, *size = uint64_t(st.st_size);
  return true;
}
void os_unmap_file(const void* bytes, uint64_t size) {
  if (size) munmap(const_cast<void*>(bytes), size_t(size));
}

void* os_code_alloc(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}
bool os_code_seal(void* p, size_t exec, size_t read) {
  char* c = static_cast<char*>(p);
  if (exec && mprotect(c, exec, PROT_READ | PROT_EXEC)) return false;
  if (read && mprotect(c + exec, read, PROT_READ)) return false;
  __builtin___clear_cache(c, c + exec);
  return true;
}
void os_code_free(void* p, size_t bytes) { munmap(p, bytes); }
void os_hint_huge(void* p, size_t bytes) {
#ifdef MADV_HUGEPAGE
  uintptr_t a = (uintptr_t(p) + 4095) & ~uintptr_t(4095), end = (uintptr_t(p) + bytes) & ~uintptr_t(4095);
  if (end > a) madvise(reinterpret_cast<void*>(a), end - a, MADV_HUGEPAGE);
#endif
}

void os_wait(uint32_t* word, uint32_t value) { syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0); }
void os_wake_all(uint32_t* word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 0x7fffffff, nullptr, nullptr, 0); }

}  // namespace tgb
