// 128-bit content digests (XXH3) for identities that go to disk or between processes, and small 64-bit hashes for tables in memory.
// A Digest is the same on every little-endian host.
#pragma once
#include <compare>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace tg {

struct Digest {
  u64 lo = 0, hi = 0;
  auto operator<=>(const Digest&) const = default;
  std::string str() const;                    // 32 lower-case hex digits, hi first
  static bool parse(std::string_view, Digest*);  // the inverse; false if it is not 32 hex digits
};

Digest digest(const void* data, size_t bytes);
inline Digest digest(std::string_view s) { return digest(s.data(), s.size()); }
inline Digest digest(std::span<const u8> s) { return digest(s.data(), s.size()); }
u64 hash64(const void* data, size_t bytes);
inline u64 hash64(std::string_view s) { return hash64(s.data(), s.size()); }

// Mixes v into h: a multiply-xor step, good enough for hash tables, never stored.
constexpr u64 mix(u64 h, u64 v) {
  h ^= v + 0x9e3779b97f4a7c15ull + (h << 6) + (h >> 2);
  h *= 0xff51afd7ed558ccdull;
  return h ^ (h >> 32);
}

// Collects fields one after another and digests them at the end. Strings are preceded by their length, so ("ab","c") and ("a","bc") differ.
class Hasher {
 public:
  Hasher& add(u64 v) { return raw(&v, sizeof v); }
  Hasher& add(const Digest& d) { return raw(&d, sizeof d); }
  Hasher& add(std::string_view s) {
    add(u64(s.size()));
    return raw(s.data(), s.size());
  }
  Hasher& raw(const void* data, size_t bytes) {
    const u8* p = static_cast<const u8*>(data);
    bytes_.insert(bytes_.end(), p, p + bytes);
    return *this;
  }
  Digest done() const { return digest(bytes_.data(), bytes_.size()); }

 private:
  std::vector<u8> bytes_;
};

}  // namespace tg

template <>
struct std::hash<tg::Digest> {
  size_t operator()(const tg::Digest& d) const { return d.lo ^ d.hi; }
};
