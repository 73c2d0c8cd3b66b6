// ONNX's own backend cases through import and the interpreter, without any compiled code: tells whether the meaning of an operator is
// right.
//   onnx_eval DATA [--filter TEXT] [--list passed|refused|failed|skipped] [--seconds N] [--largest E]
//     --largest: an error of E times the largest value of an output is accepted too, for data that was itself computed in f32
//   onnx_eval MODEL.onnx [--shape NAME=1x3x224x224]     only imports it and prints what came out
//   onnx_eval MODEL.onnx [--var N=1..64:4]
// A case's folder may hold a file "vars", lines as --var and --shape take them: its sizes stay free, and its data sets may differ in them.
// DATA is .../onnx/backend/test/data or one case's folder. Each case runs in a child process, so that a crash is one failed case. Exit code
// 1 if any case failed or fewer than --at-least passed; refused ones are listed by reason.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/error.h"
#include "frontend/import.h"
#include "frontend/onnx_file.h"
#include "ir/eval.h"

namespace fs = std::filesystem;
using namespace tg;

namespace {

constexpr f64 kRtol = 1e-3, kAtol = 1e-7;  // onnx.backend.test's own
// Expected values that are themselves off by more than kAtol: zeros with the rounding of an FFT in f32.
constexpr std::pair<std::string_view, f64> kNoisy[] = {{"test_dft_inverse_opset19", 1e-6}};
f64 of_largest = 0;

struct Skipped {
  std::string why;
};

Values read_values(const fs::path& p) {
  ConstantData c = read_tensor_proto(p.string());
  return decode(c.dtype, c.dims, c.bytes);
}

void compare(int k, const Values& got, const Values& want, f64 atol) {
  if (got.dtype != want.dtype) fail("wrong: output ", k, " is ", name(got.dtype), ", expected ", name(want.dtype));
  if (got.dims != want.dims) fail("wrong: output ", k, " has shape (", join(got.dims), "), expected (", join(want.dims), ")");
  i64 bad = 0;
  std::string first;
  f64 largest = 0;
  for (i64 i = 0; i < want.elems(); i++)
    if (std::isfinite(want.number(i))) largest = std::max(largest, std::abs(want.number(i)));
  if (is_float(got.dtype)) atol += of_largest * largest;
  for (i64 i = 0; i < got.elems(); i++) {
    f64 g = got.number(i), w = want.number(i);
    bool ok = is_float(got.dtype) ? (std::isnan(g) && std::isnan(w)) || g == w || std::abs(g - w) <= atol + kRtol * std::abs(w)
                                  : std::abs(g - w) <= atol + kRtol * std::abs(w);
    if (!ok && !bad++) first = str("element ", i, " is ", g, ", expected ", w);
  }
  if (bad) fail("wrong: output ", k, " ", name(got.dtype), "(", join(got.dims), "): ", bad, " of ", got.elems(), " differ; ", first);
}

ImportOptions::Var parse_var(const std::string& t) {
  size_t eq = t.rfind('='), dots = t.find("..", eq), colon = t.find(':', dots);
  ImportOptions::Var v{t.substr(0, eq), std::stoll(t.substr(eq + 1)), std::stoll(t.substr(dots + 2))};
  if (colon != t.npos) v.multiple = std::stoll(t.substr(colon + 1));
  return v;
}
// input=1x3x8x8 or input=N,3,H,W
ImportOptions::Shape parse_shape(const std::string& t) {
  size_t eq = t.rfind('=');
  ImportOptions::Shape s{t.substr(0, eq), {}, {}};
  std::string rest = t.substr(eq + 1);
  char between = rest.find(',') == rest.npos ? 'x' : ',';
  for (size_t at = 0; at < rest.size();) {
    std::string d = rest.substr(at, rest.find(between, at) - at);
    bool number = std::isdigit(u8(d[0]));
    s.dims.push_back(number ? std::stoll(d) : 0);
    s.names.push_back(number ? "" : d);
    at += d.size() + 1;
  }
  return s;
}
// The sizes that a case leaves free.
void read_vars(const fs::path& file, ImportOptions* o) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.find("..") != line.npos) o->vars.push_back(parse_var(line));
    else if (!line.empty()) o->shapes.push_back(parse_shape(line));
  }
}

void run_case(const fs::path& folder) {
  std::string model = (folder / "model.onnx").string();
  std::vector<std::pair<std::string, bool>> inputs;  // name, has free dimensions
  {
    OnnxFile f(model);
    std::map<std::string, bool> weights;
    for (const auto& t : f.model().graph().initializer()) weights[t.name()] = true;
    auto check = [](const tgonnx::ValueInfoProto& v) {
      if (!v.type().has_tensor_type()) throw Skipped{"not a tensor"};
    };
    for (const auto& v : f.model().graph().output()) check(v);
    for (const auto& v : f.model().graph().input()) {
      if (weights.count(v.name())) continue;
      check(v);
      const auto& t = v.type().tensor_type();
      bool free =
          !t.has_shape() || std::any_of(t.shape().dim().begin(), t.shape().dim().end(), [](const auto& d) { return !d.has_dim_value(); });
      inputs.push_back({v.name(), free});
    }
  }
  std::vector<fs::path> sets;
  for (const auto& e : fs::directory_iterator(folder))
    if (e.is_directory() && e.path().filename().string().starts_with("test_data_set_")) sets.push_back(e.path());
  std::sort(sets.begin(), sets.end());
  if (sets.empty()) throw Skipped{"no data"};
  std::string id = folder.filename().string();
  if (id.find("bernoulli") != id.npos || (id.find("training_dropout") != id.npos && id.find("zero_ratio") == id.npos)) throw Skipped{"random"};
  f64 atol = kAtol;
  for (auto [name, noise] : kNoisy)
    if (folder.filename() == name) atol = noise;
  for (const fs::path& set : sets) {
    std::vector<Values> in;
    ImportOptions o;
    o.note = [](const std::string&) {};
    read_vars(folder / "vars", &o);
    bool keeps_free = !o.vars.empty();
    for (size_t i = 0; i < inputs.size(); i++) {
      in.push_back(read_values(set / str("input_", i, ".pb")));
      if (inputs[i].second && !keeps_free) o.shapes.push_back({inputs[i].first, in.back().dims});
    }
    Graph g = import_onnx(model, o);
    Arena::Scope scope(*g.arena);
    std::vector<Values> out = eval_graph(g, in);
    for (size_t k = 0; k < out.size(); k++) {
      fs::path p = set / str("output_", k, ".pb");
      if (fs::exists(p)) compare(int(k), out[k], read_values(p), atol);
    }
  }
}

struct Outcome {
  std::string kind, why;
};

Outcome run_in_child(const fs::path& folder, int seconds) {
  int fd[2];
  if (pipe(fd)) fail("pipe: ", std::strerror(errno));
  pid_t pid = fork();
  if (pid == 0) {
    close(fd[0]);
    alarm(seconds);
    std::string r;
    try {
      run_case(folder);
      r = "passed|";
    } catch (const Skipped& s) { r = "skipped|" + s.why; } catch (const Error& e) {
      std::string what = e.what();
      bool refused = false;
      for (const char* phrase :
           {"not supported", "is supported from", "are supported", "must be known at compile time", "not part of a compiled model"})
        refused |= what.find(phrase) != std::string::npos;
      r = (refused ? "refused|" : "failed|") + what;
    } catch (const std::exception& e) { r = str("failed|", e.what()); }
    (void)!write(fd[1], r.data(), r.size());
    _exit(0);
  }
  close(fd[1]);
  std::string text;
  char buf[4096];
  for (ssize_t n; (n = read(fd[0], buf, sizeof buf)) > 0;) text.append(buf, size_t(n));
  close(fd[0]);
  int status = 0;
  waitpid(pid, &status, 0);
  size_t bar = text.find('|');
  if (bar == std::string::npos)
    return {"failed", str("ended by signal ", WTERMSIG(status), WTERMSIG(status) == SIGALRM ? " (too slow)" : "")};
  return {text.substr(0, bar), text.substr(bar + 1)};
}

int print_import(const std::string& model, const ImportOptions& o) {
  try {
    auto start = std::chrono::steady_clock::now();
    Graph g = import_onnx(model, o);
    f64 ms = std::chrono::duration<f64, std::milli>(std::chrono::steady_clock::now() - start).count();
    Arena::Scope scope(*g.arena);
    std::map<std::string_view, int> ops;
    for (UOp u : toposort(g.sink)) ops[info(u.op()).name]++;
    i64 bytes = 0;
    for (const ConstantData& c : g.constants) bytes += i64(c.bytes.size());
    std::printf("%.0f ms, %zu constants of %lld bytes, %u nodes built\n", ms, g.constants.size(), (long long)bytes, g.arena->size());
    for (auto* list : {&g.inputs, &g.outputs})
      for (const Value& v : *list)
        std::printf("%s %s %s%s\n", list == &g.inputs ? "in " : "out", v.name.c_str(), name(v.dtype).c_str(), shape_text(v.dims).c_str());
    for (auto& [op, n] : ops) std::printf("%s:%d ", std::string(op).c_str(), n);
    std::printf("\n");
    return 0;
  } catch (const Error& e) {
    std::printf("%s\n", e.what());
    return 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::string data, filter, list;
  std::vector<std::string> shapes, vars;
  int seconds = 60, at_least = 0;
  for (int i = 1; i < argc; i++) {
    std::string a = argv[i];
    if (a == "--filter" && i + 1 < argc)
      filter = argv[++i];
    else if (a == "--list" && i + 1 < argc)
      list = argv[++i];
    else if (a == "--at-least" && i + 1 < argc)
      at_least = std::atoi(argv[++i]);
    else if (a == "--shape" && i + 1 < argc)
      shapes.push_back(argv[++i]);
    else if (a == "--var" && i + 1 < argc)
      vars.push_back(argv[++i]);
    else if (a == "--largest" && i + 1 < argc)
      of_largest = std::atof(argv[++i]);
    else if (a == "--seconds" && i + 1 < argc)
      seconds = std::atoi(argv[++i]);
    else if (a.starts_with("--") || !data.empty())
      return std::fprintf(stderr, "onnx_eval: %s: unknown option, or one without its value\n", a.c_str()), 2;
    else
      data = a;
  }
  if (data.empty()) return std::fprintf(stderr, "usage: onnx_eval DATA [--filter TEXT] [--list KIND] [--seconds N] [--largest E]\n"), 2;
  if (data.ends_with(".onnx")) {
    ImportOptions o;
    for (const std::string& t : shapes) o.shapes.push_back(parse_shape(t));
    for (const std::string& t : vars) o.vars.push_back(parse_var(t));
    return print_import(data, o);
  }
  std::vector<fs::path> cases;
  if (fs::exists(fs::path(data) / "model.onnx"))
    cases.push_back(data);
  else
    for (const char* kind : {"node", "simple", "pytorch-converted", "pytorch-operator"})
      if (fs::exists(fs::path(data) / kind))
        for (const auto& e : fs::directory_iterator(fs::path(data) / kind))
          if (fs::exists(e.path() / "model.onnx")) cases.push_back(e.path());
  std::sort(cases.begin(), cases.end());
  std::map<std::string, int> counts, reasons;
  for (const fs::path& c : cases) {
    std::string label = c.parent_path().filename().string() + "/" + c.filename().string();
    if (label.find(filter) == std::string::npos) continue;
    Outcome o = run_in_child(c, seconds);
    counts[o.kind]++;
    size_t model = o.why.find("model.onnx: ");
    std::string why = model == std::string::npos ? o.why : o.why.substr(model + 12);
    if (o.kind == "refused" || o.kind == "skipped") reasons[why.substr(0, why.find(" node "))]++;
    if (o.kind == "failed" || o.kind == list) std::printf("%s %s: %s\n", o.kind.c_str(), label.c_str(), why.c_str());
    std::fflush(stdout);
  }
  for (auto& [k, n] : reasons) std::printf("refused %4d  %s\n", n, k.c_str());
  for (auto& [k, n] : counts) std::printf("%s %d  ", k.c_str(), n);
  std::printf("\n");
  if (counts.empty()) return std::printf("no cases\n"), 1;
  if (counts["passed"] < at_least) std::printf("fewer than %d passed\n", at_least);
  return counts["failed"] || counts["passed"] < at_least ? 1 : 0;
}
