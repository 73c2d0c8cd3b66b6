// Linear lists as machine code: decomposed, rendered as C, compiled by clang, loaded. For tests of numerics, which want billions of values.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "codegen/decompose.h"
#include "ir/uop.h"

namespace tg::test {

using Expression = std::function<UOp(std::span<const UOp>)>;

// Several functions in one shared library. Add, then build, then call.
class Library {
 public:
  Library() = default;
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  int add(std::span<const UOp> linear, const DecompFlags& flags);
  // out[i] = f(in0[i], in1[i] ..) for i < n, n a multiple of lanes. `ins` are the kinds of the inputs.
  int add(const std::vector<Kind>& ins, const Expression& f, const DecompFlags& flags, int lanes = 1);
  void build(const std::string& flags = "-march=native");
  void call(int f, const std::vector<const void*>& args, i64 n) const;  // args[0] is written
  std::string source(int f) const { return sources_[f]; }

 private:
  std::vector<std::string> sources_;
  void* library_ = nullptr;
  std::vector<void (*)(void* const*, const i64*, i64)> entries_;
};

}  // namespace tg::test
