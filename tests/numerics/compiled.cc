#include "compiled.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "base/error.h"
#include "render/c_style.h"

namespace tg::test {

std::vector<UOp> elementwise_linear(std::vector<DType> ins, const std::function<UOp(std::span<const UOp>)>& f, int lanes) {
  std::vector<UOp> list;
  auto put = [&](UOp u) { return list.push_back(u), u; };
  UOp n = put(var("n", 1, i64(1) << 40));
  UOp r = put(range(lanes == 1 ? n : put(alu(Op::Div, {n, idx(lanes)})), {}));
  UOp at = lanes == 1 ? r : put(r * lanes);
  std::vector<UOp> values;
  for (size_t i = 0; i < ins.size(); i++) {
    UOp p = put(node(Op::Param, ins[i].scalar(), {}, i64(i + 1)));
    values.push_back(put(node(Op::Load, ins[i].vec(u16(lanes)), {node(Op::Index, ins[i].scalar(), {p, at})})));
  }
  UOp value = f(values);
  UOp out = node(Op::Param, value.dtype().scalar(), {}, i64(0));
  list.insert(list.begin(), out);
  Memo<u8> have;
  for (UOp u : list) have[u] = 1;
  for (UOp u : toposort(value))
    if (!have[u]) put(u);
  put(node(Op::Store, Kind::Void, {node(Op::Index, out.dtype(), {out, at}), value}));
  put(node(Op::End, Kind::Void, {r}));
  return list;
}

Compiled::Compiled(std::vector<DType> ins, const std::function<UOp(std::span<const UOp>)>& f, int lanes, const std::string& flags) {
  std::vector<UOp> list = elementwise_linear(ins, f, lanes);
  source_ = render(list, "entry", kLangC);
  char dir[] = "/tmp/tgaot_numerics_XXXXXX";
  TG_CHECK(mkdtemp(dir), "no temporary folder");
  std::string base = std::string(dir) + "/k", clang = getenv("TGAOT_CLANG") ? getenv("TGAOT_CLANG") : "clang-22";
  std::ofstream(base + ".c") << source_;
  std::string command = clang + " -O2 -ffreestanding -fwrapv -fno-strict-aliasing -fno-math-errno -ffp-contract=off " + flags + " -shared -fPIC " + base +
                        ".c -o " + base + ".so > " + base + ".log 2>&1";
  int rc = system(command.c_str());
  std::stringstream log;
  log << std::ifstream(base + ".log").rdbuf();
  TG_CHECK(rc == 0, command, "\n", log.str(), "\n", source_);
  library_ = dlopen((base + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
  TG_CHECK(library_, "dlopen: ", dlerror());
  entry_ = reinterpret_cast<decltype(entry_)>(dlsym(library_, "entry"));
  TG_CHECK(entry_, "no entry in the compiled kernel");
  if (!getenv("TGAOT_KEEP")) {
    for (const char* end : {".c", ".so", ".log"}) unlink((base + end).c_str());
    rmdir(dir);
  }
}
Compiled::~Compiled() {
  if (library_) dlclose(library_);
}
void Compiled::operator()(void* out, std::vector<const void*> ins, i64 n) const {
  std::vector<void*> args{out};
  for (const void* p : ins) args.push_back(const_cast<void*>(p));
  entry_(args.data(), &n, 0);
}

}  // namespace tg::test
