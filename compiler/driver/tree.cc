#include "driver/tree.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace tg {
namespace {

std::string quoted(std::string_view s) {
  std::string out = "\"";
  for (char c : s) {
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\t': out += "\\t"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          char buf[8];
          std::snprintf(buf, sizeof buf, "\\u%04x", c);
          out += buf;
        } else {
          out += c;
        }
    }
  }
  return out + "\"";
}

}  // namespace

// A leaf, or a list or map of leaves: fits a line.
bool Tree::flat() const {
  return std::all_of(items_.begin(), items_.end(), [](auto& i) { return i.second.kind_ == Kind::Text || i.second.kind_ == Kind::Number; });
}

std::string Tree::line() const {
  switch (kind_) {
    case Kind::Text:
    case Kind::Number: return text_;
    case Kind::List: return "[" + join(items_, ", ", [](auto& i) { return i.second.line(); }) + "]";
    case Kind::Map: return join(items_, "  ", [](auto& i) { return i.first + " " + i.second.line(); });
  }
  return {};
}

void Tree::json_to(std::string& out, int depth) const {
  if (kind_ == Kind::Text) {
    out += quoted(text_);
    return;
  }
  if (kind_ == Kind::Number) {
    // JSON has no infinities and no NaN.
    out += std::isfinite(std::strtod(text_.c_str(), nullptr)) || text_ == "true" || text_ == "false" ? text_ : "null";
    return;
  }
  bool is_map = kind_ == Kind::Map, one_line = flat();
  out += is_map ? '{' : '[';
  for (size_t i = 0; i < items_.size(); ++i) {
    if (i) out += one_line ? ", " : ",";
    if (!one_line) out += "\n" + std::string(size_t(depth) + 1, ' ');
    if (is_map) out += quoted(items_[i].first) + ": ";
    items_[i].second.json_to(out, depth + 1);
  }
  if (!one_line) out += "\n" + std::string(size_t(depth), ' ');
  out += is_map ? '}' : ']';
}

void Tree::text_to(std::string& out, int depth) const {
  std::string indent(size_t(depth) * 2, ' ');
  for (const auto& [key, v] : items_) {
    std::string head = indent + (key.empty() ? "" : key + ":");
    if (v.flat() && (v.kind_ != Kind::Map || kind_ == Kind::List)) {
      out += head + (key.empty() ? "" : " ") + v.line() + "\n";
    } else {
      if (!key.empty()) out += head + "\n";
      v.text_to(out, depth + (key.empty() ? 0 : 1));
    }
  }
}

std::string Tree::json() const {
  std::string out;
  json_to(out, 0);
  return out + "\n";
}

std::string Tree::text() const {
  std::string out;
  text_to(out, 0);
  return out;
}

}  // namespace tg
