// Decides whether bytes are an intact bundle, so that a reader may follow any offset, index and expression in it without a look.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "formats/bundle_generated.h"
#include "formats/header.h"

namespace tgf {

enum class Verdict : uint8_t { Good, Bad, TooNew };

// Checks header, flatbuffer (their digests included), and every index, offset, size and expression. The digests of segments are left to
// segment_intact. `bytes` must be aligned to 8. Unless Good, `error` says what is wrong, in one line without the file's name.
Verdict check_bundle(const void* bytes, uint64_t size, const fb::Bundle** out, char* error, size_t error_bytes);

// Whether the stored bytes of a segment have their digest.
bool segment_intact(const void* file, const fb::Segment& s);

constexpr uint32_t kMaxRank = 32;
constexpr uint32_t kMaxParams = 256;  // parameters or integers of one launch

}  // namespace tgf
