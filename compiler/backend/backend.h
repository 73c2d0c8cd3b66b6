// Renderers and compilers by target: linear form to a program's bytes.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/uop.h"
#include "target/target.h"

namespace tg {

// source and assembly, if not null, receive texts for people.
Result<std::vector<u8>> compile_program(std::span<const UOp> linear, const std::string& entry, const Target& target, std::string* source = nullptr,
                                        std::string* assembly = nullptr);
// What made the program: goes into cache keys and provenance.
std::string compiler_version(const Target& target);

}  // namespace tg
