#include "driver/capture.h"

#include <gtest/gtest.h>

#include "base/error.h"

using namespace tg;
using namespace tg::driver;

TEST(Capture, StateIsRefusedAndNotForgotten) {
  Graph g;
  g.arena = std::make_shared<Arena>();
  Arena::Scope scope(*g.arena);
  g.inputs.push_back({"past", Kind::F32, dims({2})});
  g.outputs.push_back({"present", Kind::F32, dims({2})});
  g.state.push_back({0, 0});
  std::vector<u32> constant_of;
  try {
    capture(g, {}, {}, {}, {}, &constant_of);
    FAIL() << "captured";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "output \"present\" is fed back into input \"past\": state is not built yet; compile without the pair, and give the output to "
                           "the next run");
  }
}
