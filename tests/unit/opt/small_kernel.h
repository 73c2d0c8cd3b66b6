// Kernels of a few loops, their loops as text, and whether an Opt left their meaning alone: what the interpreter makes of the kernel before, of
// the kernel after, and of its linear form must be the same numbers (small integers, so that no order of a sum shows).
#pragma once
#include <gtest/gtest.h>

#include <cstring>

#include "codegen/lower.h"
#include "ir/eval_kernel.h"
#include "ir/eval_linear.h"
#include "ir/spec.h"
#include "ir/text.h"
#include "opt/kernel.h"
#include "opt/prepare.h"

namespace tg {

class SmallKernel : public testing::Test {
 protected:
  Arena arena;
  Arena::Scope scope{arena};
  Target target;
  std::vector<UOp> params;
  Kernel k;
  std::vector<i64> sizes{0};  // values of the VAR called n, if a kernel has one, at which kernels are compared

  UOp buffer(std::vector<i64> dims, bool constant = false, DType d = Kind::F32) {
    Slot s;
    s.dims = dims, s.layout = Layout::row_major(dims), s.constant = constant;
    params.push_back(tensor::param(i64(params.size()), d, tg::dims(std::span<const i64>(dims))));
    k.slots.push_back(s);
    return params.back();
  }
  static UOp loop(i64 id, i64 size) { return range(idx(size), {id, 0, 0, AxisKind::Loop}); }
  static UOp reduce_loop(i64 id, i64 size, i64 phase = 1) { return range(idx(size), {id, 0, phase, AxisKind::Reduce}); }
  static UOp at(UOp buffer, std::vector<UOp> coords) {
    coords.insert(coords.begin(), buffer);
    return node(Op::Index, buffer.dtype(), std::span<const UOp>(coords));
  }
  static UOp load(UOp buffer, std::vector<UOp> coords) { return node(Op::Load, buffer.dtype(), {at(buffer, std::move(coords))}); }
  static UOp store(UOp address, UOp value, std::vector<UOp> loops) {
    loops.insert(loops.begin(), {address, value});
    return node(Op::Store, Kind::Void, std::span<const UOp>(loops));
  }
  static UOp reduce(ReduceKind kind, UOp value, std::vector<UOp> loops) {
    loops.insert(loops.begin(), value);
    return node(Op::Reduce, value.dtype(), std::span<const UOp>(loops), ReduceArg{kind, {}}.ints());
  }
  void finish(std::vector<UOp> stores) {
    k.ast = node(Op::Sink, Kind::Void, std::span<const UOp>(stores));
    k.target = &target;
    EXPECT_EQ(violation(Spec::Kernel, k.ast), "");
  }

  // --- kernels ------------------------------------------------------------------------------------------------------------------------
  // out[i, j] = x[i, j] * 3 + 1
  void stream(i64 n, i64 m) {
    UOp o = buffer({n, m}), x = buffer({n, m}), i = loop(0, n), j = loop(1, m);
    finish({store(at(o, {i, j}), load(x, {i, j}) * konst_f(Kind::F32, 3) + konst_f(Kind::F32, 1), {i, j})});
  }
  // out[i, j] = sum of a[i, l] * w[l, j]; w is a constant
  void matmul(i64 n, i64 m, i64 depth) {
    UOp o = buffer({n, m}), a = buffer({n, depth}), w = buffer({depth, m}, true), i = loop(0, n), j = loop(1, m), l = reduce_loop(2, depth);
    finish({store(at(o, {i, j}), reduce(ReduceKind::Add, load(a, {i, l}) * load(w, {l, j}), {l}), {i, j})});
  }
  // out[i, j] = x[i, j] - max of row i: axis 1 has two loops
  void row_max(i64 n, i64 m) {
    UOp o = buffer({n, m}), x = buffer({n, m}), i = loop(0, n), j = loop(1, m), l = reduce_loop(1, m);
    finish({store(at(o, {i, j}), load(x, {i, j}) - reduce(ReduceKind::Max, load(x, {i, l}), {l}), {i, j})});
  }
  // out[i, j] = e[i, j] * sum of row i of e, where e = exp(x - max of the row) is 1 for the largest: a row value of two phases
  void softmax(i64 n, i64 m) {
    UOp o = buffer({n, m}), x = buffer({n, m}), i = loop(0, n), j = loop(1, m), l = reduce_loop(1, m, 1), q = reduce_loop(1, m, 2);
    UOp most = reduce(ReduceKind::Max, load(x, {i, l}), {l});
    auto e = [&](UOp at_) { return alu(Op::Exp, {load(x, {i, at_}) - most}); };
    finish({store(at(o, {i, j}), alu(Op::Round, {e(j) * konst_f(Kind::F32, 16)}) * reduce(ReduceKind::Add, alu(Op::Round, {e(q) * konst_f(Kind::F32, 16)}), {q}), {i, j})});
  }
  // out[i] = index of the first largest x[i, l]: a FOLD
  void arg_max(i64 n, i64 depth) {
    UOp o = buffer({n}, false, Kind::I64), x = buffer({n, depth}), i = loop(0, n), l = reduce_loop(1, depth);
    auto hold = [](PlaceholderArg::Role r, i64 n_, DType d) { return tensor::placeholder({r, n_, 0}, d); };
    UOp in = hold(PlaceholderArg::Input, 0, Kind::F32), at_ = hold(PlaceholderArg::Input, 1, Kind::I64);
    UOp best = hold(PlaceholderArg::State, 0, Kind::F32), where_ = hold(PlaceholderArg::State, 1, Kind::I64);
    UOp b0 = hold(PlaceholderArg::Side0, 0, Kind::F32), b1 = hold(PlaceholderArg::Side1, 0, Kind::F32);
    UOp w0 = hold(PlaceholderArg::Side0, 1, Kind::I64), w1 = hold(PlaceholderArg::Side1, 1, Kind::I64);
    auto better = [](UOp a, UOp i_, UOp b, UOp j_) { return lt(b, a) | (eq(a, b) & lt(i_, j_)); };  // (a, i) before (b, j)
    UOp s = better(in, at_, best, where_), m = better(b0, w0, b1, w1);
    UOp fold = node(Op::Fold, Kind::Void,
                    {load(x, {i, l}), cast(l, Kind::I64), konst_f(Kind::F32, -1e30), konst(Kind::I64, 1 << 30), where(s, in, best), where(s, at_, where_),
                     where(m, b0, b1), where(m, w0, w1), l},
                    FoldArg{2, 2, {}}.ints());
    finish({store(at(o, {i}), node(Op::Get, Kind::I64, {fold}, 1), {i})});
  }

  // --- checks -------------------------------------------------------------------------------------------------------------------------
  // The loops as they stand: "0 LOOP 3, 1 LOOP 2, 1/1 VECTOR 4", output loops first.
  static std::string loops(const Kernel& q) {
    constexpr const char* kNames[] = {"GLOBAL", "LOCAL", "WARP", "TASK", "LOOP", "UPCAST", "VECTOR", "UNROLL", "REDUCE", "GROUP"};
    return join(axes(q.ast), ", ", [&](const Axis& a) {
      return str(a.id, a.part ? str("/", a.part) : std::string(), " ", kNames[int(a.kind)], " ", a.size < 0 ? std::string("?") : str(a.size));
    });
  }
  Kernel with(const Kernel& q, std::string_view opts) {
    auto list = parse_opts(opts);
    TG_CHECK(list, list.why());
    Kernel r = q;
    for (const Opt& o : *list) {
      Result<Kernel> n = r.with(o);
      if (!n) {
        ADD_FAILURE() << o.str() << " is refused: " << n.why();
        return r;
      }
      r = *n;
    }
    EXPECT_EQ(opts_text(r.opts), opts);
    same(q, r);
    return r;
  }
  std::string refusal(std::string_view opt) { return refusal(k, opt); }
  static std::string refusal(const Kernel& q, std::string_view opt) { return refusal(q, parse_opts(opt)->at(0)); }
  static std::string refusal(const Kernel& q, const Opt& opt) {
    Result<Kernel> n = q.with(opt);
    return n ? "accepted" : n.why();
  }

  // The numbers that each buffer holds at first, by logical coordinate.
  Values content(size_t slot) const {
    const Slot& s = k.slots[slot];
    Values v{params[slot].dtype(), s.dims, {}};
    std::vector<f64> n(size_t(count(s.dims)));
    u64 x = 88172645463325252ull + slot;
    for (f64& f : n) {
      x ^= x << 13, x ^= x >> 7, x ^= x << 17;
      f = f64(i64(x % 15) - 7);
    }
    for (size_t i = 0; slot > 0 && !s.before.empty() && i < n.size(); i++) {  // its border is zero
      i64 rest = i64(i);
      for (size_t a = s.dims.size(); a-- > 0; rest /= s.dims[a])
        if (rest % s.dims[a] < s.before[a] || rest % s.dims[a] >= s.dims[a] - s.after[a]) n[i] = 0;
    }
    return values(v.dtype, s.dims, n);
  }
  static Values moved(const Values& v, const Layout& l, bool back) {
    std::vector<u8> from, to;
    for (u64 x : v.v) from.insert(from.end(), reinterpret_cast<u8*>(&x), reinterpret_cast<u8*>(&x) + 8);
    to.resize(size_t((back ? count(v.dims) : l.elems()) * 8));
    Values r{v.dtype, back ? v.dims : std::vector<i64>{l.elems()}, {}};
    back ? undo_layout(l, v.dims, 8, from.data(), to.data()) : apply_layout(l, v.dims, 8, from.data(), to.data());
    r.v.resize(to.size() / 8);
    std::memcpy(r.v.data(), to.data(), to.size());
    return r;
  }
  std::vector<u64> by_kernel(const Kernel& q, const Vars& vars) {
    std::vector<Values> b;
    for (size_t i = 0; i < params.size(); i++) b.push_back(content(i));
    eval_kernel(q.ast, b, vars);
    return b[0].v;
  }
  std::vector<u64> by_list(const Kernel& q, const Vars& vars) {
    Lowered low = lower(q);
    EXPECT_EQ(violation(low.linear), "") << print_list(low.linear);
    std::vector<Values> b;
    for (size_t i = 0; i < params.size(); i++) b.push_back(moved(content(i), q.slots[i].layout, false));
    for (i64 t = 0; t < low.tasks; t++) eval_linear(low.linear, b, vars, t);
    b[0].dims = k.slots[0].dims;
    return moved(b[0], q.slots[0].layout, true).v;
  }
  void same(const Kernel& before, const Kernel& after) {
    EXPECT_EQ(violation(Spec::Kernel, after.ast), "") << opts_text(after.opts);
    // A packed kernel may read the zeros of a constant's padding, which no logical coordinate names.
    bool packed = std::any_of(after.opts.begin(), after.opts.end(), [](const Opt& o) { return o.kind == OptKind::Pack; });
    for (i64 n : sizes) {
      Vars vars{{"n", n}};
      std::vector<u64> want = by_kernel(before, vars);
      EXPECT_TRUE(packed || by_kernel(after, vars) == want) << "kernel form, " << opts_text(after.opts) << ", n " << n << '\n' << print(after.ast);
      EXPECT_EQ(by_list(after, vars), want) << "linear form, " << opts_text(after.opts) << ", n " << n << '\n' << print_list(lower(after).linear);
    }
  }
};

}  // namespace tg
