// The launcher publishes a job and takes tasks like everybody; a worker that finds none spins for longer than the gaps inside a run, then
// sleeps. One word says how many tasks are left to take: a task is taken by counting it down, so whoever took one may read the job, which
// cannot change before that task is done; a worker that comes late takes nothing, or a task of the next job.
#include "runtime-lite/backend/cpu.h"
#include "runtime-lite/src/os.h"

namespace tgb {
namespace {

constexpr uint32_t kSpins = 20000;  // 0.3 to 1 ms, by the length of a pause

inline void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
  __asm__ volatile("yield");
#endif
}

}  // namespace

struct alignas(64) Pool {
  // Written by everybody, so each on its own cache line.
  alignas(64) uint32_t left;  // tasks not yet taken
  alignas(64) uint32_t done;  // tasks finished
  alignas(64) uint32_t sleepers;
  uint32_t alarm;  // what sleepers wait on: changes with each wake
  // The job.
  alignas(64) Kernel kernel;
  void* const* args;
  const int64_t* ints;
  uint32_t tasks;
  // Fixed.
  alignas(64) uint32_t stop;
  Memory memory;
  uint32_t workers;
  OsThread threads[1];  // as many as workers
};

namespace {

bool take(Pool* p) {
  uint32_t left = __atomic_load_n(&p->left, __ATOMIC_RELAXED);
  while (left) {
    if (!__atomic_compare_exchange_n(&p->left, &left, left - 1, true, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) continue;
    p->kernel(p->args, p->ints, int64_t(p->tasks) - left);
    __atomic_fetch_add(&p->done, 1u, __ATOMIC_RELEASE);
    return true;
  }
  return false;
}

void work(void* arg) {
  Pool* p = static_cast<Pool*>(arg);
  uint32_t spins = kSpins;  // a new pool sleeps until its first job
  for (;; spins = 0) {
    while (spins < kSpins && !__atomic_load_n(&p->stop, __ATOMIC_RELAXED)) {
      if (take(p)) {
        spins = 0;
      } else {
        pause(), spins++;
      }
    }
    if (__atomic_load_n(&p->stop, __ATOMIC_ACQUIRE)) return;
    uint32_t alarm = __atomic_load_n(&p->alarm, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&p->sleepers, 1u, __ATOMIC_SEQ_CST);
    // The launcher writes `left`, then looks at sleepers; here it is the other way round, so one of the two sees the other.
    if (!__atomic_load_n(&p->left, __ATOMIC_SEQ_CST) && !__atomic_load_n(&p->stop, __ATOMIC_SEQ_CST)) os_wait(&p->alarm, alarm);
    __atomic_fetch_sub(&p->sleepers, 1u, __ATOMIC_SEQ_CST);
  }
}

}  // namespace

void pool_wake(Pool* p) {
  if (p->workers && __atomic_load_n(&p->sleepers, __ATOMIC_SEQ_CST)) {
    __atomic_fetch_add(&p->alarm, 1u, __ATOMIC_SEQ_CST);
    os_wake_all(&p->alarm);
  }
}

void pool_run(Pool* p, Kernel kernel, void* const* args, const int64_t* ints, uint32_t tasks) {
  if (tasks == 1 || !p->workers) {
    for (uint32_t t = 0; t < tasks; t++) kernel(args, ints, t);
    return;
  }
  p->kernel = kernel, p->args = args, p->ints = ints, p->tasks = tasks;
  __atomic_store_n(&p->done, 0u, __ATOMIC_RELAXED);
  __atomic_store_n(&p->left, tasks, __ATOMIC_SEQ_CST);
  pool_wake(p);
  while (take(p)) {}
  while (__atomic_load_n(&p->done, __ATOMIC_ACQUIRE) != tasks) pause();
}

tgb_status pool_open(const Memory& memory, uint32_t threads, Pool** out) {
  uint32_t workers = threads - 1;
  Pool* p = static_cast<Pool*>(memory.alloc(memory.ctx, sizeof(Pool) + workers * sizeof(OsThread), alignof(Pool)));
  if (!p) return TGB_OUT_OF_MEMORY;
  *p = {};
  p->memory = memory;
  for (; p->workers < workers; p->workers++)
    if (!os_thread_start(&p->threads[p->workers], work, p)) {
      pool_close(p);
      return TGB_DEVICE_ERROR;
    }
  *out = p;
  return TGB_OK;
}

void pool_close(Pool* p) {
  __atomic_store_n(&p->stop, 1u, __ATOMIC_SEQ_CST);
  __atomic_fetch_add(&p->alarm, 1u, __ATOMIC_SEQ_CST);
  os_wake_all(&p->alarm);
  for (uint32_t i = 0; i < p->workers; i++) os_thread_join(p->threads[i]);
  p->memory.free(p->memory.ctx, p);
}

}  // namespace tgb
