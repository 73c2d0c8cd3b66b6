// The IR as bytes, both ways, exactly: what a bundle keeps of the tensor graph. Ops and kinds stand by name, so that bytes stay readable
// when rows are added to ops.def or dtype.h.
#pragma once
#include <span>
#include <vector>

#include "ir/uop.h"

namespace tg {

// All nodes below the roots, each once, sources first. The same graph gives the same bytes in any arena.
std::vector<u8> write_binary(std::span<const UOp> roots);
inline std::vector<u8> write_binary(UOp root) { return write_binary(std::span(&root, 1)); }

// The roots, built into the current arena as written: nothing is folded. Bytes that write_binary did not make throw Error.
std::vector<UOp> read_binary(std::span<const u8> bytes);

}  // namespace tg
