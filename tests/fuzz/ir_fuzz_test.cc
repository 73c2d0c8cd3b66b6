// Random graphs through the IR alone: they are legal, their text reads back, and what it says is the same graph.
#include <gtest/gtest.h>

#include <cmath>

#include "graph_gen.h"
#include "ir/spec.h"
#include "ir/text.h"

using namespace tg;

TEST(FuzzIr, GraphsAreLegalAndReadBack) {
  for (u64 seed = 1; seed <= 150; seed++) {
    fuzz::Options o;
    o.seed = seed, o.ops = 15, o.free_sizes = seed % 5 == 0;
    fuzz::Case c = fuzz::generate(o);
    Arena::Scope scope(*c.graph.arena);
    std::string text = print(c.graph.sink);
    ASSERT_EQ(violation(Spec::Tensor, c.graph.sink), "") << "seed " << seed << '\n' << text;
    ASSERT_EQ(parse(text), c.graph.sink) << "seed " << seed;
    std::vector<Values> want = eval_graph(c.graph, c.inputs, c.vars);
    ASSERT_EQ(want.size(), c.graph.outputs.size());
    Graph copy = c.graph;
    copy.arena = std::make_shared<Arena>();
    {
      Arena::Scope other(*copy.arena);
      copy.sink = parse(text);
      copy.inputs.clear();
      for (const Value& v : c.graph.inputs) copy.inputs.push_back({v.name, v.dtype, {}});
      ASSERT_EQ(print(copy.sink), text);
    }
    std::vector<Values> got = eval_graph(copy, c.inputs, c.vars);
    for (size_t i = 0; i < want.size(); i++) {
      EXPECT_EQ(fuzz::difference(got[i], want[i], 0), "") << "seed " << seed << " output " << i;
      for (size_t a = 0; a < want[i].dims.size(); a++) {
        EvalEnv env;
        env.vars = c.vars;
        EXPECT_EQ(want[i].dims[a], eval_index(c.graph.outputs[i].dims[a], env));
      }
    }
  }
}
TEST(FuzzIr, TheSameSeedGivesTheSameGraph) {
  fuzz::Options o;
  o.seed = 42;
  fuzz::Case a = fuzz::generate(o), b = fuzz::generate(o);
  EXPECT_EQ(print(a.graph.sink), print(b.graph.sink));
  EXPECT_TRUE(a.inputs == b.inputs);
}
TEST(FuzzIr, DifferenceFindsWhatStrays) {
  Values a = values(Kind::F32, {3}, std::vector<f64>{1, 2, 3}), b = a;
  EXPECT_EQ(fuzz::difference(b, a, 0), "");
  b.v[1] = values(Kind::F32, {1}, std::vector<f64>{2.5}).v[0];
  EXPECT_NE(fuzz::difference(b, a, 0.25), "");
  EXPECT_EQ(fuzz::difference(b, a, 0.5), "");
  b.v[1] = values(Kind::F32, {1}, std::vector<f64>{NAN}).v[0];
  EXPECT_NE(fuzz::difference(b, a, 1e9), "");
}
