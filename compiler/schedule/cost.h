// What a kernel does, read off its kernel form.
#pragma once
#include "schedule/schedule.h"

namespace tg {

struct Work {
  i64 flops = 0;  // arithmetic on floats and integers other than indices; a fused multiply-add is two
  i64 bytes = 0;  // of the buffers it reads and writes, each once
};
Work work_of(const Schedule& s, const Call& c);

}  // namespace tg
