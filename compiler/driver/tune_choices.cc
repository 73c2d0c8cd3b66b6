#include "driver/tune_choices.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>

#include "base/cache.h"
#include "base/progress.h"
#include "base/settings.h"
#include "driver/target.h"
#include "driver/tune_whole.h"

namespace tg::driver {
namespace {

constexpr f64 kSeconds = 2;       // that two ways are run in turns
constexpr f64 kWorthTrying = 1.5; // cycles of an alternative over those of the picked one, by the cost model, above which it is not timed
constexpr f64 kLeastWin = 0.995;

struct Question {
  Digest key;
  std::vector<size_t> choices;  // with one label
  f64 cycles = 0;               // of all, as picked
};

class Settler {
 public:
  Settler(const Graph& g, const Target& t, std::vector<Choice>* choices) : g_(g), t_(t), choices_(*choices) {}

  void run(const TuneSources& from, SearchLog* log, std::vector<std::string>* notes) {
    i64 asked = 0, changed = 0, open = 0;
    auto began = std::chrono::steady_clock::now();
    std::vector<Question> left;
    for (Question& q : questions()) {
      const LogEntry* e = from.log.find(q.key);
      std::optional<SearchLog> cached;
      if (!e && settings::BEAM() > 0 && !settings::IGNORE_BEAM_CACHE()) {
        cached = remembered(q.key);
        if (cached) e = cached->find(q.key);
      }
      if (e && pick(q, e->opts)) log->add(*e);
      else if (settings::BEAM() > 0) left.push_back(std::move(q));
    }
    if (left.empty() || weight_bytes(g_) > kMostTimedWeights) return;
    std::stable_sort(left.begin(), left.end(), [](const Question& a, const Question& b) { return a.cycles > b.cycles; });
    Progress progress("time the choices", i64(left.size()));
    Context quiet{{settings::DEBUG, std::min<i64>(settings::DEBUG(), 1)}};
    for (Question& q : left) {
      progress.step(choices_[q.choices[0]].label);
      f64 spent = std::chrono::duration<f64>(std::chrono::steady_clock::now() - began).count();
      if (settings::BEAM_BUDGET() > 0 && spent > settings::BEAM_BUDGET() / 3) {
        open++;
        continue;
      }
      u32 before = choices_[q.choices[0]].picked;
      LogEntry e;
      if (!answer(q, &e, notes)) return;
      asked++, changed += choices_[q.choices[0]].picked != before;
      log->add(e);
      std::string text = e.line() + "\n";
      cache::put("searches", q.key, {reinterpret_cast<const u8*>(text.data()), text.size()});
    }
    notes->push_back(str("search: ", asked, " choices timed in the whole model, ", changed, " picked other than by the cost model",
                         open ? str("; ", open, " not timed: a third of BEAM_BUDGET is spent") : ""));
  }

 private:
  std::vector<Question> questions() {
    std::vector<Question> all;
    for (size_t i = 0; i < choices_.size(); i++) {
      const Choice& c = choices_[i];
      if (c.alternatives.size() < 2) continue;
      Hasher h;
      h.add("choice").add(c.label).add(target_text(t_)).add(settings::code_key());
      for (const Alternative& a : c.alternatives) h.add(a.name);
      Digest key = h.done();
      auto it = std::find_if(all.begin(), all.end(), [&](const Question& q) { return q.key == key; });
      if (it == all.end()) it = all.insert(all.end(), {key, {}, 0});
      it->choices.push_back(i);
      it->cycles += c.alternatives[c.picked].cycles;
    }
    return all;
  }

  static std::optional<SearchLog> remembered(const Digest& key) {
    auto hit = cache::get("searches", key);
    if (!hit) return {};
    return SearchLog::parse({reinterpret_cast<const char*>(hit->data()), hit->size()}, "the cache");
  }

  bool pick(const Question& q, const std::string& name) {
    const std::vector<Alternative>& a = choices_[q.choices[0]].alternatives;
    auto it = std::find_if(a.begin(), a.end(), [&](const Alternative& x) { return x.name == name; });
    if (it == a.end()) return false;
    for (size_t i : q.choices) choices_[i].picked = u32(it - a.begin());
    return true;
  }

  // Each alternative that the cost model does not rule out, against the best so far. False: the model cannot be timed.
  bool answer(const Question& q, LogEntry* e, std::vector<std::string>* notes) {
    const Choice& c = choices_[q.choices[0]];
    u32 first = c.picked, best = first;
    e->kernel = e->near = q.key, e->target = target_text(t_), e->name = kChoiceName;
    for (u32 a = 0; a < c.alternatives.size(); a++) {
      if (a == first || c.alternatives[a].cycles > kWorthTrying * c.alternatives[first].cycles) continue;
      Graph graphs[2];
      Schedule schedules[2];
      std::vector<Timed> models;
      for (u32 side = 0; side < 2; side++) {
        for (size_t i : q.choices) choices_[i].picked = side ? a : best;
        graphs[side] = with_choices(g_, t_, choices_);
        schedules[side] = schedule(graphs[side], t_);
        models.push_back({&graphs[side], &schedules[side], plan_kernels(schedules[side], t_)});
      }
      std::string why;
      std::vector<WholeTimes> t = time_models(models, t_, kSeconds, &why);
      for (size_t i : q.choices) choices_[i].picked = best;
      if (t.size() != 2) {
        notes->push_back(str("search: choices are left to the cost model: ", why));
        return false;
      }
      if (e->base_ns == 0) e->base_ns = e->ns = t[0].ns;
      if (t[1].ns >= kLeastWin * t[0].ns) continue;
      e->ns = t[1].ns, best = a;
      for (size_t i : q.choices) choices_[i].picked = best;
    }
    e->opts = c.alternatives[best].name;
    return true;
  }

  const Graph& g_;
  const Target& t_;
  std::vector<Choice>& choices_;
};

}  // namespace

void settle_choices(const Graph& g, const Target& target, const TuneSources& from, std::vector<Choice>* choices, SearchLog* log,
                    std::vector<std::string>* notes) {
  Settler(g, target, choices).run(from, log, notes);
}

}  // namespace tg::driver
