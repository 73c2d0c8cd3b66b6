// Fields of fixed width or with their length before them, little-endian: jobs to workers, cached answers, parts of a bundle.
#pragma once
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/types.h"
#include "target/layout.h"

namespace tg {

struct Writer {
  std::vector<u8> out;
  void raw(const void* p, size_t n) { out.insert(out.end(), static_cast<const u8*>(p), static_cast<const u8*>(p) + n); }
  void num(i64 v) { raw(&v, 8); }
  void real(f64 v) { raw(&v, 8); }
  void text(std::string_view s) { num(i64(s.size())), raw(s.data(), s.size()); }
  void blob(std::span<const u8> s) { num(i64(s.size())), raw(s.data(), s.size()); }
  void nums(std::span<const i64> v) {
    num(i64(v.size()));
    for (i64 x : v) num(x);
  }
  void layout(const Layout& l) {
    num(i64(l.pieces.size()));
    for (auto& p : l.pieces) num(p.axis), num(p.factor);
  }
};

struct Reader {
  std::span<const u8> in;
  const char* what;  // for messages: "a compile job"

  void raw(void* p, size_t n) {
    if (n > in.size()) fail(what, " is truncated");
    std::memcpy(p, in.data(), n);
    in = in.subspan(n);
  }
  i64 num() {
    i64 v;
    raw(&v, 8);
    return v;
  }
  f64 real() {
    f64 v;
    raw(&v, 8);
    return v;
  }
  size_t count() {
    i64 n = num();
    if (n < 0 || size_t(n) > in.size()) fail(what, " is damaged");
    return size_t(n);
  }
  std::string text() {
    std::string s(count(), 0);
    raw(s.data(), s.size());
    return s;
  }
  std::span<const u8> blob() {
    size_t n = count();
    std::span<const u8> b = in.first(n);
    in = in.subspan(n);
    return b;
  }
  std::vector<i64> nums() {
    std::vector<i64> v(count());
    for (i64& x : v) x = num();
    return v;
  }
  Layout layout() {
    Layout l;
    l.pieces.resize(count());
    for (auto& p : l.pieces) p.axis = num(), p.factor = num();
    return l;
  }
};

}  // namespace tg
