// The memory plan: who lies where, and how close the peak is to what is alive at once.
#include "plan.h"
#include "small_graph.h"

using namespace tg;

namespace {

class Memory : public SmallGraph {
 protected:
  void check_plan() const { EXPECT_EQ(plan_fault(s), ""); }
  u32 written(size_t call) const { return s.calls[call].buffers[0]; }
};

TEST_F(Memory, AChainUsesTwoPlacesInTurn) {
  UOp y = input({1, 16, 16, 16});
  for (int i = 0; i < 6; i++) y = relu(conv(y, weight({16, 16, 1, 1})));
  EXPECT_EQ(kernels(y), 6);
  check_plan();
  // A value is 16 KiB; a kernel reads one and writes one, and neither may lie on the other.
  EXPECT_EQ(s.lower_bound_bytes, 2 * 16384);
  EXPECT_LE(s.arena_bytes, 3 * 16384) << "the output stays where it is until the end";
}
TEST_F(Memory, AResidualIsKeptUntilItIsAdded) {
  UOp x = relu(conv(input({1, 16, 16, 16}), weight({16, 16, 1, 1})));
  UOp y = conv(relu(conv(x, weight({16, 16, 1, 1}))), weight({16, 16, 1, 1}));
  EXPECT_EQ(kernels(relu(x + y)), 3);
  check_plan();
  EXPECT_EQ(s.lower_bound_bytes, 3 * 16384);
}
TEST_F(Memory, ConstantsAreOutsideOfIt) {
  kernels(matmul(input({4, 8}), weight({8, 16})));
  check_plan();
  EXPECT_EQ(s.lower_bound_bytes, 4 * 8 * 4 + 4 * 16 * 4);
}
TEST_F(Memory, ABorderIsPartOfTheBuffer) {
  UOp y = relu(conv(input({1, 8, 6, 6}), weight({4, 8, 1, 1})));
  kernels(conv(y, weight({4, 4, 3, 3}), 1));
  check_plan();
  EXPECT_EQ(s.buffers[s.calls[0].buffers[0]].bytes, 4 * 8 * 8 * 4);
}
TEST_F(Memory, SubByteElementsArePacked) {
  UOp y = cast(relu(matmul(input({3, 8}), weight({8, 5}))), Kind::U4);
  kernels(y);
  check_plan();
  EXPECT_EQ(output().bytes, 8) << "15 elements of 4 bits";
}
TEST_F(Memory, PlansOfWideGraphsAreNearTheLowerBound) {
  // Branches of several sizes, joined again: an inception block, three times.
  UOp y = input({1, 8, 12, 12});
  for (int block = 0; block < 3; block++) {
    i64 c = const_shape(y)[1];
    std::vector<UOp> branches;
    for (i64 m : {4, 8, 20, 12}) branches.push_back(relu(conv(relu(conv(y, weight({m, c, 1, 1}))), weight({m, m, 3, 3}), 1)));
    y = tensor::concat(branches, 1);
  }
  EXPECT_EQ(kernels(relu(conv(y, weight({8, 44, 1, 1})))), 25);
  check_plan();
  EXPECT_LE(f64(s.arena_bytes), 1.25 * f64(s.lower_bound_bytes)) << s.arena_bytes << " of " << s.lower_bound_bytes;
}
TEST_F(Memory, AnUnusedInputHasAPlaceThatNothingOverwrites) {
  input({100});
  UOp x = input({16, 16});
  kernels(matmul(relu(matmul(x, weight({16, 16}))), weight({16, 16})));
  check_plan();
}

// --- in place ---------------------------------------------------------------------------------------------------------------------------
TEST_F(Memory, WhatIsReadElementByElementForTheLastTimeIsOverwritten) {
  UOp a = tensor::contiguous(matmul(input({12, 16}), weight({16, 24})));
  UOp b = tensor::contiguous(relu(a));
  EXPECT_EQ(kernels(matmul(b, weight({24, 8}))), 3);
  check_plan();
  EXPECT_EQ(written(0), written(1));
  EXPECT_EQ(s.calls[1].buffers.size(), 1u) << "one slot, read and written";
  EXPECT_EQ(scratch(), 1);
}
TEST_F(Memory, WhatIsReadAgainLaterIsNot) {
  UOp a = tensor::contiguous(matmul(input({12, 16}), weight({16, 24})));
  UOp b = tensor::contiguous(relu(a));
  EXPECT_EQ(kernels(matmul(b, weight({24, 8})) + matmul(a, weight({24, 8}))), 4);
  check_plan();
  EXPECT_NE(written(0), written(1));
}
TEST_F(Memory, WhatIsReadInAnotherOrderIsNot) {
  UOp a = tensor::contiguous(matmul(input({16, 16}), weight({16, 16})));
  UOp b = tensor::contiguous(tensor::permute(relu(a), Ints{1, 0}) + a);
  EXPECT_EQ(kernels(matmul(b, weight({16, 8}))), 3);
  check_plan();
  EXPECT_NE(written(0), written(1));
}
TEST_F(Memory, WhatAReduceReadsIsNot) {
  UOp a = tensor::contiguous(matmul(input({12, 16}), weight({16, 24})));
  UOp b = tensor::contiguous(softmax(a));
  EXPECT_EQ(kernels(matmul(b, weight({24, 8}))), 3);
  check_plan();
  EXPECT_NE(written(0), written(1));
}
TEST_F(Memory, InputsAndOutputsAreNotOverwritten) {
  UOp x = input({12, 16}), y = matmul(x, weight({16, 16}));
  kernels({y, relu(tensor::contiguous(relu(y))), relu(x)});
  check_plan();
  for (const Call& c : s.calls) EXPECT_NE(s.buffers[c.buffers[0]].kind, Buffer::Input);
}

}  // namespace
