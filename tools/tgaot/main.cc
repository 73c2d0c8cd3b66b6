// tgaot: compiles models ahead of time. Reads the command line and the environment, runs one verb, and turns an Error into one line on
// stderr and exit code 1.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <exception>

#include "base/error.h"
#include "base/file.h"
#include "base/progress.h"
#include "base/settings.h"
#include "verbs.h"

namespace {

void remove_outputs_and_die(int signal_number) {
  tg::remove_unfinished_outputs();
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

// Names come from the model: lines are cut, and control characters do not reach the terminal.
std::string printable(std::string_view what) {
  constexpr size_t kMostOfALine = 4000;
  std::string s;
  size_t line = 0;
  for (char c : what) {
    if (c == '\n') line = 0;
    if (++line > kMostOfALine) continue;
    s += line == kMostOfALine ? "..." : (static_cast<unsigned char>(c) < 32 && c != '\n' && c != '\t') || c == 127 ? "?" : std::string(1, c);
  }
  return s;
}

int say(const char* what) {
  tg::clear_progress();
  std::fflush(stdout);
  std::fprintf(stderr, "tgaot: %s\n", printable(what).c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  signal(SIGINT, remove_outputs_and_die);
  signal(SIGTERM, remove_outputs_and_die);
  signal(SIGHUP, remove_outputs_and_die);

  CLI::App app{"Compiles ONNX models ahead of time into .tgb bundles, which tgb runs."};
  app.set_version_flag("--version", "tgaot " TGAOT_VERSION);
  app.require_subcommand(1);
  std::vector<std::string> assignments;
  app.add_option("--set", assignments, "a setting for this run, stronger than the environment: NAME=value")->allow_extra_args(false);

  add_compile(app);
  add_retune(app);
  add_inspect(app);
  add_verify(app);
  add_devices(app);
  add_settings(app);
  add_ops(app);
  add_explain(app);
  add_log(app);
  add_worker(app);
  add_unbuilt(app);

  // The settings of --set hold from before the verb runs to its end.
  std::unique_ptr<tg::Context> context;
  app.parse_complete_callback([&] {
    tg::settings::load();
    std::vector<tg::Override> overrides;
    for (const std::string& a : assignments) overrides.push_back(tg::Override::parse(a));
    context = std::make_unique<tg::Context>(overrides);
  });
  try {
    std::vector<CLI::App*> verbs = app.get_subcommands({});
    bool known = std::any_of(verbs.begin(), verbs.end(), [&](CLI::App* v) { return argc > 1 && v->check_name(argv[1]); });
    if (argc > 1 && argv[1][0] != '-' && !known)
      tg::fail("no verb named ", argv[1], "; verbs: ", tg::join(verbs, " ", [](CLI::App* v) { return v->get_name(); }));
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::CallForHelp& e) {
    return app.exit(e);
  } catch (const CLI::CallForVersion& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    return say(tg::str(e.what(), "; see: tgaot --help").c_str());
  } catch (const tg::Error& e) {
    return say(e.what());
  } catch (const std::bad_alloc&) {
    return say("out of memory");
  } catch (const std::exception& e) {
    return say(tg::str("internal error: ", e.what()).c_str());
  }
}
