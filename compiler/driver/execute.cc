#include "driver/execute.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "driver/capture.h"
#include "driver/schedule_cache.h"
#include "driver/target.h"
#include "tgb.h"

namespace tg::driver {
namespace {

// The least that is still fast: rounding instructions, no fused multiply-add.
Target baseline() {
#if defined(__aarch64__)
  constexpr const char* kArch = "arm64,generic";
#else
  constexpr const char* kArch = "x86_64,x86-64-v2";
#endif
  Result<Target> t = cpu_target(kArch, "LLVM");
  TG_CHECK(t, t.why());
  // What schedules read must not tell the machines apart.
  Target same;
  same.device = t->device, same.renderer = t->renderer, same.arch = t->arch, same.triple = t->triple, same.cpu = t->cpu,
  same.features = t->features;
  same.needs = t->needs;
  return same;
}

// A file of our own that goes away.
class TempFile {
 public:
  TempFile() {
    const char* tmp = getenv("TMPDIR");
    folder_ = str(tmp && *tmp ? tmp : "/tmp", "/tgaot-fold-XXXXXX");
    if (!mkdtemp(folder_.data()))
      fail("no temporary folder ", folder_, " can be made: ", strerror(errno), "; set TMPDIR to one that can be written");
  }
  ~TempFile() {
    unlink(path().c_str());
    rmdir(folder_.c_str());
  }
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;
  std::string path() const { return folder_ + "/fold.tgb"; }

 private:
  std::string folder_;
};

struct Model {
  tgb_model* m = nullptr;
  ~Model() { tgb_close(m); }
};

void need(tgb_status s, const tgb_model* m) { TG_CHECK(s == TGB_OK, "constants are folded: ", tgb_message(m)); }

}  // namespace

std::vector<std::shared_ptr<std::vector<u8>>> execute(const Graph& g, std::span<const std::span<const u8>> inputs) {
  Arena::Scope scope(*g.arena);
  Target target = baseline();
  Schedule s = cached_schedule(g, target);
  KernelPlan plan = plan_kernels(s, target, true);
  std::vector<CompiledKernel> compiled = compile_kernels(plan, target);
  std::vector<u32> constant_of;
  TempFile file;
  bundle::write_bundle(capture(g, s, plan, compiled, target, &constant_of), file.path());

  Model model;
  tgb_options o{};
  o.size = sizeof o, o.device = "CPU";
  need(tgb_open_file(file.path().c_str(), &o, &model.m), nullptr);
  std::vector<tgb_tensor> in(inputs.size()), out(g.outputs.size());
  std::vector<std::shared_ptr<std::vector<u8>>> results(out.size());
  for (size_t i = 0; i < in.size(); i++) {
    in[i] = {};
    in[i].size = sizeof in[i], in[i].dtype = tgb_dtype(int(g.inputs[i].dtype.kind)), in[i].data = const_cast<u8*>(inputs[i].data()),
    in[i].bytes = inputs[i].size();
  }
  for (size_t i = 0; i < out.size(); i++) {
    i64 n = elems(g.outputs[i].dims).as_int();
    results[i] = std::make_shared<std::vector<u8>>(size_t(byte_size(g.outputs[i].dtype.kind, n)));
    out[i] = {};
    out[i].size = sizeof out[i], out[i].dtype = tgb_dtype(int(g.outputs[i].dtype.kind)), out[i].data = results[i]->data(),
    out[i].bytes = results[i]->size();
  }
  need(tgb_run(model.m, in.data(), u32(in.size()), out.data(), u32(out.size())), model.m);
  return results;
}

}  // namespace tg::driver
