// Kernels as a compiler would make them, for bundles that the tests write: void entry(void* const* args, const int64_t* ints, int64_t task).
#include <stdint.h>
#include <stddef.h>

#define KERNEL(name) void name(void* const* args, const int64_t* ints, int64_t task)

// y[i] = x[i] + w[i] for task's part of n; ints: n, tasks.
KERNEL(add) {
  float* y = args[0];
  const float *x = args[1], *w = args[2];
  int64_t n = ints[0], tasks = ints[1], first = n * task / tasks, last = n * (task + 1) / tasks;
  for (int64_t i = first; i < last; i++) y[i] = x[i] + w[i];
}

// y[i] = x[i] * x[i]; ints: n.
KERNEL(square) {
  float* y = args[0];
  const float* x = args[1];
  (void)task;
  for (int64_t i = 0; i < ints[0]; i++) y[i] = x[i] * x[i];
}

// x[i] += 1, in place; ints: n.
KERNEL(increment) {
  float* x = args[0];
  (void)task;
  for (int64_t i = 0; i < ints[0]; i++) x[i] += 1.0f;
}

// The number of positive elements, as i64; ints: n.
KERNEL(count_positive) {
  int64_t* count = args[0];
  const float* x = args[1];
  (void)task;
  int64_t c = 0;
  for (int64_t i = 0; i < ints[0]; i++) c += x[i] > 0;
  *count = c;
}

// The positive elements in order; ints: n.
KERNEL(compact) {
  float* y = args[0];
  const float* x = args[1];
  (void)task;
  int64_t c = 0;
  for (int64_t i = 0; i < ints[0]; i++)
    if (x[i] > 0) y[c++] = x[i];
}

// y[i] = v; ints: n, v.
KERNEL(fill) {
  float* y = args[0];
  (void)task;
  for (int64_t i = 0; i < ints[0]; i++) y[i] = (float)ints[1];
}

// Uses what a loader must get right: a constant table, written data, a call inside the object, calls of the three borrowed functions.
static const double kTable[5] = {1.5, 2.5, 4.5, 8.5, 16.5};
static int64_t calls = 7;
int64_t exported = 100;
void* memcpy(void*, const void*, size_t);
void* memset(void*, int, size_t);
void* memmove(void*, const void*, size_t);
__attribute__((noinline)) static double pick(int64_t i) { return kTable[i % 5]; }
KERNEL(loader) {
  double* y = args[0];
  double part[8];
  (void)task;
  for (int64_t i = 0; i < 8; i++) part[i] = pick(i) + (double)ints[0];
  memcpy(y, part, sizeof part);
  memset(y + 8, 0, 8 * (size_t)ints[1]);
  memmove(y + 1, y, 8 * (size_t)ints[2]);
  y[9] = (double)calls++;
  y[10] = (double)exported++;
  switch (ints[3]) {  // a jump table
    case 0: y[11] = 10; break;
    case 1: y[11] = 17 * y[0]; break;
    case 2: y[11] = y[1] - 3; break;
    case 3: y[11] = y[2] * y[3]; break;
    case 4: y[11] = 99; break;
    case 5: y[11] = y[7] / 3; break;
    default: y[11] = -1;
  }
}

// Burns time, unevenly by task, then leaves task's mark.
KERNEL(uneven) {
  int64_t* y = args[0];
  int64_t x = task + 1;
  (void)ints;
  for (int64_t i = 0; i < (task % 7) * 3000; i++) x = x * 6364136223846793005 + 1442695040888963407;
  y[task] = task * 3 + (x == 42);
}
