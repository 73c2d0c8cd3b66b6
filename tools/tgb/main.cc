// tgb: runs, times and examines bundles on the device that they are for. One verb a file.
#include <stdio.h>
#include <string.h>

#include "tools/tgb/tgb.h"

static const Verb kVerbs[] = {
    {"run", "run a model once and write its outputs", verb_run},
    {"bench", "time a model: load, first run, median, kernels", verb_bench},
    {"info", "what a bundle holds, and whether it runs here", verb_info},
    {"check", "whether every byte of a bundle is intact", verb_check},
    {"selftest", "run the test vectors that a bundle carries", verb_selftest},
    {"replay", "(not built yet) run one kernel of a bundle alone", verb_unbuilt},
    {"measure", "(not built yet) time candidates of a search on this device", verb_unbuilt},
    {"agent", "(not built yet) let a host compile for and measure on this device", verb_unbuilt},
};

static void usage(FILE* to) {
  fprintf(to, "usage: tgb VERB [options] MODEL.tgb\n\n");
  for (const Verb& v : kVerbs) fprintf(to, "  %-10s%s\n", v.name, v.about);
  fprintf(to, "\nOptions of a verb: tgb VERB --help\nEnvironment: DEV JIT DEBUG NUM_CPU_THREADS\n");
}

int verb_unbuilt(int, char** argv) { die_usage("%s is not built yet", argv[0]); }

int main(int argc, char** argv) {
  if (argc < 2) {
    usage(stderr);
    return 2;
  }
  if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
    usage(stdout);
    return 0;
  }
  if (!strcmp(argv[1], "--version")) {
    printf("tgb %s, runtime %u\n", TGB_VERSION, tgb_version());
    return 0;
  }
  for (const Verb& v : kVerbs)
    if (!strcmp(v.name, argv[1])) return v.run(argc - 1, argv + 1);
  die_usage("unknown verb '%s'; known: run bench info check selftest replay measure agent", argv[1]);
}
