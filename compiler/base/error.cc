#include "base/error.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>

namespace tg {

std::string number_text(f64 v) {
  char buf[32];
  auto r = std::to_chars(buf, buf + sizeof buf, v);
  return std::string(buf, r.ptr);
}

void throw_error(std::string message) { throw Error(message); }

void check_failed(const char* file, int line, const char* condition, const std::string& what) {
  std::fflush(stdout);
  std::fprintf(stderr, "%s:%d: internal error: %s does not hold%s%s\n", file, line, condition, what.empty() ? "" : ": ", what.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace tg
