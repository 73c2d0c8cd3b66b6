#include "compiled.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "base/error.h"
#include "render/c_style.h"

namespace tg::test {

int Library::add(std::span<const UOp> linear, const DecompFlags& flags) {
  sources_.push_back(render(decompose(linear, flags), str("entry", sources_.size()), kLangC));
  return int(sources_.size()) - 1;
}

int Library::add(const std::vector<Kind>& ins, const Expression& f, const DecompFlags& flags, int lanes) {
  std::vector<UOp> list, values;
  auto put = [&](UOp u) { return list.push_back(u), u; };
  UOp n = put(var("v0", 1, i64(1) << 40));
  UOp r = put(range(lanes == 1 ? n : put(alu(Op::Div, {n, idx(lanes)})), {}));
  UOp at = lanes == 1 ? r : put(r * lanes);
  for (size_t i = 0; i < ins.size(); i++) {
    UOp p = put(node(Op::Param, ins[i], {}, i64(i + 1)));
    values.push_back(put(node(Op::Load, DType(ins[i], u16(lanes)), {node(Op::Index, ins[i], {p, at})})));
  }
  UOp value = f(values);
  UOp out = node(Op::Param, value.dtype().scalar(), {}, i64(0));
  put(node(Op::Store, Kind::Void, {node(Op::Index, out.dtype(), {out, at}), value}));
  put(node(Op::End, Kind::Void, {r}));
  list.insert(list.begin(), out);
  return add(list, flags);  // decompose() puts in what the store needs
}

void Library::build(const std::string& flags) {
  char dir[] = "/tmp/tgaot_numerics_XXXXXX";
  TG_CHECK(mkdtemp(dir), "no temporary folder");
  std::string base = std::string(dir) + "/k", clang = getenv("TGAOT_CLANG") ? getenv("TGAOT_CLANG") : "clang-22";
  {
    std::ofstream file(base + ".c");
    for (const std::string& source : sources_) file << source;
  }
  std::string command = str(clang, " -O2 -ffreestanding -fwrapv -fno-strict-aliasing -fno-math-errno -ffp-contract=off ", flags, " -shared -fPIC -nostdlib ",
                            base, ".c -o ", base, ".so > ", base, ".log 2>&1");
  int rc = system(command.c_str());
  std::stringstream log;
  log << std::ifstream(base + ".log").rdbuf();
  TG_CHECK(rc == 0, command, "\n", log.str());
  library_ = dlopen((base + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
  TG_CHECK(library_, "dlopen: ", dlerror());
  for (size_t i = 0; i < sources_.size(); i++) {
    entries_.push_back(reinterpret_cast<void (*)(void* const*, const i64*, i64)>(dlsym(library_, str("entry", i).c_str())));
    TG_CHECK(entries_.back(), "no entry in the compiled kernel");
  }
  if (getenv("TGAOT_KEEP")) return;
  for (const char* end : {".c", ".so", ".log"}) unlink((base + end).c_str());
  rmdir(dir);
}
Library::~Library() {
  if (library_) dlclose(library_);
}
void Library::call(int f, const std::vector<const void*>& args, i64 n) const {
  std::vector<void*> a;
  for (const void* p : args) a.push_back(const_cast<void*>(p));
  entries_[f](a.data(), &n, 0);
}

}  // namespace tg::test
