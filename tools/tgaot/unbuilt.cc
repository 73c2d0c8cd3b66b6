// Verbs that later versions have. Each is known by name, so that trying it says what is missing instead of "unknown verb".
#include "base/error.h"
#include "verbs.h"

namespace {

struct Verb {
  const char *name, *meaning;
};
constexpr Verb kVerbs[] = {
    {"diff", "what differs between two bundles"},         {"bisect", "the first kernel that strays from the interpreter"},
    {"export", "kernels and bundle as a linkable object"},
    {"agents", "the agents that can be reached"},
};

}  // namespace

void add_unbuilt(CLI::App& app) {
  for (const Verb& v : kVerbs) {
    CLI::App* verb = app.add_subcommand(v.name, tg::str(v.meaning, " (not built yet)"));
    verb->allow_extras();
    verb->callback([v] { tg::fail(v.name, " is not built yet in this version (", v.meaning, ")"); });
  }
}
