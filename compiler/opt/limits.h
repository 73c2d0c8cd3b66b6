// What codegen can take of a kernel, so that Opts that would give it more are refused with a reason.
#pragma once
#include <cstddef>

namespace tg {

constexpr size_t kMostUnrolledRanges = 24;  // UPCAST, UNROLL and DOT loops: expand numbers their copies by bits

}  // namespace tg
