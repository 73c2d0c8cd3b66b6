#include "driver/tune_job.h"

#include "base/error.h"
#include "base/settings.h"
#include "codegen/lower.h"
#include "driver/tune_whole.h"
#include "ir/binary.h"
#include "search/estimate.h"
#include "search/moves.h"
#include "target/bytes.h"

namespace tg::driver {
namespace {

// The first number of a job; a compile job begins with a length, which is not negative.
constexpr i64 kPropose = -1, kMeasure = -2, kWhole = -3;
constexpr size_t kArenaLists = 8;  // lists that share an arena: small ones keep tables by node short

Result<Proposal> propose_one(const Kernel& plain, const std::string& text, bool limited) {
  using R = Result<Proposal>;
  Result<std::vector<Opt>> opts = parse_opts(text);
  if (!opts) return R::no(opts.why());
  Result<Kernel> k = finish(plain, *opts);
  if (!k) return R::no(k.why());
  i64 most = settings::BEAM_UOPS_MAX(), n = copies(*k);
  if (limited && n > settings::BEAM_UPCAST_MAX())
    return R::no("its register tile has over ", settings::BEAM_UPCAST_MAX(), " values (BEAM_UPCAST_MAX)");
  if (limited && n * i64(toposort(k->ast).size()) > 20 * most) return R::no("it would have over ", most, " UOps (BEAM_UOPS_MAX)");
  Lowered low = lower(*k);
  if (limited && i64(low.linear.size()) > most) return R::no("it would have over ", most, " UOps (BEAM_UOPS_MAX)");
  Proposal p;
  p.opts = opts_text(k->opts);
  p.estimate_ns = estimate(low.linear, low.tasks, k->slots, *k->target).ns;
  Hasher h;
  std::vector<u8> nodes = write_binary(k->ast);
  h.raw(nodes.data(), nodes.size());
  for (const Slot& s : k->slots) h.add(s.layout.str()).add(u64(s.ahead)).add(u64(s.past));
  p.shape = h.done();
  return p;
}

Result<WorkBytes> propose(Reader& r) {
  KernelJob job = KernelJob::parse(r.blob());
  bool limited = r.num() != 0;
  std::vector<std::string> lists(r.count());
  for (std::string& s : lists) s = r.text();
  Result<Target> target = target_of(job);
  if (!target) return Result<WorkBytes>::no(target.why());
  Writer w;
  w.num(i64(lists.size()));
  for (size_t begin = 0; begin < lists.size(); begin += kArenaLists) {
    Arena arena;
    Arena::Scope scope(arena);
    Kernel plain = plain_kernel(job, *target);
    for (size_t i = begin; i < std::min(lists.size(), begin + kArenaLists); i++) {
      Result<Proposal> p = propose_one(plain, lists[i], limited);
      w.num(bool(p));
      if (p)
        w.text(p->opts), w.num(i64(p->shape.lo)), w.num(i64(p->shape.hi)), w.real(p->estimate_ns);
      else
        w.text(p.why());
    }
  }
  return std::move(w.out);
}

}  // namespace

WorkBytes ProposeJob::bytes() const {
  Writer w;
  w.num(kPropose), w.blob(kernel.bytes()), w.num(limited), w.num(i64(opts.size()));
  for (const std::string& s : opts) w.text(s);
  return std::move(w.out);
}

std::vector<Result<Proposal>> parse_proposals(std::span<const u8> bytes) {
  Reader r{bytes, "proposals"};
  std::vector<Result<Proposal>> out;
  for (size_t n = r.count(); n > 0; n--) {
    if (!r.num()) {
      out.push_back(Result<Proposal>::no(r.text()));
      continue;
    }
    Proposal p;
    p.opts = r.text(), p.shape.lo = u64(r.num()), p.shape.hi = u64(r.num()), p.estimate_ns = r.real();
    out.push_back(std::move(p));
  }
  return out;
}

WorkBytes whole_job_bytes(const std::vector<std::string>& bundles, f64 seconds) {
  Writer w;
  w.num(kWhole), w.num(i64(seconds * 1e3)), w.num(i64(bundles.size()));
  for (const std::string& b : bundles) w.text(b);
  return std::move(w.out);
}

WorkBytes measure_job_bytes(const MeasureJob& job) {
  Writer w;
  w.num(kMeasure), w.blob(job.bytes());
  return std::move(w.out);
}

Result<WorkBytes> worker_job_bytes(std::span<const u8> job) {
  Reader r{job, "a job"};
  switch (Reader(r).num()) {
    case kPropose: return r.num(), propose(r);
    case kMeasure: return r.num(), measure_bytes(r.blob());
    case kWhole: return r.num(), time_whole(r.in);
    default: return compile_kernel_bytes(job);
  }
}

ActionLimits action_limits() { return {settings::BEAM_UPCAST_MAX(), settings::BEAM_PADTO() != 0}; }

}  // namespace tg::driver
