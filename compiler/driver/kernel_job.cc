#include "driver/kernel_job.h"

#include <chrono>
#include <cstdio>

#include "backend/backend.h"
#include "base/error.h"
#include "base/settings.h"
#include "codegen/lower.h"
#include "ir/text.h"
#include "opt/prepare.h"
#include "target/bytes.h"

namespace tg::driver {
namespace {

double ms_since(std::chrono::steady_clock::time_point t) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - t).count();
}

}  // namespace

std::vector<u8> KernelJob::bytes() const {
  Writer w;
  w.text(ast), w.text(renderer), w.text(arch), w.text(entry), w.num(exact), w.nums(ordered);
  w.num(opts.has_value()), w.text(opts.value_or(""));
  w.num(i64(slots.size()));
  for (const Slot& s : slots) w.nums(s.dims), w.layout(s.layout), w.num(s.constant), w.nums(s.before), w.nums(s.after), w.num(i64(s.fill));
  return w.out;
}
KernelJob KernelJob::parse(std::span<const u8> b) {
  Reader r{b, "a compile job"};
  KernelJob j;
  j.ast = r.text(), j.renderer = r.text(), j.arch = r.text(), j.entry = r.text(), j.exact = r.num() != 0, j.ordered = r.nums();
  bool has_opts = r.num() != 0;
  std::string opts = r.text();
  if (has_opts) j.opts = std::move(opts);
  j.slots.resize(r.count());
  for (Slot& s : j.slots)
    s.dims = r.nums(), s.layout = r.layout(), s.constant = r.num() != 0, s.before = r.nums(), s.after = r.nums(), s.fill = u64(r.num());
  return j;
}

std::vector<u8> CompiledKernel::bytes() const {
  Writer w;
  w.num(tasks), w.text(opts), w.num(i64(layouts.size()));
  for (const Layout& l : layouts) w.layout(l);
  w.num(i64(lower_ms * 1000)), w.num(i64(compile_ms * 1000));
  w.text(text);
  w.text(std::string_view(reinterpret_cast<const char*>(object.data()), object.size()));
  return w.out;
}
CompiledKernel CompiledKernel::parse(std::span<const u8> b) {
  Reader r{b, "a compiled kernel"};
  CompiledKernel k;
  k.tasks = r.num(), k.opts = r.text();
  k.layouts.resize(r.count());
  for (Layout& l : k.layouts) l = r.layout();
  k.lower_ms = double(r.num()) / 1000, k.compile_ms = double(r.num()) / 1000;
  k.text = r.text();
  std::string o = r.text();
  k.object.assign(o.begin(), o.end());
  return k;
}

namespace {

// What DEBUG asks for: 3 Opts, 4 source, 5 UOps, 6 linear UOps, 7 assembly; each level has those below. Gathered for the caller, who prints
// the kernels in order; without workers printed at once, so that it is there when something below crashes.
class DebugText {
 public:
  explicit DebugText(const KernelJob& job) : level_(settings::DEBUG()), now_(settings::PARALLEL() == 0), entry_(job.entry) {}
  bool wants(i64 level) const { return level_ >= level; }
  void add(i64 level, std::string_view title, const std::string& text) {
    if (!wants(level)) return;
    std::string s = str("--- ", entry_, " ", title, level == 3 ? " " : "\n", text, text.ends_with('\n') ? "" : "\n");
    now_ ? void(std::fputs(s.c_str(), stderr)) : void(text_ += s);
  }
  std::string take() { return std::move(text_); }

 private:
  i64 level_;
  bool now_;
  const std::string& entry_;
  std::string text_;
};

}  // namespace

Result<Target> target_of(const KernelJob& job) {
  Result<Target> target = cpu_target(job.arch, job.renderer);
  if (target && job.exact) target->has_fma = false;
  return target;
}

Kernel plain_kernel(const KernelJob& job, const Target& target) {
  Kernel k;
  k.ast = parse(job.ast);
  k.slots = job.slots, k.ordered = job.ordered, k.target = &target;
  return prepare(std::move(k));
}

Result<Kernel> shape_kernel(const KernelJob& job, const Target& target) {
  Kernel k = plain_kernel(job, target);
  if (job.opts) return with_opts(std::move(k), *job.opts);
  if (settings::NOOPT() || job.exact) return k;
  return heuristics(std::move(k));
}

Result<CompiledKernel> compile_kernel(const KernelJob& job) {
  auto t0 = std::chrono::steady_clock::now();
  Result<Target> target = target_of(job);
  if (!target) return Result<CompiledKernel>::no(target.why());
  Arena arena;
  Arena::Scope scope(arena);
  Result<Kernel> shaped = shape_kernel(job, *target);
  if (!shaped) return Result<CompiledKernel>::no(shaped.why());
  const Kernel& k = *shaped;
  DebugText debug(job);
  debug.add(3, "Opts:", k.opts.empty() ? "none" : opts_text(k.opts));
  if (debug.wants(5)) debug.add(5, "UOps", print(k.ast));
  Lowered low = lower(k);
  if (debug.wants(6)) debug.add(6, "linear UOps", print_list(low.linear));
  double lower_ms = ms_since(t0);
  t0 = std::chrono::steady_clock::now();
  std::string source, assembly;
  Result<std::vector<u8>> object =
      compile_program(low.linear, job.entry, *target, debug.wants(4) ? &source : nullptr, debug.wants(7) ? &assembly : nullptr);
  debug.add(4, "source", source);
  debug.add(7, "assembly", assembly);
  if (!object) {
    std::fputs(debug.take().c_str(), stderr);
    return Result<CompiledKernel>::no(object.why());
  }
  CompiledKernel c;
  c.object = std::move(*object);
  c.tasks = low.tasks, c.opts = opts_text(k.opts);
  for (const Slot& s : k.slots) c.layouts.push_back(s.layout);
  c.lower_ms = lower_ms, c.compile_ms = ms_since(t0);
  c.text = debug.take();
  return c;
}

Result<std::vector<u8>> compile_kernel_bytes(std::span<const u8> job) {
  Result<CompiledKernel> r = compile_kernel(KernelJob::parse(job));
  if (!r) return Result<std::vector<u8>>::no(r.why());
  return r->bytes();
}

}  // namespace tg::driver
