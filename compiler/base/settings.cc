#include "base/settings.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>

#include "base/error.h"
#include "base/note.h"
#include "formats/target.h"

namespace tg {
namespace settings {
namespace {

constexpr Row kRows[] = {
#define S(name, kind, def, allowed, code, later, meaning) {#name, Kind::kind, allowed, bool(code), later, meaning},
#include "base/settings.def"
#undef S
};

std::string plain(i64 v) { return str(v); }
std::string plain(f64 v) { return str(v); }
std::string plain(const char* v) { return v; }

bool same_word(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) {
           return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
         });
}

// Splits s at the first sep; the second part is empty if there is none.
std::pair<std::string_view, std::string_view> cut(std::string_view s, char sep) {
  size_t at = s.find(sep);
  if (at == s.npos) return {s, {}};
  return {s.substr(0, at), s.substr(at + 1)};
}

std::optional<f64> read_number(std::string_view s) {
  f64 v;
  auto r = std::from_chars(s.data(), s.data() + s.size(), v);
  if (r.ec != std::errc() || r.ptr != s.data() + s.size() || v != v) return {};
  return v;
}

[[noreturn]] void bad(Id id, std::string_view text, const std::string& expected) {
  fail(row(id).name, "=", text, ": expected ", expected, "; meaning: ", row(id).meaning);
}

void check_range(Id id, std::string_view text, f64 v) {
  std::string_view allowed = row(id).allowed;
  size_t dots = allowed.find("..");
  if (dots == allowed.npos) return;
  std::optional<f64> lo = read_number(allowed.substr(0, dots)), hi = read_number(allowed.substr(dots + 2));
  if (lo && v < *lo) bad(id, text, hi ? str("a number from ", *lo, " to ", *hi) : str("a number from ", *lo, " up"));
  if (hi && v > *hi) bad(id, text, str("a number from ", *lo, " to ", *hi));
}

// "x|y=alias": the first spelling of the choice that `text` names.
std::string pick(Id id, std::string_view text) {
  std::string_view rest = row(id).allowed;
  if (rest.empty()) return std::string(text);
  if (rest == "DEV") {
    tgf::Target targets[tgf::kMaxTargets];
    u32 n;
    char error[512];
    if (!tgf::parse_targets(std::string(text).c_str(), targets, &n, error, sizeof error)) throw_error(error);
    return std::string(text);
  }
  std::vector<std::string_view> known;
  while (!rest.empty()) {
    auto [choice, next] = cut(rest, '|');
    rest = next;
    std::string_view first = cut(choice, '=').first;
    known.push_back(first);
    while (!choice.empty()) {
      auto [word, others] = cut(choice, '=');
      if (same_word(word, text)) return std::string(first);
      choice = others;
    }
  }
  bad(id, text, str("one of ", join(known)));
}

f64 read_time(Id id, std::string_view text) {
  std::string_view s = text;
  f64 unit = 1;
  if (!s.empty() && std::isalpha(static_cast<unsigned char>(s.back()))) {
    switch (s.back()) {
      case 's': unit = 1; break;
      case 'm': unit = 60; break;
      case 'h': unit = 3600; break;
      default: bad(id, text, "a time such as 90, 60s, 5m or 1h");
    }
    s.remove_suffix(1);
  }
  std::optional<f64> v = read_number(s);
  if (!v) bad(id, text, "a time such as 90, 60s, 5m or 1h");
  return *v * unit;
}

}  // namespace

struct Values {
  std::array<i64, kCount> ints{};
  std::array<f64, kCount> floats{};
  std::array<std::string, kCount> texts;
  std::array<Origin, kCount> origins{};

  void set(Id id, std::string_view text, Origin from) {
    int k = int(id);
    switch (row(id).kind) {
      case Kind::Int: {
        i64 v = 0;
        auto r = std::from_chars(text.data(), text.data() + text.size(), v);
        if (r.ec != std::errc() || r.ptr != text.data() + text.size()) bad(id, text, "an integer");
        check_range(id, text, f64(v));
        ints[k] = v;
        break;
      }
      case Kind::Float: {
        std::optional<f64> v = read_number(text);
        if (!v) bad(id, text, "a number");
        check_range(id, text, *v);
        floats[k] = *v;
        break;
      }
      case Kind::Time:
        floats[k] = read_time(id, text);
        check_range(id, text, floats[k]);
        break;
      case Kind::Text: texts[k] = pick(id, text); break;
    }
    origins[k] = from;
  }

  std::string text(Id id) const {
    int k = int(id);
    switch (row(id).kind) {
      case Kind::Int: return str(ints[k]);
      case Kind::Text: return texts[k];
      default: return str(floats[k]);
    }
  }
};

namespace {

const Values& defaults() {
  static const Values v = [] {
    Values d;
#define S(name, kind, def, ...) d.set(Id::name, plain(def), Origin::Default);
    // Literals in the table are int or double; plain() wants the widest of each.
    auto plain = [](auto x) {
      if constexpr (std::is_integral_v<decltype(x)>) return settings::plain(i64(x));
      else return settings::plain(x);
    };
#include "base/settings.def"
#undef S
    return d;
  }();
  return v;
}

Values from_environment() {
  Values v = defaults();
  for (int k = 0; k < kCount; ++k) {
    const char* text = std::getenv(kRows[k].name);
    if (text && *text) v.set(Id(k), text, Origin::Environment);
  }
  return v;
}

Values& base() {
  static Values v = from_environment();
  return v;
}

thread_local const Values* t_innermost = nullptr;
const Values& current() { return t_innermost ? *t_innermost : base(); }

void note_if_later(Id id, const Values& v) {
  if (*row(id).later && v.text(id) != defaults().text(id)) note(row(id).name, "=", v.text(id), " has no effect: ", row(id).later);
}

void apply_lines(Values& v, std::string_view text, Origin from) {
  while (!text.empty()) {
    auto [line, rest] = cut(text, '\n');
    text = rest;
    if (line.empty()) continue;
    auto [name, value] = cut(line, '=');
    Id id = find(name);
    if (id == Id::count) fail("settings of another version: ", name, " is unknown here");
    v.set(id, value, from);
  }
}

struct Foreign {
  const char *name, *instead;
};
constexpr Foreign kTinygrad[] = {
#define T(name, instead) {#name, instead},
#include "base/settings_tinygrad.def"
#undef T
};

i64 cgroup_cores() {
  // cpu.max of cgroup v2: "quota period" in microseconds, or "max period".
  FILE* f = std::fopen("/sys/fs/cgroup/cpu.max", "r");
  if (!f) return 0;
  long long quota = 0, period = 0;
  int n = std::fscanf(f, "%lld %lld", &quota, &period);
  std::fclose(f);
  return n == 2 && quota > 0 && period > 0 ? std::max<i64>(1, (quota + period - 1) / period) : 0;
}

}  // namespace

const Row& row(Id id) { return kRows[int(id)]; }
i64 int_value(Id id) { return current().ints[int(id)]; }
f64 float_value(Id id) { return current().floats[int(id)]; }
const std::string& text_value(Id id) { return current().texts[int(id)]; }
std::string value_text(Id id) { return current().text(id); }
std::string default_text(Id id) { return defaults().text(id); }
Origin origin(Id id) { return current().origins[int(id)]; }

Id find(std::string_view name) {
  for (int k = 0; k < kCount; ++k)
    if (name == kRows[k].name) return Id(k);
  return Id::count;
}

void load() {
  const Values& v = base();
  for (int k = 0; k < kCount; ++k)
    if (v.origins[k] == Origin::Environment) note_if_later(Id(k), v);
  std::vector<std::string> foreign;
  for (const Foreign& t : kTinygrad) {
    const char* text = std::getenv(t.name);
    if (text && *text) foreign.push_back(*t.instead ? str(t.name, " (here: ", t.instead, ")") : std::string(t.name));
  }
  if (!foreign.empty()) note("ignored, variables of tinygrad that tgaot does not have: ", join(foreign));
}

std::string serialize() {
  const Values &v = current(), &d = defaults();
  std::string s;
  for (int k = 0; k < kCount; ++k)
    if (v.text(Id(k)) != d.text(Id(k))) s += str(kRows[k].name, "=", v.text(Id(k)), "\n");
  return s;
}

void restore(std::string_view text) {
  Values v = defaults();
  apply_lines(v, text, Origin::Environment);
  base() = std::move(v);
}

std::string code_key() {
  std::string s;
  for (int k = 0; k < kCount; ++k)
    if (kRows[k].changes_code) s += str(kRows[k].name, "=", current().text(Id(k)), ";");
  return s;
}

i64 cores() {
  cpu_set_t set;
  i64 n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  i64 quota = cgroup_cores();
  return std::max<i64>(1, quota ? std::min(n, quota) : n);
}

}  // namespace settings

using settings::Kind;
Override::Override(settings::Var<Kind::Int> v, i64 x) : id(v.id), text(str(x)) {}
Override::Override(settings::Var<Kind::Float> v, f64 x) : id(v.id), text(str(x)) {}
Override::Override(settings::Var<Kind::Time> v, f64 x) : id(v.id), text(str(x)) {}

Override Override::parse(std::string_view assignment) {
  size_t at = assignment.find('=');
  if (at == assignment.npos) fail("\"", assignment, "\": expected NAME=value, for example BEAM=8");
  settings::Id id = settings::find(assignment.substr(0, at));
  if (id == settings::Id::count) fail(assignment.substr(0, at), ": no such setting; list them with: tgaot settings");
  return {id, assignment.substr(at + 1)};
}

Context::Context(const std::vector<Override>& overrides)
    : values_(std::make_unique<settings::Values>(settings::current())), outer_(settings::t_innermost) {
  for (const Override& o : overrides) {
    values_->set(o.id, o.text, settings::Origin::Context);
    settings::note_if_later(o.id, *values_);
  }
  settings::t_innermost = values_.get();
}

Context::Context(std::string_view serialized)
    : values_(std::make_unique<settings::Values>(settings::defaults())), outer_(settings::t_innermost) {
  settings::apply_lines(*values_, serialized, settings::Origin::Context);
  settings::t_innermost = values_.get();
}

Context::~Context() {
  TG_CHECK(settings::t_innermost == values_.get(), "Contexts must end in the reverse order of their beginning, in one thread");
  settings::t_innermost = outer_;
}

}  // namespace tg
