// tgb bench: load, first run, median and 90th percentile of the next ones, peak memory, and the kernels by time. Kernels are timed in runs
// of their own, since taking times costs some.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "tools/tgb/tgb.h"

namespace {

struct KernelTime {
  const char* name;
  double ms, flops, bytes;
};
struct Kernels {
  KernelTime* k;
  uint32_t n, room;
};

void note(void* ctx, const tgb_event* e) {
  Kernels* all = static_cast<Kernels*>(ctx);
  uint32_t i = 0;
  while (i < all->n && strcmp(all->k[i].name, e->name)) i++;
  if (i == all->n) {
    if (all->n == all->room) {
      all->room = all->room ? 2 * all->room : 256;
      all->k = static_cast<KernelTime*>(realloc(all->k, all->room * sizeof *all->k));
      if (!all->k) die("no memory");
    }
    all->k[all->n++] = {e->name, 0, 0, 0};
  }
  all->k[i].ms += double(e->end_ns - e->start_ns) * 1e-6;
  all->k[i].flops += double(e->flops), all->k[i].bytes += double(e->bytes);
}

int by_value(const void* a, const void* b) {
  double x = *static_cast<const double*>(a), y = *static_cast<const double*>(b);
  return (x > y) - (x < y);
}
int by_time(const void* a, const void* b) {
  double x = static_cast<const KernelTime*>(a)->ms, y = static_cast<const KernelTime*>(b)->ms;
  return (x < y) - (x > y);
}

void print_quoted(const char* s) {
  putchar('"');
  for (; *s; s++) {
    unsigned char c = static_cast<unsigned char>(*s);
    if (c == '"' || c == '\\')
      printf("\\%c", c);
    else if (c < 32)
      printf("\\u%04x", c);
    else
      putchar(c);
  }
  putchar('"');
}

// Of this program alone: what getrusage says begins with what the program held that started this one.
long long peak_bytes() {
  long long kib = 0;
  if (FILE* f = fopen("/proc/self/status", "r")) {
    char line[256];
    while (!kib && fgets(line, sizeof line, f))
      if (sscanf(line, "VmHWM: %lld kB", &kib) != 1) kib = 0;
    fclose(f);
  }
  if (!kib) {
    rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    kib = usage.ru_maxrss;
  }
  return kib * 1024;
}

}  // namespace

int verb_bench(int argc, char** argv) {
  RunOptions o = {};
  uint64_t runs = 50;
  bool json = false;
  Option options[] = {RUN_OPTIONS(o),
                      {"--runs", "N", "timed runs (50)", Option::Number, &runs},
                      {"--json", nullptr, "print one JSON object", Option::Flag, &json}};
  const char* path = parse(argc, argv, "bench", "MODEL.tgb", "Times the model.", options, sizeof options / sizeof *options);
  if (!runs || runs > 10000000) die_usage("bench --runs %llu: must be 1 to 10000000", (unsigned long long)runs);
  double start = now_ms();
  tgb_model* m = open_model(path, o);
  double load_ms = now_ms() - start;
  const char** from;
  Tensor* tensors = make_inputs(m, path, o, &from);
  uint32_t n_in = tgb_input_count(m), n_out = tgb_output_count(m);
  tgb_tensor* in = static_cast<tgb_tensor*>(must_alloc(n_in * sizeof(tgb_tensor)));
  tgb_tensor* out = static_cast<tgb_tensor*>(must_alloc(n_out * sizeof(tgb_tensor)));
  double* times = static_cast<double*>(must_alloc(runs * sizeof(double)));
  for (uint32_t i = 0; i < n_in; i++) in[i] = to_tgb(tensors[i]);
  auto run = [&] {
    for (uint32_t i = 0; i < n_out; i++) out[i] = {}, out[i].size = sizeof *out;
    double t = now_ms();
    if (tgb_run(m, in, n_in, out, n_out) != TGB_OK) die("%s", tgb_message(m));
    return now_ms() - t;
  };
  double first_ms = run();
  for (int i = 0; i < 2; i++) run();  // caches and threads are warm
  for (uint64_t i = 0; i < runs; i++) times[i] = run();
  long long peak = peak_bytes();
  tgb_counters counters = {};
  counters.size = sizeof counters;
  tgb_count(m, &counters);
  qsort(times, runs, sizeof *times, by_value);
  double median = runs % 2 ? times[runs / 2] : (times[runs / 2 - 1] + times[runs / 2]) / 2, p90 = times[(runs * 9 + 9) / 10 - 1];
  uint64_t timed = runs < 20 ? runs : 20;
  Kernels kernels = {};
  if (tgb_profile(m, note, &kernels) != TGB_OK) die("%s", tgb_message(m));
  for (uint64_t i = 0; i < timed; i++) run();
  qsort(kernels.k, kernels.n, sizeof *kernels.k, by_time);
  double total = 0;
  for (uint32_t i = 0; i < kernels.n; i++) total += kernels.k[i].ms;
  if (json) {
    printf("{\"load_ms\": %.4f, \"first_ms\": %.4f, \"median_ms\": %.4f, \"p90_ms\": %.4f, \"peak_rss_bytes\": %lld, \"kernels\": [",
           load_ms, first_ms, median, p90, peak);
  } else {
    printf("load %.3f ms, first run %.3f ms\nmedian %.3f ms, p90 %.3f ms, best %.3f ms of %llu runs\npeak memory %.1f MB\n", load_ms,
           first_ms, median, p90, times[0], (unsigned long long)runs, double(peak) / (1 << 20));
    printf("a run: %llu kernels, %.3f GFLOP, %.1f MB moved; %.1f MB in use\n", (unsigned long long)(counters.kernels / counters.runs),
           double(counters.flops) / double(counters.runs) * 1e-9, double(counters.bytes) / double(counters.runs) * 1e-6,
           double(counters.memory_bytes) * 1e-6);
    printf("%10s %6s %10s %8s  kernel\n", "ms", "%", "GFLOP/s", "GB/s");
  }
  for (uint32_t i = 0; i < kernels.n; i++) {
    const KernelTime& k = kernels.k[i];
    double ms = k.ms / double(timed), gflops = k.ms > 0 ? k.flops / k.ms * 1e-6 : 0, gbs = k.ms > 0 ? k.bytes / k.ms * 1e-6 : 0;
    if (json) {
      printf("%s{\"name\": ", i ? ", " : "");
      print_quoted(k.name);
      printf(", \"ms\": %.5f, \"gflops\": %.3f, \"gbs\": %.3f}", ms, gflops, gbs);
    } else {
      printf("%10.4f %6.1f %10.1f %8.1f  %s\n", ms, total > 0 ? 100 * k.ms / total : 0, gflops, gbs, k.name);
    }
  }
  if (json) printf("]}\n");
  tgb_close(m);
  return 0;
}
