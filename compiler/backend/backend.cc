#include "backend/backend.h"

#include "backend/cl/cl.h"
#include "backend/clang/clang.h"
#include "backend/llvm/llvm.h"

namespace tg {

Result<std::vector<u8>> compile_program(std::span<const UOp> linear, const std::string& entry, const Target& t, std::string* source, std::string* assembly) {
  if (t.renderer == "LLVM") return compile_llvm(linear, entry, t, source, assembly);
  if (t.renderer == "CLANG") return compile_clang(linear, entry, t, source, assembly);
  if (t.renderer == "OPENCL") return compile_opencl(linear, entry, t, source);
  return Result<std::vector<u8>>::no("renderer ", t.renderer, " of ", t.device, " is not built yet; known: LLVM, CLANG, OPENCL");
}

std::string compiler_version(const Target& t) {
  if (t.renderer == "OPENCL") return "OpenCL C";
  if (t.renderer != "CLANG") return "LLVM " + llvm_version();
  auto v = clang_version();
  return v ? "clang " + *v : std::string("clang");
}

}  // namespace tg
