#include "cli.h"

#include <CLI/CLI.hpp>

#include "base/error.h"

Verb::Verb(CLI::App& app, const std::string& name, const std::string& meaning) : app_(app.add_subcommand(name, meaning)) {}

Verb Verb::add(const std::string& name, const std::string& meaning) {
  app_->require_subcommand(1);
  return Verb(*app_, name, meaning);
}

Verb& Verb::required(const char* name, std::string* value, const std::string& meaning) {
  app_->add_option(name, *value, meaning)->required();
  return *this;
}

Verb& Verb::required(const char* name, std::vector<std::string>* values, const std::string& meaning) {
  app_->add_option(name, *values, meaning)->required();
  return *this;
}

Verb& Verb::option(const char* name, std::string* value, const std::string& meaning) {
  app_->add_option(name, *value, meaning);
  return *this;
}

Verb& Verb::option(const char* name, tg::i64* value, const std::string& meaning) {
  app_->add_option(name, *value, meaning);
  return *this;
}

Verb& Verb::option(const char* name, tg::f64* value, const std::string& meaning) {
  app_->add_option(name, *value, meaning);
  return *this;
}

Verb& Verb::option(const char* name, std::vector<std::string>* values, const std::string& meaning) {
  app_->add_option(name, *values, meaning)->allow_extra_args(false);
  return *this;
}

Verb& Verb::one_of(const char* name, std::string* value, std::vector<std::string> allowed) {
  std::string meaning = tg::join(allowed);
  app_->add_option(name, *value, meaning)->check(CLI::IsMember(std::move(allowed)));
  return *this;
}

Verb& Verb::flag(const char* name, bool* value, const std::string& meaning) {
  app_->add_flag(name, *value, meaning);
  return *this;
}

Verb& Verb::call(const char* name, bool takes_value, std::function<void()> given, const std::string& meaning) {
  if (takes_value)
    app_->add_option_function<std::string>(name, [given](const std::string&) { given(); }, meaning);
  else
    app_->add_flag_callback(name, given, meaning);
  return *this;
}

Verb& Verb::any_arguments() {
  app_->allow_extras();
  return *this;
}

void Verb::run(std::function<void()> f) { app_->callback(std::move(f)); }
