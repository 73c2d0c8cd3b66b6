// How values lie between kernels: channels last where convolutions read and write them.
#include "small_graph.h"

using namespace tg;

namespace {

class Layouts : public SmallGraph {};

TEST_F(Layouts, BetweenConvsChannelsAreInnermost) {
  UOp y = relu(conv(input({1, 8, 6, 6}), weight({16, 8, 1, 1})));
  ASSERT_EQ(kernels(conv(y, weight({4, 16, 1, 1}))), 2);
  EXPECT_EQ(s.buffers[s.calls[0].buffers[0]].layout.str(), "0/1 2/6 3/6 1/16");
}
TEST_F(Layouts, TheBorderIsInsideTheLayout) {
  UOp y = relu(conv(input({1, 8, 6, 6}), weight({16, 8, 1, 1})));
  ASSERT_EQ(kernels(conv(y, weight({4, 16, 3, 3}), 1)), 2);
  EXPECT_EQ(s.buffers[s.calls[0].buffers[0]].layout.str(), "0/1 2/8 3/8 1/16");
}
TEST_F(Layouts, InputsAndOutputsAreRowMajor) {
  kernels(relu(conv(relu(conv(input({1, 8, 6, 6}), weight({16, 8, 1, 1}))), weight({4, 16, 1, 1}))));
  for (const Buffer& b : s.buffers)
    EXPECT_TRUE(b.kind == Buffer::Scratch || b.layout.is_row_major(b.dims)) << b.layout.str();
}
TEST_F(Layouts, AMatmulsRowsStayRows) {
  UOp y = relu(matmul(input({12, 16}), weight({16, 24})));
  ASSERT_EQ(kernels(matmul(y, weight({24, 8}))), 2);
  EXPECT_EQ(s.buffers[s.calls[0].buffers[0]].layout.str(), "0/12 1/24");
}
TEST_F(Layouts, TooFewChannelsForAVectorLeaveTheColumnsInnermost) {
  // Four lanes of f32 (a target with 16-byte vectors): two channels fill half of one, the 12 columns fill three.
  UOp y = relu(conv(input({1, 8, 12, 12}), weight({2, 8, 3, 3}), 1));
  ASSERT_EQ(kernels(conv(y, weight({2, 2, 3, 3}), 1)), 2);
  EXPECT_EQ(s.buffers[s.calls[0].buffers[0]].layout.str(), "0/1 1/2 2/14 3/14");
}
TEST_F(Layouts, APoolKeepsTheLayoutOfWhatItReads) {
  UOp y = relu(conv(input({1, 8, 8, 8}), weight({16, 8, 1, 1})));
  ASSERT_EQ(kernels(conv(max_pool(y, 2, 2), weight({4, 16, 1, 1}))), 3);
  EXPECT_EQ(s.buffers[s.calls[1].buffers[0]].layout.str(), "0/1 2/4 3/4 1/16");
}
TEST_F(Layouts, ALayoutHoldsEveryElementOnce) {
  UOp y = relu(conv(input({1, 8, 8, 8}), weight({16, 8, 1, 1})));
  kernels(layer_norm(conv(max_pool(y, 2, 2), weight({4, 16, 1, 1}))));
  for (const Buffer& b : s.buffers) {
    i64 n = 1;
    for (i64 d : b.dims) n *= d;
    EXPECT_EQ(b.layout.elems(), n);
  }
}

}  // namespace
