// The linear form as a C-like program.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "render/lang.h"

namespace tg {

// linear: execution order, each value before its uses, only ops that decompose() leaves. Buffers become parameters by slot; VARs become
// integers in order of their first appearance. A node that the language cannot spell is a bug and aborts with its text.
std::string render(std::span<const UOp> linear, std::string_view entry, const Lang& lang);

}  // namespace tg
