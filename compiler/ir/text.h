// The IR as text, both ways: any dump is a test's input. One node a line, sources first:
//   %12 = ADD f32 %3 %7            name, dtype, sources
//   %3 = CONST f32 0.5             arguments by their ArgKind: a value,
//   %4 = PARAM f32 #0 %1 %2          #integer,
//   %5 = REDUCE f32 [0, 1] %4        [integers],
//   %0 = VAR index "n" %8 %9 %9      "string"
// Names of values are free words, names of ops are read in any case, ; begins a comment.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/uop.h"

namespace tg {

// All nodes below the root, which comes last. The same graph gives the same text in any arena.
std::string print(UOp root);
std::string print(std::span<const UOp> roots);

// A linear program: its nodes in their order. A source that is no member of the list stands before its first user, after the word `let`.
std::string print_list(std::span<const UOp> list);

// The node of the last line, built into the current arena as written: nothing is folded. Throws Error "line:column: what".
UOp parse(std::string_view text);
// The nodes of all lines but `let` ones.
std::vector<UOp> parse_list(std::string_view text);

}  // namespace tg
