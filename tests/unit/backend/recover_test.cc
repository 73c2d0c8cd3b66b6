#include "backend/llvm/recover.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"

using namespace tg;

// Of llvm/Support/ErrorHandling.h; LLVM's headers are the backend's own.
namespace llvm {
[[noreturn]] void report_fatal_error(const char* reason, bool gen_crash_diag);
}

namespace {
using R = Result<std::vector<u8>>;
}

TEST(Recover, AnAnswerPassesThrough) {
  R r = run_recovering([] { return R(std::vector<u8>{1, 2, 3}); });
  ASSERT_TRUE(r);
  EXPECT_EQ(*r, (std::vector<u8>{1, 2, 3}));
}
TEST(Recover, ARefusalPassesThrough) {
  EXPECT_EQ(run_recovering([] { return R::no("not here"); }).why(), "not here");
}
TEST(Recover, AnErrorIsARefusal) {
  EXPECT_EQ(run_recovering([]() -> R { fail("kernel form: bad"); }).why(), "kernel form: bad");
}
TEST(Recover, AFatalErrorOfLlvmIsARefusalWithItsReason) {
  R r = run_recovering([]() -> R { llvm::report_fatal_error("cannot select this", true); });
  ASSERT_FALSE(r);
  EXPECT_NE(r.why().find("cannot select this"), std::string::npos) << r.why();
}
TEST(Recover, AnAbortIsARefusalAndTheProcessGoesOn) {
  for (int i = 0; i < 3; i++) {
    R r = run_recovering([]() -> R { std::abort(); });
    ASSERT_FALSE(r);
    EXPECT_NE(r.why().find("Aborted"), std::string::npos) << r.why();
  }
  EXPECT_TRUE(run_recovering([] { return R(std::vector<u8>{}); }));
}
