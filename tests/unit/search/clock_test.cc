// The budget of a search: its parts' shares, and a whole search that a clock of its own drives. No real clock is read.
#include "search/clock.h"

#include <gtest/gtest.h>

#include "search/beam.h"

using namespace tg;

namespace {

TEST(Clock, Shares) {
  f64 now = 100;
  SearchClock c(20, [&] { return now; });
  EXPECT_DOUBLE_EQ(c.left(SearchPart::Choices), 4);
  EXPECT_DOUBLE_EQ(c.left(SearchPart::Layouts), 7);
  EXPECT_DOUBLE_EQ(c.left(SearchPart::Kernels), 17);
  EXPECT_DOUBLE_EQ(c.left(SearchPart::Whole), 20);
  now = 105;
  EXPECT_TRUE(c.over(SearchPart::Choices));
  EXPECT_DOUBLE_EQ(c.left(SearchPart::Layouts), 2);
  EXPECT_FALSE(c.over(SearchPart::Kernels));
  now = 117;
  EXPECT_TRUE(c.over(SearchPart::Kernels));
  EXPECT_DOUBLE_EQ(c.left(SearchPart::Whole), 3);
}

// What whole models took is kept for them: twice 2.5 + 0.3 s; never more than half.
TEST(Clock, WholeModelsKeepWhatTheyTook) {
  f64 now = 0;
  SearchClock c(20, [&] { return now; });
  c.timed_models(3, 0.5);
  c.timed_models(2, 1);
  EXPECT_NEAR(c.left(SearchPart::Kernels), 20 - 2 * (2.5 + 0.3), 1e-9);
  EXPECT_NEAR(c.models_seconds(1), 3.5, 1e-9);
  c.timed_models(100, 1);
  EXPECT_NEAR(c.left(SearchPart::Kernels), 10, 1e-9);
}

TEST(Clock, NoBudgetIsNoEnd) {
  SearchClock c(0, [] { return 1e9; });
  for (SearchPart p : {SearchPart::Choices, SearchPart::Layouts, SearchPart::Kernels, SearchPart::Whole}) EXPECT_FALSE(c.over(p));
  EXPECT_EQ(c.run_seconds(SearchPart::Whole, 6), 6);
}

TEST(Clock, RunsAreShortWhereLittleIsLeft) {
  f64 now = 0;
  SearchClock c(10, [&] { return now; });
  EXPECT_DOUBLE_EQ(c.run_seconds(SearchPart::Choices, 2), 1);
  EXPECT_DOUBLE_EQ(c.run_seconds(SearchPart::Whole, 2), 2);
  now = 30;
  EXPECT_DOUBLE_EQ(c.run_seconds(SearchPart::Whole, 2), 0.3);
}

// Every candidate takes half a second, is 1 % faster than the last, and there is always another.
class Slow : public BeamTools {
 public:
  Slow(f64& now, const SearchClock& clock) : now_(now), clock_(clock) {}
  std::vector<std::string> templates() override { return {}; }
  std::vector<std::string> moves(const std::string& s) override {
    std::vector<std::string> out;
    for (char c = 'a'; c < 'z'; c++) out.push_back(s + c);
    return out;
  }
  std::vector<Result<Proposal>> propose(const std::vector<std::string>& opts) override {
    now_ += 1e-3 * f64(opts.size());
    std::vector<Result<Proposal>> out;
    for (const std::string& s : opts) out.push_back(Proposal{s, digest(s), 1.0});
    return out;
  }
  std::vector<Result<Built>> build(const std::vector<Proposal>& p) override {
    std::vector<Result<Built>> out;
    for (const Proposal& x : p) now_ += 0.01, out.push_back(Built{{}, digest(x.opts)});
    return out;
  }
  Result<f64> time(const Proposal&, const Built&, f64) override {
    now_ += 0.5;
    return ns_ *= 0.99;
  }
  bool enough() override { return clock_.over(SearchPart::Kernels); }

 private:
  f64& now_;
  const SearchClock& clock_;
  f64 ns_ = 1e6;
};

// Choices, layouts, kernels and two runs of whole models, each ready to take all the time in the world.
TEST(Clock, AWholeSearchKeepsItsBudget) {
  for (f64 budget : {5.0, 20.0, 60.0})
    for (f64 overhead : {0.1, 1.0, budget / 10}) {
      f64 now = 50;
      SearchClock c(budget, [&] { return now; });
      auto models = [&](SearchPart part, f64 most) {
        f64 running = c.run_seconds(part, most);
        now += overhead + running;
        c.timed_models(overhead + running, running);
      };
      int asked = 0;
      for (SearchPart part : {SearchPart::Choices, SearchPart::Layouts})
        for (int q = 0; q < 100; q++)
          if (c.models_seconds(c.run_seconds(part, 2)) <= c.left(part)) models(part, 2), asked++;
      EXPECT_GT(asked, 0);
      int kernels = 0;
      for (; kernels < 100 && !c.over(SearchPart::Kernels); kernels++) {
        Slow tools(now, c);
        BeamLimits l;
        EXPECT_TRUE(beam(l, {""}, tools).stopped || !c.over(SearchPart::Kernels));
      }
      EXPECT_GT(kernels, 0);
      EXPECT_LE(c.left(SearchPart::Kernels), 0);
      models(SearchPart::Whole, 6), models(SearchPart::Whole, 6);
      // A candidate, and builds of a round, may be under way when a share ends.
      EXPECT_LE(c.spent(), budget + 0.5 + 0.2) << budget << " s, " << overhead << " s to make models";
      EXPECT_GE(c.spent(), 0.7 * budget);
    }
}

}  // namespace
