// Strided lanes that are neighbours of each other become rows: nothing is loaded or stored element by element, and a turned matrix is right.
#include <gtest/gtest.h>

#include "codegen/lower.h"
#include "ir/eval_linear.h"
#include "ir/spec.h"

using namespace tg;

namespace {

struct Case {
  Kind kind;
  i64 rows, columns;  // of the input; the output is its transpose
  i64 lanes, width;   // VECTOR along one axis, UPCAST along the other
  bool lanes_read;    // lanes along the input's rows (its loads are strided), or along its columns (the stores are)
};
std::string name_of(const testing::TestParamInfo<Case>& i) {
  const Case& c = i.param;
  return str(name(c.kind), "_", c.rows, "x", c.columns, "_", c.lanes, "by", c.width, c.lanes_read ? "_loads" : "_stores");
}

class Turned : public testing::TestWithParam<Case> {};

TEST_P(Turned, AMatrix) {
  const Case& c = GetParam();
  Arena arena;
  Arena::Scope scope(arena);
  Target target;
  target.vector_bytes = 64;
  Kernel k;
  k.target = &target;
  k.slots.resize(2);
  k.slots[0].dims = {c.columns, c.rows}, k.slots[1].dims = {c.rows, c.columns};
  for (Slot& s : k.slots) s.layout = Layout::row_major(s.dims);
  UOp out = tensor::param(0, c.kind, dims({c.columns, c.rows})), in = tensor::param(1, c.kind, dims({c.rows, c.columns}));
  UOp i = range(idx(c.columns), {0, 0, 0, AxisKind::Loop}), j = range(idx(c.rows), {1, 0, 0, AxisKind::Loop});
  UOp x = node(Op::Load, c.kind, {node(Op::Index, c.kind, {in, j, i})});
  k.ast = node(Op::Sink, Kind::Void, {node(Op::Store, Kind::Void, {node(Op::Index, c.kind, {out, i, j}), x, i, j})});
  i64 lane = c.lanes_read ? 1 : 0;
  if ((c.lanes_read ? c.rows : c.columns) % c.lanes) k = *k.with({OptKind::PadTo, lane, c.lanes});
  k = *k.with({OptKind::Vector, lane, c.lanes});
  k = *k.with({OptKind::Upcast, 1 - lane, c.width});

  std::vector<UOp> list = lower(k).linear;
  EXPECT_EQ(violation(list), "");
  i64 shuffles = 0;
  for (UOp u : list) {
    shuffles += u.is(Op::Shuffle);
    if (u.in(Op::Load | Op::Store) && u.src(0).is(Op::Index)) {
      EXPECT_EQ(u.src(0).src(1).dtype().lanes, 1) << "element by element: " << u.str();
    }
  }
  EXPECT_GT(shuffles, 0);

  i64 n = c.rows * c.columns;
  std::vector<f64> from, want(static_cast<size_t>(n));
  for (i64 at = 0; at < n; at++) from.push_back(f64(at % 113));
  for (i64 r = 0; r < c.rows; r++)
    for (i64 col = 0; col < c.columns; col++) want[size_t(col * c.rows + r)] = from[size_t(r * c.columns + col)];
  std::vector<Values> buffers{values(c.kind, {n}, std::vector<f64>(size_t(n), 99)), values(c.kind, {n}, from)};
  eval_linear(list, buffers, {}, 0);
  for (i64 at = 0; at < n; at++) ASSERT_EQ(buffers[0].number(at), want[size_t(at)]) << "element " << at;
}
INSTANTIATE_TEST_SUITE_P(
    Shapes, Turned,
    testing::Values(Case{Kind::F32, 16, 16, 16, 16, true}, Case{Kind::F32, 16, 16, 16, 16, false}, Case{Kind::F32, 32, 48, 16, 16, true},
                    Case{Kind::F32, 8, 24, 8, 8, true}, Case{Kind::F32, 24, 8, 8, 8, false}, Case{Kind::F32, 4, 4, 4, 4, true},
                    // Rows that fill no vector, of a width that is no power of two.
                    Case{Kind::F32, 16, 28, 16, 14, true}, Case{Kind::F32, 28, 16, 16, 14, false}, Case{Kind::F32, 16, 5, 16, 5, true},
                    Case{Kind::F32, 6, 16, 16, 6, false}, Case{Kind::F32, 32, 4, 16, 4, true}, Case{Kind::F32, 8, 16, 8, 8, false},
                    // Lanes that the last vector does not fill: a gate each.
                    Case{Kind::F32, 13, 16, 16, 16, true}, Case{Kind::F32, 16, 13, 16, 16, false}, Case{Kind::F32, 29, 14, 16, 14, true},
                    Case{Kind::F32, 14, 29, 16, 14, false}, Case{Kind::F32, 5, 4, 8, 4, true}, Case{Kind::U8, 12, 9, 16, 12, false},
                    Case{Kind::F64, 8, 8, 8, 8, true}, Case{Kind::F64, 8, 8, 4, 4, false}, Case{Kind::F64, 8, 7, 8, 7, true}, Case{Kind::I64, 16, 8, 8, 8, false},
                    Case{Kind::I16, 16, 16, 16, 16, true}, Case{Kind::U8, 16, 16, 16, 16, false}, Case{Kind::U8, 16, 12, 16, 12, true},
                    Case{Kind::F16, 16, 8, 8, 8, false}, Case{Kind::I32, 16, 16, 16, 8, true}),
    name_of);

// Two lanes apart, in two accesses: they lie in one another, which is no matrix of rows.
TEST(NotTurned, LanesCloserThanTheRowIsWide) {
  Arena arena;
  Arena::Scope scope(arena);
  Target target;
  target.vector_bytes = 64;
  Kernel k;
  k.target = &target;
  k.slots.resize(2);
  k.slots[0].dims = {8, 8}, k.slots[1].dims = {64};
  for (Slot& s : k.slots) s.layout = Layout::row_major(s.dims);
  UOp out = tensor::param(0, Kind::F32, dims({8, 8})), in = tensor::param(1, Kind::F32, dims({64}));
  UOp i = range(idx(8), {0, 0, 0, AxisKind::Loop}), j = range(idx(8), {1, 0, 0, AxisKind::Loop});
  UOp x = node(Op::Load, Kind::F32, {node(Op::Index, Kind::F32, {in, j * 2 + i})});
  k.ast = node(Op::Sink, Kind::Void, {node(Op::Store, Kind::Void, {node(Op::Index, Kind::F32, {out, i, j}), x, i, j})});
  k = *k.with({OptKind::Vector, 1, 8});
  k = *k.with({OptKind::Upcast, 0, 8});
  for (UOp u : lower(k).linear) EXPECT_FALSE(u.is(Op::Shuffle));
}

}  // namespace
