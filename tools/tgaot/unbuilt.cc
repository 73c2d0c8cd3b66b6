// Verbs that later versions have. Each is known by name, so that trying it says what is missing instead of "unknown verb".
#include "base/error.h"
#include "verbs.h"

namespace {

struct Unbuilt {
  const char *name, *meaning;
};
constexpr Unbuilt kVerbs[] = {
    {"diff", "what differs between two bundles"},         {"bisect", "the first kernel that strays from the interpreter"},
    {"export", "kernels and bundle as a linkable object"},
    {"agents", "the agents that can be reached"},
};

}  // namespace

void add_unbuilt(CLI::App& app) {
  for (const Unbuilt& v : kVerbs)
    Verb(app, v.name, tg::str(v.meaning, " (not built yet)")).any_arguments().run([v] {
      tg::fail(v.name, " is not built yet in this version (", v.meaning, ")");
    });
}
