#include "base/error.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/result.h"

using namespace tg;

TEST(Str, JoinsParts) { EXPECT_EQ(str("weight has ", 64, " channels, scale ", 0.5f, ", ", true), "weight has 64 channels, scale 0.5, true"); }
TEST(Str, SmallIntegersAreNumbers) { EXPECT_EQ(str(u8(65), i8(-1), 'A'), "65-1A"); }
TEST(Join, PutsSeparatorsBetween) { EXPECT_EQ(join(std::vector<int>{1, 2, 3}, "x"), "1x2x3"); }
TEST(Fail, ThrowsTheMessage) {
  try {
    fail("DEV=", "FOO", ": unknown");
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "DEV=FOO: unknown");
  }
}
TEST(Check, AbortsWithTheCondition) { EXPECT_DEATH(TG_CHECK(1 == 2, "axis ", 3), "1 == 2 does not hold: axis 3"); }
TEST(ResultType, CarriesTheReason) {
  Result<int> r = Result<int>::no("arg ", 3, " does not divide ", 10);
  EXPECT_FALSE(r);
  EXPECT_EQ(r.why(), "arg 3 does not divide 10");
  EXPECT_EQ(*Result<int>(7), 7);
}
