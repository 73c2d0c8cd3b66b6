// A verb's options, without the command line library's headers, which take longer to compile than all of a verb.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/types.h"

namespace CLI {
class App;
}

// What an option fills must live until the verb has run: let run()'s function hold it.
class Verb {
 public:
  Verb(CLI::App& app, const std::string& name, const std::string& meaning);
  Verb add(const std::string& name, const std::string& meaning);  // a verb of this verb, one of which must be given

  Verb& required(const char* name, std::string* value, const std::string& meaning);               // by its place, or --name
  Verb& required(const char* name, std::vector<std::string>* values, const std::string& meaning);  // by their places, one or more
  Verb& option(const char* name, std::string* value, const std::string& meaning);
  Verb& option(const char* name, tg::i64* value, const std::string& meaning);
  Verb& option(const char* name, tg::f64* value, const std::string& meaning);
  Verb& option(const char* name, std::vector<std::string>* values, const std::string& meaning);  // may be given several times
  Verb& one_of(const char* name, std::string* value, std::vector<std::string> allowed);
  Verb& flag(const char* name, bool* value, const std::string& meaning);
  Verb& call(const char* name, bool takes_value, std::function<void()> given, const std::string& meaning);  // as soon as it is read
  Verb& any_arguments();

  void run(std::function<void()> f);

 private:
  explicit Verb(CLI::App* app) : app_(app) {}
  CLI::App* app_;  // of the parser
};
