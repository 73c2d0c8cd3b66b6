#include "driver/tune.h"

#include <signal.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "backend/backend.h"
#include "base/cache.h"
#include "base/error.h"
#include "base/file.h"
#include "base/note.h"
#include "base/progress.h"
#include "base/settings.h"
#include "base/workers.h"
#include "bundle/bundle.h"
#include "driver/build_id.h"
#include "driver/portable.h"
#include "driver/target.h"
#include "driver/tune_job.h"
#include "ir/text.h"
#include "runtime-lite/backend/cpu.h"
#include "search/moves.h"

namespace tg::driver {
namespace {

constexpr size_t kListsPerJob = 16, kNearest = 3, kNearKept = 32;
constexpr f64 kLeastShare = 0.002;  // of the model's time: kernels below are left to the heuristics
constexpr f64 kLeastWin = 0.985;    // of the heuristics' time, timed in turns: a winner takes no more
constexpr size_t kFinalists = 3;

volatile sig_atomic_t interrupted = 0;

// While it lives the first Ctrl-C ends the search, the second the program.
class Interrupt {
 public:
  Interrupt() {
    interrupted = 0;
    struct sigaction a {};
    a.sa_handler = [](int number) {
      if (interrupted) {
        signal(number, SIG_DFL);
        raise(number);
      }
      interrupted = 1;
    };
    sigaction(SIGINT, &a, &before_);
  }
  ~Interrupt() { sigaction(SIGINT, &before_, nullptr); }
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

 private:
  struct sigaction before_;
};

void must_run_here(const Target& t) {
  char room[512];
  std::string have = tgb::cpu_features(room, sizeof room);
  for (const std::string& need : t.needs)
    if (have.find(" " + need + " ") == have.npos)
      fail("BEAM=", settings::BEAM(), ": this machine cannot run kernels for ", target_text(t), ": it has no ", need,
           ". Search on a machine that has it and give its results with --log FILE, or set BEAM=0");
}

MeasuredProgram program_of(const CompiledKernel& k, const std::string& entry) { return {k.object, entry, k.tasks, k.layouts}; }

// The search's view of one kernel.
class KernelTools : public BeamTools {
 public:
  KernelTools(const KernelJob& job, const Target& target, MeasureJob base, f64 base_ns, Workers& compilers, Workers& measurer,
              const SearchClock& clock)
      : job_(job),
        target_(target),
        measure_(std::move(base)),
        base_ns_(base_ns),
        compilers_(compilers),
        measurer_(measurer),
        clock_(clock) {}

  std::vector<std::string> templates() override {
    return in_arena([&](const Kernel& plain) { return tg::templates(plain, action_limits()); });
  }
  std::vector<std::string> moves(const std::string& opts) override {
    Result<std::vector<Opt>> list = parse_opts(opts);
    TG_CHECK(list, list.why());
    return in_arena([&](const Kernel& plain) { return tg::moves(plain, *list, action_limits()); });
  }

  std::vector<Result<Proposal>> propose(const std::vector<std::string>& opts) override {
    std::vector<Result<Proposal>> out;
    std::vector<WorkBytes> jobs;
    auto job_bytes = [&](size_t begin, size_t end) {
      return ProposeJob{job_, {opts.begin() + long(begin), opts.begin() + long(end)}, limited_}.bytes();
    };
    for (size_t i = 0; i < opts.size(); i += kListsPerJob) jobs.push_back(job_bytes(i, std::min(opts.size(), i + kListsPerJob)));
    std::vector<Result<WorkBytes>> answers = compilers_.run(jobs, timeout());
    for (size_t k = 0; k < answers.size(); k++) {
      if (answers[k]) {
        for (Result<Proposal>& p : parse_proposals(*answers[k])) out.push_back(std::move(p));
        continue;
      }
      // One of these lists is at fault: each by itself.
      std::vector<WorkBytes> single;
      for (size_t i = k * kListsPerJob; i < std::min(opts.size(), (k + 1) * kListsPerJob); i++) single.push_back(job_bytes(i, i + 1));
      for (Result<WorkBytes>& a : compilers_.run(single, timeout())) {
        if (a)
          out.push_back(std::move(parse_proposals(*a)[0]));
        else
          out.push_back(Result<Proposal>::no(a.why()));
      }
    }
    limited_ = true;  // the first ones are seeds
    return out;
  }

  std::vector<Result<Built>> build(const std::vector<Proposal>& p) override {
    std::vector<WorkBytes> jobs;
    for (const Proposal& x : p) {
      KernelJob j = job_;
      j.opts = x.opts;
      jobs.push_back(j.bytes());
    }
    std::vector<Result<Built>> out;
    for (Result<WorkBytes>& a : compilers_.run(jobs, timeout())) {
      if (!a) {
        out.push_back(Result<Built>::no(a.why()));
        continue;
      }
      CompiledKernel k = CompiledKernel::parse(*a);
      Hasher h;
      h.raw(k.object.data(), k.object.size());
      h.add(u64(k.tasks));
      for (const Layout& l : k.layouts) h.add(l.str());
      out.push_back(Built{std::move(*a), h.done()});
    }
    return out;
  }

  Result<f64> time(const Proposal& p, const Built& b, f64 best_ns) override {
    Result<Measured> m = measure(b, best_ns, false);
    if (!m) return Result<f64>::no(m.why());
    if (settings::DEBUG() >= 2) {
      clear_progress();
      std::fprintf(stderr, "  %10.2f us, estimate %10.2f us  %s\n", m->ns * 1e-3, p.estimate_ns * 1e-3, p.opts.c_str());
    }
    return m->ns;
  }
  bool enough() override { return interrupted || clock_.over(SearchPart::Kernels); }

  Result<Measured> measure(const Built& b, f64 best_ns, bool compare) {
    CompiledKernel k = CompiledKernel::parse(b.bytes);
    measure_.candidate = program_of(k, job_.entry);
    measure_.best_ns = best_ns, measure_.compare = compare;
    WorkBytes bytes = measure_job_bytes(measure_);
    Result<WorkBytes> a = measurer_.run(std::span(&bytes, 1), 5 + base_ns_ * 1e-9 * (compare ? 1000 : 200))[0];
    if (!a) {
      if (settings::DEBUG() >= 1) {
        clear_progress();
        std::fprintf(stderr, "candidate %s of %s refused: %s\n", k.opts.c_str(), job_.entry.c_str(), a.why().c_str());
      }
      return Result<Measured>::no(a.why());
    }
    return Measured::parse(*a);
  }

 private:
  static f64 timeout() { return f64(settings::BEAM_TIMEOUT_SEC()); }

  template <class F>
  std::vector<std::string> in_arena(F f) {
    Arena arena;
    Arena::Scope scope(arena);
    std::vector<std::string> out;
    for (const std::vector<Opt>& l : f(plain_kernel(job_, target_))) out.push_back(opts_text(l));
    return out;
  }

  const KernelJob& job_;
  const Target& target_;
  MeasureJob measure_;
  f64 base_ns_;
  Workers &compilers_, &measurer_;
  const SearchClock& clock_;
  bool limited_ = false;
};

// What a search of one kernel did: kept in the cache beside its result.
struct Told {
  i64 proposed = 0, compiled = 0, measured = 0;
  std::map<std::string, i64> refused;
};

class Tuner {
 public:
  Tuner(KernelPlan& plan, const Target& target, const TuneSources& sources, const SearchClock& clock)
      : plan_(plan), target_(target), from_(sources), clock_(clock) {}

  Tuned run() {
    for (const KernelJob& j : plan_.jobs) keys_.push_back(kernel_digest(j));
    if (settings::BEAM() > 0 && !from_.required)
      search();
    else
      take();
    return std::move(out_);
  }

 private:
  // --- without search -------------------------------------------------------------------------------------------------------------------
  void take() {
    i64 taken = 0, like = 0;
    for (size_t i = 0; i < plan_.jobs.size(); i++) {
      const LogEntry* e = from_.log.find(keys_[i]);
      auto old = from_.like.find(plan_.jobs[i].entry);
      if (!e && from_.required)
        fail("--log-required: the log has no line for kernel ", plan_.names[i], " (kernel=", keys_[i], ", target=", target_text(target_),
             "); search it with BEAM=4, or leave --log-required away");
      std::string opts = e ? e->opts : old != from_.like.end() ? old->second : "";
      if (!e && old == from_.like.end()) continue;
      if (std::string why = refusal(plan_.jobs[i], opts); !why.empty()) {
        if (from_.required) fail("--log-required: kernel ", plan_.names[i], ": the log's Opts are refused: ", why);
        out_.notes.push_back(
            str("kernel ", plan_.names[i], ": the ", e ? "log's" : "other bundle's", " Opts are refused (", why, "): heuristics instead"));
        continue;
      }
      plan_.jobs[i].opts = opts;
      (e ? taken : like)++;
      if (e) out_.log.add(*e);
    }
    if (taken) out_.notes.push_back(str(taken, " of ", plan_.jobs.size(), " kernels have their Opts from a log"));
    if (like) out_.notes.push_back(str(like, " of ", plan_.jobs.size(), " kernels have their Opts from the other bundle"));
  }
  std::string refusal(const KernelJob& job, const std::string& opts) {
    Arena arena;
    Arena::Scope scope(arena);
    KernelJob j = job;
    j.opts = opts;
    Result<Kernel> k = shape_kernel(j, target_);
    return k ? "" : k.why();
  }

  // --- search ---------------------------------------------------------------------------------------------------------------------------
  struct Kernel_ {
    CompiledKernel base;
    MeasureJob measure;
    f64 base_ns = 0, base_estimate_ns = 0;
    i64 launches = 0;
    Digest near, key;
    std::vector<i64> sizes;
    std::string second;  // the next best list
    bool described = false, cached = false;
    std::string unfit;  // why it cannot be searched
    std::optional<LogEntry> found;
  };

  void search() {
    must_run_here(target_);
    began_ = clock_.spent();
    Interrupt interrupt;
    std::vector<CompiledKernel> compiled = compile_kernels(plan_, target_);
    Workers compilers(std::max<i64>(1, settings::PARALLEL()), {"/proc/self/exe", "worker"});
    Workers measurer(1, {"/proc/self/exe", "worker"}, "measurer");
    std::vector<Kernel_> all(plan_.jobs.size());
    for (const KernelPlan::Use& u : plan_.uses) all[u.job].launches++;
    i64 cached = 0;
    for (size_t i = 0; i < all.size() && !interrupted; i++) {
      all[i].base = std::move(compiled[i]);
      describe(i, all[i]);
      if (!settings::IGNORE_BEAM_CACHE()) cached += from_cache(i, all[i]);
    }
    estimate_bases(all, compilers);
    time_bases(all, measurer);
    f64 total = 0;
    for (Kernel_& k : all) total += cost(k);
    std::vector<size_t> order;
    i64 small = 0, untimed = 0, unfit = 0, searched = 0, improved = 0;
    for (size_t i = 0; i < all.size(); i++) {
      if (all[i].found) continue;
      if (!all[i].unfit.empty()) {
        unfit++;
        out_.notes.push_back(str("search: kernel ", plan_.names[i], " cannot be timed: ", all[i].unfit));
      } else if (all[i].base_ns == 0) {
        untimed++;
      } else if (cost(all[i]) < kLeastShare * total) {
        small++;
      } else {
        order.push_back(i);
      }
    }
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return cost(all[a]) > cost(all[b]); });
    f64 left = 0;
    for (size_t i : order) left += std::sqrt(cost(all[i]));
    f64 whole = left, search_began = clock_.spent();
    {
      Progress progress("search", i64(order.size()));
      for (size_t i : order) {
        if (interrupted || clock_.over(SearchPart::Kernels)) break;
        std::string eta = left < whole ? str(", about ", i64((clock_.spent() - search_began) / (whole - left) * left), " s left") : "";
        f64 before = all[i].base_ns;
        search_one(i, all[i], compilers, measurer);
        left -= std::sqrt(cost(all[i]));
        if (all[i].found) searched++, improved += all[i].found->opts != all[i].base.opts;
        char times[96];
        std::snprintf(times, sizeof times, " %.1f -> %.1f us", before * 1e-3, (all[i].found ? all[i].found->ns : before) * 1e-3);
        progress.step(plan_.names[i] + times + eta);
      }
    }
    f64 was = 0, is = 0;
    for (size_t i = 0; i < all.size(); i++) {
      Kernel_& k = all[i];
      if (!k.described) continue;  // Ctrl-C came early
      LogEntry e = k.found ? *k.found : entry(i, k, k.base.opts, k.base_ns);
      was += f64(k.launches) * e.base_ns, is += f64(k.launches) * e.ns;
      if (!k.found) e.ns = e.base_ns = 0;  // what was not searched has no times in the log: they would make each run's another
      if (e.opts != k.base.opts) plan_.jobs[i].opts = e.opts;
      out_.log.add(e);
      if (searched) {
        if (out_.kernels.empty()) out_.kernels.resize(all.size());
        out_.kernels[i] = {keys_[i], k.base.opts, e.opts, k.second, k.cached ? k.key : Digest{}};
      }
    }
    if (interrupted) out_.kernels.clear();  // the user has no patience for whole models
    summary(all, i64(order.size()) + untimed, searched, improved, cached, small, unfit, was, is);
  }

  // What the cost model says of the heuristics' kernels that are not in the cache.
  void estimate_bases(std::vector<Kernel_>& all, Workers& compilers) {
    std::vector<WorkBytes> jobs;
    std::vector<size_t> of;
    for (size_t i = 0; i < all.size(); i++)
      if (all[i].described && !all[i].found) jobs.push_back(ProposeJob{plan_.jobs[i], {all[i].base.opts}, false}.bytes()), of.push_back(i);
    std::vector<Result<WorkBytes>> answers = compilers.run(jobs, f64(settings::BEAM_TIMEOUT_SEC()));
    for (size_t n = 0; n < of.size(); n++)
      if (answers[n])
        if (Result<Proposal> p = std::move(parse_proposals(*answers[n])[0])) all[of[n]].base_estimate_ns = p->estimate_ns;
  }

  // Times of those, the costliest by estimate first: of a short budget half is left for the search.
  void time_bases(std::vector<Kernel_>& all, Workers& measurer) {
    std::vector<size_t> order;
    for (size_t i = 0; i < all.size(); i++)
      if (all[i].described && !all[i].found) order.push_back(i);
    auto expected = [&](size_t i) { return f64(all[i].launches) * all[i].base_estimate_ns; };
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return expected(a) > expected(b); });
    f64 until = clock_.left(SearchPart::Kernels) / 2;
    Progress progress("time kernels", i64(order.size()));
    for (size_t i : order) {
      if (interrupted || clock_.left(SearchPart::Kernels) <= until) break;
      Kernel_& k = all[i];
      progress.step(plan_.names[i]);
      WorkBytes bytes = measure_job_bytes(k.measure);
      Result<WorkBytes> a = measurer.run(std::span(&bytes, 1), 60)[0];
      if (!a) {
        k.unfit = a.why();
        continue;
      }
      k.base_ns = Measured::parse(*a).ns;
      if (k.base_estimate_ns > 0) ranks_.push_back({k.base_estimate_ns, k.base_ns});
      if (settings::DEBUG() < 2) continue;
      clear_progress();
      std::fprintf(stderr, "kernel %s (%s): %.2f us, estimate %.2f us\n", plan_.names[i].c_str(), plan_.jobs[i].entry.c_str(),
                   k.base_ns * 1e-3, k.base_estimate_ns * 1e-3);
    }
  }

  static f64 cost(const Kernel_& k) { return f64(k.launches) * (k.found ? k.found->base_ns : k.base_ns); }

  void describe(size_t i, Kernel_& k) {
    const KernelJob& job = plan_.jobs[i];
    Arena arena;
    Arena::Scope scope(arena);
    UOp ast = parse(job.ast);
    k.near = near_digest(ast), k.sizes = loop_sizes(ast);
    k.measure.subject = MeasureSubject::of(ast);
    for (size_t s = 0; s < k.measure.subject.slots.size(); s++) k.measure.subject.slots[s].lie_as(job.slots[s]);
    k.measure.base = program_of(k.base, job.entry);
    Hasher h;
    h.add(build_id()).add(compiler_version(target_)).add(settings::code_key()).add(keys_[i]);
    for (i64 v :
         {settings::BEAM(), settings::BEAM_ESTIMATE(), settings::BEAM_UOPS_MAX(), settings::BEAM_UPCAST_MAX(), settings::BEAM_PADTO()})
      h.add(u64(v));
    k.key = h.done();
    k.described = true;
  }

  LogEntry entry(size_t i, const Kernel_& k, const std::string& opts, f64 ns) const {
    LogEntry e;
    e.kernel = keys_[i], e.near = k.near, e.target = target_text(target_), e.name = plan_.names[i], e.sizes = k.sizes;
    e.opts = opts, e.ns = ns, e.base_ns = k.base_ns;
    return e;
  }

  bool from_cache(size_t i, Kernel_& k) {
    auto hit = cache::get("searches", k.key);
    if (!hit) return false;
    SearchLog log = SearchLog::parse({reinterpret_cast<const char*>(hit->data()), hit->size()}, cache::path());
    const LogEntry* e = log.find(keys_[i]);
    if (!e) return false;
    k.found = *e;
    k.found->name = plan_.names[i];
    k.base_ns = e->base_ns;
    k.cached = true;
    return true;
  }

  Digest near_key(const Kernel_& k) const { return Hasher().add("near").add(k.near).add(target_text(target_)).done(); }
  SearchLog near_log(const Kernel_& k) const {
    auto hit = cache::get("searches", near_key(k));
    if (!hit) return {};
    return SearchLog::parse({reinterpret_cast<const char*>(hit->data()), hit->size()}, cache::path());
  }
  static void put_text(const Digest& key, const std::string& text) {
    cache::put("searches", key, {reinterpret_cast<const u8*>(text.data()), text.size()});
  }

  void search_one(size_t i, Kernel_& k, Workers& compilers, Workers& measurer) {
    if (settings::DEBUG() >= 2) {
      clear_progress();
      std::fprintf(stderr, "search %s (%s), %.2f us by the heuristics\n", plan_.names[i].c_str(), plan_.jobs[i].entry.c_str(),
                   k.base_ns * 1e-3);
    }
    KernelTools tools(plan_.jobs[i], target_, k.measure, k.base_ns, compilers, measurer, clock_);
    std::vector<std::string> seeds{k.base.opts};
    SearchLog near = near_log(k);
    if (const LogEntry* e = from_.log.find(keys_[i])) seeds.push_back(e->opts);
    if (auto old = from_.like.find(plan_.jobs[i].entry); old != from_.like.end()) seeds.push_back(old->second);
    if (const LogEntry* e = near.find(keys_[i]); e && !settings::IGNORE_BEAM_CACHE()) seeds.push_back(e->opts);
    for (const SearchLog* log : {&from_.log, const_cast<const SearchLog*>(&near)})
      for (const LogEntry* e : log->nearest(k.near, target_text(target_), k.sizes, kNearest))
        if (e->kernel != keys_[i]) seeds.push_back(e->opts);
    BeamLimits limits;
    limits.width = settings::BEAM();
    limits.measured = settings::BEAM_ESTIMATE() ? std::max<i64>(12, 4 * settings::BEAM()) : 0;
    if (settings::BEAM_ESTIMATE() == 2) limits.sample = true, limits.rounds = 1;
    limits.least_gain_ns = settings::BEAM_MIN_PROGRESS() * 1000;
    BeamResult r = beam(limits, seeds, tools);
    told_.proposed += r.proposed, told_.compiled += r.compiled, told_.measured += r.measured;
    for (auto& [why, n] : r.refused) told_.refused[why] += n;
    pairs_.insert(pairs_.end(), r.ranks.begin(), r.ranks.end());
    if (f64 c = rank_correlation(r.ranks); std::isfinite(c)) correlations_.push_back({f64(r.ranks.size()), c});

    // The heuristics' kernel stays unless another one is faster when both are timed in turns.
    std::string best = k.base.opts;
    f64 best_ns = k.base_ns, best_ratio = kLeastWin;
    size_t tried = 0;
    for (const Candidate& c : r.best) {
      if (c.p.opts == k.base.opts || tried++ == kFinalists) break;
      Result<Measured> m = tools.measure(c.built, 0, true);
      if (!m || !(m->ratio < best_ratio) || m->ns > m->base_ns * kLeastWin) continue;
      best_ratio = m->ratio, best = c.p.opts, best_ns = m->ns, k.base_ns = m->base_ns;
    }
    for (const Candidate& c : r.best)
      if (c.p.opts != best && c.p.opts != k.base.opts && c.ns < best_ns * 1.03) {
        k.second = c.p.opts;
        break;
      }
    LogEntry e = entry(i, k, best, std::min(best_ns, k.base_ns));
    k.found = e;
    SearchLog kept;
    kept.add(e);
    if (!r.stopped) put_text(k.key, kept.text()), k.cached = true;
    remember(k, near, e);
    tell(i, r);
  }

  void remember(const Kernel_& k, SearchLog near, const LogEntry& e) {
    // Another time of the same kernel is replaced, whatever it was: machines differ in mood.
    SearchLog fresh;
    fresh.add(e);
    size_t n = 1;
    for (auto& [key, old] : near.entries())
      if (key != e.kernel && n++ < kNearKept) fresh.add(old);
    put_text(near_key(k), fresh.text());
  }

  // For `explain`.
  void tell(size_t i, const BeamResult& r) {
    std::string text = str(r.proposed, " lists of Opts in ", r.rounds, " rounds, ", r.compiled, " compiled, ", r.measured, " timed\n");
    // Reasons that differ in their numbers alone are one.
    std::map<std::string, i64> kinds;
    for (auto& [reason, n] : r.refused) {
      std::string kind;
      for (char c : reason) {
        if (c < '0' || c > '9')
          kind += c;
        else if (!kind.ends_with('#'))
          kind += '#';
      }
      kinds[reason.starts_with("it ") || reason.starts_with("the ") ? reason : kind] += n;
    }
    std::vector<std::pair<i64, std::string>> why;
    for (auto& [reason, n] : kinds) why.push_back({-n, reason});
    std::sort(why.begin(), why.end());
    for (size_t k = 0; k < std::min<size_t>(why.size(), 8); k++) text += str(-why[k].first, " refused: ", why[k].second, "\n");
    put_text(told_key(keys_[i]), text);
  }

  void summary(const std::vector<Kernel_>& all, i64 open, i64 searched, i64 improved, i64 cached, i64 small, i64 unfit, f64 was, f64 is) {
    f64 took = clock_.spent() - began_;
    char line[512];
    std::snprintf(line, sizeof line,
                  "search: %zu kernels: %lld searched, %lld better than the heuristics, %lld from the cache, %lld too small to matter%s; "
                  "%.3f -> %.3f ms (%+.1f %%), %.1f s",
                  all.size(), (long long)searched, (long long)improved, (long long)cached, (long long)small,
                  unfit ? str(", ", unfit, " cannot be timed").c_str() : "", was * 1e-6, is * 1e-6, was > 0 ? 100 * (is / was - 1) : 0,
                  took);
    out_.notes.push_back(line);
    if (told_.proposed) {
      f64 weight = 0, sum = 0;
      for (auto [n, c] : correlations_) weight += n, sum += n * c;
      std::snprintf(line, sizeof line,
                    "search: %lld candidates (%.0f a second), %lld compiled, %lld timed", (long long)told_.proposed,
                    f64(told_.proposed) / took, (long long)told_.compiled, (long long)told_.measured);
      out_.notes.push_back(line);
      std::snprintf(line, sizeof line,
                    "search: rank correlation of estimate and time: %.2f over the heuristics' kernels (%zu), %.2f over all that was timed (%zu), "
                    "%.2f within a kernel (mean of %zu)",
                    rank_correlation(ranks_), ranks_.size(), rank_correlation(pairs_), pairs_.size(),
                    weight > 0 ? sum / weight : std::nan(""), correlations_.size());
      out_.notes.push_back(line);
      // Refusals of what was compiled: the others are Opts that do not fit.
      std::vector<std::pair<i64, std::string>> why;
      for (auto& [reason, n] : told_.refused)
        if (reason.starts_with("the measurer") || reason.starts_with("it ") || reason.starts_with("the compile worker"))
          why.push_back({-n, reason});
      std::sort(why.begin(), why.end());
      for (size_t k = 0; k < std::min<size_t>(why.size(), 5); k++)
        out_.notes.push_back(str("search: ", -why[k].first, " refused: ", why[k].second));
      if (why.size() > 5) out_.notes.push_back(str("search: and ", why.size() - 5, " more reasons (DEBUG=1 prints each)"));
    }
    if (searched < open)
      out_.notes.push_back(str("search: ", open - searched, " kernels are not searched: ", interrupted ? "Ctrl-C" : "BEAM_BUDGET is spent",
                               "; they have the heuristics' Opts. The next run goes on from here"));
  }

 public:
  static Digest told_key(const Digest& kernel) { return Hasher().add("told").add(kernel).done(); }

 private:
  KernelPlan& plan_;
  const Target& target_;
  const TuneSources& from_;
  const SearchClock& clock_;
  std::vector<Digest> keys_;
  Tuned out_;
  Told told_;
  f64 began_ = 0;
  std::vector<std::pair<f64, f64>> correlations_;  // by kernel: pairs and their rank correlation
  std::vector<std::pair<f64, f64>> ranks_, pairs_;         // estimate and time: of the heuristics' kernels, of every candidate timed
};

}  // namespace

Digest kernel_digest(const KernelJob& job) {
  KernelJob j = job;
  j.entry.clear(), j.opts.reset();
  return digest(std::span<const u8>(j.bytes()));
}

Tuned tune(KernelPlan& plan, const Target& target, const TuneSources& sources, SearchClock& clock) { return Tuner(plan, target, sources, clock).run(); }

void replace_found(Tuned* t, size_t j, const std::string& opts) {
  Tuned::Kernel& k = t->kernels[j];
  SearchLog log;
  for (auto& [key, e] : t->log.entries()) {
    LogEntry n = e;
    if (key == k.kernel) {
      n.opts = opts;
      if (opts == k.base) n.ns = n.base_ns;
      if (k.cached != Digest{}) {
        std::string text = n.line() + "\n";
        cache::put("searches", k.cached, {reinterpret_cast<const u8*>(text.data()), text.size()});
      }
    }
    log.add(n);
  }
  t->log = std::move(log);
  k.found = opts;
}

std::string told(const Digest& kernel) {
  auto hit = cache::get("searches", Tuner::told_key(kernel));
  return hit ? std::string(hit->begin(), hit->end()) : "";
}

void add_log_file(const std::string& path, TuneSources* to) {
  MappedFile file(path);
  SearchLog log = SearchLog::parse({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, path);
  for (auto& [key, e] : log.entries()) to->log.add(e);
}

void add_like(const std::string& path, TuneSources* to) {
  bundle::Loaded b = bundle::read_bundle(path);
  if (!b.desc.portable) fail("--like ", path, ": was compiled with --strip: its kernels' Opts are not in it");
  SearchLog log = SearchLog::parse(b.desc.provenance.log, path + ": its search log");
  for (auto& [key, e] : log.entries())
    if (e.name == kChoiceName) to->like_choices.add(e);
  for (const bundle::TargetKernels& t : b.desc.portable->kernels)
    for (const ShapedKernel& k : read_kernels(t.bytes)) to->like[k.entry] = k.opts;
}

}  // namespace tg::driver
