// The search's logic, with kernels that are numbers and times that are a formula: nothing is compiled and no clock is read.
#include "search/beam.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>

using namespace tg;

namespace {

// A list of Opts is a text of letters; it may grow by one letter or lose the last. The kernel is the set of its letters: their order does
// not matter, so many lists are one kernel.
class Fake : public BeamTools {
 public:
  std::function<f64(const std::string&)> ns = [](const std::string& s) { return 1000.0 - 100.0 * f64(s.size()); };
  std::function<f64(const std::string&)> guess;         // none: as ns
  std::function<std::string(const std::string&)> code;  // none: another for each kernel
  std::set<std::string> illegal, crashing;
  std::vector<std::string> start, timed, built;
  i64 most_timed = 1000;

  std::vector<std::string> templates() override { return start; }
  std::vector<std::string> moves(const std::string& s) override {
    std::vector<std::string> out;
    if (s.size() < 4)
      for (char c : {'a', 'b', 'c', 'd'})
        if (s.find(c) == s.npos) out.push_back(s + c);
    if (!s.empty()) out.push_back(s.substr(0, s.size() - 1));
    return out;
  }
  static std::string sorted(std::string s) {
    std::sort(s.begin(), s.end());
    return s;
  }
  std::vector<Result<Proposal>> propose(const std::vector<std::string>& opts) override {
    std::vector<Result<Proposal>> out;
    for (const std::string& s : opts) {
      if (illegal.count(s))
        out.push_back(Result<Proposal>::no("not legal"));
      else
        out.push_back(Proposal{s, digest(sorted(s)), guess ? guess(s) : ns(s)});
    }
    return out;
  }
  std::vector<Result<Built>> build(const std::vector<Proposal>& p) override {
    std::vector<Result<Built>> out;
    for (const Proposal& x : p) {
      built.push_back(x.opts);
      out.push_back(Built{{}, digest(code ? code(x.opts) : sorted(x.opts))});
    }
    return out;
  }
  Result<f64> time(const Proposal& p, const Built&, f64) override {
    timed.push_back(p.opts);
    if (crashing.count(p.opts)) return Result<f64>::no("it crashed");
    return ns(p.opts);
  }
  bool enough() override { return i64(timed.size()) >= most_timed; }
};

BeamLimits limits(i64 width, i64 measured = 0) {
  BeamLimits l;
  l.width = width, l.measured = measured, l.least_gain_ns = 0;
  return l;
}

TEST(Beam, FindsTheBestAndKeepsItsWidth) {
  Fake f;
  BeamResult r = beam(limits(2), {""}, f);
  ASSERT_EQ(r.best.size(), 2u);
  EXPECT_EQ(r.best[0].p.opts, "abcd");
  EXPECT_EQ(r.best[0].ns, 600);
  EXPECT_EQ(r.best[1].ns, 700);
  EXPECT_FALSE(r.stopped);
}

// 4 + 6 + 4 + 1 sets and the empty one: each kernel is timed once, whatever lists lead to it.
TEST(Beam, OneKernelIsTimedOnce) {
  Fake f;
  beam(limits(16), {""}, f);
  EXPECT_EQ(f.timed.size(), 16u);
}

TEST(Beam, EqualMachineCodeIsTimedOnce) {
  Fake f;
  f.code = [](const std::string& s) { return std::to_string(s.size()); };
  BeamResult r = beam(limits(4), {""}, f);
  EXPECT_EQ(f.timed, (std::vector<std::string>{"", "a", "ab", "abc", "abcd"}));
  EXPECT_GT(r.refused["its machine code is another candidate's"], 0);
}

TEST(Beam, TiesGoToTheEarlier) {
  Fake f;
  BeamResult r = beam(limits(1), {"b", "a"}, f);
  EXPECT_EQ(f.timed[0], "b");
  EXPECT_EQ(f.timed[1], "a");
  f.timed.clear();
  f.ns = [](const std::string&) { return 5.0; };
  r = beam(limits(1), {"b", "a"}, f);
  EXPECT_EQ(r.best[0].p.opts, "b");
}

TEST(Beam, TheSameEachTime) {
  auto run = [] {
    Fake f;
    f.ns = [](const std::string& s) { return 1000 - 90.0 * f64(s.size()) - (s.find('c') != s.npos ? 50 : 0); };
    beam(limits(3, 5), {"", "d"}, f);
    return f.timed;
  };
  EXPECT_EQ(run(), run());
}

TEST(Beam, EstimatesChooseWhatIsBuilt) {
  Fake f;
  f.guess = [](const std::string& s) { return s.find('d') != s.npos ? 1.0 : 2.0; };
  beam(limits(1, 1), {""}, f);
  EXPECT_EQ(f.built, (std::vector<std::string>{"", "d", "da", "dab", "dabc"}));  // ties of the estimate: the earlier move
}

// Forty kernels with one estimate: half of what is timed are the first ones, the rest lies between, up to the last.
TEST(Beam, EqualEstimatesAreSampled) {
  Fake f;
  f.guess = [](const std::string& s) { return s == "x" ? 1.0 : 10 + 0.01 * f64(s.size()); };
  for (int i = 0; i < 40; i++) f.start.push_back("x" + std::string(size_t(i) + 1, 'y'));
  f.ns = [](const std::string&) { return 5.0; };
  f.most_timed = 9;
  beam(limits(1, 8), {"x"}, f);
  std::vector<size_t> sizes;
  for (const std::string& s : f.built)
    if (s != "x") sizes.push_back(s.size());
  ASSERT_EQ(sizes.size(), 8u);
  EXPECT_LT(sizes[3], 6u);
  EXPECT_GT(sizes[7], 25u);
}

TEST(Beam, RefusalsAreCountedAndPassedOver) {
  Fake f;
  f.illegal = {"a", "ba"};
  f.crashing = {"bc"};
  BeamResult r = beam(limits(1), {""}, f);
  EXPECT_EQ(r.refused["not legal"], 2);
  EXPECT_EQ(r.refused["it crashed"], 1);
  EXPECT_EQ(r.best[0].ns, 600);
}

TEST(Beam, NoSeedThatWorksIsNoEnd) {
  Fake f;
  f.crashing = {""};
  f.start = {"ab"};
  BeamResult r = beam(limits(2), {""}, f);
  ASSERT_FALSE(r.best.empty());
  EXPECT_EQ(r.best[0].ns, 600);
  Fake none;
  none.crashing = {""};
  EXPECT_TRUE(beam(limits(2), {""}, none).best.empty());
}

TEST(Beam, StopsWhereNothingIsWon) {
  Fake f;
  f.ns = [](const std::string& s) { return 1000 - f64(s.size()); };  // a tenth of a percent a round
  BeamResult r = beam(limits(1), {""}, f);
  EXPECT_EQ(r.rounds, 1);
  EXPECT_EQ(r.best[0].ns, 999);  // what the last round found is kept
}

TEST(Beam, StopsInTime) {
  Fake f;
  f.most_timed = 3;
  BeamResult r = beam(limits(2), {""}, f);
  EXPECT_TRUE(r.stopped);
  EXPECT_EQ(f.timed.size(), 3u);
  EXPECT_EQ(r.best[0].ns, 900);
}

// By hand: ranks 1 2 3 4 against 1 3 2 4: 1 - 6*2/(4*15) = 0.8; ties share their mean rank.
TEST(Beam, RankCorrelation) {
  EXPECT_DOUBLE_EQ(rank_correlation({{1, 10}, {2, 30}, {3, 20}, {4, 40}}), 0.8);
  EXPECT_DOUBLE_EQ(rank_correlation({{1, 3}, {2, 2}, {3, 1}}), -1);
  EXPECT_NEAR(rank_correlation({{1, 1}, {1, 2}, {2, 3}}), std::sqrt(3) / 2, 1e-12);
  EXPECT_TRUE(std::isnan(rank_correlation({{1, 1}, {2, 2}})));
}

}  // namespace
