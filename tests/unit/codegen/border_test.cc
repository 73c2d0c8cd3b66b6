// The border of an output: each element of it is stored, once, with the fill value, and nothing else is touched.
#include <gtest/gtest.h>

#include <map>

#include "codegen/lower.h"
#include "ir/eval_kernel.h"
#include "ir/eval_linear.h"
#include "ir/spec.h"
#include "ir/text.h"

using namespace tg;

namespace {

struct Case {
  std::vector<i64> dims, before, after;
  std::vector<i64> order;  // of the axes in memory
  i64 tasks = 1;
};

class Border : public testing::TestWithParam<Case> {};

// The kernel stores 1 into the inside; fill is 5; what is never stored stays 9.
TEST_P(Border, SurroundsTheInside) {
  const Case& c = GetParam();
  Arena arena;
  Arena::Scope scope(arena);
  Target target;
  target.vector_bytes = 16;
  Kernel k;
  k.target = &target;
  Slot s;
  s.dims = c.dims, s.before = c.before, s.after = c.after, s.fill = konst_f(Kind::F32, 5).arg_bits();
  s.layout = Layout::permuted(c.dims, c.order);
  k.slots = {s};
  UOp out = tensor::param(0, Kind::F32, dims(std::span<const i64>(c.dims)));
  std::vector<UOp> ix{out}, loops;
  for (size_t a = 0; a < c.dims.size(); a++) {
    UOp r = range(idx(c.dims[a] - c.before[a] - c.after[a]), {i64(a), 0, 0, AxisKind::Loop});
    loops.push_back(r);
    ix.push_back(r + c.before[a]);
  }
  std::vector<UOp> src{node(Op::Index, Kind::F32, std::span<const UOp>(ix)), konst_f(Kind::F32, 1)};
  src.insert(src.end(), loops.begin(), loops.end());
  k.ast = node(Op::Sink, Kind::Void, {node(Op::Store, Kind::Void, std::span<const UOp>(src))});
  if (c.tasks > 1) k = *k.with({OptKind::Thread, 0, c.tasks});

  i64 n = count(c.dims);
  std::vector<f64> want;
  for (i64 i = 0; i < n; i++) {
    bool inside = true;
    i64 rest = i;
    for (size_t a = c.dims.size(); a-- > 0; rest /= c.dims[a]) inside &= rest % c.dims[a] >= c.before[a] && rest % c.dims[a] < c.dims[a] - c.after[a];
    want.push_back(inside ? 1 : 5);
  }
  UOp with_border = add_border(k.ast, k.slots, target);
  EXPECT_EQ(violation(Spec::Kernel, with_border), "");
  std::vector<Values> by_kernel{values(Kind::F32, c.dims, std::vector<f64>(size_t(n), 9))};
  eval_kernel(with_border, by_kernel);
  for (i64 i = 0; i < n; i++) EXPECT_EQ(by_kernel[0].number(i), want[size_t(i)]) << "element " << i;

  // And as a list, in memory order; the tasks in any order.
  Lowered low = lower(k);
  EXPECT_EQ(violation(low.linear), "");
  EXPECT_EQ(low.tasks, c.tasks);
  std::vector<Values> by_list{values(Kind::F32, {n}, std::vector<f64>(size_t(n), 9))};
  for (i64 t = low.tasks; t-- > 0;) eval_linear(low.linear, by_list, {}, t);
  std::vector<u8> from, to(size_t(n * 8));
  for (u64 x : by_list[0].v) from.insert(from.end(), reinterpret_cast<u8*>(&x), reinterpret_cast<u8*>(&x) + 8);
  undo_layout(s.layout, c.dims, 8, from.data(), to.data());
  for (i64 i = 0; i < n; i++) {
    f64 got;
    std::copy_n(to.data() + i * 8, 8, reinterpret_cast<u8*>(&got));
    EXPECT_EQ(got, want[size_t(i)]) << "element " << i << " of the list's";
  }
}
INSTANTIATE_TEST_SUITE_P(Shapes, Border,
                         testing::Values(Case{{5}, {1}, {2}, {0}}, Case{{5}, {0}, {1}, {0}}, Case{{3, 4}, {1, 1}, {0, 1}, {0, 1}},
                                         Case{{3, 4}, {1, 1}, {0, 1}, {1, 0}}, Case{{2, 4, 6, 8}, {0, 0, 1, 2}, {0, 0, 1, 2}, {0, 2, 3, 1}},
                                         Case{{1, 8, 5, 5}, {0, 0, 1, 1}, {0, 0, 1, 1}, {0, 2, 3, 1}}, Case{{1, 3, 6, 7}, {0, 0, 2, 0}, {0, 0, 0, 3}, {0, 1, 2, 3}},
                                         Case{{6, 4}, {1, 1}, {1, 1}, {0, 1}, 2}, Case{{6, 8}, {1, 2}, {1, 2}, {0, 1}, 4}, Case{{7, 16}, {2, 0}, {0, 0}, {0, 1}, 3}));

TEST(BorderStores, AreDisjoint) {
  Arena arena;
  Arena::Scope scope(arena);
  Target target;
  Slot s;
  s.dims = {4, 5, 6}, s.before = {1, 1, 1}, s.after = {1, 1, 1}, s.layout = Layout::row_major(s.dims);
  UOp out = tensor::param(0, Kind::F32, dims({4, 5, 6}));
  UOp one = node(Op::Store, Kind::Void, {node(Op::Index, Kind::F32, {out, idx(1), idx(1), idx(1)}), konst_f(Kind::F32, 1)});
  UOp ast = add_border(node(Op::Sink, Kind::Void, {one}), {s}, target);
  // 4*5*6 less the inside of 2*3*4.
  i64 stored = 0;
  for (UOp st : ast.src()) {
    if (st == one) continue;
    i64 n = 1;
    for (UOp r : closed_ranges(st)) n *= r.src(0).as_int();
    stored += n;
  }
  EXPECT_EQ(stored, 4 * 5 * 6 - 2 * 3 * 4);
  EXPECT_EQ(ast.nsrc(), 7u) << "two slabs an axis";
}
TEST(BorderStores, AKernelWithoutOneIsLeftAsItIs) {
  Arena arena;
  Arena::Scope scope(arena);
  Slot s;
  s.dims = {4}, s.layout = Layout::row_major(s.dims);
  UOp out = tensor::param(0, Kind::F32, dims({4}));
  UOp ast = node(Op::Sink, Kind::Void, {node(Op::Store, Kind::Void, {node(Op::Index, Kind::F32, {out, idx(1)}), konst_f(Kind::F32, 1)})});
  EXPECT_EQ(add_border(ast, {s}, Target{}), ast);
}

}  // namespace
