// What the schedule makes of LOOPs and BRANCHes: the steps, what stands before a loop, what is made in place, and who lives how long.
#include "schedule/steps.h"
#include "small_graph.h"

using namespace tg;

class Control : public SmallGraph {
 public:
  UOp yes() { return konst(Kind::Bool, 1); }
  UOp count() { return input({}, Kind::I64); }  // rounds that only a run knows: else a small loop is one kernel (rounds.h)
  UOp condition() { return tensor::reshape(input({1}, Kind::Bool), {}); }
  UOp carry(i64 i, std::vector<i64> d) { return tensor::carry({0, i}, Kind::F32, dims(std::span<const i64>(d))); }
  // "Call 0 | Set | While(Call 1 Set)"
  static std::string text(const std::vector<Step>& steps) {
    std::string t;
    for (const Step& x : steps) {
      if (!t.empty()) t += ' ';
      switch (x.kind) {
        case Step::Call: t += str(x.call); break;
        case Step::Read: t += "read"; break;
        case Step::Set: t += "set"; break;
        case Step::If: t += str("if(", text(x.then), ")else(", text(x.otherwise), ")"); break;
        case Step::While: t += str("while(", text(x.then), ")"); break;
      }
    }
    return t;
  }
  std::string text() const { return text(s.steps); }
  Span life_of(u32 buffer) { return lives(s, timeline(s))[buffer]; }
};

TEST_F(Control, WithoutLoopsTheStepsAreTheCalls) {
  EXPECT_EQ(kernels(matmul(softmax(input({4, 8})), weight({8, 8}))), 2);
  EXPECT_EQ(text(), "0 1");
}
TEST_F(Control, ALoopRunsItsKernelsInAWhile) {
  UOp x = input({4, 8}), c = carry(0, {4, 8});
  UOp l = tensor::loop(0, count(), yes(), std::vector<UOp>{x}, yes(), std::vector<UOp>{matmul(c, weight({8, 8}))}, {});
  kernels(tensor::get(l, 0));
  EXPECT_EQ(text(), "0 read set while(1 2 set)") << "the input is copied; a product, which reads all of the old value, and its copy";
}
TEST_F(Control, WhatIsTheSameInEachRoundIsMadeOnceBefore) {
  UOp x = input({4, 8}), w = weight({8, 8}), c = carry(0, {4, 8});
  UOp l = tensor::loop(0, count(), yes(), std::vector<UOp>{x}, yes(), std::vector<UOp>{c * c + matmul(x, w)}, {});
  kernels(tensor::get(l, 0));
  EXPECT_EQ(text(), "0 1 read set while(2 set)");
  EXPECT_EQ(s.calls[0].name.substr(0, 6), "matmul");
}
TEST_F(Control, ElementByElementTheCarriedValueIsUpdatedInPlace) {
  UOp x = input({4, 8}), c = carry(0, {4, 8});
  UOp l = tensor::loop(0, count(), yes(), std::vector<UOp>{x}, yes(), std::vector<UOp>{c * c}, {});
  kernels(tensor::get(l, 0));
  EXPECT_EQ(text(), "0 read set while(1 set)");
  EXPECT_EQ(s.calls[1].buffers.size(), 1u) << "one slot, read and written";
  EXPECT_EQ(s.calls[1].buffers[0], s.calls[0].buffers[0]);
}
TEST_F(Control, AnOldValueThatIsReadLaterIsNotOverwritten) {
  // q reads p of this round; r is made after q and reads the old q.
  UOp x = input({8}), p = carry(0, {8}), q = carry(1, {8});
  UOp next = p * p, other = tensor::flip(q, Ints{0}) + next;
  UOp l = tensor::loop(0, count(), yes(), std::vector<UOp>{x, x}, yes(), std::vector<UOp>{other, next}, {});
  kernels(std::vector<UOp>{tensor::get(l, 0), tensor::get(l, 1)});
  const std::vector<Step>& body = s.steps.back().then;
  // No kernel reads, at other places, what it writes.
  for (const Step& b : body)
    if (b.kind == Step::Call)
      for (UOp u : toposort(s.calls[b.call].ast))
        if (u.is(Op::Load) && u.src(0).src(0).arg_int() == 0) {
          EXPECT_EQ(u.src(0), s.calls[b.call].ast.src(0).src(0));
        }
}
TEST_F(Control, ARowOfEachRoundIsStoredInTheStackedResult) {
  UOp x = input({8}), c = carry(0, {8});
  UOp next = tensor::flip(c, Ints{0}) + c;
  UOp l = tensor::loop(0, idx(5), condition(), std::vector<UOp>{x}, yes(), std::vector<UOp>{next}, std::vector<UOp>{next});
  kernels(tensor::get(l, 1));
  EXPECT_EQ(output().dims, (std::vector<i64>{5, 8}));
  EXPECT_EQ(text(), "0 1 set read while(2 3 set)");
  EXPECT_EQ(s.buffers[s.calls[2].buffers[0]].kind, Buffer::Output) << "the next value is made there, and copied for the next round";
}
TEST_F(Control, UnreadResultsAreNotComputed) {
  UOp x = input({8}), c = carry(0, {8}), d = carry(1, {8});
  UOp l = tensor::loop(0, count(), yes(), std::vector<UOp>{x, x}, yes(), std::vector<UOp>{c + c, softmax(d)}, {});
  kernels(tensor::get(l, 0));
  EXPECT_EQ(text(), "0 read set while(1 set)");
  UOp b = tensor::branch(condition(), std::vector<UOp>{x + x, softmax(x)}, std::vector<UOp>{x * x, row_sum(x) + x});
  kernels(tensor::get(b, 0));
  EXPECT_EQ(text(), "0 read if(1)else(2)");
}
TEST_F(Control, ASmallLoopOfASideIsOneKernelThere) {
  UOp x = input({4, 8}), c = carry(0, {4, 8});
  UOp l = tensor::loop(0, idx(5), yes(), std::vector<UOp>{x}, yes(), std::vector<UOp>{matmul(c, weight({8, 8}))}, {});
  kernels(tensor::get(tensor::branch(condition(), std::vector<UOp>{tensor::get(l, 0)}, std::vector<UOp>{x + x}), 0));
  EXPECT_EQ(text(), "0 read if(1)else(2)");
  EXPECT_TRUE(s.calls[1].name.starts_with("rounds_5")) << s.calls[1].name;
}
TEST_F(Control, EachSideOfABranchStoresTheResult) {
  UOp x = input({4, 8});
  UOp b = tensor::branch(condition(), std::vector<UOp>{softmax(x)}, std::vector<UOp>{matmul(x, weight({8, 8}))});
  kernels(tensor::get(b, 0));
  EXPECT_EQ(text(), "0 read if(1)else(2)");
  EXPECT_EQ(s.calls[1].buffers[0], s.calls[2].buffers[0]);
  EXPECT_EQ(s.buffers[s.calls[1].buffers[0]].kind, Buffer::Output);
}
TEST_F(Control, OnlyOneReaderSideComputesItsValues) {
  UOp x = input({4, 8}), only = softmax(x), both = softmax(x + x);
  UOp b = tensor::branch(condition(), std::vector<UOp>{matmul(only, weight({8, 8})) + both}, std::vector<UOp>{both});
  kernels(tensor::get(b, 0));
  // What both sides read is made before; what one reads, in it.
  EXPECT_EQ(text(), "0 1 read if(2 3)else(4)");
}
TEST_F(Control, SidesShareMemory) {
  UOp x = input({64, 64}), w = weight({64, 64});
  UOp b = tensor::branch(condition(), std::vector<UOp>{matmul(matmul(x, w), w)}, std::vector<UOp>{matmul(matmul(softmax(x), w), w)});
  kernels(row_sum(tensor::get(b, 0)));
  i64 kb16 = 64 * 64 * 4;
  EXPECT_LE(s.arena_bytes, 4 * kb16 + 1024) << "the input, the result, and two of a side at most";
}
TEST_F(Control, WhatALoopFindsLivesThroughAllRounds) {
  UOp x = input({8, 8}), w = weight({8, 8}), c = carry(0, {8, 8}), before = softmax(x);
  UOp l = tensor::loop(0, count(), yes(), std::vector<UOp>{x}, yes(), std::vector<UOp>{matmul(matmul(c, w) + before, w)}, {});
  kernels(tensor::get(l, 0));
  Timeline t = timeline(s);
  ASSERT_EQ(t.loops.size(), 1u);
  for (size_t i = 0; i < s.calls.size(); i++)
    if (s.calls[i].name.starts_with("softmax")) {
      Span life = life_of(s.calls[i].buffers[0]);
      EXPECT_LT(life.first, t.loops[0].first);
      EXPECT_EQ(life.last, t.loops[0].last);
    }
}
TEST_F(Control, AConditionOfEachRoundIsRead) {
  UOp x = input({1}), c = carry(0, {1}), next = c + c;
  UOp go = tensor::reshape(lt(next, tensor::reshape(number(100), dims({1}))), {});
  UOp l = tensor::loop(0, idx(1000), condition(), std::vector<UOp>{x}, go, std::vector<UOp>{next}, {});
  kernels(tensor::get(l, 0));
  EXPECT_EQ(text().substr(text().find("while")), "while(2 3 read set)");
  EXPECT_NE(text().find("read while"), std::string::npos);
}
TEST_F(Control, ABorderIsNotLeftToOneSide) {
  UOp x = input({1, 2, 8, 8}), w = weight({2, 2, 3, 3});
  UOp b = tensor::branch(condition(), std::vector<UOp>{relu(x)}, std::vector<UOp>{x * x});
  kernels(conv(tensor::get(b, 0), w, 1));
  for (const Call& c : s.calls) EXPECT_FALSE(c.border) << c.name;
}
TEST_F(Control, ABorderIsStoredByACallWhoseFirstSlotItIs) {
  UOp x = input({1, 2, 8, 8}), w = weight({2, 2, 3, 3}), c = carry(0, {1, 2, 8, 8});
  UOp l = tensor::loop(0, idx(5), yes(), std::vector<UOp>{x}, yes(), std::vector<UOp>{c * c}, {});
  kernels(conv(tensor::get(l, 0), w, 1));
  ASSERT_TRUE(s.calls[0].name.starts_with("rounds"));
  for (const Buffer& b : s.buffers)
    if (!b.before.empty()) {
      EXPECT_EQ(&b, &s.buffers[s.calls[0].buffers[0]]);
    }
}
TEST_F(Control, WhatIsMadeBeforeALoopHasNoPlaceInItsRounds) {
  UOp x = input({4}), before = tensor::contiguous(x * x), c = carry(0, {4});
  UOp row = tensor::concat(std::vector<UOp>{c, before}, 0);
  UOp l = tensor::loop(0, idx(5), condition(), std::vector<UOp>{x}, yes(), std::vector<UOp>{c + c}, std::vector<UOp>{row});
  kernels(tensor::get(l, 1));
  Timeline t = timeline(s);
  ASSERT_EQ(t.loops.size(), 1u);
  for (size_t i = 0; i < s.calls.size(); i++)
    if (t.of_call[i] < t.loops[0].first) {
      EXPECT_NE(s.buffers[s.calls[i].buffers[0]].kind, Buffer::Output) << s.calls[i].name;
    }
}
TEST_F(Control, WhatIsCopiedAndThenChangedStaysForItsOtherReaders) {
  // Of each round's row: a is a scatter into it, b one into a copy of a; both are read afterwards.
  UOp x = input({6, 8}), i = input({8}, Kind::I64), c = carry(0, {1, 8}), round = tensor::step(0, idx(5));
  UOp zero = tensor::expand(tensor::reshape(konst(Kind::I64, 0), {idx(1), idx(1)}), {idx(1), idx(8)});
  UOp at[] = {zero, tensor::reshape(i, {idx(1), idx(8)})}, one[] = {idx(1), idx(1)};
  UOp row = tensor::shrink(x, {round, idx(0)}, {round + 1, idx(8)}, {one[0], one[1]});
  UOp a = tensor::scatter(row, row, at, ScatterKind::Set), b = tensor::scatter(a, row, at, ScatterKind::Max);
  UOp l = tensor::loop(0, idx(5), condition(), std::vector<UOp>{tensor::reshape(input({8}), {idx(1), idx(8)})}, yes(), std::vector<UOp>{tensor::flip(a, Ints{1}) + b + c}, {});
  kernels(tensor::get(l, 0));
  std::vector<u32> written;
  for (const Call& k : s.calls)
    if (k.name.starts_with("scatter")) written.push_back(k.buffers[0]);
  ASSERT_EQ(written.size(), 2u);
  EXPECT_NE(written[0], written[1]);
}
