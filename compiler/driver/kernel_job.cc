#include "driver/kernel_job.h"

#include <chrono>
#include <cstring>

#include "backend/backend.h"
#include "base/error.h"
#include "base/settings.h"
#include "codegen/lower.h"
#include "ir/text.h"
#include "opt/prepare.h"

namespace tg::driver {
namespace {

// Length-prefixed fields, little-endian.
struct Writer {
  std::vector<u8> out;
  void raw(const void* p, size_t n) { out.insert(out.end(), static_cast<const u8*>(p), static_cast<const u8*>(p) + n); }
  void num(i64 v) { raw(&v, 8); }
  void text(std::string_view s) { num(i64(s.size())), raw(s.data(), s.size()); }
  void nums(const std::vector<i64>& v) {
    num(i64(v.size()));
    for (i64 x : v) num(x);
  }
  void layout(const Layout& l) {
    num(i64(l.pieces.size()));
    for (auto& p : l.pieces) num(p.axis), num(p.factor);
  }
};
struct Reader {
  std::span<const u8> in;
  void raw(void* p, size_t n) {
    if (n > in.size()) fail("a compile job is truncated");
    std::memcpy(p, in.data(), n);
    in = in.subspan(n);
  }
  i64 num() {
    i64 v;
    raw(&v, 8);
    return v;
  }
  size_t count() {
    i64 n = num();
    if (n < 0 || size_t(n) > in.size()) fail("a compile job is damaged");
    return size_t(n);
  }
  std::string text() {
    std::string s(count(), 0);
    raw(s.data(), s.size());
    return s;
  }
  std::vector<i64> nums() {
    std::vector<i64> v(count());
    for (i64& x : v) x = num();
    return v;
  }
  Layout layout() {
    Layout l;
    l.pieces.resize(count());
    for (auto& p : l.pieces) p.axis = num(), p.factor = num();
    return l;
  }
};

double ms_since(std::chrono::steady_clock::time_point t) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - t).count();
}

}  // namespace

std::vector<u8> KernelJob::bytes() const {
  Writer w;
  w.text(ast), w.text(renderer), w.text(arch), w.text(entry), w.nums(ordered);
  w.num(i64(slots.size()));
  for (const Slot& s : slots) w.nums(s.dims), w.layout(s.layout), w.num(s.constant), w.nums(s.before), w.nums(s.after), w.num(i64(s.fill));
  return w.out;
}
KernelJob KernelJob::parse(std::span<const u8> b) {
  Reader r{b};
  KernelJob j;
  j.ast = r.text(), j.renderer = r.text(), j.arch = r.text(), j.entry = r.text(), j.ordered = r.nums();
  j.slots.resize(r.count());
  for (Slot& s : j.slots) s.dims = r.nums(), s.layout = r.layout(), s.constant = r.num() != 0, s.before = r.nums(), s.after = r.nums(), s.fill = u64(r.num());
  return j;
}

std::vector<u8> CompiledKernel::bytes() const {
  Writer w;
  w.num(tasks), w.text(opts), w.num(i64(layouts.size()));
  for (const Layout& l : layouts) w.layout(l);
  w.num(i64(lower_ms * 1000)), w.num(i64(compile_ms * 1000));
  w.text(std::string_view(reinterpret_cast<const char*>(object.data()), object.size()));
  return w.out;
}
CompiledKernel CompiledKernel::parse(std::span<const u8> b) {
  Reader r{b};
  CompiledKernel k;
  k.tasks = r.num(), k.opts = r.text();
  k.layouts.resize(r.count());
  for (Layout& l : k.layouts) l = r.layout();
  k.lower_ms = double(r.num()) / 1000, k.compile_ms = double(r.num()) / 1000;
  std::string o = r.text();
  k.object.assign(o.begin(), o.end());
  return k;
}

Result<CompiledKernel> compile_kernel(const KernelJob& job) {
  auto t0 = std::chrono::steady_clock::now();
  Result<Target> target = cpu_target(job.arch, job.renderer);
  if (!target) return Result<CompiledKernel>::no(target.why());
  Arena arena;
  Arena::Scope scope(arena);
  Kernel k;
  k.ast = parse(job.ast);
  k.slots = job.slots, k.ordered = job.ordered, k.target = &*target;
  k = prepare(std::move(k));
  if (!settings::NOOPT()) k = heuristics(std::move(k));
  Lowered low = lower(k);
  double lower_ms = ms_since(t0);
  t0 = std::chrono::steady_clock::now();
  i64 debug = settings::DEBUG();
  std::string source, assembly;
  Result<std::vector<u8>> object = compile_program(low.linear, job.entry, *target, debug >= 4 ? &source : nullptr, debug >= 7 ? &assembly : nullptr);
  if (debug >= 3) std::fprintf(stderr, "%s  %s\n", job.entry.c_str(), opts_text(k.opts).c_str());
  if (debug >= 5) std::fprintf(stderr, "%s\n", print(k.ast).c_str());
  if (debug >= 6) std::fprintf(stderr, "%s\n", print_list(low.linear).c_str());
  if (debug >= 4) std::fprintf(stderr, "%s\n", source.c_str());
  if (debug >= 7) std::fprintf(stderr, "%s\n", assembly.c_str());
  if (!object) return Result<CompiledKernel>::no(object.why());
  CompiledKernel c;
  c.object = std::move(*object);
  c.tasks = low.tasks, c.opts = opts_text(k.opts);
  for (const Slot& s : k.slots) c.layouts.push_back(s.layout);
  c.lower_ms = lower_ms, c.compile_ms = ms_since(t0);
  return c;
}

Result<std::vector<u8>> compile_kernel_bytes(std::span<const u8> job) {
  Result<CompiledKernel> r = compile_kernel(KernelJob::parse(job));
  if (!r) return Result<std::vector<u8>>::no(r.why());
  return r->bytes();
}

}  // namespace tg::driver
