// Which build of the compiler this is: part of cache keys, so that a kernel is never taken from a cache that another code generator filled.
#pragma once
#include <string>

namespace tg::driver {

// The linker's identity of this program's contents, in hex; without one the version.
std::string build_id();

}  // namespace tg::driver
