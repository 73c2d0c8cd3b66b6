#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "backend/clang/clang.h"
#include "codegen/decompose.h"
#include "render/c_style.h"

extern char** environ;

namespace tg {
namespace {

constexpr const char* kNames[] = {"clang-22", "/usr/lib/llvm-22/bin/clang"};

// A folder of our own that goes away with everything in it that we know of.
class Scratch {
 public:
  Scratch() {
    const char* tmp = getenv("TMPDIR");
    path_ = str(tmp && *tmp ? tmp : "/tmp", "/tgaot-clang-XXXXXX");
    ok_ = mkdtemp(path_.data());
  }
  ~Scratch() {
    if (!ok_) return;
    for (const char* f : {"k.c", "k.out", "k.err"}) unlink(file(f).c_str());
    rmdir(path_.c_str());
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  bool ok() const { return ok_; }
  std::string file(const char* name) const { return path_ + "/" + name; }

 private:
  std::string path_;
  bool ok_ = false;
};

std::string read_text(const std::string& path) {
  std::ifstream f(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(f), {}};
}

// Runs a command, found on PATH, with its outputs in files. -1: it did not start.
int run(const std::vector<std::string>& command, const std::string& out, const std::string& err) {
  std::vector<char*> argv;
  for (const std::string& a : command) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t io;
  posix_spawn_file_actions_init(&io);
  posix_spawn_file_actions_addopen(&io, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&io, 1, out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_addopen(&io, 2, err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t pid;
  int rc = posix_spawnp(&pid, argv[0], &io, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&io);
  if (rc != 0) return -1;
  int status;
  while (waitpid(pid, &status, 0) < 0)
    if (errno != EINTR) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

struct Clang {
  std::string path, version;
};
// Looked for once in a process.
const Clang& find_clang() {
  static const Clang found = [] {
    Scratch dir;
    if (!dir.ok()) return Clang{};
    for (const char* name : kNames) {
      if (run({name, "--version"}, dir.file("k.out"), dir.file("k.err")) != 0) continue;
      std::string text = read_text(dir.file("k.out"));
      size_t at = text.find("version ");
      if (at == std::string::npos) continue;
      text = text.substr(at + 8);
      return Clang{name, text.substr(0, text.find_first_of(" \n("))};
    }
    return Clang{};
  }();
  return found;
}

std::string no_clang() { return str("CPU:CLANG needs clang 22: neither ", kNames[0], " on PATH nor ", kNames[1], "; install it, or take CPU:LLVM"); }

std::vector<std::string> arch_flags(const Target& t) {
  std::vector<std::string> f{"--target=" + t.triple};
  bool x86 = t.triple.starts_with("x86_64");
  if (!t.cpu.empty()) f.push_back((x86 ? "-march=" : "-mcpu=") + t.cpu);
  if (x86) f.push_back("-mtune=generic");  // the CPUs' own scheduling models hoist loads of long bodies until they spill
  // LLVM's names of features, "+avx2,-avx512f", which are not all names of options.
  for (size_t at = 0; at < t.features.size();) {
    size_t end = std::min(t.features.find(',', at), t.features.size());
    for (const std::string& a : {std::string("-Xclang"), std::string("-target-feature"), std::string("-Xclang"), t.features.substr(at, end - at)}) f.push_back(a);
    at = end + 1;
  }
  if (x86) f.push_back(str("-mprefer-vector-width=", t.vector_bytes * 8));
  return f;
}

}  // namespace

Result<std::string> clang_version() {
  if (find_clang().path.empty()) return Result<std::string>::no(no_clang());
  return find_clang().version;
}

Result<std::vector<u8>> compile_c(const std::string& source, const Target& target, bool assembly) {
  using R = Result<std::vector<u8>>;
  const Clang& clang = find_clang();
  if (clang.path.empty()) return R::no(no_clang());
  Scratch dir;
  if (!dir.ok()) return R::no("no temporary folder for clang: ", std::string(strerror(errno)));
  std::ofstream(dir.file("k.c"), std::ios::binary) << source;
  // -fwrapv, -fno-strict-aliasing: integers wrap, and one address is read as several types. Loops are unrolled already where it pays.
  std::vector<std::string> command{clang.path, "-x", "c", "-std=gnu17", "-w", "-O2", "-ffreestanding", "-fPIC", "-fwrapv", "-fno-strict-aliasing",
                                   "-fno-math-errno", "-ffp-contract=off", "-fno-unroll-loops", "-fno-stack-protector", "-fno-asynchronous-unwind-tables",
                                   "-fno-ident", "-fno-color-diagnostics"};
  for (std::string& f : arch_flags(target)) command.push_back(std::move(f));
  for (const std::string& a : {std::string(assembly ? "-S" : "-c"), dir.file("k.c"), std::string("-o"), dir.file("k.out")}) command.push_back(a);
  int rc = run(command, dir.file("k.err"), dir.file("k.err"));
  std::string words = read_text(dir.file("k.err"));
  if (rc != 0) {
    size_t at = words.find("error: ");
    std::string first = at == std::string::npos ? words : words.substr(at, words.find('\n', at) - at);
    return R::no("clang ", clang.version, " for ", target.arch, " ended with ", rc, first.empty() ? "" : ": ", first);
  }
  std::string bytes = read_text(dir.file("k.out"));
  if (bytes.empty()) return R::no("clang ", clang.version, " wrote nothing");
  return std::vector<u8>(bytes.begin(), bytes.end());
}

Result<std::vector<u8>> compile_clang(std::span<const UOp> linear, const std::string& entry, const Target& target, std::string* source, std::string* assembly) {
  // Accumulators are made after decomposition of the kernel: what they combine by may need it too.
  std::vector<UOp> plain = decompose(linear, decomp_flags(target));
  std::string text = render(plain, entry, kLangC);
  if (source) *source = text;
  if (assembly) {
    auto s = compile_c(text, target, true);
    if (!s) return s;
    *assembly = std::string(s->begin(), s->end());
  }
  return compile_c(text, target);
}

}  // namespace tg
