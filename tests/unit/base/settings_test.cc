#include "base/settings.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

#include "base/error.h"

using namespace tg;

namespace {
std::string message(auto fn) {
  try {
    fn();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}
bool has(const std::string& s, const std::string& part) { return s.find(part) != s.npos; }

// Runs fn in a fresh process with NAME=value in its environment; the exit code is 0 if fn returns true, 3 and the message on an Error.
void in_environment(const char* name, const char* value, auto fn) {
  setenv(name, value, 1);
  try {
    std::exit(fn() ? 0 : 1);
  } catch (const Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    std::exit(3);
  }
}
}  // namespace

class Environment : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST(Settings, DefaultsAreThoseOfTheTable) {
  EXPECT_EQ(settings::default_text(settings::Id::JIT_BATCH_SIZE), "32");
  EXPECT_EQ(settings::default_text(settings::Id::WINO), "-1");
  EXPECT_EQ(settings::default_text(settings::Id::DEFAULT_FLOAT), "float32");
  EXPECT_EQ(settings::default_text(settings::Id::BEAM_MIN_PROGRESS), "0.01");
}
TEST(Settings, ContextIsNestedAndRestored) {
  i64 before = settings::DEBUG();
  {
    Context a{{settings::DEBUG, 4}, {settings::NOOPT, 1}};
    EXPECT_EQ(settings::DEBUG(), 4);
    {
      Context b{{settings::DEBUG, 7}};
      EXPECT_EQ(settings::DEBUG(), 7);
      EXPECT_EQ(settings::NOOPT(), 1);
    }
    EXPECT_EQ(settings::DEBUG(), 4);
  }
  EXPECT_EQ(settings::DEBUG(), before);
}
TEST(Settings, ContextIsRestoredWhenAnErrorLeavesIt) {
  i64 before = settings::NOOPT();
  EXPECT_THROW(with_context({{settings::NOOPT, 1 - before}}, [] { fail("x"); }), Error);
  EXPECT_EQ(settings::NOOPT(), before);
}
TEST(Settings, WithContextReturnsTheValue) { EXPECT_EQ(with_context({{settings::BEAM, 8}}, [] { return settings::BEAM(); }), 8); }
TEST(Settings, ThreadsSeeOverridesOnlyThroughASnapshot) {
  Context c{{settings::FASTMATH, 1}};
  std::string snapshot = settings::serialize();
  EXPECT_TRUE(has(snapshot, "FASTMATH=1\n"));
  std::thread([&] {
    EXPECT_EQ(settings::FASTMATH(), 0);
    Context inherited{std::string_view(snapshot)};
    EXPECT_EQ(settings::FASTMATH(), 1);
  }).join();
}
TEST(Settings, TextIsStoredInItsFirstSpelling) {
  Context c{{settings::DEFAULT_FLOAT, "HALF"}};
  EXPECT_EQ(settings::DEFAULT_FLOAT(), "float16");
}
TEST(Settings, TimesHaveUnits) {
  EXPECT_EQ(with_context({Override::parse("BEAM_BUDGET=60s")}, [] { return settings::BEAM_BUDGET(); }), 60.0);
  EXPECT_EQ(with_context({Override::parse("BEAM_BUDGET=2m")}, [] { return settings::BEAM_BUDGET(); }), 120.0);
  EXPECT_EQ(with_context({Override::parse("BEAM_BUDGET=1.5")}, [] { return settings::BEAM_BUDGET(); }), 1.5);
}
TEST(Settings, BadValuesNameTheVariable) {
  EXPECT_TRUE(has(message([] { Context c{Override::parse("BEAM=eight")}; }), "BEAM=eight: expected an integer"));
  EXPECT_TRUE(has(message([] { Context c{Override::parse("JIT=3")}; }), "JIT=3: expected a number from 0 to 2"));
  EXPECT_TRUE(has(message([] { Context c{Override::parse("DEFAULT_FLOAT=float8")}; }), "one of float32, float16, bfloat16, float64"));
  EXPECT_TRUE(has(message([] { Context c{Override::parse("BEAM_BUDGET=5 minutes")}; }), "a time such as"));
  EXPECT_TRUE(has(message([] { Context c{Override::parse("BEEM=1")}; }), "BEEM: no such setting"));
}
TEST(Settings, ABadOverrideLeavesNothingBehind) {
  i64 before = settings::NOOPT();
  EXPECT_THROW((Context{Override::parse("NOOPT=1"), Override::parse("BEAM=x")}), Error);
  EXPECT_EQ(settings::NOOPT(), before);
}
TEST(Settings, CodeKeyHoldsWhatChangesCodeOnly) {
  std::string plain = settings::code_key();
  EXPECT_EQ(with_context({{settings::DEBUG, 5}}, [] { return settings::code_key(); }), plain);
  EXPECT_NE(with_context({{settings::FASTMATH, 1 - settings::FASTMATH()}}, [] { return settings::code_key(); }), plain);
}
TEST_F(Environment, IsReadAndCast) {
  EXPECT_EXIT(in_environment("NOOPT", "1", [] { return settings::NOOPT() == 1; }), testing::ExitedWithCode(0), "");
}
TEST_F(Environment, BadValueIsAnErrorNamingTheVariable) {
  EXPECT_EXIT(in_environment("NOOPT", "yes", [] { return settings::NOOPT() == 1; }), testing::ExitedWithCode(3), "NOOPT=yes: expected an integer");
}
TEST_F(Environment, EmptyMeansUnset) {
  EXPECT_EXIT(in_environment("JIT_BATCH_SIZE", "", [] { return settings::JIT_BATCH_SIZE() == 32; }), testing::ExitedWithCode(0), "");
}
TEST_F(Environment, WhatIsNotBuiltSaysSo) {
  EXPECT_EXIT(in_environment("IMAGE", "1", [] { return settings::load(), true; }), testing::ExitedWithCode(0),
              "note: IMAGE=1 has no effect: image layouts are not built yet");
}
TEST_F(Environment, VariablesOfTinygradAreNamed) {
  EXPECT_EXIT(in_environment("JITBEAM", "2", [] { return settings::load(), true; }), testing::ExitedWithCode(0), "JITBEAM \\(here: BEAM\\)");
}
TEST_F(Environment, WorkersTakeTheParentsTextNotTheirEnvironment) {
  EXPECT_EXIT(in_environment("NOOPT", "1",
                             [] {
                               settings::restore("JIT=2\n");
                               return settings::NOOPT() == 0 && settings::JIT() == 2;
                             }),
              testing::ExitedWithCode(0), "");
}
