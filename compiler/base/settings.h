// The settings of settings.def: read once from the environment, overridden by Context for a scope, handed to workers as text.
//
//   if (settings::DEBUG() >= 2) ...                               // the value here and now
//   Context c{{settings::DEBUG, 4}, {settings::DEV, "CPU"}};      // until the end of this scope, nestable, this thread only
//   with_context({{settings::BEAM, 8}}, [&] { return compile(k); });
//
// A bad value is an Error that names the variable. Overrides are per thread: a new thread or process starts from what serialize() gave.
#pragma once
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/types.h"

namespace tg {
namespace settings {

enum class Kind : u8 { Int, Float, Text, Time };
enum class Origin : u8 { Default, Environment, Context };

enum class Id : u16 {
#define S(name, ...) name,
#include "base/settings.def"
#undef S
  count
};
inline constexpr int kCount = int(Id::count);

struct Row {
  const char* name;
  Kind kind;
  const char* allowed;
  bool changes_code;
  const char* later;  // "" when the feature works
  const char* meaning;
};
const Row& row(Id);

i64 int_value(Id);
f64 float_value(Id);
const std::string& text_value(Id);  // valid until the innermost Context of this thread ends

template <Kind K>
struct Var {
  Id id;
  auto operator()() const {
    if constexpr (K == Kind::Int) return int_value(id);
    else if constexpr (K == Kind::Text) return std::string(text_value(id));
    else return float_value(id);
  }
};
#define S(name, kind, ...) inline constexpr Var<Kind::kind> name{Id::name};
#include "base/settings.def"
#undef S

std::string value_text(Id);      // the value as one would set it
std::string default_text(Id);
Origin origin(Id);
Id find(std::string_view name);  // Id::count if there is none; names are upper case

// Reads the environment now and tells on stderr, once, what is set but not built and what only tinygrad has. Without this call the first
// read of a setting reads the environment, silently.
void load();

// Every setting that differs from its default, one NAME=value a line, and the way back: restore() replaces the process's base values (a
// worker calls it with its parent's text).
std::string serialize();
void restore(std::string_view text);

// "NAME=value;..." of the settings that change generated code, in table order: for cache keys and provenance.
std::string code_key();

i64 cores();  // what this process may use: affinity and cgroup quota, at least 1

struct Values;
}  // namespace settings

struct Override {
  settings::Id id;
  std::string text;
  Override(settings::Var<settings::Kind::Int> v, i64 x);
  Override(settings::Var<settings::Kind::Float> v, f64 x);
  Override(settings::Var<settings::Kind::Time> v, f64 x);
  Override(settings::Var<settings::Kind::Text> v, std::string_view x) : id(v.id), text(x) {}
  static Override parse(std::string_view assignment);  // "BEAM=8"; Error for an unknown name

 private:
  Override(settings::Id i, std::string_view x) : id(i), text(x) {}
};

class Context {
 public:
  Context(std::initializer_list<Override> o) : Context(std::vector<Override>(o)) {}
  explicit Context(const std::vector<Override>&);
  explicit Context(std::string_view serialized);  // for a thread: what serialize() gave elsewhere, over this process's base values
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

 private:
  std::unique_ptr<settings::Values> values_;
  const settings::Values* outer_;
};

template <class F>
auto with_context(std::initializer_list<Override> o, F&& fn) {
  Context c(o);
  return std::forward<F>(fn)();
}

}  // namespace tg
