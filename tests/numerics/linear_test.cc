// What decompose() and the renderer make of lists: loops, accumulators, lanes that are no power of two, horizontal reduces.
#include <gtest/gtest.h>

#include <cmath>

#include "compiled.h"

using namespace tg;
using namespace tg::test;

namespace {
struct Builder {
  Arena arena;
  Arena::Scope scope{arena};
  std::vector<UOp> list;
  Library lib;
  UOp put(UOp u) { return list.push_back(u), u; }
  UOp param(i64 slot, Kind k) { return put(node(Op::Param, k, {}, slot)); }
  UOp load(UOp b, UOp at, int lanes = 1) { return put(node(Op::Load, b.dtype().vec(u16(lanes)), {node(Op::Index, b.dtype(), {b, at})})); }
  void store(UOp b, UOp at, UOp v) { put(node(Op::Store, Kind::Void, {node(Op::Index, b.dtype(), {b, at}), v})); }
  void run(const std::vector<const void*>& args, i64 n = 0) {
    lib.add(list, {});
    lib.build();
    lib.call(0, args, n);
  }
};
}  // namespace

TEST(Linear, ThreeLanesTouchThreeElements) {
  Builder b;
  UOp out = b.param(0, Kind::F32), in = b.param(1, Kind::F32);
  b.store(out, idx(1), b.put(alu(Op::Neg, {b.load(in, idx(0), 3)})));
  f32 o[6] = {9, 9, 9, 9, 9, 9}, i[3] = {1, 2, 3};
  b.run({o, i});
  EXPECT_EQ(std::vector<f32>(o, o + 6), (std::vector<f32>{9, -1, -2, -3, 9, 9}));
}
// One node may stand in a list twice: the accumulator is read again after it has changed.
TEST(Linear, AnAccessThatIsListedTwiceIsDoneTwice) {
  Builder b;
  UOp out = b.param(0, Kind::F32), acc = b.put(node(Op::Reg, Kind::F32, {}, i64(0))), one = konst_f(Kind::F32, 1);
  b.put(node(Op::Store, Kind::Void, {acc, one}));
  UOp read = b.put(node(Op::Load, Kind::F32, {acc}));
  UOp twice = b.put(read + read);
  b.put(node(Op::Store, Kind::Void, {acc, twice}));
  b.put(read);
  b.put(twice);
  b.store(out, idx(0), twice);
  f32 o = 0;
  b.run({&o});
  EXPECT_EQ(o, 4);
}
TEST(Linear, SumsOfALoopLeaveItThroughTheirAccumulator) {
  Builder b;
  UOp out = b.param(0, Kind::BF16), in = b.param(1, Kind::BF16), n = b.put(var("v0", 0, 100));
  UOp acc = b.put(node(Op::Reg, Kind::F32, {}, i64(0)));
  b.put(node(Op::Store, Kind::Void, {acc, konst_f(Kind::F32, 0)}));
  UOp r = b.put(range(n, {}));
  UOp x = b.put(node(Op::Cast, Kind::F32, {b.load(in, r)}));
  UOp before = b.put(node(Op::Load, Kind::F32, {node(Op::After, Kind::F32, {acc, r})}));
  b.put(node(Op::Store, Kind::Void, {acc, b.put(x + before)}));
  UOp end = b.put(node(Op::End, Kind::Void, {r}));
  UOp sum = b.put(node(Op::Load, Kind::F32, {node(Op::After, Kind::F32, {acc, end})}));
  b.store(out, idx(0), b.put(node(Op::Cast, Kind::BF16, {sum})));
  u16 o = 1, i[3] = {0x3f80, 0x4000, 0x4040};  // 1, 2, 3
  b.run({&o, i}, 3);
  EXPECT_EQ(o, 0x40c0);  // 6
  b.lib.call(0, {&o, i}, 0);
  EXPECT_EQ(o, 0);
}
TEST(Linear, HorizontalReduces) {
  for (int lanes : {2, 3, 4, 8, 16}) {
    Builder b;
    UOp out = b.param(0, Kind::F32), in = b.param(1, Kind::F32), flags = b.param(2, Kind::Bool);
    UOp v = b.load(in, idx(0), lanes), f = b.load(flags, idx(0), lanes);
    auto h = [&](ReduceKind k, UOp x) { return b.put(node(Op::HReduce, x.dtype().scalar(), {x}, i64(k))); };
    b.store(out, idx(0), h(ReduceKind::Add, v));
    b.store(out, idx(1), h(ReduceKind::Max, v));
    b.store(out, idx(2), h(ReduceKind::Min, v));
    b.store(out, idx(3), b.put(node(Op::Cast, Kind::F32, {h(ReduceKind::Max, f)})));  // any
    b.store(out, idx(4), b.put(node(Op::Cast, Kind::F32, {h(ReduceKind::Mul, f)})));  // all
    f32 o[5], i[16];
    u8 t[16] = {};
    for (int k = 0; k < 16; k++) i[k] = f32(k + 1), t[k] = k == 1;
    b.run({o, i, t});
    EXPECT_EQ(std::vector<f32>(o, o + 5), (std::vector<f32>{f32(lanes * (lanes + 1) / 2), f32(lanes), 1, 1, 0})) << lanes;
    i[1] = NAN;
    b.lib.call(0, {o, i, t}, 0);
    for (int k = 0; k < 3; k++) EXPECT_TRUE(std::isnan(o[k])) << lanes << " " << k;
  }
}
// A bool is a byte of 0 or 1, also where its lanes are bits.
TEST(Linear, BoolsAsBytesAndBack) {
  for (int lanes : {1, 2, 4, 8, 16, 32}) {
    Builder b;
    UOp bytes = b.param(0, Kind::U8), bools = b.param(1, Kind::Bool), from = b.param(2, Kind::Bool), to = b.param(3, Kind::U8);
    UOp x = b.load(from, idx(0), lanes), y = b.load(to, idx(0), lanes);
    b.store(bytes, idx(0), b.put(node(Op::Bitcast, {Kind::U8, u16(lanes)}, {x})));
    b.store(bools, idx(0), b.put(node(Op::Bitcast, {Kind::Bool, u16(lanes)}, {y})));
    u8 o[2][32] = {}, i[32], want[2][32] = {};
    for (int k = 0; k < 32; k++) i[k] = k * 5 % 7 < 3;
    for (int k = 0; k < lanes; k++) want[0][k] = want[1][k] = i[k];
    b.run({o[0], o[1], i, i});
    EXPECT_EQ(std::vector<u8>(&o[0][0], &o[0][0] + 64), std::vector<u8>(&want[0][0], &want[0][0] + 64)) << lanes;
  }
}
// Memory where a gate is false is not touched: an address outside may stand behind it.
TEST(Linear, GatesGuardMemory) {
  Builder b;
  UOp out = b.param(0, Kind::F32), in = b.param(1, Kind::F32);
  DType i8(Kind::Index, 8), v8(Kind::F32, 8);
  UOp far = konst(Kind::Index, i64(1) << 40), lanes = b.put(node(Op::Lanes, i8, {}));
  UOp low = b.put(lt(lanes, konst(i8, 3)));
  UOp at = b.put(where(low, lanes, konst(i8, i64(1) << 40)));
  UOp gathered = b.put(node(Op::Load, v8, {node(Op::Index, Kind::F32, {in, at}), low, konst_f(v8, 7)}));
  b.put(node(Op::Store, Kind::Void, {node(Op::Index, Kind::F32, {out, at}), gathered, low}));
  UOp never = b.put(lt(b.load(in, idx(0)), konst_f(Kind::F32, 0)));
  UOp x = b.put(node(Op::Load, Kind::F32, {node(Op::Index, Kind::F32, {in, far}), never, konst_f(Kind::F32, 5)}));
  b.put(node(Op::Store, Kind::Void, {node(Op::Index, Kind::F32, {out, far}), x, never}));
  b.store(out, idx(3), x);
  f32 o[4] = {}, i[3] = {1, 2, 3};
  b.run({o, i});
  EXPECT_EQ(std::vector<f32>(o, o + 4), (std::vector<f32>{1, 2, 3, 5}));
}
