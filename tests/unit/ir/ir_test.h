// Short ways to write tensors in tests of the IR.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "ir/eval.h"
#include "ir/eval_scalar.h"
#include "ir/tensor.h"

namespace tg {

inline constexpr f64 kInf = std::numeric_limits<f64>::infinity();
inline constexpr f64 kNaN = std::numeric_limits<f64>::quiet_NaN();

// An arena and numbered inputs.
class IrTest : public testing::Test {
 protected:
  Arena arena;
  Arena::Scope scope{arena};
  EvalEnv env;

  UOp input(DType d, std::vector<i64> dims, std::vector<f64> numbers) {
    env.params.push_back(values(d, dims, numbers));
    return tensor::param(i64(env.params.size()) - 1, d, tg::dims(std::span<const i64>(dims)));
  }
  UOp input(std::vector<i64> dims, std::vector<f64> numbers) { return input(Kind::F32, std::move(dims), std::move(numbers)); }
  UOp arange(std::vector<i64> dims, DType d = Kind::F32) {
    std::vector<f64> v(count(dims));
    for (size_t i = 0; i < v.size(); i++) v[i] = f64(i);
    return input(d, std::move(dims), std::move(v));
  }
  std::vector<f64> run(UOp u) {
    last = eval(u, env);
    std::vector<f64> r;
    for (i64 i = 0; i < last.elems(); i++) r.push_back(last.number(i));
    return r;
  }
  std::vector<i64> dims_of(UOp u) { return eval(u, env).dims; }
  std::string message(UOp u) {
    try {
      eval(u, env);
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  }
  Values last;
};

using V = std::vector<f64>;
using D = std::vector<i64>;

}  // namespace tg
