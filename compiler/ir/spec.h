// What is legal in each of the three forms, a row an op. Checked after every pass in debug builds, in tests and with SPEC=1.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "ir/uop.h"

namespace tg {

enum class Spec : u8 { Tensor, Kernel, Linear };

// What is wrong with the first illegal node below the root, or in a linear list: "kernel form: Load takes ...: <node>". Empty: all is legal.
std::string violation(Spec s, UOp root);
std::string violation(std::span<const UOp> list);

// Aborts on a violation; `after` names the pass.
void check(Spec s, UOp root, std::string_view after = "");
void check(std::span<const UOp> list, std::string_view after = "");

}  // namespace tg
