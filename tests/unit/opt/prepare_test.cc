// The loops before any Opt: digits of an index become loops, loops run as memory lies, and what every access walks as one is one loop.
#include "small_kernel.h"

using namespace tg;

namespace {

class Prepare : public SmallKernel {
 protected:
  std::string prepared() {
    Kernel q = prepare(k);
    same(k, q);
    return loops(q);
  }
};

TEST_F(Prepare, LoopsOverOneRunOfMemoryAreOne) {
  stream(6, 8);
  EXPECT_EQ(prepared(), "2 LOOP 48");
}
TEST_F(Prepare, ThreeLoopsAreOne) {
  UOp o = buffer({2, 3, 4}), x = buffer({2, 3, 4}), a = loop(0, 2), b = loop(1, 3), c = loop(2, 4);
  finish({store(at(o, {a, b, c}), load(x, {a, b, c}), {a, b, c})});
  EXPECT_EQ(prepared(), "4 LOOP 24");
}
TEST_F(Prepare, ABroadcastKeepsItsLoop) {
  UOp o = buffer({6, 8}), x = buffer({6, 8}), bias = buffer({8}), i = loop(0, 6), j = loop(1, 8);
  finish({store(at(o, {i, j}), load(x, {i, j}) + load(bias, {j}), {i, j})});
  EXPECT_EQ(prepared(), "0 LOOP 6, 1 LOOP 8");
}
TEST_F(Prepare, ATransposeKeepsItsLoops) {
  UOp o = buffer({6, 8}), x = buffer({8, 6}), i = loop(0, 6), j = loop(1, 8);
  finish({store(at(o, {i, j}), load(x, {j, i}), {i, j})});
  EXPECT_EQ(prepared(), "0 LOOP 6, 1 LOOP 8");
}
TEST_F(Prepare, DigitsOfAnIndexAreLoops) {
  // out[r] = x[r % 4, r / 4]
  UOp o = buffer({12}), x = buffer({4, 3}), r = loop(0, 12);
  finish({store(at(o, {r}), load(x, {r % 4, r / 4}), {r})});
  EXPECT_EQ(prepared(), "1 LOOP 3, 2 LOOP 4");
  for (UOp u : toposort(prepare(k).ast)) EXPECT_FALSE(u.in(Op::FloorDiv | Op::FloorMod)) << u.str();
}
TEST_F(Prepare, ThreeDigits) {
  UOp o = buffer({24}), x = buffer({4, 3, 2}), r = loop(0, 24);
  finish({store(at(o, {r}), load(x, {r % 4, (r / 4) % 3, r / 12}), {r})});
  prepared();
  for (UOp u : toposort(prepare(k).ast)) EXPECT_FALSE(u.in(Op::FloorDiv | Op::FloorMod)) << u.str();
}
TEST_F(Prepare, DigitsThatNoLoopHasStay) {
  // 12 is no multiple of 5
  UOp o = buffer({12}), x = buffer({5, 3}), r = loop(0, 12);
  finish({store(at(o, {r}), load(x, {r % 5, r / 5}), {r})});
  EXPECT_EQ(prepared(), "0 LOOP 12");
}
TEST_F(Prepare, NamedPlacesAreALoopAlsoWhereTheLastBlockIsNotFull) {
  // Out of 10, in blocks of 4: the first of a block from a, the others from b plus c.
  UOp o = buffer({10}), a = buffer({3}), b = buffer({3}), c = buffer({10}), r = loop(0, 10);
  finish({store(at(o, {r}), where(eq(r % 4, idx(0)), load(a, {r / 4}), load(b, {r / 4}) + load(c, {r})), {r})});
  EXPECT_EQ(prepared(), "1 LOOP 3, 2 LOOP 4");
  for (UOp u : toposort(prepare(k).ast)) {
    EXPECT_FALSE(u.in(Op::FloorDiv | Op::FloorMod)) << u.str();
    // What lies beyond the end of c and of the output is left alone; a and b have an element for each block.
    if (u.is(Op::Load)) {
      EXPECT_EQ(u.nsrc() == 3, u.src(0).src(0) == c) << u.str();
    }
    if (u.is(Op::Store)) {
      EXPECT_FALSE(u.src(2).is(Op::Range)) << "the store has a gate";
    }
  }
}
TEST_F(Prepare, NamedPlacesOfFullBlocksNeedNoGate) {
  UOp o = buffer({12}), a = buffer({3}), b = buffer({3}), r = loop(0, 12);
  finish({store(at(o, {r}), where(eq(r % 4, idx(0)), load(a, {r / 4}), load(b, {r / 4})), {r})});
  EXPECT_EQ(prepared(), "1 LOOP 3, 2 LOOP 4");
  for (UOp u : toposort(prepare(k).ast)) {
    if (u.is(Op::Store)) {
      EXPECT_TRUE(u.src(2).is(Op::Range)) << u.str();
    }
  }
}
TEST_F(Prepare, LoopsRunAsTheOutputLies) {
  UOp o = buffer({6, 8}), x = buffer({8, 6}), i = loop(0, 6), j = loop(1, 8);
  k.slots[0].layout = Layout::permuted(std::vector<i64>{6, 8}, std::vector<i64>{1, 0});
  k.slots[1].layout = Layout::permuted(std::vector<i64>{8, 6}, std::vector<i64>{1, 0});
  finish({store(at(o, {i, j}), load(x, {j, i}), {i, j})});
  EXPECT_EQ(prepared(), "1 LOOP 8, 0 LOOP 6");
}
TEST_F(Prepare, OneLayoutForAllIsOneLoop) {
  UOp o = buffer({2, 3, 4}), x = buffer({2, 3, 4}), a = loop(0, 2), b = loop(1, 3), c = loop(2, 4);
  for (Slot& s : k.slots) s.layout = Layout::permuted(s.dims, std::vector<i64>{0, 2, 1});
  finish({store(at(o, {a, b, c}), load(x, {a, b, c}), {a, b, c})});
  EXPECT_EQ(prepared(), "4 LOOP 24") << "the order of the elements does not matter";
}
TEST_F(Prepare, AMatmulKeepsItsThreeLoops) {
  matmul(6, 8, 5);
  EXPECT_EQ(prepared(), "0 LOOP 6, 1 LOOP 8, 2 REDUCE 5");
}
TEST_F(Prepare, ReduceLoopsOverOneRunOfMemoryAreOne) {
  UOp o = buffer({3}), x = buffer({3, 4, 6}), i = loop(0, 3), a = reduce_loop(1, 4), b = reduce_loop(2, 6);
  finish({store(at(o, {i}), reduce(ReduceKind::Add, load(x, {i, a, b}), {a, b}), {i})});
  EXPECT_EQ(prepared(), "0 LOOP 3, 3 REDUCE 24");
}
TEST_F(Prepare, ReduceLoopsRunByTheirStride) {
  UOp o = buffer({3}), x = buffer({6, 3, 4}), i = loop(0, 3), a = reduce_loop(1, 4), b = reduce_loop(2, 6);
  finish({store(at(o, {i}), reduce(ReduceKind::Add, load(x, {b, i, a}), {a, b}), {i})});
  EXPECT_EQ(prepared(), "0 LOOP 3, 2 REDUCE 6, 1 REDUCE 4");
}
TEST_F(Prepare, TheLoopsOfARowStay) {
  row_max(6, 8);
  EXPECT_EQ(prepared(), "0 LOOP 6, 1 LOOP 8");
}
TEST_F(Prepare, AnIndexThatIsAValueKeepsItsLoops) {
  UOp o = buffer({6, 8}), x = buffer({6, 8}), i = loop(0, 6), j = loop(1, 8);
  finish({store(at(o, {i, j}), load(x, {i, j}) + cast(i, Kind::F32), {i, j})});
  EXPECT_EQ(prepared(), "0 LOOP 6, 1 LOOP 8");
}
TEST_F(Prepare, AGateKeepsItsLoops) {
  UOp o = buffer({6, 8}), x = buffer({6, 8}), i = loop(0, 6), j = loop(1, 8);
  finish({store(at(o, {i, j}), node(Op::Load, Kind::F32, {at(x, {i, j}), lt(j, idx(5)), konst_f(Kind::F32, 2)}), {i, j})});
  EXPECT_EQ(prepared(), "0 LOOP 6, 1 LOOP 8");
}
TEST_F(Prepare, OrderedAxesAreLeftAlone) {
  stream(6, 8);
  k.ordered = {1};
  EXPECT_EQ(prepared(), "0 LOOP 6, 1 LOOP 8");
}
TEST_F(Prepare, PreparingTwiceChangesNothing) {
  matmul(6, 8, 5);
  Kernel q = prepare(k);
  EXPECT_EQ(prepare(q).ast, q.ast);
}

}  // namespace
