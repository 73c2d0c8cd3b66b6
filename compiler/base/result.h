// A value, or the reason why there is none: for refusals that are ordinary outcomes (an Opt that does not fit, a candidate that does not
// compile). A mistake of the user is fail() in error.h.
#pragma once
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"

namespace tg {

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T v) : v_(std::move(v)) {}
  static Result no(std::string why) {
    Result r;
    r.why_ = std::move(why);
    return r;
  }
  template <class... A>
    requires(sizeof...(A) > 1)
  static Result no(const A&... parts) {
    return no(tg::str(parts...));
  }
  explicit operator bool() const { return v_.has_value(); }
  T& operator*() {
    TG_CHECK(v_, "Result read without a value: ", why_);
    return *v_;
  }
  const T& operator*() const {
    TG_CHECK(v_, "Result read without a value: ", why_);
    return *v_;
  }
  T* operator->() { return &**this; }
  const T* operator->() const { return &**this; }
  const std::string& why() const { return why_; }

 private:
  Result() = default;
  std::optional<T> v_;
  std::string why_;
};

}  // namespace tg
