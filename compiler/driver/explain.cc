#include "driver/explain.h"

#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "base/progress.h"
#include "base/workers.h"
#include "codegen/lower.h"
#include "driver/tree.h"
#include "driver/tune.h"
#include "driver/tune_job.h"
#include "ir/tensor.h"
#include "ir/text.h"

namespace tg::driver {
namespace {

// A kernel that shows what the machine can do: one sum of products, or of what is read.
KernelJob probe(const Target& t, i64 rows, i64 columns, i64 depth) {
  Arena arena;
  Arena::Scope scope(arena);
  KernelJob j;
  auto buffer = [&](i64 slot, std::vector<i64> d) {
    Slot s;
    s.dims = d, s.layout = Layout::row_major(d);
    j.slots.push_back(s);
    return tensor::param(slot, Kind::F32, dims(std::span<const i64>(d)));
  };
  auto load = [](UOp buffer, std::initializer_list<UOp> at) {
    std::vector<UOp> src{buffer};
    src.insert(src.end(), at);
    return node(Op::Load, Kind::F32, {node(Op::Index, Kind::F32, std::span<const UOp>(src))});
  };
  UOp i = range(idx(rows), {0, 0, 0, AxisKind::Loop}), l = range(idx(depth), {2, 0, 1, AxisKind::Reduce}), store;
  if (columns) {
    UOp c = range(idx(columns), {1, 0, 0, AxisKind::Loop});
    UOp o = buffer(0, {rows, columns}), a = buffer(1, {rows, depth}), b = buffer(2, {depth, columns});
    UOp sum = node(Op::Reduce, Kind::F32, {load(a, {i, l}) * load(b, {l, c}), l}, ReduceArg{}.ints());
    store = node(Op::Store, Kind::Void, {node(Op::Index, Kind::F32, {o, i, c}), sum, i, c});
  } else {
    UOp o = buffer(0, {rows}), a = buffer(1, {rows, depth});
    store = node(Op::Store, Kind::Void,
                 {node(Op::Index, Kind::F32, {o, i}), node(Op::Reduce, Kind::F32, {load(a, {i, l}), l}, ReduceArg{}.ints()), i});
  }
  j.ast = print(node(Op::Sink, Kind::Void, {store}));
  j.renderer = t.renderer, j.arch = t.arch, j.entry = "probe";
  return j;
}

Result<Measured> timed(const KernelJob& job, const CompiledKernel& k, Workers& measurer) {
  MeasureJob m;
  {
    Arena arena;
    Arena::Scope scope(arena);
    m.subject = MeasureSubject::of(parse(job.ast));
  }
  for (size_t s = 0; s < m.subject.slots.size(); s++) m.subject.slots[s].lie_as(job.slots[s]);
  m.base = {k.object, job.entry, k.tasks, k.layouts};
  WorkBytes bytes = measure_job_bytes(m);
  Result<WorkBytes> a = measurer.run(std::span(&bytes, 1), 60)[0];
  return a ? Measured::parse(*a) : Result<Measured>::no(a.why());
}

// Operations a nanosecond of the best of a few register tiles whose operands lie in the first cache.
f64 arithmetic_peak(const Target& t, Workers& measurer) {
  f64 best = 0;
  for (i64 rows : {6, 8, 12, 14})
    for (i64 vectors : {1, 2}) {
      i64 columns = t.vector_bytes / 4 * vectors, depth = 128;
      KernelJob j = probe(t, rows, columns, depth);
      j.opts = str("VECTOR 1 ", t.vector_bytes / 4, vectors > 1 ? str(", UPCAST 1 ", vectors) : "", ", UPCAST 0 ", rows, ", UNROLL 2 4");
      Result<CompiledKernel> k = compile_kernel(j);
      if (!k) continue;
      if (Result<Measured> m = timed(j, *k, measurer)) best = std::max(best, 2.0 * f64(rows * columns * depth) / m->ns);
    }
  return best;
}
// Bytes a nanosecond of a sum over four times the last cache, at most 256 MB.
f64 memory_peak(const Target& t, Workers& measurer) {
  i64 depth = 1 << 16, rows = 512;
  KernelJob j = probe(t, rows, 0, depth);
  Result<CompiledKernel> k = compile_kernel(j);
  if (!k) return 0;
  Result<Measured> m = timed(j, *k, measurer);
  return m ? 4.0 * f64(rows * depth) / m->ns : 0;
}

std::string share(f64 part, f64 whole) {
  char s[32];
  std::snprintf(s, sizeof s, "%.0f %%", whole > 0 ? 100 * part / whole : 0);
  return s;
}

}  // namespace

Explained explain(const KernelPlan& plan, std::span<const CompiledKernel> compiled, const Target& target) {
  Workers measurer(1, {"/proc/self/exe", "worker"}, "measurer");
  Explained e;
  e.gflops = arithmetic_peak(target, measurer), e.gbytes = memory_peak(target, measurer);
  std::vector<i64> launches(plan.jobs.size());
  for (const KernelPlan::Use& u : plan.uses) launches[u.job]++;
  Progress progress("time kernels", i64(plan.jobs.size()));
  for (size_t i = 0; i < plan.jobs.size(); i++) {
    ExplainedKernel k;
    k.name = plan.names[i], k.entry = plan.jobs[i].entry, k.opts = compiled[i].opts, k.launches = launches[i], k.tasks = compiled[i].tasks;
    k.work = plan.work[i];
    k.told = told(kernel_digest(plan.jobs[i]));
    {
      Arena arena;
      Arena::Scope scope(arena);
      KernelJob j = plan.jobs[i];
      j.opts = compiled[i].opts;
      if (Result<Kernel> shaped = shape_kernel(j, target)) {
        Lowered low = lower(*shaped);
        k.estimate = estimate(low.linear, low.tasks, shaped->slots, target);
      }
    }
    Result<Measured> m = timed(plan.jobs[i], compiled[i], measurer);
    if (m)
      k.ns = m->ns;
    else
      k.unfit = m.why();
    f64 by_arithmetic = e.gflops > 0 ? f64(k.work.flops) / e.gflops : 0, by_memory = e.gbytes > 0 ? f64(k.work.bytes) / e.gbytes : 0;
    k.by_memory = by_memory > by_arithmetic, k.roofline_ns = std::max(by_memory, by_arithmetic);
    e.kernels.push_back(std::move(k));
    progress.step(plan.names[i]);
  }
  std::stable_sort(e.kernels.begin(), e.kernels.end(),
                   [](const ExplainedKernel& a, const ExplainedKernel& b) { return a.ns * f64(a.launches) > b.ns * f64(b.launches); });
  return e;
}

std::string explained_text(const Explained& e, i64 most) {
  char line[512];
  f64 total = 0, roof = 0;
  for (const ExplainedKernel& k : e.kernels) total += k.ns * f64(k.launches), roof += k.roofline_ns * f64(k.launches);
  std::snprintf(line, sizeof line, "one thread here: %.1f GFLOP/s in a register tile, %.1f GB/s from memory\n", e.gflops, e.gbytes);
  std::string out = line;
  std::snprintf(line, sizeof line, "kernels %.3f ms, at the roofline %.3f ms (%s)\n%10s %6s %9s %8s %9s  kernel\n", total * 1e-6,
                roof * 1e-6, share(roof, total).c_str(), "us", "%", "GFLOP/s", "GB/s", "roofline");
  out += line;
  i64 shown = 0;
  for (const ExplainedKernel& k : e.kernels) {
    if (most && shown++ == most) {
      out += str("and ", e.kernels.size() - size_t(most), " more kernels (--kernels 0 shows all)\n");
      break;
    }
    std::snprintf(line, sizeof line, "%10.2f %6.1f %9.1f %8.1f %9s  %s%s\n", k.ns * 1e-3,
                  total > 0 ? 100 * k.ns * f64(k.launches) / total : 0, k.ns > 0 ? f64(k.work.flops) / k.ns : 0,
                  k.ns > 0 ? f64(k.work.bytes) / k.ns : 0, share(k.roofline_ns, k.ns).c_str(), k.name.c_str(),
                  k.launches > 1 ? str(" x ", k.launches).c_str() : "");
    out += line;
    if (!k.unfit.empty()) out += str("           it cannot be timed: ", k.unfit, "\n");
    const Estimate& s = k.estimate;
    f64 cycles = std::max({s.arithmetic, s.loads, s.stores, s.latency, s.l2, s.l3, s.memory, 1.0});
    std::string parts;
    for (auto [name, v] : {std::pair{"arithmetic", s.arithmetic},
                           {"loads", s.loads},
                           {"stores", s.stores},
                           {"latency", s.latency},
                           {"spills", s.spills},
                           {"loops", s.loops},
                           {"second cache", s.l2},
                           {"last cache", s.l3},
                           {"memory", s.memory}})
      if (v >= 0.3 * cycles) parts += str(parts.empty() ? "" : ", ", name, " ", share(v, cycles));
    out += str("           bound by ", s.bound(), " by the estimate (", parts, "), by ", k.by_memory ? "memory" : "arithmetic",
               " at the roofline; tasks ", k.tasks, "\n");
    out += str("           Opts ", k.opts.empty() ? "none" : k.opts, "\n");
    std::string_view told = k.told;
    if (told.empty()) out += "           no search of it is known (BEAM=4 searches)\n";
    while (!told.empty()) {
      std::string_view one = told.substr(0, told.find('\n'));
      told.remove_prefix(std::min(told.size(), one.size() + 1));
      out += str("           search: ", one, "\n");
    }
  }
  return out;
}

std::string explained_json(const Explained& e) {
  Tree t = Tree::map();
  t.add("peak_gflops", e.gflops).add("peak_gbytes", e.gbytes);
  Tree list = Tree::list();
  for (const ExplainedKernel& k : e.kernels) {
    const Estimate& s = k.estimate;
    list.add(Tree::map()
                 .add("name", k.name)
                 .add("entry", k.entry)
                 .add("opts", k.opts)
                 .add("launches", k.launches)
                 .add("tasks", k.tasks)
                 .add("ns", k.ns)
                 .add("cannot_be_timed", k.unfit)
                 .add("flops", k.work.flops)
                 .add("bytes", k.work.bytes)
                 .add("roofline_ns", k.roofline_ns)
                 .add("roofline", k.by_memory ? "memory" : "arithmetic")
                 .add("estimate_ns", s.ns)
                 .add("bound", s.bound())
                 .add("cycles", Tree::map()
                                    .add("arithmetic", s.arithmetic)
                                    .add("loads", s.loads)
                                    .add("stores", s.stores)
                                    .add("latency", s.latency)
                                    .add("spills", s.spills)
                                    .add("loops", s.loops)
                                    .add("l2", s.l2)
                                    .add("l3", s.l3)
                                    .add("memory", s.memory))
                 .add("search", k.told));
  }
  t.add("kernels", std::move(list));
  return t.json();
}

}  // namespace tg::driver
