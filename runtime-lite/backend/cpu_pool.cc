// The launcher gives each thread, itself included, an even share of a kernel's tasks: neighbours, the same ones for every kernel of as many tasks,
// so that what a thread reads is mostly what it wrote before and still has in its cache. A thread takes its own tasks from the front; when they
// are done it takes others' from the back. A worker that finds none spins for longer than the gaps inside a run, then sleeps.
//
// Whoever took a task may read the job, which cannot change before that task is done; a worker that comes late takes nothing, or tasks of the
// next job.
#include "runtime-lite/backend/cpu.h"

#include <string.h>

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

// A thread's tasks that are not yet taken: the first in the lower half, the end in the upper.
struct alignas(64) Share {
  uint64_t range;
};
struct Worker {
  struct Pool* pool;
  uint32_t index;  // of its share; the launcher's is 0
  OsThread thread;
};

struct alignas(64) Pool {
  // Written by several, so each on its own cache line.
  alignas(64) uint32_t job;   // counts the jobs: what workers watch
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
  Worker* worker;
  Share share[1];  // as many as threads; the workers follow
};

namespace {

constexpr uint32_t kNone = 0xffffffff;

// A task of this share, from the front or the back; kNone if there is none left.
uint32_t take(Share* s, bool front) {
  uint64_t r = __atomic_load_n(&s->range, __ATOMIC_RELAXED);
  for (;;) {
    uint32_t begin = uint32_t(r), end = uint32_t(r >> 32);
    if (begin >= end) return kNone;
    uint64_t next = front ? r + 1 : r - (uint64_t(1) << 32);
    if (__atomic_compare_exchange_n(&s->range, &r, next, true, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) return front ? begin : end - 1;
  }
}

// Runs tasks until none is left to take.
void help(Pool* p, uint32_t self) {
  uint32_t threads = p->workers + 1, done = 0;
  for (uint32_t i = 0; i < threads; i++) {
    uint32_t owner = self + i < threads ? self + i : self + i - threads;
    for (uint32_t t; (t = take(&p->share[owner], i == 0)) != kNone; done++) p->kernel(p->args, p->ints, int64_t(t));
  }
  if (done) __atomic_fetch_add(&p->done, done, __ATOMIC_RELEASE);
}

void work(void* arg) {
  Pool* p = static_cast<Worker*>(arg)->pool;
  uint32_t self = static_cast<Worker*>(arg)->index, seen = 0, spins = kSpins;  // a new pool sleeps until its first job
  for (;;) {
    if (__atomic_load_n(&p->stop, __ATOMIC_ACQUIRE)) return;
    uint32_t job = __atomic_load_n(&p->job, __ATOMIC_ACQUIRE);
    if (job != seen) {
      seen = job, spins = 0;
      help(p, self);
    } else if (spins < kSpins) {
      pause(), spins++;
    } else {
      uint32_t alarm = __atomic_load_n(&p->alarm, __ATOMIC_SEQ_CST);
      __atomic_fetch_add(&p->sleepers, 1u, __ATOMIC_SEQ_CST);
      // The launcher counts the job, then looks at sleepers; here it is the other way round, so one of the two sees the other.
      if (__atomic_load_n(&p->job, __ATOMIC_SEQ_CST) == seen && !__atomic_load_n(&p->stop, __ATOMIC_SEQ_CST)) os_wait(&p->alarm, alarm);
      __atomic_fetch_sub(&p->sleepers, 1u, __ATOMIC_SEQ_CST);
      spins = 0;
    }
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
  uint64_t threads = p->workers + 1, begin = 0;
  for (uint64_t i = 0; i < threads; i++) {
    uint64_t end = tasks * (i + 1) / threads;
    __atomic_store_n(&p->share[i].range, begin | end << 32, __ATOMIC_RELEASE);
    begin = end;
  }
  __atomic_fetch_add(&p->job, 1u, __ATOMIC_SEQ_CST);
  pool_wake(p);
  help(p, 0);
  while (__atomic_load_n(&p->done, __ATOMIC_ACQUIRE) != tasks) pause();
}

tgb_status pool_open(const Memory& memory, uint32_t threads, Pool** out) {
  size_t shares = sizeof(Pool) + (threads - 1) * sizeof(Share), bytes = shares + threads * sizeof(Worker);
  Pool* p = static_cast<Pool*>(memory.alloc(memory.ctx, bytes, alignof(Pool)));
  if (!p) return TGB_OUT_OF_MEMORY;
  memset(static_cast<void*>(p), 0, bytes);
  p->memory = memory;
  p->worker = reinterpret_cast<Worker*>(reinterpret_cast<char*>(p) + shares);
  for (uint32_t i = 0; i + 1 < threads; i++) {
    Worker* w = &p->worker[i];
    w->pool = p, w->index = i + 1;
    if (!os_thread_start(&w->thread, work, w)) {
      pool_close(p);
      return TGB_DEVICE_ERROR;
    }
    p->workers++;  // read by workers only once there is a job
  }
  *out = p;
  return TGB_OK;
}

void pool_close(Pool* p) {
  __atomic_store_n(&p->stop, 1u, __ATOMIC_SEQ_CST);
  __atomic_fetch_add(&p->alarm, 1u, __ATOMIC_SEQ_CST);
  os_wake_all(&p->alarm);
  for (uint32_t i = 0; i < p->workers; i++) os_thread_join(p->worker[i].thread);
  p->memory.free(p->memory.ctx, p);
}

}  // namespace tgb
