// Random graphs, each through every stage that can be run here, compared with the interpreter's own answer.
//   graph_fuzz [--seed N] [--count N | --seconds N] [--ops N] [--elems N] [--only GROUP,GROUP] [--stage NAME] [--print] [--dump DIR]
//   graph_fuzz --free [--size N] ...   one dimension is a variable, of size N in the run
//   graph_fuzz --layers ...     networks of layers (layer_gen.h) in place of random nodes; --ops, --elems and --only do nothing
// --print shows each graph's text; --dump writes graphs, inputs and answers for oracle.py. Exit code 1 if any graph fails; what fails is printed
// with its seed.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/error.h"
#include "graph_gen.h"
#include "ir/spec.h"
#include "ir/text.h"
#include "layer_gen.h"
#include "stages.h"

using namespace tg;
namespace fs = std::filesystem;

namespace {

void write_file(const fs::path& p, std::span<const u8> bytes) {
  std::ofstream f(p, std::ios::binary);
  f.write(reinterpret_cast<const char*>(bytes.data()), std::streamsize(bytes.size()));
  if (!f) fail("cannot write ", p.string());
}

// graph.txt, and a line of values.txt for each input, constant and output: name, dtype, dims, error bound. Bytes in NAME.bin.
void dump(const fs::path& dir, const fuzz::Case& c, const std::vector<Values>& out) {
  fs::create_directories(dir);
  std::string text = print(c.graph.sink), list;
  auto one = [&](const std::string& name_, const Values& v, f64 error) {
    list += str(name_, ' ', name(v.dtype), " (", join(v.dims, ","), ") ", error, '\n');
    write_file(dir / (name_ + ".bin"), encode(v));
  };
  for (size_t i = 0; i < c.inputs.size(); i++) one(str("x", i), c.inputs[i], 0);
  for (size_t i = 0; i < c.graph.constants.size(); i++) {
    const ConstantData& k = c.graph.constants[i];
    one(str("c", i), decode(k.dtype, k.dims, k.bytes), 0);
  }
  for (size_t i = 0; i < out.size(); i++) one(str("y", i), out[i], c.error[i]);
  auto bytes = [](const std::string& s) { return std::span(reinterpret_cast<const u8*>(s.data()), s.size()); };
  write_file(dir / "graph.txt", bytes(text));
  write_file(dir / "values.txt", bytes(list));
}

i64 integer(std::string_view option, const char* s) {
  i64 v = 0;
  if (!s || std::from_chars(s, s + std::strlen(s), v).ec != std::errc()) fail(option, " takes a number");
  return v;
}

// What runs now, for the handler below.
long long g_seed = 0;
const char* g_stage = "";
void crashed(int signal) {
  std::fprintf(stderr, "\nCRASHED seed %lld, %s: signal %d %s\n", g_seed, g_stage, signal, fuzz::now_running());
  _exit(3);
}

// Right or not; a byte to `pipe` for each stage that is.
bool one_case(const fuzz::Options& o, bool layers, const std::string& stage, const std::string& dir, bool show, int pipe) {
  for (int s : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) signal(s, crashed);
  bool ok = true;
  fuzz::Case c = layers ? fuzz::generate_layers(o.seed) : fuzz::generate(o);
  Arena::Scope scope(*c.graph.arena);
  if (show) std::printf("seed %lld\n%s", g_seed, print(c.graph.sink).c_str());
  auto guarded = [&](auto fn) {
    try {
      fn();
    } catch (const Error& e) {
      ok = false;
      std::printf("FAILED seed %lld, %s: %s\n", g_seed, g_stage, e.what());
    }
    std::fflush(stdout);
  };
  std::vector<Values> want;
  guarded([&] {
    if (std::string bad = violation(Spec::Tensor, c.graph.sink); !bad.empty()) fail(bad);
    want = eval_graph(c.graph, c.inputs, c.vars);
    fuzz::round_rows(c, &want);
    if (!dir.empty()) dump(fs::path(dir) / std::to_string(o.seed), c, want);
  });
  for (size_t k = 0; ok && k < fuzz::stages().size(); k++) {
    const fuzz::Stage& s = fuzz::stages()[k];
    if (stage.empty() ? s.asked : stage != s.name) continue;
    g_stage = s.name;
    guarded([&] {
      fuzz::take_ran();
      std::vector<Values> got = s.run(c);
      for (size_t i = 0; i < want.size(); i++)
        if (std::string bad = fuzz::difference(got[i], want[i], c.error[i]); !bad.empty())
          fail("output ", i, ": ", bad, "\n", fuzz::take_ran(), print(c.graph.sink));
      u8 right = u8(k);
      if (write(pipe, &right, 1) != 1) fail("the pipe is closed");
    });
  }
  return ok;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    i64 seed = 1, count = 200, seconds = 0;
    fuzz::Options o;
    std::string dir, stage;
    bool show = false, layers = false;
    for (int i = 1; i < argc; i++) {
      std::string_view a = argv[i];
      const char* v = i + 1 < argc ? argv[i + 1] : nullptr;
      if (a == "--print" || a == "--layers" || a == "--free") {
        (a == "--print" ? show : a == "--free" ? o.free_sizes : layers) = true;
        continue;
      }
      if (!v) fail("unknown option or no value for it: ", a);
      i++;
      if (a == "--seed") seed = integer(a, v);
      else if (a == "--count") count = integer(a, v);
      else if (a == "--seconds") seconds = integer(a, v);
      else if (a == "--ops") o.ops = int(integer(a, v));
      else if (a == "--elems") o.max_elems = integer(a, v);
      else if (a == "--size") o.size = integer(a, v);
      else if (a == "--only") o.only = v;
      else if (a == "--stage") stage = v;
      else if (a == "--dump") dir = v;
      else fail("unknown option: ", a);
    }
    i64 failed = 0, run = 0;
    std::map<u8, i64> passed;  // by stage
    auto begin = std::chrono::steady_clock::now();
    for (i64 n = 0; seconds ? std::chrono::steady_clock::now() - begin < std::chrono::seconds(seconds) : n < count; n++) {
      o.seed = u64(seed + n);
      g_seed = seed + n, g_stage = "eval";
      run++;
      // A child of its own: what crashes is one failure.
      int fd[2];
      std::fflush(stdout);
      if (pipe(fd)) fail("no pipe");
      pid_t child = fork();
      if (child < 0) fail("no child process");
      if (child == 0) {
        close(fd[0]);
        _exit(one_case(o, layers, stage, dir, show, fd[1]) ? 0 : 1);
      }
      close(fd[1]);
      u8 right = 0;
      while (read(fd[0], &right, 1) == 1) passed[right]++;
      close(fd[0]);
      int status = 0;
      waitpid(child, &status, 0);
      failed += status != 0;
    }
    std::printf("%lld graphs, %lld failed", static_cast<long long>(run), static_cast<long long>(failed));
    for (auto& [i, n] : passed) std::printf(", %s: %lld right", fuzz::stages()[i].name, static_cast<long long>(n));
    std::printf("\n");
    return failed != 0;
  } catch (const Error& e) {
    std::fprintf(stderr, "graph_fuzz: %s\n", e.what());
    return 2;
  }
}
