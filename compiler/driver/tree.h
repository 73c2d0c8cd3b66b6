// A small tree of names, texts and numbers that prints as JSON or as indented text: what `inspect` and reports are made of.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/types.h"

namespace tg {

class Tree {
 public:
  Tree(std::string_view text) : kind_(Kind::Text), text_(text) {}
  Tree(const char* text) : Tree(std::string_view(text)) {}
  Tree(const std::string& text) : Tree(std::string_view(text)) {}
  template <class T>
  requires std::is_arithmetic_v<T> Tree(T v) : kind_(Kind::Number), text_(to_text(v)) {}
  static Tree list() { return Tree(Kind::List); }
  static Tree map() { return Tree(Kind::Map); }

  Tree& add(Tree v) {  // to a list
    items_.emplace_back("", std::move(v));
    return *this;
  }
  Tree& add(std::string_view key, Tree v) {  // to a map; order is kept
    items_.emplace_back(key, std::move(v));
    return *this;
  }
  std::string json() const;  // with indentation, numbers as they are
  std::string text() const;

 private:
  enum class Kind : u8 { Text, Number, List, Map };
  explicit Tree(Kind k) : kind_(k) {}
  bool flat() const;
  std::string line() const;
  void json_to(std::string& out, int depth) const;
  void text_to(std::string& out, int depth) const;

  Kind kind_;
  std::string text_;
  std::vector<std::pair<std::string, Tree>> items_;
};

}  // namespace tg
