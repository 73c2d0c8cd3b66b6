#include "driver/tune_whole.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "base/progress.h"
#include "base/settings.h"
#include "bundle/bundle.h"
#include "driver/capture.h"
#include "driver/tune_job.h"
#include "target/bytes.h"
#include "tgb.h"

namespace tg::driver {
namespace {

constexpr f64 kLeastWin = 0.995;
constexpr int kLeastTurns = 5, kMostTurns = 60;

class Folder {
 public:
  Folder() {
    const char* tmp = getenv("TMPDIR");
    path_ = str(tmp && *tmp ? tmp : "/tmp", "/tgaot-search-XXXXXX");
    if (!mkdtemp(path_.data()))
      fail("no temporary folder ", path_, " can be made: ", strerror(errno), "; set TMPDIR to one that can be written");
  }
  ~Folder() {
    for (const std::string& f : files_) unlink(f.c_str());
    rmdir(path_.c_str());
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string file(const std::string& name) {
    files_.push_back(path_ + "/" + name);
    return files_.back();
  }

 private:
  std::string path_;
  std::vector<std::string> files_;
};

// --- the child --------------------------------------------------------------------------------------------------------------------------
class Model {
 public:
  explicit Model(const std::string& path) {
    tgb_options o{};
    o.size = sizeof o, o.device = "CPU", o.threads = 1, o.jit = TGB_JIT_BATCH;
    if (tgb_open_file(path.c_str(), &o, &m_) != TGB_OK) fail("the whole model cannot be timed: ", std::string(tgb_message(nullptr)));
    for (u32 i = 0; i < tgb_input_count(m_); i++) in_.push_back(tensor(i, true));
    for (u32 i = 0; i < tgb_output_count(m_); i++) out_.push_back(tensor(i, false));
    tgb_profile(
        m_, [](void* self, const tgb_event* e) { static_cast<Model*>(self)->now_.push_back(f64(e->end_ns - e->start_ns)); }, this);
  }
  ~Model() { tgb_close(m_); }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  void run(bool keep) {
    now_.clear();
    timespec a, b;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
    if (tgb_run(m_, in_.data(), u32(in_.size()), out_.data(), u32(out_.size())) != TGB_OK)
      fail("the whole model cannot be timed: ", std::string(tgb_message(m_)));
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
    if (!keep) return;
    totals_.push_back(f64(b.tv_sec - a.tv_sec) * 1e9 + f64(b.tv_nsec - a.tv_nsec));
    steps_.resize(now_.size());
    for (size_t i = 0; i < now_.size(); i++) steps_[i].push_back(now_[i]);
  }
  WholeTimes times() {
    WholeTimes t;
    t.ns = low(totals_);
    for (std::vector<f64>& s : steps_) t.steps.push_back(low(s));
    return t;
  }

 private:
  // The lower quartile: what else the machine does only adds.
  static f64 low(std::vector<f64> v) {
    std::sort(v.begin(), v.end());
    return v.empty() ? 0 : v[v.size() / 4];
  }
  tgb_tensor tensor(u32 i, bool input) {
    tgb_signature s{};
    s.size = sizeof s;
    tgb_status status = input ? tgb_input(m_, i, &s) : tgb_output(m_, i, &s);
    if (status != TGB_OK) fail("the whole model cannot be timed: ", std::string(tgb_message(m_)));
    i64 n = 1;
    for (u32 d = 0; d < s.rank; d++) n *= s.dims[d];
    data_.emplace_back((size_t(n) * tgb_dtype_bits(s.dtype) + 7) / 8);
    std::vector<u8>& b = data_.back();
    if (input && s.dtype == TGB_F32)
      for (i64 k = 0; k < n; k++) {
        f32 v = f32((u32(k) * 2654435761u) >> 8) / f32(1 << 23) - 1;
        memcpy(&b[size_t(k) * 4], &v, 4);
      }
    tgb_tensor t{};
    t.size = sizeof t, t.dtype = s.dtype, t.data = b.data(), t.bytes = b.size();
    t.rank = s.rank, t.dims = s.dims;  // the largest
    return t;
  }

  tgb_model* m_ = nullptr;
  std::vector<tgb_tensor> in_, out_;
  std::vector<std::vector<u8>> data_;
  std::vector<f64> now_, totals_;
  std::vector<std::vector<f64>> steps_;
};

}  // namespace

Result<WorkBytes> time_whole(std::span<const u8> job) {
  Reader r{job, "a job"};
  f64 seconds = f64(r.num()) * 1e-3;
  std::vector<std::unique_ptr<Model>> models;
  for (size_t n = r.count(); n > 0; n--) models.push_back(std::make_unique<Model>(r.text()));
  for (auto& m : models) m->run(false);
  timespec a, b;
  clock_gettime(CLOCK_MONOTONIC, &a);
  for (int turn = 0; turn < kMostTurns; turn++) {
    for (size_t i = 0; i < models.size(); i++) models[(i + size_t(turn)) % models.size()]->run(true);
    clock_gettime(CLOCK_MONOTONIC, &b);
    if (turn + 1 >= kLeastTurns && f64(b.tv_sec - a.tv_sec) + f64(b.tv_nsec - a.tv_nsec) * 1e-9 > seconds) break;
  }
  Writer w;
  w.num(i64(models.size()));
  for (auto& m : models) {
    WholeTimes t = m->times();
    w.num(i64(t.ns)), w.num(i64(t.steps.size()));
    for (f64 s : t.steps) w.num(i64(s));
  }
  return std::move(w.out);
}

std::vector<WholeTimes> parse_whole(std::span<const u8> bytes) {
  Reader r{bytes, "times of the whole model"};
  std::vector<WholeTimes> all(r.count());
  for (WholeTimes& t : all) {
    t.ns = f64(r.num());
    t.steps.resize(r.count());
    for (f64& s : t.steps) s = f64(r.num());
  }
  return all;
}

// --- the parent -------------------------------------------------------------------------------------------------------------------------
i64 weight_bytes(const Graph& g) {
  i64 n = 0;
  for (const ConstantData& c : g.constants) n += i64(c.bytes.size());
  return n;
}

std::vector<WholeTimes> time_models(std::span<const Timed> models, const Target& target, SearchClock& clock, SearchPart part, f64 seconds,
                                    std::string* why) {
  f64 began = clock.spent();
  seconds = clock.run_seconds(part, seconds);
  Folder folder;
  std::vector<std::string> files;
  for (const Timed& m : models) {
    std::vector<CompiledKernel> compiled = compile_kernels(m.plan, target);
    std::vector<u32> constant_of;
    files.push_back(folder.file(str(files.size(), ".tgb")));
    bundle::write_bundle(capture(*m.graph, *m.schedule, m.plan, compiled, target, &constant_of), files.back());
  }
  Workers measurer(1, {"/proc/self/exe", "worker"}, "measurer");
  WorkBytes job = whole_job_bytes(files, seconds);
  Result<WorkBytes> a = measurer.run(std::span(&job, 1), 600)[0];
  clock.timed_models(clock.spent() - began, seconds);
  if (!a) {
    *why = a.why();
    return {};
  }
  return parse_whole(*a);
}

namespace {

constexpr f64 kSeconds = 6;

class Whole {
 public:
  Whole(const Graph& g, const Schedule& s, KernelPlan& plan, const Target& t, SearchClock& clock, Tuned* tuned)
      : g_(g), s_(s), plan_(plan), t_(t), clock_(clock), tuned_(tuned) {}

  void run() {
    std::vector<Tuned::Kernel>& ks = tuned_->kernels;
    std::vector<std::string> base, found, second;
    bool differs = false, others = false;
    for (Tuned::Kernel& k : ks) {
      base.push_back(k.base), found.push_back(k.found), second.push_back(k.second.empty() ? k.found : k.second);
      differs |= k.found != k.base, others |= second.back() != k.found;
    }
    if (!differs || weight_bytes(g_) > kMostTimedWeights) return;
    std::vector<std::vector<std::string>> all{base, found};
    if (others) all.push_back(second);
    Progress progress("time the model", 2);
    std::vector<WholeTimes> t = time(all);
    if (t.empty()) return;
    progress.step("kernels");

    // By job: what is fastest between its neighbours.
    std::vector<std::string> picked = found;
    i64 back = 0, swapped = 0;
    for (size_t j = 0; j < ks.size(); j++) {
      f64 b = of_job(t[0], j), f = of_job(t[1], j), s = t.size() > 2 ? of_job(t[2], j) : f;
      if (second[j] != found[j] && s < f * kLeastWin && s < b * kLeastWin)
        picked[j] = second[j], swapped++;
      else if (found[j] != base[j] && f > b * kLeastWin)
        picked[j] = base[j], back++;
    }
    f64 before = t[0].ns, after = t[1].ns;
    if (back || swapped) {
      t = time({base, picked});
      if (t.empty()) return;
      before = t[0].ns, after = t[1].ns;
    }
    bool none = after > before;
    if (none) picked = base;
    progress.step("whole");
    for (size_t j = 0; j < ks.size(); j++) {
      if (picked[j] == found[j]) continue;
      plan_.jobs[j].opts = picked[j];
      if (picked[j] == base[j]) plan_.jobs[j].opts.reset();
      replace_found(tuned_, j, picked[j]);
    }
    char line[256];
    std::snprintf(line, sizeof line,
                  "search: the whole model, in turns: %.3f ms by the heuristics, %.3f ms as found (%+.1f %%); %lld kernels went back to "
                  "the heuristics, %lld to the runner-up%s",
                  before * 1e-6, after * 1e-6, before > 0 ? 100 * (after / before - 1) : 0, (long long)back, (long long)swapped,
                  none ? "; since that is no gain, the heuristics' kernels stay" : "");
    tuned_->notes.push_back(line);
  }

 private:
  f64 of_job(const WholeTimes& t, size_t job) const {
    f64 ns = 0;
    for (size_t i = 0; i < plan_.uses.size(); i++)
      if (plan_.uses[i].job == job) ns += t.steps[i];
    return ns;
  }
  // Empty if the model cannot be timed, with a note that says why.
  std::vector<WholeTimes> time(const std::vector<std::vector<std::string>>& lists) {
    std::vector<Timed> models;
    for (const std::vector<std::string>& opts : lists) {
      models.push_back({&g_, &s_, plan_});
      for (size_t j = 0; j < opts.size(); j++) models.back().plan.jobs[j].opts = opts[j];
    }
    std::string why;
    std::vector<WholeTimes> t = time_models(models, t_, clock_, SearchPart::Whole, kSeconds, &why);
    if (!why.empty()) tuned_->notes.push_back(str("search: ", why));
    for (const WholeTimes& x : t)
      if (x.steps.size() != plan_.uses.size()) return {};  // repeated or left out launches: kernels cannot be told apart
    return t;
  }

  const Graph& g_;
  const Schedule& s_;
  KernelPlan& plan_;
  const Target& t_;
  SearchClock& clock_;
  Tuned* tuned_;
};

}  // namespace

void settle_whole(const Graph& g, const Schedule& s, KernelPlan& plan, const Target& target, SearchClock& clock, Tuned* tuned) {
  if (tuned->kernels.empty()) return;
  // Texts of DEBUG are for the kernels of the bundle.
  Context quiet{{settings::DEBUG, std::min<i64>(settings::DEBUG(), 1)}};
  Whole(g, s, plan, target, clock, tuned).run();
}

}  // namespace tg::driver
