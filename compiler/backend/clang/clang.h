// The second compiler of CPUs: linear form to C source to a relocatable ELF object, by clang as a child process.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/uop.h"
#include "target/target.h"

namespace tg {

// As compile_llvm: an object with the one function `entry`. source and assembly, if not null, receive the texts.
Result<std::vector<u8>> compile_clang(std::span<const UOp> linear, const std::string& entry, const Target& target, std::string* source = nullptr,
                                      std::string* assembly = nullptr);
// An object of any C source, or the compiler's words. assembly: its text instead of an object.
Result<std::vector<u8>> compile_c(const std::string& source, const Target& target, bool assembly = false);

// "22.1.8"; or why there is none: clang-22 on PATH, else LLVM's own folder.
Result<std::string> clang_version();

}  // namespace tg
