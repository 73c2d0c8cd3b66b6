// The option table of a verb: --name VALUE, --name=VALUE, flags, one positional argument.
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/tgb/tgb.h"

#ifdef __SANITIZE_ADDRESS__
// A verb leaves its memory to the end of the process.
extern "C" __attribute__((visibility("default"))) const char* __asan_default_options() { return "detect_leaks=0"; }
#endif

static void say(const char* format, va_list args) {
  fflush(stdout);
  fputs("tgb: ", stderr);
  vfprintf(stderr, format, args);
  fputc('\n', stderr);
}
void die(const char* format, ...) {
  va_list args;
  va_start(args, format);
  say(format, args);
  exit(1);
}
void die_usage(const char* format, ...) {
  va_list args;
  va_start(args, format);
  say(format, args);
  exit(2);
}

void* must_alloc(size_t bytes) {
  // At a multiple of 64, so that kernels use it as it is.
  size_t room = (bytes + 63) / 64 * 64 + 64;
  void* p = aligned_alloc(64, room);
  if (!p) die("no memory for %zu bytes", bytes);
  return memset(p, 0, room);
}

double now_ms() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return double(t.tv_sec) * 1e3 + double(t.tv_nsec) * 1e-6;
}

static void help(const char* verb, const char* positional, const char* about, const Option* options, uint32_t n) {
  printf("usage: tgb %s [options] %s\n%s\n\n", verb, positional, about);
  for (uint32_t i = 0; i < n; i++) {
    char left[64];
    snprintf(left, sizeof left, "%s %s", options[i].name, options[i].value ? options[i].value : "");
    printf("  %-28s%s\n", left, options[i].help);
  }
  exit(0);
}

static void set(const Option& o, const char* value, const char* verb) {
  switch (o.kind) {
    case Option::Flag: *static_cast<bool*>(o.out) = true; break;
    case Option::Text: *static_cast<const char**>(o.out) = value; break;
    case Option::Number: {
      char* end;
      errno = 0;
      unsigned long long v = strtoull(value, &end, 10);
      if (*end || *value < '0' || *value > '9' || errno) die_usage("%s %s=%s: must be a whole number", verb, o.name, value);
      *static_cast<uint64_t*>(o.out) = v;
      break;
    }
    case Option::List: {
      List* l = static_cast<List*>(o.out);
      if (l->n == kMaxList) die_usage("%s: more than %u times %s", verb, kMaxList, o.name);
      l->item[l->n++] = value;
    }
  }
}

const char* parse(int argc, char** argv, const char* verb, const char* positional, const char* about, const Option* options, uint32_t n) {
  const char* found = nullptr;
  for (int i = 1; i < argc; i++) {
    const char* a = argv[i];
    if (!strcmp(a, "--help") || !strcmp(a, "-h")) help(verb, positional, about, options, n);
    if (a[0] != '-' || !a[1]) {
      if (found) die_usage("%s: one %s expected, got '%s' and '%s'", verb, positional, found, a);
      found = a;
      continue;
    }
    size_t name = strcspn(a, "=");
    const Option* hit = nullptr;
    for (uint32_t k = 0; k < n; k++)
      if (strlen(options[k].name) == name && !strncmp(options[k].name, a, name)) hit = &options[k];
    if (!hit) die_usage("%s: unknown option '%s'; see: tgb %s --help", verb, a, verb);
    const char* value = nullptr;
    if (hit->kind != Option::Flag) {
      value = a[name] ? a + name + 1 : i + 1 < argc ? argv[++i] : nullptr;
      if (!value) die_usage("%s: %s needs a value: %s %s", verb, hit->name, hit->name, hit->value);
    } else if (a[name]) {
      die_usage("%s: %s takes no value", verb, hit->name);
    }
    set(*hit, value, verb);
  }
  if (!found) die_usage("%s: no %s given; see: tgb %s --help", verb, positional, verb);
  return found;
}
