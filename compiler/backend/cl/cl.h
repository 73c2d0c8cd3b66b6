// OpenCL: linear form to OpenCL C. The program is kept as source and built by the device's own compiler when it is opened. The kernel's ABI is
// in formats/README.md.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/uop.h"
#include "target/target.h"

namespace tg {

// An OpenCL device. arch: the words that it must have, "cl_khr_fp64,cl_khr_fp16"; empty: none.
Result<Target> cl_target(std::string_view arch);

Result<std::vector<u8>> compile_opencl(std::span<const UOp> linear, const std::string& entry, const Target& target, std::string* source = nullptr);

}  // namespace tg
