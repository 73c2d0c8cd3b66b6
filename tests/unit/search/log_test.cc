#include "search/log.h"

#include <gtest/gtest.h>

#include <cmath>

#include "../opt/small_kernel.h"
#include "base/error.h"

using namespace tg;

namespace {

LogEntry entry(const char* kernel, f64 ns, std::string opts = "VECTOR 1 16, UPCAST 0 8", std::vector<i64> sizes = {64, 32}) {
  LogEntry e;
  e.kernel = digest(std::string_view(kernel)), e.near = digest(std::string_view("near")), e.target = "CPU:LLVM:x86_64,znver4";
  e.name = "matmul 64", e.opts = std::move(opts), e.sizes = std::move(sizes), e.ns = ns, e.base_ns = 2 * ns;
  return e;
}

std::string refusal(const std::string& text) {
  try {
    SearchLog::parse(text, "my.log");
  } catch (const Error& e) { return e.what(); }
  return "taken";
}

TEST(Log, RoundTrip) {
  SearchLog log;
  log.add(entry("b", 100)), log.add(entry("a", 50, "")), log.add(entry("c", 70, "PACK 2, THREAD 0 8", {}));
  std::string text = log.text();
  SearchLog back = SearchLog::parse(text, "x");
  EXPECT_EQ(back.text(), text);
  EXPECT_EQ(back.entries().size(), 3u);
  const LogEntry* e = back.find(digest(std::string_view("b")));
  ASSERT_TRUE(e);
  EXPECT_EQ(e->opts, "VECTOR 1 16, UPCAST 0 8");
  EXPECT_EQ(e->name, "matmul_64");
  EXPECT_EQ(e->sizes, (std::vector<i64>{64, 32}));
  EXPECT_EQ(e->ns, 100);
  EXPECT_EQ(e->base_ns, 200);
  EXPECT_EQ(e->target, "CPU:LLVM:x86_64,znver4");
  EXPECT_EQ(back.find(digest(std::string_view("a")))->opts, "");
  EXPECT_FALSE(back.find(digest(std::string_view("d"))));
}

TEST(Log, CommentsAndLaterKeys) {
  std::string line = entry("a", 5).line();
  SearchLog log = SearchLog::parse("# found on Monday\n\nlater=1 " + line + "\r\n", "x");
  EXPECT_EQ(log.entries().size(), 1u);
}

TEST(Log, TheFasterOfTwoLines) {
  SearchLog log;
  log.add(entry("a", 100, "UPCAST 0 2")), log.add(entry("a", 90, "UPCAST 0 4")), log.add(entry("a", 90, "UPCAST 0 8"));
  EXPECT_EQ(log.text(), entry("a", 90, "UPCAST 0 4").line() + "\n");
}

TEST(Log, Mistakes) {
  EXPECT_EQ(refusal("hello\n").find("my.log:1: not a line of a search log"), 0u);
  EXPECT_NE(refusal("kernel=12 opts=\n"), "taken");
  EXPECT_NE(refusal("\nkernel=" + std::string(32, '0') + " near=x\n").find("my.log:2"), std::string::npos);
  EXPECT_NE(refusal("kernel=" + std::string(32, '0') + " opts=UPCAST x\n"), "taken");
  EXPECT_NE(refusal("kernel=" + std::string(32, '0') + " ns=fast opts=\n"), "taken");
}

TEST(Log, Nearest) {
  SearchLog log;
  log.add(entry("a", 1, "UPCAST 0 1", {64, 64})), log.add(entry("b", 1, "UPCAST 0 2", {128, 64})),
      log.add(entry("c", 1, "UPCAST 0 3", {1024, 64}));
  log.add(entry("d", 1, "UPCAST 0 4", {64, 64, 64}));
  auto near = log.nearest(digest(std::string_view("near")), "CPU:LLVM:x86_64,znver4", {120, 64}, 2);
  ASSERT_EQ(near.size(), 2u);
  EXPECT_EQ(near[0]->opts, "UPCAST 0 2");
  EXPECT_EQ(near[1]->opts, "UPCAST 0 1");
  EXPECT_TRUE(log.nearest(digest(std::string_view("far")), "CPU:LLVM:x86_64,znver4", {120, 64}, 2).empty());
  EXPECT_NEAR(distance({2, 8}, {4, 4}), 2 * std::log(2), 1e-12);
  EXPECT_TRUE(std::isinf(distance({2}, {2, 2})));
}

class Near : public SmallKernel {};
// Sizes do not matter, what is computed does.
TEST_F(Near, Digest) {
  matmul(12, 8, 6);
  Digest a = near_digest(k.ast);
  EXPECT_EQ(loop_sizes(k.ast), (std::vector<i64>{12, 8, 6}));
  k.slots.clear(), params.clear();
  matmul(31, 31, 31);
  EXPECT_EQ(near_digest(k.ast), a);
  k.slots.clear(), params.clear();
  row_max(12, 8);
  EXPECT_NE(near_digest(k.ast), a);
}

}  // namespace
