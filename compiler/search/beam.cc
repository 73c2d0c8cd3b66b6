#include "search/beam.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace tg {
namespace {

constexpr f64 kNear = 1.25;
constexpr size_t kProposed = 512;  // at once: between them the clock is looked at

class Search {
 public:
  Search(const BeamLimits& limits, BeamTools& tools) : l_(limits), t_(tools) {}

  BeamResult run(const std::vector<std::string>& seeds) {
    add(measure(ranked(fresh(seeds), 0)));
    std::set<std::string> expanded;
    for (; r_.rounds < l_.rounds && !stop(); r_.rounds++) {
      std::vector<std::string> next;
      if (r_.rounds == 0) next = t_.templates();
      for (const Candidate& c : r_.best)
        if (expanded.insert(c.p.opts).second)
          for (std::string& m : t_.moves(c.p.opts)) next.push_back(std::move(m));
      next = fresh(next);
      if (l_.sample) next = drawn(std::move(next));
      if (next.empty()) break;
      f64 before = r_.best.empty() ? std::numeric_limits<f64>::infinity() : r_.best[0].ns;
      add(measure(ranked(next, l_.measured)));
      if (r_.best.empty()) break;
      f64 gain = before - r_.best[0].ns;
      if (std::isfinite(before) && (gain < l_.least_gain * before || gain < l_.least_gain_ns)) {
        r_.rounds++;
        break;
      }
    }
    return std::move(r_);
  }

 private:
  bool stop() { return r_.stopped |= t_.enough(); }

  std::vector<std::string> fresh(const std::vector<std::string>& all) {
    std::vector<std::string> out;
    for (const std::string& s : all)
      if (texts_.insert(s).second) out.push_back(s);
    return out;
  }

  // Without regard to what it is: times of these say how good the estimate is from the best to the worst.
  std::vector<std::string> drawn(std::vector<std::string> all) const {
    std::vector<std::pair<u64, std::string>> keyed;
    for (std::string& s : all) keyed.push_back({digest(std::string_view(s)).lo, std::move(s)});
    std::sort(keyed.begin(), keyed.end());
    all.clear();
    // Some are refused, some are one kernel.
    for (size_t i = 0; i < std::min(keyed.size(), size_t(4 * l_.measured)); i++) all.push_back(std::move(keyed[i].second));
    return all;
  }

  // New kernels by estimate, the `most` first ones; 0: all, in their order.
  std::vector<Proposal> ranked(const std::vector<std::string>& texts, i64 most) {
    std::vector<Proposal> out;
    for (size_t begin = 0; begin < texts.size() && !stop(); begin += kProposed) {
      std::vector<Result<Proposal>> some =
          t_.propose({texts.begin() + long(begin), texts.begin() + long(std::min(texts.size(), begin + kProposed))});
      r_.proposed += i64(some.size());
      for (Result<Proposal>& p : some) {
        if (!p)
          r_.refused[p.why()]++;
        else if (shapes_.insert(p->shape).second)
          texts_.insert(p->opts), out.push_back(std::move(*p));
      }
    }
    if (most == 0) return out;
    if (l_.sample) {
      if (i64(out.size()) > most) out.resize(size_t(most));
      return out;
    }
    // What earlier rounds had no room for is still to be had, behind new ones of the same estimate.
    for (Proposal& p : passed_over_) out.push_back(std::move(p));
    passed_over_.clear();
    std::stable_sort(out.begin(), out.end(), [](const Proposal& a, const Proposal& b) { return a.estimate_ns < b.estimate_ns; });
    if (i64(out.size()) <= most) return out;
    // Half are the first ones; the others are spread over all whose estimates are so near that it cannot tell.
    i64 near = 0, first = (most + 1) / 2, others = most - first;
    while (near < i64(out.size()) && out[size_t(near)].estimate_ns <= kNear * out[0].estimate_ns) near++;
    near = std::max(near, most);
    std::vector<Proposal> picked;
    i64 taken = 0;
    for (i64 i = 0; i < i64(out.size()); i++) {
      bool pick = i < first || (taken < others && i == first + taken * (near - first) / others);
      if (i >= first && pick) taken++;
      (pick ? picked : passed_over_).push_back(std::move(out[size_t(i)]));
    }
    return picked;
  }

  std::vector<Candidate> measure(const std::vector<Proposal>& proposals) {
    std::vector<Candidate> out;
    if (proposals.empty() || stop()) return out;
    std::vector<Result<Built>> built = t_.build(proposals);
    f64 best = r_.best.empty() ? 0 : r_.best[0].ns;
    for (size_t i = 0; i < proposals.size(); i++) {
      r_.compiled++;
      if (!built[i]) {
        r_.refused[built[i].why()]++;
        continue;
      }
      if (!codes_.insert(built[i]->code).second) {
        r_.refused["its machine code is another candidate's"]++;
        continue;
      }
      if (stop()) break;
      Result<f64> ns = t_.time(proposals[i], *built[i], best);
      if (!ns) {
        r_.refused[ns.why()]++;
        continue;
      }
      r_.measured++;
      r_.ranks.push_back({proposals[i].estimate_ns, *ns});
      if (best == 0 || *ns < best) best = *ns;
      out.push_back({proposals[i], std::move(*built[i]), *ns});
    }
    return out;
  }

  void add(std::vector<Candidate> found) {
    for (Candidate& c : found) r_.best.push_back(std::move(c));
    std::stable_sort(r_.best.begin(), r_.best.end(), [](const Candidate& a, const Candidate& b) { return a.ns < b.ns; });
    if (i64(r_.best.size()) > l_.width) r_.best.resize(size_t(l_.width));
  }

  BeamLimits l_;
  BeamTools& t_;
  BeamResult r_;
  std::set<std::string> texts_;
  std::vector<Proposal> passed_over_;
  std::set<Digest> shapes_, codes_;
};

std::vector<f64> ranks_of(const std::vector<f64>& v) {
  std::vector<size_t> order(v.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return v[a] < v[b]; });
  std::vector<f64> rank(v.size());
  for (size_t i = 0; i < order.size();) {
    size_t j = i;
    while (j < order.size() && v[order[j]] == v[order[i]]) j++;
    for (size_t k = i; k < j; k++) rank[order[k]] = f64(i + j - 1) / 2;
    i = j;
  }
  return rank;
}

}  // namespace

BeamResult beam(const BeamLimits& limits, const std::vector<std::string>& seeds, BeamTools& tools) {
  return Search(limits, tools).run(seeds);
}

f64 rank_correlation(const std::vector<std::pair<f64, f64>>& pairs) {
  if (pairs.size() < 3) return std::nan("");
  std::vector<f64> x, y;
  for (auto [a, b] : pairs) x.push_back(a), y.push_back(b);
  std::vector<f64> rx = ranks_of(x), ry = ranks_of(y);
  f64 mean = f64(pairs.size() - 1) / 2, xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < rx.size(); i++)
    xy += (rx[i] - mean) * (ry[i] - mean), xx += (rx[i] - mean) * (rx[i] - mean), yy += (ry[i] - mean) * (ry[i] - mean);
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : std::nan("");
}

}  // namespace tg
