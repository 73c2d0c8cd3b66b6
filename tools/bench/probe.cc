// What this machine can do, for percentages: multiply-adds a second of one core, by kind, and bytes a second read from working sets of several
// sizes, by one core and by two. Prints one JSON object. Best of many short tries: a peak is what nothing disturbed.
#include <immintrin.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Giga-operations a second of `f`, which does `ops` of them: best within `seconds`.
template <class F>
double best(double ops, double seconds, F f) {
  double top = 0;
  for (double end = now() + seconds; now() < end;) {
    double start = now();
    f();
    top = std::max(top, ops / (now() - start) * 1e-9);
  }
  return top;
}

#if defined(__AVX512F__)
constexpr int kFloats = 16;
#else
constexpr int kFloats = 8;
#endif
typedef float Vector __attribute__((vector_size(4 * kFloats)));

// Twelve accumulators cover the latency of an FMA on every core with two FMA pipes or fewer.
#define TWELVE(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
constexpr long kSteps = 20000;

double f32_peak(double seconds) {
  return best(2.0 * 12 * kFloats * kSteps, seconds, [] {
    Vector acc[12] = {}, a = {}, b = {};
    asm volatile("" : "+x"(a), "+x"(b));
    for (long i = 0; i < kSteps; i++) {
#define STEP(k) acc[k] = a * b + acc[k];
      TWELVE(STEP)
#undef STEP
#define KEEP(k) asm volatile("" : "+x"(acc[k]));
      TWELVE(KEEP)
    }
  });
}

#ifdef __AVX512BF16__
double bf16_peak(double seconds) {
  return best(2.0 * 12 * 32 * kSteps, seconds, [] {
    __m512 acc[12] = {};
    __m512bh a = (__m512bh)_mm512_setzero_si512();
    asm volatile("" : "+x"(a));
    for (long i = 0; i < kSteps; i++) {
#define STEP(k) acc[k] = _mm512_dpbf16_ps(acc[k], a, a);
      TWELVE(STEP) TWELVE(KEEP)
#undef STEP
    }
  });
}
#endif
#ifdef __AVX512VNNI__
double int8_peak(double seconds) {
  return best(2.0 * 12 * 64 * kSteps, seconds, [] {
    __m512i acc[12] = {}, a = _mm512_setzero_si512();
    asm volatile("" : "+x"(a));
    for (long i = 0; i < kSteps; i++) {
#define STEP(k) acc[k] = _mm512_dpbusd_epi32(acc[k], a, a);
      TWELVE(STEP) TWELVE(KEEP)
#undef STEP
    }
  });
}
#endif

// Reads `bytes` once; twelve sums, so that no addition waits for another. Fetching 2 KiB ahead helps beyond the last cache and costs within it.
void read_all(const char* p, size_t bytes, bool ahead = false) {
  Vector s[12] = {};
  const Vector* v = reinterpret_cast<const Vector*>(p);
  if (ahead)
    for (size_t i = 0; i + 12 <= bytes / sizeof(Vector); i += 12) {
#define ADD(k) __builtin_prefetch(v + i + k + 2048 / sizeof(Vector)), s[k] += v[i + k];
      TWELVE(ADD)
#undef ADD
    }
  else
    for (size_t i = 0; i + 12 <= bytes / sizeof(Vector); i += 12) {
#define ADD(k) s[k] += v[i + k];
      TWELVE(ADD)
#undef ADD
    }
  for (Vector& x : s) asm volatile("" : "+x"(x));
}

char* fresh(size_t bytes) {
  char* p = static_cast<char*>(aligned_alloc(size_t(2) << 20, (bytes + (size_t(2) << 20) - 1) & ~((size_t(2) << 20) - 1)));
  if (!p) {
    fprintf(stderr, "probe: no memory for %zu bytes\n", bytes);
    exit(1);
  }
  // Small pages stop the prefetchers and are not what the machine can do.
  madvise(p, bytes, MADV_HUGEPAGE);
  memset(p, 0, bytes);
  return p;
}

double read_peak(size_t bytes, double seconds) {
  char* p = fresh(bytes);
  long times = std::max<long>(1, long((size_t(4) << 20) / bytes));  // clock reads must not count
  double r = 0;
  for (bool ahead : {false, true})
    r = std::max(r, best(double(bytes) * double(times), seconds / 2, [&] {
                   for (long i = 0; i < times; i++) {
                     read_all(p, bytes, ahead);
                     asm volatile("" ::: "memory");
                   }
                 }));
  free(p);
  return r;
}

double read_peak_two(size_t bytes, double seconds) {
  char *p = fresh(bytes), *q = fresh(bytes);
  double r = best(2.0 * double(bytes), seconds, [&] {
    std::thread other([&] { read_all(q, bytes, true); });
    read_all(p, bytes, true);
    other.join();
  });
  free(p), free(q);
  return r;
}

// Nanoseconds a cache line to read what the other core has just written. On rented machines it changes from one second to the next, as the host moves
// the cores between parts of its processor, and with it how well two threads scale.
double handover_ns(size_t bytes, int tries) {
  cpu_set_t before, one;
  sched_getaffinity(0, sizeof before, &before);
  std::vector<int> cores;
  for (int c = 0; c < CPU_SETSIZE && cores.size() < 2; c++)
    if (CPU_ISSET(c, &before)) cores.push_back(c);
  if (cores.size() < 2) return 0;
  auto pin = [&](int core) {
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    sched_setaffinity(0, sizeof one, &one);
  };
  char* p = fresh(bytes);
  auto write = [&] {
    for (size_t i = 0; i < bytes; i += 64) p[i]++;
  };
  pin(cores[1]);  // a new thread begins where its maker is
  std::atomic<int> turn{0};  // 1: the other writes; 2: this one reads; 3: the end
  std::thread other([&] {
    for (int t; (t = turn.load()) != 3;)
      if (t == 1) write(), turn = 2;
  });
  pin(cores[0]);
  double theirs = 1e9, own = 1e9;
  auto read = [&] {
    double start = now();
    read_all(p, bytes);
    return (now() - start) * 1e9 / (double(bytes) / 64);
  };
  for (int i = 0; i < tries; i++) {
    turn = 1;
    while (turn != 2) {
    }
    theirs = std::min(theirs, read());
    write();
    own = std::min(own, read());
  }
  turn = 3;
  other.join();
  sched_setaffinity(0, sizeof before, &before);
  free(p);
  return theirs - own;
}

}  // namespace

int main(int argc, char** argv) {
  double seconds = argc > 1 ? atof(argv[1]) : 0.3;
  printf("{\"f32\": %.1f", f32_peak(seconds));
#ifdef __AVX512BF16__
  printf(", \"bf16\": %.1f", bf16_peak(seconds));
#endif
#ifdef __AVX512VNNI__
  printf(", \"int8\": %.1f", int8_peak(seconds));
#endif
  printf(", \"read\": {");
  const size_t kib[] = {16, 512, 8192, 262144};
  for (size_t i = 0; i < 4; i++) printf("%s\"%zu\": %.1f", i ? ", " : "", kib[i], read_peak(kib[i] << 10, seconds));
  printf("}, \"read_two\": %.1f, \"handover_ns\": %.2f}\n", read_peak_two(size_t(256) << 20, seconds), handover_ns(size_t(256) << 10, 20));
}
