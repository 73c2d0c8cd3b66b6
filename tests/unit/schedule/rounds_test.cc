// Loops that become one kernel: which do, and what it holds.
#include "schedule/rounds.h"
#include "small_graph.h"

using namespace tg;

namespace {

class Rounds : public SmallGraph {
 protected:
  UOp yes = konst(Kind::Bool, 1);
  // h = tanh(x[t] W + h R), `steps` rounds: the last h and all of them. x (steps, directions, batch, n).
  std::vector<UOp> rnn(i64 steps, i64 directions, i64 batch, i64 n, UOp go = {}, DType kind = Kind::F32, bool shared = false) {
    UOp x = input({steps, directions, batch, n}), t = tensor::step(0, idx(steps)), h = tensor::carry({0, 0}, Kind::F32, dims({directions, batch, n}));
    UOp now = tensor::reshape(tensor::slice(x, 0, t, t + 1), shape(h));
    UOp next = alu(Op::Tanh, {now + matmul(h, cast(shared ? weight({n, n}, kind) : weight({directions, n, n}, kind), Kind::F32))});
    UOp init = tensor::expand(tensor::reshape(number(0), dims({1, 1, 1})), shape(h));
    UOp l = tensor::loop(0, idx(steps), yes, std::vector<UOp>{init}, go ? go : yes, std::vector<UOp>{next}, std::vector<UOp>{next});
    return {tensor::get(l, 0), tensor::get(l, 1)};
  }
};

TEST_F(Rounds, ARecurrentLayerIsOneKernel) {
  EXPECT_EQ(kernels(rnn(9, 1, 1, 8)), 1);
  EXPECT_EQ(s.calls[0].ordered, (std::vector<i64>{0}));
  EXPECT_EQ(s.calls[0].outputs, 3u) << "h of two rounds, and both results";
}
TEST_F(Rounds, WhatIsTheSameInEachRoundIsComputedOnceBefore) {
  UOp t = tensor::step(0, idx(5)), x = input({5, 8}), h = tensor::carry({0, 0}, Kind::F32, dims({1, 8}));
  UOp products = matmul(x, weight({8, 8}));
  UOp next = alu(Op::Tanh, {h + tensor::slice(products, 0, t, t + 1)});
  UOp l = tensor::loop(0, idx(5), yes, std::vector<UOp>{input({1, 8})}, yes, std::vector<UOp>{next}, {});
  EXPECT_EQ(kernels(tensor::get(l, 0)), 2);
  EXPECT_EQ(holds(1, Op::Reduce), 0);
}
TEST_F(Rounds, DirectionsAreTheOutermostLoopOfAll) {
  EXPECT_EQ(kernels(rnn(9, 2, 1, 64)), 1);
  for (UOp st : s.calls[0].ast.src()) EXPECT_EQ(st.src(2).src(0), idx(2)) << st.str();
}
TEST_F(Rounds, RowsThatShareWeightsAreNoLoopAroundAll) {
  EXPECT_EQ(kernels(rnn(9, 2, 1, 64, {}, Kind::F32, true)), 1);
  std::vector<UOp> first, last;
  for (UOp st : s.calls[0].ast.src()) (st == s.calls[0].ast.src(0) ? first : last).push_back(st.src(2));
  for (UOp r : last) EXPECT_NE(r, first[0]);
}
TEST_F(Rounds, WeightsThatAreWidenedStayAsTheyAre) {
  EXPECT_EQ(kernels(rnn(9, 1, 1, 8, {}, Kind::I8)), 1);
  bool bytes = false;
  for (const Buffer& b : s.buffers) bytes |= b.kind == Buffer::Constant && b.dtype == DType(Kind::I8);
  EXPECT_TRUE(bytes);
}
TEST_F(Rounds, ALoopWhoseEndIsComputedIsNone) {
  UOp h = tensor::carry({0, 0}, Kind::F32, dims({1, 1, 8}));
  UOp small = tensor::reshape(lt(tensor::reduce(h, ReduceKind::Max, {0, 1, 2}), number(100)), {});
  UOp l = rnn(9, 1, 1, 8, small)[0];
  UOp closed = loops_to_rounds(node(Op::Sink, Kind::Void, {l}));
  for (UOp u : toposort(closed)) EXPECT_FALSE(u.is(Op::Recur));
}
TEST_F(Rounds, ALoopInsideSeesTheRoundOutside) {
  // The inner loop depends on the outer one by the number of its round alone.
  UOp t = tensor::step(0, idx(5)), u = tensor::step(1, idx(4)), h = tensor::carry({1, 0}, Kind::F32, dims({8})), o = tensor::carry({0, 0}, Kind::F32, dims({8}));
  UOp at = to(cast(t * 2 + u, Kind::F32), h), init = tensor::expand(tensor::reshape(number(0), dims({1})), shape(h));
  UOp inner = tensor::loop(1, idx(4), yes, std::vector<UOp>{init}, yes, std::vector<UOp>{alu(Op::Tanh, {h + at})}, {});
  UOp l = tensor::loop(0, idx(5), yes, std::vector<UOp>{input({8})}, yes, std::vector<UOp>{o + tensor::get(inner, 0)}, {});
  kernels(tensor::get(l, 0));
  for (const Step& x : s.steps) EXPECT_FALSE(x.kind == Step::Call && s.calls[x.call].name.starts_with("rounds_4")) << "it runs once, not in each round";
}
TEST_F(Rounds, AFirstValueThatNobodyReadsIsNotStored) {
  UOp t = tensor::step(0, idx(5)), x = input({5, 8});
  UOp l = tensor::loop(0, idx(5), yes, std::vector<UOp>{input({1, 8})}, yes, std::vector<UOp>{alu(Op::Tanh, {tensor::slice(x, 0, t, t + 1)})}, {});
  EXPECT_EQ(kernels(tensor::get(l, 0)), 1);
  EXPECT_EQ(s.calls[0].ast.nsrc(), 2u) << "what a round makes, and the last value";
}
TEST_F(Rounds, AConcatIsStoredOnceARound) {
  UOp t = tensor::step(0, idx(5)), x = input({5, 1, 3}), h = tensor::carry({0, 0}, Kind::F32, dims({1, 8}));
  std::vector<UOp> both{tensor::reshape(tensor::slice(x, 0, t, t + 1), dims({1, 3})), h};
  UOp l = tensor::loop(0, idx(5), yes, std::vector<UOp>{input({1, 8})}, yes, std::vector<UOp>{alu(Op::Tanh, {matmul(tensor::concat(both, 1), weight({11, 8}))})}, {});
  EXPECT_EQ(kernels(tensor::get(l, 0)), 1);
  EXPECT_EQ(s.calls[0].ast.nsrc(), 4u) << "the first value, the CONCAT, what a round makes, the last value";
}
// A list that grows in its buffer.
TEST_F(Rounds, WhatIsNewIsStoredBehindWhatIsThere) {
  UOp t = tensor::step(0, idx(5)), kept = tensor::carry({0, 0}, Kind::F32, dims({6, 8})), view = tensor::slice(kept, 0, idx(0), t + 1);
  UOp row = tensor::reshape(tensor::reduce(view, ReduceKind::Max, {0}), dims({1, 8}));
  UOp next = tensor::concat(std::vector<UOp>{view, row, tensor::slice(kept, 0, t + 2, idx(6))}, 0);
  UOp init = tensor::pad(input({1, 8}), dims({0, 0}), dims({5, 0}), number(0));
  UOp l = tensor::loop(0, idx(5), yes, std::vector<UOp>{init}, yes, std::vector<UOp>{next}, {});
  EXPECT_EQ(kernels(tensor::get(l, 0)), 2) << "the first value, and a row in each round";
  // Read beyond what is there, it is copied.
  UOp whole = tensor::reshape(tensor::reduce(kept, ReduceKind::Max, {0}), dims({1, 8}));
  next = tensor::concat(std::vector<UOp>{view, whole, tensor::slice(kept, 0, t + 2, idx(6))}, 0);
  l = tensor::loop(0, idx(5), yes, std::vector<UOp>{init}, yes, std::vector<UOp>{next}, {});
  EXPECT_GT(kernels(tensor::get(l, 0)), 2);
}
}  // namespace
