#include "base/hash.h"

#include <gtest/gtest.h>

using namespace tg;

// Values of `printf 'x' | xxh128sum` (xxHash's own tool).
TEST(Digest, OfNothing) { EXPECT_EQ(digest("").str(), "99aa06d3014798d86001c324468d497f"); }
TEST(Digest, TextReadsBack) {
  Digest d = digest("conv1"), e;
  ASSERT_TRUE(Digest::parse(d.str(), &e));
  EXPECT_EQ(e, d);
}
TEST(Digest, BadTextIsRefused) {
  Digest d;
  EXPECT_FALSE(Digest::parse("xyz", &d));
  EXPECT_FALSE(Digest::parse("99aa06d3014798d86001c324468d497X", &d));
}
TEST(Hasher, StringsKeepTheirBorders) { EXPECT_NE(Hasher().add("ab").add("c").done(), Hasher().add("a").add("bc").done()); }
