// The three ways to say no: fail() throws Error for the user's fault (caught once, in tools/), TG_CHECK aborts for our own fault, and
// Result<T> (result.h) carries an ordinary refusal. str() joins values into a message; <format> is missing from g++ 12.
#pragma once
#include <concepts>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/types.h"

namespace tg {

// A mistake in what the user gave: a model, a setting, a file. what() is one line: place, expected, got, what to do.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

std::string number_text(f64 v);  // shortest text that reads back as the same double: "0.5", "1e+300", "nan"

// One part of a message as text. Integers print as numbers (u8 too), bool as true/false. A type of your own joins in by an overload
// `std::string to_text(const T&)` in its namespace, or by a member `std::string str() const`.
inline const std::string& to_text(const std::string& s) { return s; }
inline std::string to_text(std::string_view s) { return std::string(s); }
inline std::string to_text(const char* s) { return s; }
template <class T>
  requires std::is_arithmetic_v<T>
std::string to_text(T v) {
  if constexpr (std::same_as<T, bool>) return v ? "true" : "false";
  else if constexpr (std::same_as<T, char>) return std::string(1, v);
  else if constexpr (std::is_floating_point_v<T>) return number_text(f64(v));
  else return std::to_string(v);
}
template <class T>
  requires requires(const T& v) {
    { v.str() } -> std::convertible_to<std::string>;
  }
std::string to_text(const T& v) {
  return v.str();
}

// str("weight has ", 64, " channels") == "weight has 64 channels"
template <class... A>
std::string str(const A&... parts) {
  std::string s;
  (s.append(to_text(parts)), ...);
  return s;
}

// "a, b, c" of any range; `f` turns an element into something str() takes.
template <class R, class F>
std::string join(const R& range, std::string_view sep, F f) {
  std::string s;
  bool first = true;
  for (const auto& e : range) {
    if (!first) s += sep;
    first = false;
    s += str(f(e));
  }
  return s;
}
template <class R>
std::string join(const R& range, std::string_view sep = ", ") {
  return join(range, sep, [](const auto& e) -> const auto& { return e; });
}

[[noreturn]] void throw_error(std::string message);
template <class... A>
[[noreturn]] void fail(const A&... parts) {
  throw_error(str(parts...));
}

[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& what);

// Our fault if it does not hold: prints file:line, the condition and the message, then aborts. Stays on in release builds.
#define TG_CHECK(cond, ...)                                                                     \
  do {                                                                                          \
    if (!(cond)) [[unlikely]]                                                                   \
      ::tg::check_failed(__FILE__, __LINE__, #cond, ::tg::str(__VA_ARGS__));                    \
  } while (0)

}  // namespace tg
