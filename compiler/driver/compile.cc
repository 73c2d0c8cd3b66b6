#include "driver/compile.h"

#include "base/error.h"

namespace tg::driver {

void compile_model(const CompileOptions&) { fail("compile is not built yet in this version"); }

}  // namespace tg::driver
