// The verbs of tgaot, one file each. add_<verb>() declares the verb's options on `app` and what runs when the verb is chosen.
#pragma once
#include "cli.h"

namespace tg::driver {
struct SearchOptions;
struct InputShape;
}

void add_compile(CLI::App& app);
void add_retune(CLI::App& app);
void add_inspect(CLI::App& app);
void add_verify(CLI::App& app);
void add_devices(CLI::App& app);
void add_settings(CLI::App& app);
void add_ops(CLI::App& app);
void add_explain(CLI::App& app);
void add_log(CLI::App& app);
void add_worker(CLI::App& app);
tg::driver::InputShape parse_shape(const std::string& text);                // --shape
void add_search_options(Verb& verb, tg::driver::SearchOptions* o);  // --log, --log-required, --like
void add_unbuilt(CLI::App& app);  // verbs of later versions: each says so and fails
