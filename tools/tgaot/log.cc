// tgaot log: search logs out of bundles, put together, summed up.
#include "search/log.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/error.h"
#include "base/file.h"
#include "bundle/bundle.h"
#include "verbs.h"

namespace {

using namespace tg;

// A bundle's own log, or a file of lines.
SearchLog read(const std::string& path) {
  MappedFile file(path);
  std::string_view text{reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
  if (path.ends_with(".tgb")) {
    bundle::Loaded b = bundle::read_bundle(path);
    if (b.desc.provenance.log.empty()) fail(path, ": has no search log: it was compiled without BEAM and --log");
    return SearchLog::parse(b.desc.provenance.log, path);
  }
  return SearchLog::parse(text, path);
}

void write(const SearchLog& log, const std::string& output) {
  if (output.empty()) return void(std::fputs(log.text().c_str(), stdout));
  check_output_path(output);
  write_file(output, log.text());
}

SearchLog merged(const std::vector<std::string>& files) {
  SearchLog all;
  for (const std::string& f : files) {
    SearchLog log = read(f);
    for (auto& [key, e] : log.entries()) all.add(e);
  }
  return all;
}

void stats(const std::vector<std::string>& files) {
  SearchLog log = merged(files);
  std::vector<const LogEntry*> by_time;
  f64 base = 0, now = 0, logs = 0;
  i64 better = 0, timed = 0;
  for (auto& [key, e] : log.entries()) {
    by_time.push_back(&e);
    if (e.ns <= 0 || e.base_ns <= 0) continue;
    base += e.base_ns, now += e.ns, logs += std::log(e.ns / e.base_ns), timed++;
    better += e.ns < e.base_ns * 0.99;
  }
  std::sort(by_time.begin(), by_time.end(), [](auto* a, auto* b) { return a->base_ns > b->base_ns; });
  std::printf("%12s %12s %7s  kernel\n", "heuristics", "searched", "ratio");
  for (const LogEntry* e : by_time)
    std::printf("%9.2f us %9.2f us %7.3f  %s: %s\n", e->base_ns * 1e-3, e->ns * 1e-3, e->base_ns > 0 ? e->ns / e->base_ns : 0,
                e->name.c_str(), e->opts.empty() ? "no Opts" : e->opts.c_str());
  std::printf("%zu kernels, %lld better than the heuristics; %.2f -> %.2f us, each kernel once; geometric mean of the ratios %.3f\n",
              by_time.size(), (long long)better, base * 1e-3, now * 1e-3, timed ? std::exp(logs / f64(timed)) : 1);
}

}  // namespace

void add_log(CLI::App& app) {
  struct Args {
    std::vector<std::string> files;
    std::string output;
  };
  Verb log(app, "log", "search logs: out of a bundle, merged, summed up");
  struct Part {
    const char *name, *meaning;
    bool writes;
  };
  for (const Part& p : {Part{"export", "the log of a bundle as text", true},
                        Part{"merge", "several logs or bundles as one log; of two lines for a kernel the faster one", true},
                        Part{"stats", "kernels by time, with what the search won", false}}) {
    auto a = std::make_shared<Args>();
    Verb verb = log.add(p.name, p.meaning);
    verb.required("files", &a->files, "logs (text) or bundles (.tgb)");
    if (p.writes) verb.option("-o,--output", &a->output, "the file to write; default: standard output");
    verb.run([a, writes = p.writes] { writes ? write(merged(a->files), a->output) : stats(a->files); });
  }
}
