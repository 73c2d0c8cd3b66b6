// An elementwise expression as machine code: rendered as C, compiled by clang, loaded. For tests of numerics, which want billions of values.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ir/uop.h"

namespace tg::test {

class Compiled {
 public:
  // out[i] = f(in0[i], in1[i] ..) for i < n. `ins` are the dtypes of the inputs. lanes > 1: f is built on vectors and n must be a multiple.
  Compiled(std::vector<DType> ins, const std::function<UOp(std::span<const UOp>)>& f, int lanes = 1, const std::string& flags = "-march=native");
  ~Compiled();
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;
  void operator()(void* out, std::vector<const void*> ins, i64 n) const;
  const std::string& source() const { return source_; }

 private:
  std::string source_;
  void* library_ = nullptr;
  void (*entry_)(void* const*, const i64*, i64) = nullptr;
};

// The linear list of one loop over VAR n that stores `value`, which reads elements of PARAMs 1.. at r.
std::vector<UOp> elementwise_linear(std::vector<DType> ins, const std::function<UOp(std::span<const UOp>)>& f, int lanes);

}  // namespace tg::test
