#include "driver/capture.h"

#include <gtest/gtest.h>

using namespace tg;
using namespace tg::driver;

TEST(Capture, APairOfStateIsNeitherInputNorOutput) {
  Graph g;
  g.arena = std::make_shared<Arena>();
  Arena::Scope scope(*g.arena);
  for (const char* name : {"x", "past"}) g.inputs.push_back({name, Kind::F32, dims({2})});
  for (const char* name : {"present", "y"}) g.outputs.push_back({name, Kind::F32, dims({2})});
  g.state.push_back({0, 1});
  std::vector<u32> constant_of;
  bundle::BundleDesc d = capture(g, {}, {}, {}, {}, &constant_of);
  ASSERT_EQ(d.inputs.size(), 1u);
  EXPECT_EQ(d.inputs[0].name, "x");
  ASSERT_EQ(d.outputs.size(), 1u);
  EXPECT_EQ(d.outputs[0].name, "y");
  ASSERT_EQ(d.states.size(), 1u);
  EXPECT_EQ(d.states[0].input, "past");
  EXPECT_EQ(d.states[0].output, "present");
  EXPECT_EQ(d.states[0].bytes, 8u);
}
