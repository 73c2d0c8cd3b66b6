#include "driver/kernels.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "backend/backend.h"
#include "backend/llvm/recover.h"
#include "base/cache.h"
#include "base/error.h"
#include "base/progress.h"
#include "base/settings.h"
#include "base/workers.h"
#include "driver/build_id.h"
#include "ir/canonical.h"
#include "ir/text.h"

namespace tg::driver {
namespace {

constexpr f64 kTimeoutSeconds = 300;  // of one kernel

KernelJob job_of(const Schedule& s, const Call& c, const Target& t, const Canonical& can, bool exact) {
  KernelJob job;
  job.ast = print(can.ast);
  job.renderer = t.renderer, job.arch = t.arch, job.exact = exact;
  for (i64 slot : can.slot_of) {
    const Buffer& b = s.buffers[c.buffers[size_t(slot)]];
    Slot sl;
    sl.layout = b.layout, sl.dims = b.dims, sl.constant = b.kind == Buffer::Constant && bits(b.dtype) >= 8;
    if (!b.before.empty() && (slot != 0 || c.border)) sl.before = b.before, sl.after = b.after, sl.fill = b.fill;
    job.slots.push_back(sl);
  }
  for (size_t a = 0; a < can.axis_of.size(); a++)
    for (i64 o : c.ordered)
      if (can.axis_of[a] == o) job.ordered.push_back(i64(a));
  job.entry = "k_" + digest(job.bytes()).str().substr(0, 16);
  return job;
}

void say(const KernelPlan& p, size_t i, const CompiledKernel& k) {
  if (settings::DEBUG() < 2) return;
  clear_progress();
  std::fputs(k.text.c_str(), stderr);
  const Work& w = p.work[i];
  std::fprintf(stderr, "%4zu/%zu %-40s %8.3f MFLOP %8.3f MB  tasks %lld  code %6zu B  ", i + 1, p.jobs.size(), p.names[i].c_str(),
               f64(w.flops) * 1e-6, f64(w.bytes) * 1e-6, (long long)k.tasks, k.object.size());
  if (k.cached)
    std::fprintf(stderr, "cached\n");
  else
    std::fprintf(stderr, "codegen %.1f ms, machine code %.1f ms\n", k.lower_ms, k.compile_ms);
}

}  // namespace

KernelPlan plan_kernels(const Schedule& s, const Target& t, bool exact) {
  KernelPlan p;
  std::map<std::string, u32> by_entry;
  for (const Call& c : s.calls) {
    Canonical can = canonical(c.ast);
    KernelJob job = job_of(s, c, t, can, exact);
    auto [it, fresh] = by_entry.try_emplace(job.entry, u32(p.jobs.size()));
    if (fresh) {
      p.jobs.push_back(std::move(job));
      p.names.push_back(c.name);
      p.work.push_back(work_of(s, c));
    }
    p.uses.push_back({it->second, std::move(can.slot_of), std::move(can.var_of), work_of_run(s, c)});
  }
  return p;
}

std::vector<CompiledKernel> compile_kernels(const KernelPlan& plan, const Target& t) {
  std::vector<CompiledKernel> out(plan.jobs.size());
  std::vector<size_t> open;     // jobs that the cache has no answer for
  std::vector<WorkBytes> work;  // of those
  std::vector<Digest> keys;
  // Texts are not in the cache: whoever asks for them has the kernels made anew.
  bool read_cache = settings::CCACHE() && settings::DEBUG() < 3;
  for (size_t i = 0; i < plan.jobs.size(); i++) {
    std::vector<u8> b = plan.jobs[i].bytes();
    Hasher h;
    h.add(build_id()).add(compiler_version(t)).add(settings::code_key()).raw(b.data(), b.size());
    keys.push_back(h.done());
    if (read_cache)
      if (auto hit = cache::get("kernels", keys.back())) {
        out[i] = CompiledKernel::parse(*hit);
        out[i].cached = true;
        continue;
      }
    open.push_back(i);
    work.push_back(std::move(b));
  }
  auto take = [&](size_t i, const Result<WorkBytes>& r) {
    if (!r) fail("kernel ", plan.names[i], " (", plan.jobs[i].entry, "): ", r.why());
    out[i] = CompiledKernel::parse(*r);
    if (!settings::CCACHE()) return;
    CompiledKernel kept = out[i];
    kept.text.clear();
    cache::put("kernels", keys[i], kept.bytes());
  };
  // Lines come in the order of the jobs, each as soon as those before it are out.
  size_t said = 0;
  auto say_until = [&](size_t end) {
    for (; said < end; said++) say(plan, said, out[said]);
  };
  Progress progress("compile", i64(open.size()));
  if (settings::PARALLEL() == 0) {
    for (size_t k = 0; k < open.size(); k++) {
      say_until(open[k]);
      take(open[k], run_recovering([&] { return compile_kernel_bytes(work[k]); }));
      say_until(open[k] + 1);
      progress.step(plan.names[open[k]]);
    }
  } else if (!open.empty()) {
    Workers pool(std::min<i64>(settings::PARALLEL(), i64(open.size())), {"/proc/self/exe", "worker"});
    std::vector<Result<WorkBytes>> answers = pool.run(work, kTimeoutSeconds, [&](i64 k) { progress.step(plan.names[open[size_t(k)]]); });
    for (size_t k = 0; k < open.size(); k++) take(open[k], answers[k]);
  }
  say_until(out.size());
  return out;
}

}  // namespace tg::driver
