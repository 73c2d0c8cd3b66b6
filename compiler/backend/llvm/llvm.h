// The LLVM renderer and compiler of CPUs: linear form to LLVM IR to a relocatable ELF object, in process.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/uop.h"
#include "target/target.h"

namespace tg {

// An object with the one function `entry`, of the CPU kernel ABI: void entry(void* const* args, const int64_t* vars, int64_t task).
// text, if not null, receives the LLVM IR before optimization; assembly, if not null, the machine code as text.
Result<std::vector<u8>> compile_llvm(std::span<const UOp> linear, const std::string& entry, const Target& target, std::string* text = nullptr,
                                     std::string* assembly = nullptr);

std::string llvm_version();
// The CPU that this process runs on, as LLVM calls it, with its features: "znver4", "+avx512f,+…".
void llvm_host(std::string* cpu, std::vector<std::string>* features);

}  // namespace tg
