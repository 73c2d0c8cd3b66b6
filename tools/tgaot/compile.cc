// tgaot compile: a model to a bundle.
#include "driver/compile.h"

#include <unistd.h>

#include <charconv>

#include "base/error.h"
#include "tensor_file.h"
#include "verbs.h"

namespace {

using tg::fail;
using tg::i64;
using tg::u8;

bool read_integer(std::string_view s, i64* v) {
  auto r = std::from_chars(s.data(), s.data() + s.size(), *v);
  return r.ec == std::errc() && r.ptr == s.data() + s.size();
}

// "axes=axes.npy". A name may hold '=' itself: the file is what follows the first '=' that leaves the name of a file that is there, else
// the last.
tg::driver::FixedInput parse_fixed(const std::string& text) {
  size_t at = text.rfind('=');
  for (size_t i = text.find('='); i != text.npos; i = text.find('=', i + 1))
    if (access(text.c_str() + i + 1, F_OK) == 0) {
      at = i;
      break;
    }
  if (at == text.npos || at == 0 || at + 1 == text.size())
    fail("--fix ", text, ": expected INPUT=FILE, a .npy or a .pb with a TensorProto");
  std::string file = text.substr(at + 1);
  return {text.substr(0, at), [file](tg::DType declared) {
            tg::TensorFile t = tg::read_tensor_file(file, tgf::Dtype(declared.kind));
            auto bytes = std::make_shared<std::vector<tg::u8>>(std::move(t.bytes));
            return tg::ConstantData{"", tg::Kind(t.dtype), t.dims, *bytes, bytes};
          }};
}

// "seq=8..512:8" or "N=1..64"
tg::driver::VarRange parse_var(const std::string& text) {
  auto bad = [&]() { fail("--var ", text, ": expected NAME=MIN..MAX or NAME=MIN..MAX:MULTIPLE, for example seq=8..512:8"); };
  size_t at = text.rfind('='), dots = text.find("..", at == text.npos ? 0 : at);
  if (at == text.npos || at == 0 || dots == text.npos) bad();
  tg::driver::VarRange v{text.substr(0, at)};
  std::string_view s = text, hi = s.substr(dots + 2);
  size_t colon = hi.find(':');
  if (colon != hi.npos && !read_integer(hi.substr(colon + 1), &v.multiple)) bad();
  if (!read_integer(s.substr(at + 1, dots - at - 1), &v.min) || !read_integer(hi.substr(0, colon), &v.max)) bad();
  if (v.multiple < 1 || v.min < 0 || v.max < v.min || v.min % v.multiple || v.max % v.multiple)
    fail("--var ", text, ": needs 0 <= MIN <= MAX, both multiples of MULTIPLE");
  return v;
}

// "present=past"
tg::driver::StatePair parse_state(const std::string& text) {
  size_t at = text.find('=');
  if (at == text.npos || at == 0 || at + 1 == text.size() || text.find('=', at + 1) != text.npos)
    fail("--state ", text, ": expected OUTPUT=INPUT, for example present_key=past_key");
  return {text.substr(0, at), text.substr(at + 1)};
}

struct Later {
  const char *option, *meaning;
  bool takes_value = true;
};
// Declared so that they are refused by name instead of as a typing error.
constexpr Later kLater[] = {
    {"--weights", "fast: store every physical form of the weights"},
    {"--for", "settings for a part of the model: 'node=/conv1: BEAM=8'"},
    {"--max-size", "largest bundle"},
    {"--max-memory", "largest memory need"},
    {"--max-latency", "largest latency"},
    {"--embed-test", "put test vectors into the bundle", false},
};

}  // namespace

// "input=1x3x224x224", or with variables of --var "input=N,3,height,width". A name may hold '=' itself, so the last one counts.
tg::driver::InputShape parse_shape(const std::string& text) {
  auto bad = [&]() { fail("--shape ", text, ": expected NAME=DIMxDIMx..., for example input=1x3x224x224 (NAME= alone is a scalar), or input=N,3,224,224 with --var N=1..8"); };
  size_t at = text.rfind('=');
  if (at == text.npos || at == 0) bad();
  tg::driver::InputShape s{text.substr(0, at), {}, {}};
  std::string_view rest = std::string_view(text).substr(at + 1);
  const char* between = rest.find(',') == rest.npos ? "x" : ",";  // a variable's name may hold an x
  while (!rest.empty()) {
    size_t x = rest.find_first_of(between);
    std::string_view dim = rest.substr(0, x);
    i64 v = 0;
    bool number = read_integer(dim, &v), name = !dim.empty() && (std::isalpha(u8(dim[0])) || dim[0] == '_');
    if ((!number && !name) || v < 0 || s.dims.size() == 64) bad();
    s.dims.push_back(v);
    s.names.emplace_back(number ? std::string_view() : dim);
    if (x == rest.npos) break;
    rest.remove_prefix(x + 1);
    if (rest.empty()) bad();
  }
  return s;
}

void add_search_options(Verb& verb, tg::driver::SearchOptions* o) {
  verb.option("--log", &o->logs, "a search log to take kernels' Opts from; with BEAM above 0 the search begins with them")
      .flag("--log-required", &o->log_required, "fail where the logs have no answer; no search")
      .option("--like", &o->like, "a bundle to take kernels' Opts from, for a model that differs in its weights");
}

void add_compile(CLI::App& app) {
  struct Args {
    tg::driver::CompileOptions o;
    std::vector<std::string> shapes, vars, fixed, state;
  };
  auto a = std::make_shared<Args>();
  Verb verb(app, "compile", "model.onnx to model.tgb, for the targets in DEV");
  verb.required("model", &a->o.model, "the .onnx file")
      .option("-o,--output", &a->o.output.path, "the .tgb file; default: the model's name with .tgb, in the current folder")
      .option("--shape", &a->shapes,
              "fixes an input's shape: input=1x3x224x224, or names its free dimensions: input=N,3,height,width; several of one input make variants")
      .option("--var", &a->vars, "keeps a dimension free that the model or --shape calls so: N=1..64, seq=8..512:8")
      .option("--fix", &a->fixed, "makes an input a constant: axes=axes.npy (or a .pb)")
      .option("--state", &a->state, "OUTPUT=INPUT: kept on the device from run to run, zeros at first: present_key=past_key")
      .flag("--compress", &a->o.output.compress, "store the weights compressed; needs a runtime built with TGB_ZSTD=ON")
      .flag("--strip", &a->o.output.strip, "leave out the portable part; the bundle cannot be retuned")
      .option("--report", &a->o.output.report, "write a JSON report: kernels, memory, times");
  add_search_options(verb, &a->o.search);
  for (const Later& l : kLater)
    verb.call(
        l.option, l.takes_value, [l] { fail("compile ", l.option, " is not built yet in this version"); },
        tg::str(l.meaning, " (not built yet)"));
  verb.run([a] {
    for (const std::string& s : a->shapes) a->o.shapes.push_back(parse_shape(s));
    for (const std::string& s : a->vars) a->o.vars.push_back(parse_var(s));
    for (const std::string& s : a->fixed) a->o.fixed.push_back(parse_fixed(s));
    for (const std::string& s : a->state) a->o.state.push_back(parse_state(s));
    if (a->o.output.path.empty()) {
      std::string base = a->o.model.substr(a->o.model.rfind('/') + 1);
      if (base.ends_with(".onnx")) base.resize(base.size() - 5);
      a->o.output.path = base + ".tgb";
    }
    tg::driver::compile_model(a->o);
  });
}
