// What a kernel does, counted: arithmetic on numbers, and each buffer once.
#include "schedule/cost.h"

#include "small_graph.h"

using namespace tg;

namespace {

class Cost : public SmallGraph {
 protected:
  Work work(UOp output) {
    EXPECT_EQ(kernels(output), 1);
    return work_of(s, s.calls[0]);
  }
};

TEST_F(Cost, OfAMatmul) {
  Work w = work(matmul(input({32, 24}), weight({24, 48})));
  EXPECT_EQ(w.flops, 2 * 32 * 24 * 48);
  EXPECT_EQ(w.bytes, 4 * (32 * 24 + 24 * 48 + 32 * 48));
}
TEST_F(Cost, OfAConv) {
  Work w = work(conv(input({1, 8, 10, 10}), weight({16, 8, 3, 3})));
  EXPECT_EQ(w.flops, 2 * 16 * 8 * 8 * 8 * 9);
  EXPECT_EQ(w.bytes, 4 * (8 * 10 * 10 + 16 * 8 * 9 + 16 * 8 * 8));
}
TEST_F(Cost, IndexArithmeticIsNone) {
  Work w = work(tensor::permute(input({32, 24}), Ints{1, 0}));
  EXPECT_EQ(w.flops, 0);
  EXPECT_EQ(w.bytes, 2 * 4 * 32 * 24);
}
TEST_F(Cost, AnElementwiseOpIsOneAnElement) {
  UOp x = input({32, 24});
  EXPECT_EQ(work(x * number(2) + number(1)).flops, 2 * 32 * 24);
}
TEST_F(Cost, PackedElementsTakeTheirBits) {
  EXPECT_EQ(work(cast(input({32, 24}, Kind::I4), Kind::I8)).bytes, 32 * 24 / 2 + 32 * 24);
}

}  // namespace
