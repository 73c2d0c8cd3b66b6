// The machine model that kernels are shaped for: work groups of 64 items that share local memory, vectors of four floats for loads and stores
// (a texel, or 16 bytes), scalars elsewhere. https://registry.khronos.org/OpenCL/specs/3.0-unified/html/OpenCL_C.html
#include <algorithm>

#include "backend/cl/cl.h"
#include "codegen/decompose.h"
#include "render/c_style.h"

namespace tg {

Result<Target> cl_target(std::string_view arch) {
  Target t;
  t.device = "CL", t.renderer = "OPENCL", t.arch = arch;
  while (!arch.empty()) {
    size_t end = std::min(arch.find(','), arch.size());
    std::string word(arch.substr(0, end));
    if (!word.starts_with("cl_")) return Result<Target>::no("arch ", t.arch, ": ", word, " is no OpenCL extension: they begin with cl_");
    t.needs.push_back(word);
    arch.remove_prefix(std::min(end + 1, arch.size()));
  }
  t.has_fma = true;  // fma() is exact everywhere, and fast on GPUs
  return t;
}

Result<std::vector<u8>> compile_opencl(std::span<const UOp> linear, const std::string& entry, const Target& target, std::string* source) {
  std::vector<UOp> plain = decompose(linear, decomp_flags(target));
  bool doubles = std::any_of(plain.begin(), plain.end(), [](UOp u) { return u.dtype().kind == Kind::F64; });
  bool have = std::find(target.needs.begin(), target.needs.end(), "cl_khr_fp64") != target.needs.end();
  if (doubles && !have) return Result<std::vector<u8>>::no(entry, " computes in f64, which CL needs cl_khr_fp64 for; name it: DEV=CL:OPENCL:cl_khr_fp64");
  std::string text = render(plain, entry, kLangOpenCL);
  if (doubles) text = "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n" + text;
  if (source) *source = text;
  return std::vector<u8>(text.begin(), text.end());
}

}  // namespace tg
