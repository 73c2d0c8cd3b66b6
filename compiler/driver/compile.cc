// model.onnx to model.tgb. compile_model() reads as the list of stages.
#include "driver/compile.h"

#include <algorithm>
#include <chrono>
#include <map>

#include "backend/backend.h"
#include "base/cache.h"
#include "base/error.h"
#include "base/file.h"
#include "base/note.h"
#include "base/progress.h"
#include "base/settings.h"
#include "base/workers.h"
#include "bundle/bundle.h"
#include "driver/kernel_job.h"
#include "formats/target.h"
#include "frontend/import.h"
#include "ir/canonical.h"
#include "ir/text.h"
#include "schedule/cost.h"
#include "schedule/schedule.h"

namespace tg::driver {
namespace {

class Clock {
 public:
  double lap() {
    auto now = std::chrono::steady_clock::now();
    double ms = std::chrono::duration<double, std::milli>(now - last_).count();
    last_ = now;
    return ms;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

Target resolve_target() {
  tgf::Target parsed[tgf::kMaxTargets];
  u32 n = 0;
  char error[512];
  std::string dev = settings::DEV();
  if (!tgf::parse_targets(dev.c_str(), parsed, &n, error, sizeof error)) fail("DEV=", dev, ": ", error);
  if (n == 0) n = 1, parsed[0] = tgf::Target{};
  if (n > 1) fail("DEV=", dev, ": bundles for several targets are not built yet; name one");
  std::string device = parsed[0].device[0] ? parsed[0].device : "CPU", renderer = parsed[0].renderer[0] ? parsed[0].renderer : "LLVM";
  if (device != "CPU") fail("DEV=", dev, ": device ", device, " is not built yet; known: CPU. List with: tgaot devices");
  Result<Target> t = cpu_target(parsed[0].arch, renderer);
  if (!t) fail("DEV=", dev, ": ", t.why());
  return *t;
}

// A kernel of the schedule, its job and who uses it.
struct Planned {
  KernelJob job;
  std::vector<i64> slot_of;  // canonical slot -> slot of the call
};

Planned plan_kernel(const Schedule& s, const Call& c, const Target& t) {
  Canonical can = canonical(c.ast);
  Planned p;
  p.slot_of = can.slot_of;
  p.job.ast = print(can.ast);
  p.job.renderer = t.renderer, p.job.arch = t.arch;
  for (i64 slot : can.slot_of) {
    const Buffer& b = s.buffers[c.buffers[size_t(slot)]];
    Slot sl;
    sl.layout = b.layout, sl.dims = b.dims, sl.constant = b.kind == Buffer::Constant && bits(b.dtype) >= 8;
    if (slot == 0 && c.border) sl.before = b.before, sl.after = b.after, sl.fill = b.fill;
    p.job.slots.push_back(sl);
  }
  for (size_t a = 0; a < can.axis_of.size(); a++)
    for (i64 o : c.ordered)
      if (can.axis_of[a] == o) p.job.ordered.push_back(i64(a));
  p.job.entry = "k_" + digest(p.job.bytes()).str().substr(0, 16);
  return p;
}

// Answers for all jobs, from the cache or from worker processes.
std::vector<CompiledKernel> compile_kernels(const std::vector<KernelJob>& jobs, const Target& t, const std::vector<std::string>& names) {
  std::vector<CompiledKernel> out(jobs.size());
  std::vector<size_t> open;
  std::vector<WorkBytes> work;
  std::vector<Digest> keys;
  for (size_t i = 0; i < jobs.size(); i++) {
    std::vector<u8> b = jobs[i].bytes();
    Hasher h;
    h.add(compiler_version(t)).add(settings::code_key()).add(kKernelVersion).raw(b.data(), b.size());
    keys.push_back(h.done());
    if (settings::CCACHE() && settings::DEBUG() < 3)
      if (auto hit = cache::get("kernels", keys.back())) {
        out[i] = CompiledKernel::parse(*hit);
        continue;
      }
    open.push_back(i);
    work.push_back(std::move(b));
  }
  if (open.empty()) return out;
  Progress progress("compile", i64(open.size()));
  auto take = [&](size_t k, const Result<WorkBytes>& r) {
    size_t i = open[k];
    if (!r) fail("kernel ", names[i], " (", jobs[i].entry, "): ", r.why());
    out[i] = CompiledKernel::parse(*r);
    if (settings::CCACHE()) cache::put("kernels", keys[i], *r);
  };
  if (settings::PARALLEL() == 0) {
    for (size_t k = 0; k < open.size(); k++) {
      take(k, compile_kernel_bytes(work[k]));
      progress.step(names[open[k]]);
    }
    return out;
  }
  Workers pool(std::min<i64>(settings::PARALLEL(), i64(open.size())), {"/proc/self/exe", "worker"});
  std::vector<Result<WorkBytes>> answers = pool.run(work, 300, [&](i64 k) { progress.step(names[open[size_t(k)]]); });
  for (size_t k = 0; k < open.size(); k++) take(k, answers[k]);
  return out;
}

tgf::Dtype stored(DType d) {
  TG_CHECK(is_stored(d.kind), "not a dtype of a bundle: ", name(d));
  return tgf::Dtype(d.kind);
}

bundle::Signature signature(const Value& v) {
  bundle::Signature s;
  s.name = v.name, s.dtype = stored(v.dtype);
  for (UOp d : v.dims) s.dims.push_back({bundle::Expr(d.as_int()), "", -1});
  return s;
}

}  // namespace

void compile_model(const CompileOptions& o) {
  check_output_path(o.output);
  Target target = resolve_target();
  Clock clock;

  ImportOptions io;
  for (const InputShape& s : o.shapes) io.shapes.push_back({s.input, s.dims});
  if (!o.vars.empty()) fail("--var: free dimensions are not built yet; fix them with --shape");
  std::string df = settings::DEFAULT_FLOAT();
  if (df != "float32" && df != "FLOAT32" && df != "FLOAT") fail("DEFAULT_FLOAT=", df, " is not built yet; known: float32");
  Graph graph = import_onnx(o.model, io);
  Arena::Scope scope(*graph.arena);
  double import_ms = clock.lap();

  Schedule sched = schedule(graph, target);
  double schedule_ms = clock.lap();

  // Equal kernels are compiled once.
  std::vector<KernelJob> jobs;
  std::vector<std::string> names;
  std::map<std::string, size_t> job_of;
  std::vector<size_t> job_index;
  std::vector<Planned> planned;
  for (const Call& c : sched.calls) {
    planned.push_back(plan_kernel(sched, c, target));
    auto [it, fresh] = job_of.try_emplace(planned.back().job.entry, jobs.size());
    if (fresh) jobs.push_back(planned.back().job), names.push_back(c.name);
    job_index.push_back(it->second);
  }
  std::vector<CompiledKernel> compiled = compile_kernels(jobs, target, names);
  double kernels_ms = clock.lap();

  // Capture: one straight run of launches, cut into batches.
  bundle::BundleDesc d;
  for (const Value& v : graph.inputs) d.inputs.push_back(signature(v));
  for (const Value& v : graph.outputs) d.outputs.push_back(signature(v));
  d.targets.push_back({target.device, target.renderer, target.arch, target.needs});
  for (size_t i = 0; i < jobs.size(); i++) d.objects.push_back(bundle::Bytes::view(compiled[i].object));

  bundle::Variant v;
  v.targets = {0};
  std::map<u32, u32> constant_of;                               // graph constant -> bundle constant
  std::map<std::pair<u32, std::string>, u32> weight_buffer;     // (constant, layout) -> buffer
  std::vector<u32> buffer_of(sched.buffers.size(), ~0u);
  // A buffer stands after those it lies upon.
  std::vector<u32> by_offset;
  for (u32 i = 0; i < sched.buffers.size(); i++)
    if (sched.buffers[i].offset >= 0) by_offset.push_back(i);
  std::stable_sort(by_offset.begin(), by_offset.end(), [&](u32 a, u32 b) { return sched.buffers[a].offset < sched.buffers[b].offset; });
  for (u32 i : by_offset) {
    const Buffer& b = sched.buffers[i];
    bundle::Buffer out;
    out.kind = b.kind == Buffer::Input ? bundle::BufferKind::Input : b.kind == Buffer::Output ? bundle::BufferKind::Output : bundle::BufferKind::Scratch;
    out.dtype = stored(b.dtype), out.bytes = b.bytes, out.index = b.index;
    out.align = u32(std::max(1, bits(b.dtype) / 8));
    for (u32 below : b.lies_on) out.lies_on.push_back(buffer_of[below]);
    buffer_of[i] = u32(v.buffers.size());
    v.buffers.push_back(out);
  }

  auto weight = [&](const Buffer& b, const Layout& l) {
    const ConstantData& c = graph.constants[b.index];
    bool plain = l.is_row_major(b.dims);
    std::string text = plain ? "" : l.str();
    auto [it, fresh] = weight_buffer.try_emplace({b.index, text}, u32(v.buffers.size()));
    if (!fresh) return it->second;
    auto [ct, new_constant] = constant_of.try_emplace(b.index, u32(d.constants.size()));
    if (new_constant) d.constants.push_back({c.name, stored(c.dtype), c.dims, {}});
    bundle::Form f;
    f.dtype = stored(c.dtype), f.layout = text;
    if (plain) f.bytes = bundle::Bytes::view(c.bytes);
    else
      f.bytes = bundle::Bytes::lazy(u64(byte_size(c.dtype.kind, l.elems())), [&c, l](std::span<u8> to) {
        apply_layout(l, c.dims, bits(c.dtype) / 8, c.bytes.data(), to.data());
      });
    bundle::Buffer out;
    out.kind = bundle::BufferKind::Weight, out.dtype = stored(b.dtype), out.index = ct->second, out.form = u32(d.constants[ct->second].forms.size());
    d.constants[ct->second].forms.push_back(std::move(f));
    v.buffers.push_back(out);
    return it->second;
  };

  std::vector<bundle::Step> steps;
  std::map<size_t, u32> program_of;
  for (size_t i = 0; i < sched.calls.size(); i++) {
    const Call& c = sched.calls[i];
    const CompiledKernel& k = compiled[job_index[i]];
    auto [it, fresh] = program_of.try_emplace(job_index[i], u32(d.programs.size()));
    if (fresh) {
      bundle::Program p;
      p.label = c.name, p.entry = jobs[job_index[i]].entry, p.object = u32(job_index[i]);
      for (i64 slot : planned[i].slot_of) p.params.push_back(slot < i64(c.outputs) ? bundle::Access::ReadWrite : bundle::Access::Read);
      d.programs.push_back(p);
    }
    bundle::Launch l;
    l.program = it->second;
    for (size_t s = 0; s < planned[i].slot_of.size(); s++) {
      u32 b = c.buffers[size_t(planned[i].slot_of[s])];
      l.args.push_back(sched.buffers[b].kind == Buffer::Constant ? weight(sched.buffers[b], k.layouts[s]) : buffer_of[b]);
    }
    l.grid = {bundle::Expr(k.tasks)};
    Work w = work_of(sched, c);
    l.flops = bundle::Expr(w.flops), l.bytes = bundle::Expr(w.bytes);
    steps.push_back(l);
  }
  i64 batch = settings::JIT_BATCH_SIZE();
  for (size_t at = 0; at < steps.size();) {
    size_t n = batch == 0 ? steps.size() : std::min(size_t(batch), steps.size() - at);
    bundle::Batch b;
    b.steps.assign(steps.begin() + long(at), steps.begin() + long(at + n));
    v.body.commands.push_back(b);
    at += n;
    batch *= 2;
  }
  d.variants.push_back(std::move(v));
  d.provenance.made_by = "tgaot " TGAOT_VERSION " " + compiler_version(target);
  d.provenance.model = o.model.substr(o.model.rfind('/') + 1);
  bundle::WriteOptions wo;
  wo.compress = o.compress;
  bundle::WriteStats stats = bundle::write_bundle(d, o.output, wo);
  double pack_ms = clock.lap();

  double lower = 0, llvm = 0;
  for (const CompiledKernel& k : compiled) lower += k.lower_ms, llvm += k.compile_ms;
  std::fprintf(stderr, "%s: %zu kernels (%zu different), %.1f MB, memory %.1f MB (at least %.1f)\n", o.output.c_str(), sched.calls.size(), jobs.size(),
               double(stats.file_bytes) / 1e6, double(sched.arena_bytes) / 1e6, double(sched.lower_bound_bytes) / 1e6);
  std::fprintf(stderr, "time: import %.0f ms, schedule %.0f ms, kernels %.0f ms (codegen %.0f, LLVM %.0f, summed over workers), packing %.0f ms\n", import_ms,
               schedule_ms, kernels_ms, lower, llvm, pack_ms);
}

}  // namespace tg::driver
