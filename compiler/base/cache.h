// What was computed before, kept between runs in one SQLite file (CACHEDB): compiled kernels, schedules, search results. A cache that is
// locked, broken or not writable costs one warning and is then left alone: it never fails a compilation. All functions are thread-safe.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"

namespace tg::cache {

// The key holds everything that changes the answer: content digest, target with arch, compiler version, settings::code_key().
// table: lower-case letters, digits and '_'.
std::optional<std::vector<u8>> get(std::string_view table, const Digest& key);
void put(std::string_view table, const Digest& key, std::span<const u8> value);

std::string path();  // the file in use: CACHEDB, or tgaot/cache.db in $XDG_CACHE_HOME or ~/.cache

}  // namespace tg::cache
