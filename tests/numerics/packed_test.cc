// Kinds under 8 bits in memory: a load finds its bits, a store leaves its neighbours alone.
#include <gtest/gtest.h>

#include "compiled.h"

using namespace tg;
using namespace tg::test;

namespace {

std::vector<u8> pack4(const std::vector<int>& v) {
  std::vector<u8> b((v.size() + 1) / 2);
  for (size_t i = 0; i < v.size(); i++) b[i / 2] |= u8((v[i] & 15) << (i % 2 * 4));
  return b;
}
std::vector<int> unpack2(const std::vector<u8>& b) {
  std::vector<int> v;
  for (u8 x : b)
    for (int i = 0; i < 4; i++) v.push_back(x >> (2 * i) & 3);
  return v;
}

// One loop over n: body(r) gives the effects; PARAM 0 has kind out, PARAM 1 kind in.
struct Program {
  Arena arena;
  Arena::Scope scope{arena};
  Library lib;
  UOp out, in, n, r;
  std::vector<UOp> list;
  Program(Kind out_kind, Kind in_kind) {
    out = put(node(Op::Param, out_kind, {}, i64(0)));
    in = put(node(Op::Param, in_kind, {}, i64(1)));
    n = put(var("v0", 1, 1 << 20));
    r = put(range(n, {}));
  }
  UOp put(UOp u) { return list.push_back(u), u; }
  UOp load(UOp b, UOp at, int lanes = 1) { return node(Op::Load, b.dtype().vec(u16(lanes)), {node(Op::Index, b.dtype(), {b, at})}); }
  void store(UOp at, UOp v) { put(node(Op::Store, Kind::Void, {node(Op::Index, out.dtype(), {out, at}), v})); }
  void run(std::vector<u8>& o, const std::vector<u8>& i, i64 times) {
    put(node(Op::End, Kind::Void, {r}));
    lib.add(list, {});
    lib.build();
    lib.call(0, {o.data(), i.data()}, times);
  }
};

}  // namespace

TEST(Packed, ScalarStoresInAnyOrderKeepTheirNeighbours) {
  Program p(Kind::I4, Kind::I4);
  p.store(p.n - p.r - 1, p.load(p.in, p.r));
  std::vector<u8> out(4, 0xee);
  p.run(out, pack4({1, -2, 3, -4, 5}), 5);
  EXPECT_EQ(out, (std::vector<u8>{0xc5, 0xe3, 0xe1, 0xee}));  // 5 -4 3 -2 1, then the old 14
}
TEST(Packed, LanesAreLoadedFromAnyElement) {
  Program p(Kind::I32, Kind::I4);
  p.store(p.r * 8, node(Op::Cast, DType(Kind::I32, 8), {p.load(p.in, p.r * 8 + 1, 8)}));
  std::vector<u8> out(16 * 4);
  p.run(out, pack4({0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1, 7}), 2);
  const i32* v = reinterpret_cast<const i32*>(out.data());
  for (int i = 0; i < 16; i++) EXPECT_EQ(v[i], i < 7 ? i + 1 : i < 15 ? i - 15 : 7) << i;
}
TEST(Packed, LanesThatFillBytesAreStoredWithoutReadingThem) {
  Program p(Kind::U2, Kind::U8);
  p.store(p.r * 8, node(Op::Cast, DType(Kind::U2, 8), {p.load(p.in, p.r * 8, 8)}));
  std::vector<u8> out(5, 0xff);
  p.run(out, {0, 1, 2, 3, 3, 2, 1, 0, 4, 5, 6, 7, 0, 0, 1, 1}, 2);
  EXPECT_EQ(unpack2(out), (std::vector<int>{0, 1, 2, 3, 3, 2, 1, 0, 0, 1, 2, 3, 0, 0, 1, 1, 3, 3, 3, 3}));
  EXPECT_EQ(p.lib.source(0).find("= p0["), std::string::npos) << p.lib.source(0);
}
TEST(Packed, LanesAtAnOddElementAreMergedOneByOne) {
  Program p(Kind::I4, Kind::I8);
  p.store(p.r * 4 + 1, node(Op::Cast, DType(Kind::I4, 4), {p.load(p.in, p.r * 4, 4)}));
  std::vector<u8> out(5, 0x99);
  p.run(out, {1, 2, 3, 4, 5, 6, 7, 0}, 2);
  EXPECT_EQ(out, (std::vector<u8>{0x19, 0x32, 0x54, 0x76, 0x90}));
}
TEST(Packed, GatesGuardLanes) {
  Program p(Kind::I4, Kind::I4);
  DType i8(Kind::Index, 4), b4(Kind::Bool, 4);
  UOp at = node(Op::Broadcast, i8, {p.r * 4}) + node(Op::Lanes, i8, {});
  UOp odd = ne(at & konst(i8, 1), konst(i8, 0));
  UOp x = node(Op::Load, DType(Kind::I4, 4), {node(Op::Index, Kind::I4, {p.in, p.r * 4}), odd, konst(DType(Kind::I4, 4), -1)});
  UOp below6 = lt(at, konst(i8, 6));
  p.put(node(Op::Store, Kind::Void, {node(Op::Index, Kind::I4, {p.out, p.r * 4}), x, below6}));
  std::vector<u8> out(4, 0x88);
  p.run(out, pack4({1, 2, 3, 4, 5, 6, 7, 0}), 2);
  EXPECT_EQ(out, (std::vector<u8>{0x2f, 0x4f, 0x6f, 0x88}));
}
TEST(Packed, StackArraysHoldOneElementAByte) {
  Program p(Kind::I4, Kind::I4);
  UOp row = node(Op::Row, Kind::I4, {idx(4)}, RowArg{}.ints());
  p.list.insert(p.list.end() - 1, row);  // before the loop
  p.put(node(Op::Store, Kind::Void, {node(Op::Index, Kind::I4, {row, idx(2)}), p.load(p.in, p.r)}));
  UOp seen = node(Op::After, Kind::I4, {row, p.list.back()});
  p.store(p.r, p.load(seen, idx(2)));
  std::vector<u8> out(2, 0);
  p.run(out, pack4({1, -2, 3, -4}), 4);
  EXPECT_EQ(out, pack4({1, -2, 3, -4}));
}
