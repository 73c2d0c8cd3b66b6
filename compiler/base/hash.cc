#define XXH_INLINE_ALL
#include "base/hash.h"

#include <xxhash.h>

namespace tg {

Digest digest(const void* data, size_t bytes) {
  XXH128_hash_t h = XXH3_128bits(data, bytes);
  return {h.low64, h.high64};
}

u64 hash64(const void* data, size_t bytes) { return XXH3_64bits(data, bytes); }

std::string Digest::str() const {
  static const char* hex = "0123456789abcdef";
  std::string s(32, '0');
  for (int i = 0; i < 16; ++i) {
    s[15 - i] = hex[(hi >> (4 * i)) & 15];
    s[31 - i] = hex[(lo >> (4 * i)) & 15];
  }
  return s;
}

bool Digest::parse(std::string_view s, Digest* out) {
  if (s.size() != 32) return false;
  u64 part[2] = {0, 0};
  for (int i = 0; i < 32; ++i) {
    char c = s[i];
    u64 v = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : 16;
    if (v == 16) return false;
    part[i / 16] = part[i / 16] << 4 | v;
  }
  *out = {part[1], part[0]};
  return true;
}

}  // namespace tg
