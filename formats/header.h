// The first 64 bytes of a .tgb file, and the numbers that both sides agree upon.
#pragma once
#include <stdint.h>

namespace tgf {

constexpr char kMagic[8] = {'\x89', 'T', 'G', 'B', '\r', '\n', '\x1a', '\n'};  // as PNG's: damaged by any text transfer
constexpr uint32_t kVersion = 1;                                               // of the file's layout; a reader takes all earlier ones
constexpr uint32_t kRuntimeVersion = 1;                                        // what min_runtime is compared with

constexpr uint64_t kSegmentAlign = 16384;
constexpr uint64_t kConstantAlign = 256;
constexpr uint64_t kBufferAlign = 64;
constexpr uint32_t kMaxDepth = 256;  // nesting of the flatbuffer
constexpr uint32_t kMaxTables = 10'000'000;
constexpr int64_t kMaxBytes = int64_t(1) << 46;  // of any buffer or constant: sums of a few thousand stay in 63 bits
constexpr int64_t kMaxTasks = (int64_t(1) << 31) - 1;

// Bits of Bundle.features.
enum Feature : uint64_t {
  kCompressedWeights = 1,  // a Weights segment is zstd: needs a runtime built with TGB_ZSTD
  kControlFlow = 2,        // ReadVar, SetVar, If, While
  kDerivedForms = 4,       // a prepare block
  kSourcePrograms = 8,     // programs that the device's own compiler finishes
  kImages = 16,
};
constexpr uint64_t kKnownFeatures = 31;

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t min_runtime;  // also in the flatbuffer; here so that a later layout can still be refused with words
  uint64_t meta_offset;  // of the flatbuffer, 64
  uint64_t meta_bytes;
  uint64_t meta_digest;
  uint64_t file_bytes;
  uint64_t reserved;  // 0
  uint64_t digest;    // of the 56 bytes before it
};
static_assert(sizeof(Header) == 64);

}  // namespace tgf
