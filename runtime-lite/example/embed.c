/* Runs a bundle from C: every input is filled with ones (or a file of raw bytes), every output's first value is printed.
 *     cc -std=c11 -Iruntime-lite/include embed.c -ltgb -o embed && ./embed model.tgb [input0.bin ...] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tgb.h"

static int failed(const char* message) {
  fprintf(stderr, "embed: %s\n", message);
  return 1;
}

int main(int argc, char** argv) {
  if (argc < 2) return failed("usage: embed MODEL.tgb [INPUT.bin ...]");
  tgb_model* model;
  if (tgb_open_file(argv[1], NULL, &model) != TGB_OK) return failed(tgb_message(NULL));

  uint32_t n_in = tgb_input_count(model), n_out = tgb_output_count(model);
  tgb_tensor* in = calloc(n_in + 1, sizeof *in);
  tgb_tensor* out = calloc(n_out + 1, sizeof *out);
  for (uint32_t i = 0; i < n_in; i++) {
    tgb_signature s = {.size = sizeof s};
    tgb_input(model, i, &s);
    size_t n = 1;
    for (uint32_t k = 0; k < s.rank; k++) n *= (size_t)s.dims[k]; /* a free size counts with its largest value */
    in[i] = (tgb_tensor){.size = sizeof *in, .dtype = s.dtype, .bytes = (n * tgb_dtype_bits(s.dtype) + 7) / 8, .rank = s.rank, .dims = s.dims};
    in[i].data = aligned_alloc(64, (in[i].bytes + 63) / 64 * 64 + 64); /* at a multiple of 64: used without a copy */
    if (!in[i].data) return failed("out of memory");
    memset(in[i].data, 0, in[i].bytes);
    if (argc > 2 + (int)i) {
      FILE* f = fopen(argv[2 + i], "rb");
      if (!f || fread(in[i].data, 1, in[i].bytes, f) != in[i].bytes) return failed("an input file is missing or too short");
      fclose(f);
    } else if (s.dtype == TGB_F32) {
      for (size_t k = 0; k < n; k++) ((float*)in[i].data)[k] = 1.0f;
    }
  }
  for (uint32_t i = 0; i < n_out; i++) out[i].size = sizeof *out; /* no data: the model shows its own memory */

  if (tgb_run(model, in, n_in, out, n_out) != TGB_OK) return failed(tgb_message(model));
  for (uint32_t i = 0; i < n_out; i++) {
    tgb_signature s = {.size = sizeof s};
    tgb_output(model, i, &s);
    printf("%s: %s, %zu bytes", s.name, tgb_dtype_name(out[i].dtype), out[i].bytes);
    if (out[i].dtype == TGB_F32 && out[i].bytes) printf(", first value %g", (double)*(float*)out[i].data);
    printf("\n");
  }
  for (uint32_t i = 0; i < n_in; i++) free(in[i].data);
  free(in);
  free(out);
  tgb_close(model);
  return 0;
}
