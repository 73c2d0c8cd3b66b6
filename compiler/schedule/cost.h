// What a kernel does, read off its kernel form, and what the alternatives of a choice cost.
#pragma once
#include "schedule/byte_product.h"
#include "schedule/schedule.h"
#include "schedule/winograd.h"

namespace tg {

struct Work {
  i64 flops = 0;  // arithmetic on floats and integers other than indices; a fused multiply-add is two
  i64 bytes = 0;  // of the buffers it reads and writes, each once
};
// At the largest sizes; and as index expressions of the sizes of a run.
Work work_of(const Schedule& s, const Call& c);
struct WorkOfRun {
  UOp flops, bytes;
};
WorkOfRun work_of_run(const Schedule& s, const Call& c);

// Cycles of one core for such a convolution, directly and as F(f, 3), in a model whose constants take `constants` bytes in all.
f64 direct_cycles(const Conv3& c, const Target& t, i64 constants);
f64 winograd_cycles(const Conv3& c, i64 f, const Target& t, i64 constants);
// The same in one kernel, in these pieces.
f64 winograd_cycles(const Conv3& c, i64 f, const WinogradPieces& p, const Target& t, i64 constants);
// By how much F(f, 3) may err beyond the plain sum: of the largest result, for inputs and weights without a trend.
f64 winograd_error(i64 f);

// Cycles of a sum of products by bytes in f32, and with two bytes an activation; what the latter errs by, of the largest result, for rows and weights
// without a trend.
f64 widened_cycles(const ByteProduct& p, const Target& t, i64 constants);
f64 byte_product_cycles(const ByteProduct& p, const Target& t, i64 constants);
constexpr f64 kByteProductError = 6e-5;

}  // namespace tg
