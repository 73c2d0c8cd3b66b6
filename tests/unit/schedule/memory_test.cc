// The memory plan: who lies where, and how close the peak is to what is alive at once.
#include "small_graph.h"

using namespace tg;

namespace {

constexpr i64 kAlign = 64;

class Memory : public SmallGraph {
 protected:
  struct Life {
    i64 first = -1, last = -1;
  };
  // From the first call that uses a buffer to the last; inputs are there from the beginning, outputs to the end.
  Life life(u32 b) const {
    Life l;
    for (size_t i = 0; i < s.calls.size(); i++)
      for (u32 x : s.calls[i].buffers)
        if (x == b) {
          if (l.first < 0) l.first = i64(i);
          l.last = i64(i);
        }
    if (s.buffers[b].kind == Buffer::Input) l.first = 0, l.last = std::max<i64>(l.last, 0);
    if (s.buffers[b].kind == Buffer::Output) l.first = std::max<i64>(l.first, 0), l.last = i64(s.calls.size());
    return l;
  }
  // What a plan must keep, whatever the graph.
  void check_plan() const {
    i64 peak = 0;
    for (u32 a = 0; a < s.buffers.size(); a++) {
      const Buffer& x = s.buffers[a];
      if (x.kind == Buffer::Constant || life(a).first < 0) {
        EXPECT_EQ(x.offset, -1) << "buffer " << a << " has no place in the arena";
        continue;
      }
      EXPECT_GE(x.offset, 0);
      EXPECT_EQ(x.offset % kAlign, 0) << "buffer " << a;
      EXPECT_EQ(x.bytes, byte_size(x.dtype.kind, x.layout.elems()));
      peak = std::max(peak, x.offset + x.bytes);
      for (u32 b = a + 1; b < s.buffers.size(); b++) {
        const Buffer& y = s.buffers[b];
        Life l = life(a), m = life(b);
        if (y.offset < 0 || !x.bytes || !y.bytes || l.last < m.first || m.last < l.first) continue;
        EXPECT_TRUE(x.offset + x.bytes <= y.offset || y.offset + y.bytes <= x.offset) << "buffers " << a << " and " << b << " overlap while both are alive";
      }
      // Its offset is the aligned maximum of the ends of those that it lies upon.
      i64 end = 0;
      for (u32 below : x.lies_on) end = std::max(end, (s.buffers[below].offset + s.buffers[below].bytes + kAlign - 1) / kAlign * kAlign);
      EXPECT_EQ(x.offset, end) << "buffer " << a;
    }
    EXPECT_EQ(s.arena_bytes, peak);
    EXPECT_GE(s.arena_bytes, s.lower_bound_bytes);
  }
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

}  // namespace
