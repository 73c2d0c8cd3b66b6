// What PREFETCH asks for: each line of the next panel once, in the rounds of this one; a page ahead where a panel is read once.
#include <gtest/gtest.h>

#include <set>

#include "codegen/lower.h"
#include "ir/spec.h"
#include "rules/symbolic.h"
#include "../opt/small_kernel.h"

using namespace tg;

namespace {

constexpr i64 kFloatsALine = 16;

class Prefetched : public SmallKernel {
 protected:
  // A line of slot 2 that is read or asked for.
  struct Touch {
    bool hint;
    i64 line;
  };
  std::vector<Touch> touches(const Kernel& kernel) {
    list_ = lower(kernel).linear;
    EXPECT_EQ(violation(list_), "");
    out_.clear();
    walk(0, {});
    return out_;
  }

 private:
  using Values = std::vector<std::pair<UOp, UOp>>;
  static i64 number(UOp offset, const Values& at) {
    UOp n = simplify(substitute(offset, at));
    EXPECT_TRUE(n.is_const()) << n.str();
    return n.as_int();
  }
  // Runs the loops from a place of the list to the END of the loop that it is in; returns where that is.
  size_t walk(size_t at, Values values) {
    for (; at < list_.size() && !list_[at].is(Op::End); at++) {
      UOp u = list_[at];
      if (u.is(Op::Range)) {
        size_t end = at;
        for (i64 i = 0, n = number(u.src(0), values); i < n; i++) {
          Values inner = values;
          inner.push_back({u, idx(i)});
          end = walk(at + 1, inner);
        }
        at = end;
      } else if (u.in(Op::Load | Op::Prefetch) && u.src(0).is(Op::Index) && u.src(0).src(0).is(Op::Param) && u.src(0).src(0).arg_int() == 2) {
        i64 first = number(u.src(0).src(1), values), lanes = u.is(Op::Load) ? u.dtype().lanes : 1;
        for (i64 e = first; e < first + lanes; e += kFloatsALine) out_.push_back({u.is(Op::Prefetch), e / kFloatsALine});
      }
    }
    return at;
  }
  std::vector<UOp> list_;
  std::vector<Touch> out_;
};

// 64 columns in 2 panels of 2 vectors, 32 steps, 8 rows in 2 rounds of 4: a panel has 64 lines, and each round asks for half of the next.
TEST_F(Prefetched, EachLineOfTheNextPanelOnce) {
  matmul(8, 64, 32);
  target.vector_bytes = 64;
  k.slots[2].constant = true;
  for (const char* rows : {"UPCAST 0 4", "UPCAST 0 8", "UPCAST 0 2"}) {
    std::vector<Touch> all = touches(with(k, str("VECTOR 1 16, UPCAST 1 2, TILE 1 1, ", rows, ", PACK 2, PREFETCH 2")));
    std::vector<std::multiset<i64>> asked(1), read(1);  // by panel
    size_t reads = 0, a_panel = 0;
    for (const Touch& t : all) a_panel += !t.hint;
    a_panel /= 2;
    for (const Touch& t : all) {
      if (!t.hint && reads && reads % a_panel == 0 && read.size() * a_panel <= reads) read.push_back({}), asked.push_back({});
      (t.hint ? asked : read).back().insert(t.line);
      reads += !t.hint;
    }
    ASSERT_EQ(read.size(), 2u) << rows;
    std::set<i64> next(read[1].begin(), read[1].end()), hinted(asked[0].begin(), asked[0].end());
    EXPECT_EQ(next.size(), 64u) << rows;
    if (str(rows) == "UPCAST 0 8") {  // one round: no panel is read twice, so hints run ahead of the stream
      EXPECT_EQ(asked[0].size(), 64u);
      EXPECT_EQ(*asked[0].begin(), 4096 / 64);
      continue;
    }
    EXPECT_TRUE(std::includes(hinted.begin(), hinted.end(), next.begin(), next.end())) << rows;
    for (i64 line : next) EXPECT_EQ(asked[0].count(line), 1u) << rows;
  }
}

// Rows at the border of a picture run over fewer taps: what they ask for is in the next panel too, and the list is in order.
TEST_F(Prefetched, WindowsThatRunOverTheTapsInside) {
  target.vector_bytes = 64;
  UOp o = buffer({32, 8}), x = buffer({32, 8}), f = buffer({32, 32, 3}, true), n = loop(0, 32), h = loop(1, 8), c = reduce_loop(2, 32), t = reduce_loop(3, 3);
  UOp tap = node(Op::Load, Kind::F32, {at(x, {c, h + t - 1}), lt(idx(0), h + t) & lt(h + t, idx(9)), konst_f(Kind::F32, 0)});
  finish({store(at(o, {n, h}), reduce(ReduceKind::Add, tap * load(f, {n, c, t}), {c, t}), {n, h})});
  Kernel q = with(k, "VECTOR 0 16, TILE 0 1, PACK 2, PREFETCH 2, TRIM 3");
  std::set<i64> asked;
  size_t reads = 0, panel = (8 * 3 - 2) * 32;
  for (const Touch& touch : touches(q)) {
    if (touch.hint && reads <= panel) asked.insert(touch.line);
    reads += !touch.hint;
  }
  std::erase_if(asked, [](i64 line) { return line < 96; });  // the rounds after the first name their own panel
  EXPECT_EQ(asked.size(), 64u) << "the two taps of the first row, for each of 32 channels";
  EXPECT_LT(*asked.rbegin(), 192);
}

TEST_F(Prefetched, NothingWithoutTheOpt) {
  matmul(8, 64, 32);
  target.vector_bytes = 64;
  k.slots[2].constant = true;
  for (const Touch& t : touches(with(k, "VECTOR 1 16, UPCAST 1 2, TILE 1 1, UPCAST 0 4, PACK 2"))) EXPECT_FALSE(t.hint);
}

}  // namespace
