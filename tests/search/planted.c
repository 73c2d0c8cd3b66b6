// Kernels y[100] = x[100] + w[100] as no compiler should make them, and good ones. Slots: y, x, w.
#include <stdint.h>

#define KERNEL(name) void name(void* const* args, const int64_t* ints, int64_t task)
#define ADD                                                                \
  float* y = args[0];                                                      \
  const float *x = args[1], *w = args[2];                                  \
  (void)ints, (void)task;                                                  \
  for (int i = 0; i < 100; i++) y[i] = x[i] + w[i]

KERNEL(good) { ADD; }

// In two tasks.
KERNEL(halves) {
  float* y = args[0];
  const float *x = args[1], *w = args[2];
  (void)ints;
  for (int64_t i = task * 50; i < task * 50 + 50; i++) y[i] = x[i] + w[i];
}

// The last place differs: another order of a sum would do that.
KERNEL(nearly) {
  ADD;
  for (int i = 0; i < 100; i++) y[i] *= 1.0000001f;
}

KERNEL(crash) {
  ADD;
  *(volatile int*)8 = 1;
}

KERNEL(abort_) {
  ADD;
  __builtin_trap();
}

KERNEL(hang) {
  ADD;
  for (volatile int go = 1; go;) {
  }
}

// Just behind the end: no page ends there.
KERNEL(write_behind) {
  ADD;
  y[101] = 1;
}

KERNEL(write_before) {
  ADD;
  y[-3] = 1;
}

KERNEL(write_far) {
  ADD;
  y[100 + 4096] = 1;
}

KERNEL(write_input) {
  ADD;
  ((float*)args[1])[7] = 0;
}

KERNEL(write_weight) {
  ADD;
  ((float*)args[2])[7] = 0;
}

KERNEL(read_far) {
  ADD;
  y[0] += x[100 + 4096] * 0;
}

KERNEL(wrong) {
  ADD;
  y[63] += 0.25f;
}

KERNEL(forgets) {
  float* y = args[0];
  const float *x = args[1], *w = args[2];
  (void)ints, (void)task;
  for (int i = 0; i < 99; i++) y[i] = x[i] + w[i];
}

KERNEL(not_a_number) {
  ADD;
  y[5] = __builtin_nanf("");
}

// y[i] = x[i] + w[index[i]]; slots: y, x, w, index. Wrong indices would leave w by far.
KERNEL(gather) {
  float* y = args[0];
  const float *x = args[1], *w = args[2];
  const int64_t* index = args[3];
  (void)ints, (void)task;
  for (int i = 0; i < 100; i++) y[i] = x[i] + w[index[i] * 1000];
}

// x += w, in place; slots: x, w.
KERNEL(in_place) {
  float* x = args[0];
  const float* w = args[1];
  (void)ints, (void)task;
  for (int i = 0; i < 100; i++) x[i] += w[i];
}

// The same of ints[0] elements, and kernels that are right at the largest size only.
#define SOME(n)                                   \
  float* y = args[0];                             \
  const float *x = args[1], *w = args[2];         \
  (void)task;                                     \
  for (int64_t i = 0; i < (n); i++) y[i] = x[i] + w[i]

KERNEL(some) { SOME(ints[0]); }

KERNEL(some_in_vectors) { SOME((ints[0] + 3) / 4 * 4); }

KERNEL(some_not_of_one) { SOME(ints[0] == 1 ? 0 : ints[0]); }
