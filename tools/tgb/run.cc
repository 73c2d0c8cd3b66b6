// tgb run: one run, outputs as DIR/<index>.npy. Files appear only after all of them could be written.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/tgb/tgb.h"

static void write_outputs(const char* dir, const tgb_tensor* outputs, uint32_t n) {
  size_t room = strlen(dir) + 40;
  char *temp = static_cast<char*>(must_alloc(room)), *path = static_cast<char*>(must_alloc(room));
  const char* failed = nullptr;
  for (uint32_t i = 0; !failed && i < n; i++) {
    Tensor t = {};
    t.dtype = tgf::Dtype(outputs[i].dtype), t.rank = outputs[i].rank, t.data = outputs[i].data, t.bytes = outputs[i].bytes;
    memcpy(t.dims, outputs[i].dims, t.rank * sizeof *t.dims);
    snprintf(temp, room, "%s/%u.npy.part", dir, i);
    if (!write_npy(temp, t)) failed = strerror(errno);
  }
  for (uint32_t i = 0; i < n; i++) {
    snprintf(temp, room, "%s/%u.npy.part", dir, i), snprintf(path, room, "%s/%u.npy", dir, i);
    if (failed)
      remove(temp);
    else if (rename(temp, path))
      die("%s: %s", path, strerror(errno));
  }
  if (failed) die("%s: cannot write the outputs: %s", dir, failed);
}

int verb_run(int argc, char** argv) {
  RunOptions o = {};
  const char* dir = nullptr;
  Option options[] = {RUN_OPTIONS(o), {"--output", "DIR", "write each output to DIR/<index>.npy", Option::Text, &dir}};
  const char* path = parse(argc, argv, "run", "MODEL.tgb", "Runs the model once. Prints names, dtypes, shapes and the first values.",
                           options, sizeof options / sizeof *options);
  struct stat st;
  if (dir && stat(dir, &st)) die("--output %s: %s; make the folder first", dir, strerror(errno));
  if (dir && !S_ISDIR(st.st_mode)) die("--output %s: is not a folder", dir);
  tgb_model* m = open_model(path, o);
  const char** from;
  Tensor* tensors = make_inputs(m, path, o, &from);
  uint32_t n_in = tgb_input_count(m), n_out = tgb_output_count(m);
  tgb_tensor* in = static_cast<tgb_tensor*>(must_alloc(n_in * sizeof(tgb_tensor)));
  tgb_tensor* out = static_cast<tgb_tensor*>(must_alloc(n_out * sizeof(tgb_tensor)));
  for (uint32_t i = 0; i < n_in; i++) in[i] = to_tgb(tensors[i]);
  for (uint32_t i = 0; i < n_out; i++) out[i].size = sizeof *out;
  double start = now_ms();
  if (tgb_run(m, in, n_in, out, n_out) != TGB_OK) die("%s", tgb_message(m));
  double ms = now_ms() - start;
  if (dir) write_outputs(dir, out, n_out);
  char shape[400];
  tgb_signature s = {};
  s.size = sizeof s;
  for (uint32_t i = 0; i < n_in; i++) {
    tgb_input(m, i, &s);
    printf("input  %u %s %s %s\n", i, s.name, shape_text(shape, sizeof shape, in[i]), from[i] ? from[i] : "random");
  }
  for (uint32_t i = 0; i < n_out; i++) {
    tgb_output(m, i, &s);
    printf("output %u %s %s", i, s.name, shape_text(shape, sizeof shape, out[i]));
    if (dir) printf(" %s/%u.npy", dir, i);
    printf(" =");
    Tensor t = {};
    t.rank = out[i].rank;
    memcpy(t.dims, out[i].dims, t.rank * sizeof *t.dims);
    int64_t count = elements(t), shown = count < 8 ? count : 8;
    for (int64_t k = 0; k < shown; k++) print_element(out[i], k);
    printf(shown < count ? " ...\n" : "\n");
  }
  tgb_counters c = {};
  c.size = sizeof c;
  tgb_count(m, &c);
  printf("run in %.3f ms: %llu kernels, %.3f GFLOP, %.1f MB moved, %.1f MB in use\n", ms, (unsigned long long)c.kernels,
         double(c.flops) * 1e-9, double(c.bytes) * 1e-6, double(c.memory_bytes) * 1e-6);
  tgb_close(m);
  return 0;
}
