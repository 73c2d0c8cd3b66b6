#include "driver/tune_choices.h"

#include <algorithm>
#include <cstdio>
#include <functional>
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
  std::string label;
  const std::vector<Alternative>* alternatives;
  u32 picked;
  f64 cycles;                      // at stake
  std::function<void(u32)> pick;
};

using Make = std::function<void(Graph*, Schedule*)>;  // the model as everything is picked now

Digest key_of(const Target& t, const std::string& label, const std::vector<Alternative>& alternatives) {
  Hasher h;
  h.add("choice").add(label).add(target_text(t)).add(settings::code_key());
  for (const Alternative& a : alternatives) h.add(a.name);
  return h.done();
}

class Settler {
 public:
  Settler(const Target& t, const char* what, SearchClock& clock, SearchPart part, Make make)
      : t_(t), what_(what), clock_(clock), part_(part), make_(std::move(make)) {}

  void run(std::vector<Question> questions, const TuneSources& from, SearchLog* log, const Graph& g, std::vector<std::string>* notes) {
    i64 asked = 0, changed = 0, open = 0;
    std::vector<Question> left;
    for (Question& q : questions) {
      const LogEntry* e = from.log.find(q.key);
      if (!e) e = from.like_choices.find(q.key);
      std::optional<SearchLog> cached;
      if (!e && settings::BEAM() > 0 && !settings::IGNORE_BEAM_CACHE()) {
        cached = remembered(q.key);
        if (cached) e = cached->find(q.key);
      }
      if (e && pick(q, e->opts)) log->add(*e);
      else if (settings::BEAM() > 0 && !from.required && any_close(q)) left.push_back(std::move(q));
      else if (settings::BEAM() > 0) log->add(entry(q));  // so that the log says what it was
    }
    if (left.empty() || weight_bytes(g) > kMostTimedWeights) return;
    std::stable_sort(left.begin(), left.end(), [](const Question& a, const Question& b) { return a.cycles > b.cycles; });
    Progress progress(str("time the ", what_), i64(left.size()));
    Context quiet{{settings::DEBUG, std::min<i64>(settings::DEBUG(), 1)}};
    for (Question& q : left) {
      progress.step(q.label);
      if (clock_.models_seconds(clock_.run_seconds(part_, kSeconds)) > clock_.left(part_)) {
        open++, log->add(entry(q));
        continue;
      }
      u32 before = q.picked;
      LogEntry e = entry(q);
      if (!answer(q, &e, notes)) return;
      asked++, changed += q.picked != before;
      if (settings::DEBUG() >= 1) {
        clear_progress();
        std::fprintf(stderr, "%s: %s; %.3f ms, %.3f ms with what the cost model picks\n", q.label.c_str(), e.opts.c_str(), e.ns * 1e-6, e.base_ns * 1e-6);
      }
      log->add(e);
      std::string text = e.line() + "\n";
      cache::put("searches", q.key, {reinterpret_cast<const u8*>(text.data()), text.size()});
    }
    notes->push_back(str("search: ", asked, " ", what_, " timed in the whole model, ", changed, " picked other than by the cost model",
                         open ? str("; ", open, " not timed: their share of BEAM_BUDGET is spent") : ""));
  }

 private:
  LogEntry entry(const Question& q) const {
    LogEntry e;
    e.kernel = e.near = q.key, e.target = target_text(t_), e.name = kChoiceName, e.opts = (*q.alternatives)[q.picked].name;
    return e;
  }
  static bool close(const Question& q, u32 a) {
    return a != q.picked && (*q.alternatives)[a].cycles <= kWorthTrying * (*q.alternatives)[q.picked].cycles;
  }
  static bool any_close(const Question& q) {
    for (u32 a = 0; a < q.alternatives->size(); a++)
      if (close(q, a)) return true;
    return false;
  }

  static std::optional<SearchLog> remembered(const Digest& key) {
    auto hit = cache::get("searches", key);
    if (!hit) return {};
    return SearchLog::parse({reinterpret_cast<const char*>(hit->data()), hit->size()}, "the cache");
  }

  static bool pick(Question& q, const std::string& name) {
    const std::vector<Alternative>& a = *q.alternatives;
    auto it = std::find_if(a.begin(), a.end(), [&](const Alternative& x) { return x.name == name; });
    if (it == a.end()) return false;
    q.pick(q.picked = u32(it - a.begin()));
    return true;
  }

  // Each alternative that the cost model does not rule out, against the best so far. False: the model cannot be timed.
  bool answer(Question& q, LogEntry* e, std::vector<std::string>* notes) {
    const std::vector<Alternative>& all = *q.alternatives;
    u32 first = q.picked, best = first;
    for (u32 a = 0; a < all.size(); a++) {
      q.picked = first;
      if (!close(q, a)) continue;
      Graph graphs[2];
      Schedule schedules[2];
      std::vector<Timed> models;
      for (u32 side = 0; side < 2; side++) {
        q.pick(side ? a : best);
        make_(&graphs[side], &schedules[side]);
        models.push_back({&graphs[side], &schedules[side], plan_kernels(schedules[side], t_)});
      }
      std::string why;
      std::vector<WholeTimes> t = time_models(models, t_, clock_, part_, kSeconds, &why);
      q.pick(best);
      if (t.size() != 2) {
        notes->push_back(str("search: ", what_, " are left to the cost model: ", why));
        return false;
      }
      if (e->base_ns == 0) e->base_ns = e->ns = t[0].ns;
      if (t[1].ns >= kLeastWin * t[0].ns) continue;
      e->ns = t[1].ns, best = a;
      q.pick(best);
    }
    q.picked = best;
    e->opts = all[best].name;
    return true;
  }

  const Target& t_;
  const char* what_;
  SearchClock& clock_;
  SearchPart part_;
  Make make_;
};

}  // namespace

void settle_choices(const Graph& g, const Target& target, const TuneSources& from, SearchClock& clock, std::vector<Choice>* choices,
                    SearchLog* log, std::vector<std::string>* notes) {
  std::vector<Question> all;
  std::vector<std::vector<size_t>> members;  // by question: choices with one label
  for (size_t i = 0; i < choices->size(); i++) {
    const Choice& c = (*choices)[i];
    if (c.alternatives.size() < 2) continue;
    Digest key = key_of(target, c.label, c.alternatives);
    size_t q = 0;
    while (q < all.size() && all[q].key != key) q++;
    if (q == all.size()) all.push_back({key, c.label, &c.alternatives, c.picked, 0, {}}), members.emplace_back();
    members[q].push_back(i);
    all[q].cycles += c.alternatives[c.picked].cycles;
  }
  for (size_t q = 0; q < all.size(); q++)
    all[q].pick = [choices, list = members[q]](u32 a) {
      for (size_t i : list) (*choices)[i].picked = a;
    };
  Settler(target, "choices", clock, SearchPart::Choices, [&](Graph* graph, Schedule* s) {
    *graph = with_choices(g, target, *choices, settings::DERIVE() != 0);
    *s = schedule(*graph, target);
  }).run(std::move(all), from, log, g, notes);
}

std::vector<LayoutPick> settle_layouts(const Graph& chosen, const Target& target, const TuneSources& from, SearchClock& clock,
                                       SearchLog* log, std::vector<std::string>* notes) {
  auto has_choices = [](const SearchLog& l) {
    return std::any_of(l.entries().begin(), l.entries().end(), [](const auto& e) { return e.second.name == kChoiceName; });
  };
  if (settings::BEAM() == 0 && !has_choices(from.log) && !has_choices(from.like_choices)) return {};
  std::vector<LayoutQuestion> close = close_layouts(chosen, target);
  std::vector<u32> picked(close.size());
  auto picks = [&] {
    std::vector<LayoutPick> out;
    for (size_t i = 0; i < close.size(); i++) {
      if (picked[i] == 0) continue;  // as chosen anyway
      for (u32 b : close[i].buffers) {
        out.push_back(close[i].picks[picked[i]]);
        out.back().buffer = b;
      }
    }
    return out;
  };
  std::vector<Question> all;
  for (size_t i = 0; i < close.size(); i++) {
    const LayoutQuestion& q = close[i];
    Digest key = Hasher().add(key_of(target, q.label, q.alternatives)).add(q.key).done();
    all.push_back({key, q.label, &q.alternatives, 0, q.alternatives[0].cycles * f64(q.buffers.size()), [&picked, i](u32 a) { picked[i] = a; }});
  }
  Settler(target, "layouts", clock, SearchPart::Layouts, [&](Graph* graph, Schedule* s) {
    *graph = chosen;
    *s = schedule(chosen, target, picks());
  }).run(std::move(all), from, log, chosen, notes);
  return picks();
}

}  // namespace tg::driver
