// The CPU's threads: each task of each kernel runs once, before pool_run returns, whatever the numbers of threads and tasks and however late a
// worker wakes.
#include <gtest/gtest.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include <vector>

#include "runtime-lite/backend/cpu.h"

namespace tgb {
namespace {

const Memory kHeap = {[](void*, size_t bytes, size_t align) { return aligned_alloc(align, (bytes + align - 1) / align * align); },
                      [](void*, void* p) { ::free(p); }, nullptr};

struct Threads {
  explicit Threads(uint32_t n) { EXPECT_EQ(pool_open(kHeap, n, &pool), TGB_OK); }
  ~Threads() { pool_close(pool); }
  Pool* pool = nullptr;
};

// args[0]: a counter a task; ints[0]: what is added to it.
void count(void* const* args, const int64_t* ints, int64_t task) { static_cast<int64_t*>(args[0])[task] += ints[0]; }

void expect_each_once(Pool* p, uint32_t tasks, int64_t add) {
  std::vector<int64_t> seen(tasks + 1);
  void* args[] = {seen.data()};
  pool_run(p, count, args, &add, tasks);
  for (uint32_t t = 0; t < tasks; t++) EXPECT_EQ(seen[t], add) << "task " << t << " of " << tasks;
  EXPECT_EQ(seen[tasks], 0);
}

TEST(CpuPool, EachTaskRunsOnce) {
  for (uint32_t threads : {1u, 2u, 3u, 8u}) {
    Threads t(threads);
    for (uint32_t tasks : {0u, 1u, 2u, 3u, 5u, 7u, 8u, 64u, 1000u}) expect_each_once(t.pool, tasks, tasks + 1);
  }
}

TEST(CpuPool, ManyKernelsInARow) {
  Threads t(4);
  std::vector<int64_t> seen(6);
  void* args[] = {seen.data()};
  for (int64_t i = 0; i < 20000; i++) {
    int64_t one = 1;
    pool_run(t.pool, count, args, &one, uint32_t(2 + i % 5));
  }
  // Kernels of 2 to 6 tasks, 4000 of each: task t is there in those with more than t.
  EXPECT_EQ(seen, (std::vector<int64_t>{20000, 20000, 16000, 12000, 8000, 4000}));
}

TEST(CpuPool, SleepingWorkersMissNothing) {
  Threads t(3);
  for (int i = 0; i < 5; i++) {
    timespec longer_than_they_spin = {0, 5000000};
    nanosleep(&longer_than_they_spin, nullptr);
    if (i % 2) pool_wake(t.pool);
    expect_each_once(t.pool, 9, 3);
  }
}

// args[0]: one flag a task. Task 0 waits until all others are done: with its share's other tasks left, they must be taken by somebody else.
void wait_for_others(void* const* args, const int64_t*, int64_t task) {
  uint32_t* done = static_cast<uint32_t*>(args[0]);
  if (task == 0)
    while (__atomic_load_n(done, __ATOMIC_ACQUIRE) != 7) sched_yield();
  else
    __atomic_fetch_add(done, 1u, __ATOMIC_RELEASE);
}

TEST(CpuPool, TasksOfABusyThreadAreTakenByOthers) {
  Threads t(2);
  uint32_t done = 0;
  void* args[] = {&done};
  pool_run(t.pool, wait_for_others, args, nullptr, 8);
  EXPECT_EQ(done, 7u);
}

TEST(CpuPool, OneThreadRunsTasksInOrder) {
  Threads t(1);
  std::vector<int64_t> order;
  void* args[] = {&order};
  pool_run(t.pool, [](void* const* a, const int64_t*, int64_t task) { static_cast<std::vector<int64_t>*>(a[0])->push_back(task); }, args, nullptr, 4);
  EXPECT_EQ(order, (std::vector<int64_t>{0, 1, 2, 3}));
}

}  // namespace
}  // namespace tgb
