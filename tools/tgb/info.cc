// tgb info, check, selftest: what a bundle is, and whether it is whole.
#include <stdio.h>
#include <stdlib.h>

#include "tools/tgb/tgb.h"

static tgb_model* inspect(const char* path) {
  tgb_options options = {};
  options.size = sizeof options, options.inspect = 1;
  tgb_model* m = nullptr;
  if (tgb_open_file(path, &options, &m) != TGB_OK) die("%s", tgb_message(nullptr));
  return m;
}

static void print_signature(const char* side, uint32_t i, const tgb_signature& s) {
  printf("%-8s%u %s %s[", side, i, s.name, tgb_dtype_name(s.dtype));
  for (uint32_t k = 0; k < s.rank; k++) {
    if (k) putchar(',');
    if (s.vars[k])
      printf("%s", s.vars[k]);
    else
      printf("%lld", (long long)s.dims[k]);
  }
  printf("]\n");
}

// What a variant takes at five sizes, from the smallest of all variables to the largest.
static void print_memory(tgb_model* m, uint32_t variant) {
  uint32_t n = tgb_var_count(m);
  int64_t* values = static_cast<int64_t*>(calloc(n + 1, sizeof(int64_t)));
  if (!values) die("no memory");
  for (int step = 0; step <= 4 && (n || step == 4); step++) {
    printf("memory %u ", variant);
    for (uint32_t i = 0; i < n; i++) {
      tgb_var v = {};
      v.size = sizeof v;
      tgb_variable(m, i, &v);
      values[i] = v.min + (v.max - v.min) * step / 4;
      int64_t down = values[i] / v.multiple * v.multiple;
      values[i] = down < v.min ? v.min : down;
      printf("%s%s = %lld", i ? ", " : "", v.name, (long long)values[i]);
    }
    uint64_t bytes = 0;
    if (tgb_memory_at(m, variant, values, n, &bytes) != TGB_OK) die("%s", tgb_message(m));
    printf("%s%.3f MB beside the weights\n", n ? ": " : "", double(bytes) * 1e-6);
  }
  free(values);
}

int verb_info(int argc, char** argv) {
  const char* device = nullptr;
  bool bounds = false;
  Option options[] = {{"--device", "DEV", "target as in DEV", Option::Text, &device},
                      {"--bounds", nullptr, "the memory that runs take, from the smallest sizes to the largest", Option::Flag, &bounds}};
  const char* path = parse(argc, argv, "info", "MODEL.tgb", "Tells what the bundle holds, and whether it runs here.", options, 2);
  tgb_model* m = inspect(path);
  tgb_provenance p = {};
  p.size = sizeof p;
  tgb_about(m, &p);
  printf("file    %s, %.2f MB: weights %.2f MB, programs %.2f MB\n", path, double(p.file_bytes) * 1e-6, double(p.weight_bytes) * 1e-6,
         double(p.program_bytes) * 1e-6);
  if (p.made_by) printf("made by %s\n", p.made_by);
  if (p.model) printf("model   %s\n", p.model);
  if (p.model_digest) printf("digest  %s\n", p.model_digest);
  if (p.licence) printf("licence %s\n", p.licence);
  printf("needs   runtime %u (this is %u)\n", p.min_runtime, tgb_version());
  tgb_signature s = {};
  s.size = sizeof s;
  for (uint32_t i = 0; i < tgb_input_count(m); i++) tgb_input(m, i, &s), print_signature("input", i, s);
  for (uint32_t i = 0; i < tgb_output_count(m); i++) tgb_output(m, i, &s), print_signature("output", i, s);
  for (uint32_t i = 0; i < tgb_var_count(m); i++) {
    tgb_var v = {};
    v.size = sizeof v;
    tgb_variable(m, i, &v);
    printf("size    %s = %lld..%lld", v.name, (long long)v.min, (long long)v.max);
    if (v.multiple > 1) printf(", a multiple of %lld", (long long)v.multiple);
    putchar('\n');
  }
  for (uint32_t i = 0; i < tgb_variant_count(m); i++) {
    tgb_variant_info v = {};
    v.size = sizeof v;
    tgb_variant(m, i, &v);
    printf("variant %u %s: %u kernels, %.2f MB of memory beside the weights%s%s\n", i, v.target, v.kernels, double(v.memory_bytes) * 1e-6,
           v.note ? "; " : "", v.note ? v.note : "");
    if (bounds) print_memory(m, i);
  }
  tgb_close(m);
  tgb_options here = {};
  here.size = sizeof here, here.device = device, here.threads = 1;
  tgb_model* open = nullptr;
  if (tgb_open_file(path, &here, &open) == TGB_OK)
    printf("runs here\n");
  else
    printf("does not run here: %s\n", tgb_message(nullptr));
  tgb_close(open);
  return 0;
}

int verb_check(int argc, char** argv) {
  const char* path = parse(argc, argv, "check", "MODEL.tgb", "Checks the structure and all digests of the bundle.", nullptr, 0);
  tgb_model* m = inspect(path);
  if (tgb_check(m) != TGB_OK) die("%s", tgb_message(m));
  printf("%s is intact\n", path);
  tgb_close(m);
  return 0;
}

int verb_selftest(int argc, char** argv) {
  RunOptions o = {};
  Option options[] = {{"--device", "DEV", "target as in DEV", Option::Text, &o.device}};
  const char* path = parse(argc, argv, "selftest", "MODEL.tgb", "Runs the test vectors in the bundle and compares.", options, 1);
  tgb_model* m = open_model(path, o);
  if (tgb_selftest(m) != TGB_OK) die("%s", tgb_message(m));
  printf("%s passes its test vectors\n", path);
  tgb_close(m);
  return 0;
}
