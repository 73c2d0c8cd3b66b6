// The digest of header, flatbuffer and segments: XXH64 with seed 0, inlined from libxxhash's header.
#pragma once
#include <stddef.h>
#include <stdint.h>
#ifndef XXH_INLINE_ALL
#define XXH_INLINE_ALL
#endif
#include <xxhash.h>

namespace tgf {
inline uint64_t checksum(const void* bytes, size_t size) { return XXH64(bytes, size, 0); }
}  // namespace tgf
