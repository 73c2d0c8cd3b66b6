// Decides whether a flatbuffer is well-formed as bundle.fbs says: every offset, vector, string and table lies inside it and is aligned. The
// same answer as the verifier that flatc generates, in an eighth of its code: that one is 9 KB of a runtime of 50.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace tgf {

// `bytes` must be aligned to 8. Nesting is limited by kMaxDepth, tables by kMaxTables (header.h).
bool verify_flatbuffer(const uint8_t* bytes, size_t size);

// The schema as verify_flatbuffer reads it, one string a table, the root last; the key stands in verify.cc. Tests compare it with flatc's
// own description of bundle.fbs.
extern const char kTables[];
extern const uint32_t kTableCount;

}  // namespace tgf
