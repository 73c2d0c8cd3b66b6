// Graphs of a few layers, written as an importer builds them, and what the schedule makes of them.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <numeric>

#include "base/error.h"
#include "ir/eval.h"
#include "ir/eval_kernel.h"
#include "ir/spec.h"
#include "ir/text.h"
#include "schedule/schedule.h"

namespace tg {

class SmallGraph : public testing::Test {
 protected:
  Graph g;
  std::shared_ptr<Arena> arena = std::make_shared<Arena>();
  Arena::Scope scope{*arena};
  std::deque<std::vector<u8>> bytes;
  Schedule s;

  UOp input(std::vector<i64> dims, DType d = Kind::F32) {
    UOp u = tensor::param(i64(g.inputs.size()), d, tg::dims(std::span<const i64>(dims)));
    g.inputs.push_back({str("x", g.inputs.size()), d, shape(u)});
    return u;
  }
  UOp weight(std::vector<i64> dims, DType d = Kind::F32) {
    UOp u = tensor::constant(i64(g.constants.size()), d, tg::dims(std::span<const i64>(dims)));
    i64 n = 1;
    for (i64 x : dims) n *= x;
    bytes.emplace_back(size_t(byte_size(d.kind, n)), u8(0));
    g.constants.push_back({str("w", g.constants.size()), d, dims, bytes.back(), {}});
    return u;
  }

  // Schedules the graph of these outputs; every kernel must be legal. Returns how many there are.
  i64 kernels(std::vector<UOp> outputs) {
    g.arena = arena;
    g.outputs.clear();
    for (size_t i = 0; i < outputs.size(); i++) g.outputs.push_back({str("y", i), outputs[i].dtype(), shape(outputs[i])});
    g.sink = node(Op::Sink, Kind::Void, std::span<const UOp>(outputs));
    s = schedule(g, Target{});
    for (const Call& c : s.calls) EXPECT_EQ(violation(Spec::Kernel, c.ast), "") << c.name;
    return i64(s.calls.size());
  }
  i64 kernels(UOp output) { return kernels(std::vector<UOp>{output}); }

  std::vector<std::string> names() const {
    std::vector<std::string> v;
    for (const Call& c : s.calls) v.push_back(c.name);
    return v;
  }
  i64 scratch() const {  // scratch buffers that some kernel uses
    i64 n = 0;
    for (const Buffer& b : s.buffers) n += b.kind == Buffer::Scratch && b.offset >= 0;
    return n;
  }
  const Buffer& output(u32 index = 0) const {
    for (const Buffer& b : s.buffers)
      if (b.kind == Buffer::Output && b.index == index) return b;
    throw std::out_of_range("no such output");
  }
  // How many nodes of an op the call's kernel holds.
  i64 holds(size_t call, Op op) const {
    i64 n = 0;
    for (UOp u : toposort(s.calls[call].ast)) n += u.is(op);
    return n;
  }

  // The outputs of a graph by the kernels of its schedule, each in the interpreter.
  static std::vector<Values> computed(const Graph& graph, const Schedule& sched, const std::vector<Values>& inputs) {
    std::vector<Values> mem, out(graph.outputs.size());
    for (const Buffer& b : sched.buffers) {
      if (b.kind == Buffer::Input) mem.push_back(inputs[b.index]);
      else if (b.kind == Buffer::Constant) mem.push_back(decode(b.dtype, b.dims, graph.constants[b.index].bytes));
      else mem.push_back({b.dtype, b.dims, std::vector<u64>(size_t(tg::count(b.dims)), b.fill)});
    }
    for (const Call& c : sched.calls) {
      EXPECT_EQ(violation(Spec::Kernel, c.ast), "") << c.name;
      std::vector<Values> bufs;
      for (u32 b : c.buffers) bufs.push_back(mem[b]);
      eval_kernel(c.ast, bufs);
      mem[c.buffers[0]] = bufs[0];
    }
    for (size_t i = 0; i < sched.buffers.size(); i++)
      if (sched.buffers[i].kind == Buffer::Output) out.at(sched.buffers[i].index) = mem[i];
    return out;
  }
  // n small whole numbers around 0.
  static std::vector<f64> counting(i64 n, i64 modulus) {
    std::vector<f64> v;
    for (i64 i = 0; i < n; i++) v.push_back(f64(i * 5 % modulus) - f64(modulus / 2));
    return v;
  }

  // --- layers -------------------------------------------------------------------------------------------------------------------------
  static UOp number(f64 v) { return konst_f(Kind::F32, v); }
  static UOp to(UOp x, UOp like) { return tensor::broadcast_to(x, shape(like)); }
  static UOp relu(UOp x) { return max(x, number(0)); }
  static UOp per_channel(UOp v, UOp x) {  // v (C) over x (N, C, ...)
    Shape sh{shape(v)[0]};
    sh.insert(sh.end(), rank(x) - 2, idx(1));
    return to(tensor::reshape(v, sh), x);
  }
  // x (N, C, H, W), w (M, C, k, k), as a window, products and a sum.
  static UOp conv(UOp x, UOp w, i64 pad = 0, i64 stride = 1) {
    i64 k = const_shape(w)[2];
    if (pad) x = tensor::pad(x, dims({0, 0, pad, pad}), dims({0, 0, pad, pad}), number(0));
    UOp v = tensor::window(x, {{2, 3}, {k, k}, {stride, stride}, {1, 1}});  // N C H W k k
    std::vector<i64> d = const_shape(v);
    i64 m = const_shape(w)[0];
    UOp a = tensor::expand(tensor::reshape(v, dims({d[0], 1, d[1], d[2], d[3], k, k})), dims({d[0], m, d[1], d[2], d[3], k, k}));
    UOp b = tensor::expand(tensor::reshape(w, dims({1, m, d[1], 1, 1, k, k})), shape(a));
    return tensor::reduce(a * b, ReduceKind::Add, {2, 5, 6});
  }
  static UOp max_pool(UOp x, i64 k, i64 stride) { return tensor::reduce(tensor::window(x, {{2, 3}, {k, k}, {stride, stride}, {1, 1}}), ReduceKind::Max, {4, 5}); }
  // x (.., M, K) times w (K, N) or (.., K, N).
  static UOp matmul(UOp x, UOp w) {
    Shape a = shape(x), b = shape(w);
    Ints order;
    for (size_t i = 0; i < b.size(); i++) order.push_back(i64(i));
    std::swap(order[b.size() - 1], order[b.size() - 2]);
    UOp wt = tensor::permute(w, order);
    UOp m = a[a.size() - 2], k = a.back(), n = b.back();
    Shape xs(a.begin(), a.end() - 2), ws(b.begin(), b.end() - 2), full = xs;
    for (UOp u : {m, idx(1), k}) xs.push_back(u);
    for (UOp u : {idx(1), n, k}) ws.push_back(u);
    for (UOp u : {m, n, k}) full.push_back(u);
    UOp p = tensor::broadcast_to(tensor::reshape(x, xs), full) * tensor::broadcast_to(tensor::reshape(wt, ws), full);
    return tensor::reduce(p, ReduceKind::Add, {i64(full.size()) - 1});
  }
  static UOp keep_dim(UOp reduced, UOp x) {  // a reduce of the last axis over x again
    Shape sh = shape(x);
    sh.back() = idx(1);
    return to(tensor::reshape(reduced, sh), x);
  }
  static UOp row_sum(UOp x) { return tensor::reduce(x, ReduceKind::Add, {i64(rank(x)) - 1}); }
  static UOp row_max(UOp x) { return tensor::reduce(x, ReduceKind::Max, {i64(rank(x)) - 1}); }
  static UOp softmax(UOp x) {
    UOp e = alu(Op::Exp, {x - keep_dim(row_max(x), x)});
    return alu(Op::Div, {e, keep_dim(row_sum(e), e)});
  }
  UOp layer_norm(UOp x, bool affine = true) {
    f64 n = f64(const_shape(x).back());
    UOp d = x - keep_dim(row_sum(x) * number(1 / n), x);
    UOp var = row_sum(d * d) * number(1 / n);
    UOp y = d * keep_dim(alu(Op::Recip, {alu(Op::Sqrt, {var + number(1e-5)})}), d);
    if (!affine) return y;
    return y * to(weight({const_shape(x).back()}), y) + to(weight({const_shape(x).back()}), y);
  }
  static UOp gelu(UOp x) { return x * number(0.5) * (alu(Op::Erf, {x * number(0.70710678)}) + number(1)); }
  static UOp global_pool(UOp x) {
    std::vector<i64> d = const_shape(x);
    return tensor::reduce(x, ReduceKind::Add, {2, 3}) * number(1.0 / f64(d[2] * d[3]));
  }
};

}  // namespace tg
