// tgaot settings: the table of settings with the values that hold now and where they come from.
#include "base/settings.h"

#include <cstdio>

#include "base/cache.h"
#include "verbs.h"

namespace {

void print() {
  namespace st = tg::settings;
  std::printf("%-18s %-12s %-12s %-5s %s\n", "name", "value", "from", "code", "meaning (code: part of cache keys)");
  for (int k = 0; k < st::kCount; ++k) {
    st::Id id = st::Id(k);
    const st::Row& r = st::row(id);
    const char* from = st::origin(id) == st::Origin::Default ? "default" : st::origin(id) == st::Origin::Environment ? "environment" : "--set";
    std::string value = st::value_text(id);
    std::printf("%-18s %-12s %-12s %-5s %s", r.name, value.empty() ? "\"\"" : value.c_str(), from, r.changes_code ? "yes" : "", r.meaning);
    if (*r.later) std::printf(" [%s]", r.later);
    std::printf("\n");
  }
  std::printf("cache: %s\n", tg::cache::path().c_str());
}

}  // namespace

void add_settings(CLI::App& app) { Verb(app, "settings", "every environment variable, its value and meaning").run(print); }
