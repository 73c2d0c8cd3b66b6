// The devices of this build, one line each.
#include <string.h>

#include "runtime-lite/src/backend.h"

namespace tgb {

extern const Backend kCpu;

const Backend* find_backend(const char* device) {
  static const Backend* const kAll[] = {&kCpu};
  for (const Backend* b : kAll)
    if (!strcmp(b->name, device)) return b;
  return nullptr;
}

}  // namespace tgb
