#include "search/log.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>

#include "base/error.h"
#include "opt/kernel.h"

namespace tg {

std::string LogEntry::line() const {
  char times[64];
  std::snprintf(times, sizeof times, "ns=%.0f base=%.0f", ns, base_ns);
  std::string n = name;
  for (char& c : n)
    if (c == ' ' || c == '\n') c = '_';
  return str("kernel=", kernel, " near=", near, " target=", target, " sizes=", join(sizes, ","), " ", times, " name=", n, " opts=", opts);
}

SearchLog SearchLog::parse(std::string_view text, const std::string& where) {
  SearchLog log;
  i64 number = 0;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    number++;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line[0] == '#') continue;
    LogEntry e;
    auto bad = [&](std::string_view what) {
      fail(where, ":", number, ": not a line of a search log: ", what, "; expected kernel=... near=... target=... opts=...");
    };
    bool kernel = false, opts = false;
    while (!line.empty() && !opts) {
      size_t eq = line.find('=');
      if (eq == line.npos) bad(line);
      std::string_view key = line.substr(0, eq);
      line.remove_prefix(eq + 1);
      opts = key == "opts";
      std::string_view value = opts ? line : line.substr(0, line.find(' '));
      line.remove_prefix(std::min(value.size() + 1, line.size()));
      auto number_of = [&](std::string_view v, auto* out) {
        auto [end, ec] = std::from_chars(v.data(), v.data() + v.size(), *out);
        if (ec != std::errc() || end != v.data() + v.size()) bad(v);
      };
      if (key == "kernel")
        kernel = Digest::parse(value, &e.kernel);
      else if (key == "near") {
        if (!Digest::parse(value, &e.near)) bad(value);
      } else if (key == "target")
        e.target = value;
      else if (key == "name")
        e.name = value;
      else if (key == "opts")
        e.opts = value;
      else if (key == "ns")
        number_of(value, &e.ns);
      else if (key == "base")
        number_of(value, &e.base_ns);
      else if (key == "sizes") {
        while (!value.empty()) {
          std::string_view one = value.substr(0, value.find(','));
          value.remove_prefix(std::min(one.size() + 1, value.size()));
          number_of(one, &e.sizes.emplace_back());
        }
      }
      // Other keys are of later versions.
    }
    if (!kernel || !opts) bad(kernel ? "no opts=" : "no kernel=");
    if (auto list = parse_opts(e.opts); !list && e.name != kChoiceName) bad(list.why());
    log.add(e);
  }
  return log;
}

std::string SearchLog::text() const {
  std::string s;
  for (auto& [key, e] : all_) s += e.line() + "\n";
  return s;
}

void SearchLog::add(const LogEntry& e) {
  auto [it, fresh] = all_.try_emplace(e.kernel, e);
  if (!fresh && e.ns > 0 && (it->second.ns <= 0 || e.ns < it->second.ns)) it->second = e;
}

const LogEntry* SearchLog::find(const Digest& kernel) const {
  auto it = all_.find(kernel);
  return it == all_.end() ? nullptr : &it->second;
}

std::vector<const LogEntry*> SearchLog::nearest(const Digest& near, const std::string& target, const std::vector<i64>& sizes,
                                                size_t most) const {
  std::vector<std::pair<f64, const LogEntry*>> found;
  for (auto& [key, e] : all_)
    if (e.near == near && e.target == target)
      if (f64 d = distance(sizes, e.sizes); std::isfinite(d)) found.push_back({d, &e});
  std::stable_sort(found.begin(), found.end(), [](auto& a, auto& b) { return a.first < b.first; });
  if (found.size() > most) found.resize(most);
  std::vector<const LogEntry*> out;
  for (auto& [d, e] : found) out.push_back(e);
  return out;
}

Digest near_digest(UOp ast) {
  Memo<Digest> d;
  for (UOp u : toposort(ast)) {
    Hasher h;
    h.add(u64(u.op())).add(u64(u.dtype().kind)).add(u64(u.nsrc()));
    for (UOp s : u.src()) h.add(d[s]);
    switch (u.op()) {
      case Op::Const: h.add(is_int(u.dtype()) && u.dtype().kind == Kind::Index ? 0 : u.arg_bits()); break;
      case Op::Param: h.add(u64(u.arg_int())); break;
      case Op::Range:
      case Op::Reduce:
      case Op::Fold:
      case Op::Placeholder:
      case Op::Row:
        for (i64 x : u.arg_ints()) h.add(u64(x));
        break;
      case Op::Get: h.add(u64(u.arg_int())); break;
      default: break;
    }
    d[u] = h.done();
  }
  return d[ast];
}

std::vector<i64> loop_sizes(UOp ast) {
  std::vector<i64> v;
  for (const Axis& a : axes(ast)) v.push_back(a.size);
  return v;
}

f64 distance(const std::vector<i64>& a, const std::vector<i64>& b) {
  if (a.size() != b.size()) return std::numeric_limits<f64>::infinity();
  f64 d = 0;
  for (size_t i = 0; i < a.size(); i++) d += std::abs(std::log(f64(std::max<i64>(a[i], 1)) / f64(std::max<i64>(b[i], 1))));
  return d;
}

}  // namespace tg
