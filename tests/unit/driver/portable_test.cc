#include "driver/portable.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "base/error.h"
#include "driver/schedule_cache.h"
#include "ir/binary.h"
#include "ir/text.h"

using namespace tg;
using namespace tg::driver;

namespace {

// Every kind of argument: none, integer, bits, list, string.
UOp sample() {
  Shape s = dims({2, 3, 4});
  UOp x = tensor::param(0, Kind::F32, s), w = tensor::constant(1, Kind::F32, s);
  UOp y = alu(Op::Add, {alu(Op::Mul, {x, w}), konst_f(Kind::F32, -0.1)});
  y = where(lt(y, konst_bits(Kind::F32, 0x7ff8000000000001)), y, konst_f(Kind::F32, std::numeric_limits<f64>::infinity()));
  y = tensor::reduce(tensor::permute(y, Ints{2, 0, 1}), ReduceKind::Max, {1});
  UOp i = cast(konst(Kind::I64, std::numeric_limits<i64>::min()), Kind::F32);
  UOp n = var("seq", 1, 512, 8);
  UOp z = tensor::expand(tensor::reshape(tensor::reduce(y, ReduceKind::Add, {0, 1}), {idx(1)}), {n});
  return node(Op::Sink, Kind::Void, {alu(Op::Sub, {y, i}), z});
}

}  // namespace

static std::vector<u8> one_graph(const Graph& g, std::vector<u32> constant_of) {
  const Graph* graphs[] = {&g};
  std::span<const u32> of[] = {constant_of};
  return write_graphs(graphs, of);
}

TEST(Binary, GivesTheSameGraphInAnotherArena) {
  Arena a;
  std::vector<u8> bytes;
  std::string text;
  {
    Arena::Scope scope(a);
    UOp u = sample();
    text = print(u), bytes = write_binary(u);
    EXPECT_EQ(read_binary(bytes)[0], u) << "in its own arena it is the node itself";
  }
  Arena b;
  Arena::Scope scope(b);
  konst(Kind::I32, 5);  // ids differ
  std::vector<UOp> back = read_binary(bytes);
  ASSERT_EQ(back.size(), 1u);
  EXPECT_EQ(print(back[0]), text);
  EXPECT_EQ(write_binary(back[0]), bytes);
}

TEST(Binary, KeepsTheOrderOfRootsAndWhatTheyShare) {
  Arena a;
  Arena::Scope scope(a);
  UOp x = konst(Kind::I32, 1), y = alu(Op::Shl, {tensor::param(0, Kind::I32, dims({3})), x});
  std::vector<UOp> roots{y, x, y};
  EXPECT_EQ(read_binary(write_binary(roots)), roots);
}

TEST(Binary, RefusesWhatIsCutShort) {
  Arena a;
  Arena::Scope scope(a);
  std::vector<u8> bytes = write_binary(sample());
  for (size_t n = 0; n < bytes.size(); n++) EXPECT_THROW(read_binary(std::span(bytes).first(n)), Error) << n;
  bytes.push_back(0);
  EXPECT_THROW(read_binary(bytes), Error);
}

TEST(Binary, FlippedBytesGiveAnErrorOrAGraph) {
  Arena a;
  Arena::Scope scope(a);
  std::vector<u8> bytes = write_binary(sample());
  for (size_t i = 0; i < bytes.size(); i++)
    for (u8 bit : {1, 16, 128}) {
      std::vector<u8> bad = bytes;
      bad[i] ^= bit;
      try {
        read_binary(bad);
      } catch (const Error&) {}
    }
}

TEST(Portable, AGraphReadsBackFromABundlesConstants) {
  Graph g;
  g.arena = std::make_shared<Arena>();
  bundle::Loaded loaded;
  {
    Arena::Scope scope(*g.arena);
    Shape s = dims({4, 6});
    g.inputs.push_back({"x", Kind::F32, s});
    g.outputs.push_back({"y", Kind::F32, s});
    g.sink = node(Op::Sink, Kind::Void, {alu(Op::Add, {tensor::param(0, Kind::F32, s), tensor::constant(0, Kind::F32, s)})});
    g.state = {{0, 0}};
    std::vector<f32> v(24);
    for (size_t i = 0; i < 24; i++) v[i] = f32(i);
    auto bytes = std::make_shared<std::vector<u8>>(reinterpret_cast<u8*>(v.data()), reinterpret_cast<u8*>(v.data() + 24));
    g.constants.push_back({"w", Kind::F32, {4, 6}, *bytes, bytes});
    // In the bundle it is constant 1, packed in fours along the second axis, with padding.
    Layout l{{{1, 2}, {0, 4}, {1, 4}}};
    std::vector<u8> packed(size_t(l.elems()) * 4);
    apply_layout(l, g.constants[0].dims, 4, bytes->data(), packed.data());
    bundle::Form form{tgf::Dtype::F32, l.str(), bundle::Bytes::own(packed)};
    loaded.desc.constants.push_back({"other", tgf::Dtype::F32, {}, {}});
    loaded.desc.constants.push_back({"w", tgf::Dtype::F32, {4, 6}, {form}});
    loaded.desc.portable = bundle::Portable{one_graph(g, {1}), {}};
  }
  std::vector<Graph> graphs = read_graphs(loaded, "m.tgb");
  ASSERT_EQ(graphs.size(), 1u);
  const Graph& back = graphs[0];
  EXPECT_EQ(print(back.sink), print(g.sink));
  ASSERT_EQ(back.constants.size(), 1u);
  EXPECT_EQ(back.constants[0].name, "w");
  EXPECT_TRUE(std::ranges::equal(back.constants[0].bytes, g.constants[0].bytes));
  EXPECT_EQ(back.inputs[0].name, "x");
  EXPECT_EQ(back.state, g.state);
}

TEST(Portable, AStrippedBundleSaysSo) {
  bundle::Loaded loaded;
  try {
    read_graphs(loaded, "m.tgb");
    FAIL();
  } catch (const Error& e) { EXPECT_NE(std::string(e.what()).find("--strip"), std::string::npos); }
}

TEST(Portable, AConstantThatDoesNotFitIsAnError) {
  Graph g;
  g.arena = std::make_shared<Arena>();
  Arena::Scope scope(*g.arena);
  UOp c = tensor::constant(0, Kind::F32, dims({4}));
  g.sink = node(Op::Sink, Kind::Void, {c});
  g.outputs.push_back({"y", Kind::F32, shape(c)});
  for (auto [layout, bytes] : {std::pair{"", 12}, {"0/3", 12}, {"1/4", 16}, {"0/4 ", 15}, {"0/99999999999 0/99999999999", 16}}) {
    bundle::Loaded loaded;
    loaded.desc.constants.push_back(
        {"w", tgf::Dtype::F32, {4}, {{tgf::Dtype::F32, layout, bundle::Bytes::own(std::vector<u8>(size_t(bytes)))}}});
    loaded.desc.portable = bundle::Portable{one_graph(g, {0}), {}};
    EXPECT_THROW(read_graphs(loaded, "m.tgb"), Error) << layout;
  }
}

TEST(LayoutText, ReadsBack) {
  std::vector<i64> dims{5, 6};
  Layout l{{{0, 2}, {1, 6}, {0, 3}}};
  EXPECT_EQ(parse_layout(l.str(), dims), l);
  EXPECT_FALSE(parse_layout("0/5", dims)) << "axis 1 is missing";
  EXPECT_FALSE(parse_layout("0/5 1/6x", dims));
  EXPECT_FALSE(parse_layout("2/5 0/5 1/6", dims));
}

TEST(LayoutText, UndoIsTheInverseOfApply) {
  std::mt19937 random(3);
  std::vector<i64> dims{5, 7, 3};
  for (const Layout& l : {Layout{{{2, 3}, {0, 5}, {1, 7}}}, Layout{{{0, 2}, {1, 7}, {2, 3}, {0, 3}}},
                          Layout{{{1, 2}, {0, 5}, {1, 4}, {2, 4}}}, Layout::row_major(dims)}) {
    std::vector<u8> plain(105 * 4), packed(size_t(l.elems()) * 4), back(105 * 4);
    for (u8& b : plain) b = u8(random());
    apply_layout(l, dims, 4, plain.data(), packed.data());
    undo_layout(l, dims, 4, packed.data(), back.data());
    EXPECT_EQ(back, plain) << l.str();
  }
}

TEST(ScheduleCache, AScheduleReadsBackWhole) {
  Graph g;
  g.arena = std::make_shared<Arena>();
  Arena::Scope scope(*g.arena);
  Shape s = dims({1, 4, 6, 6});
  UOp x = tensor::param(0, Kind::F32, s), y = x;
  for (int i = 0; i < 2; i++) {  // two pools with borders
    y = tensor::pad(alu(Op::Exp, {y}), dims({0, 0, 1, 1}), dims({0, 0, 1, 1}), konst_f(Kind::F32, -1));
    y = tensor::reduce(tensor::window(y, {{2, 3}, {3, 3}, {1, 1}, {1, 1}}), ReduceKind::Max, {4, 5});
  }
  g.inputs.push_back({"x", Kind::F32, s});
  g.outputs.push_back({"y", Kind::F32, shape(y)});
  g.sink = node(Op::Sink, Kind::Void, {y});
  Result<Target> t = cpu_target("x86_64,x86-64-v3", "LLVM");
  ASSERT_TRUE(t);
  Schedule a = schedule(g, *t);
  std::vector<u8> bytes = write_schedule(a);
  Schedule b = read_schedule(bytes, g.arena);
  EXPECT_EQ(write_schedule(b), bytes);
  ASSERT_EQ(a.calls.size(), b.calls.size());
  for (size_t i = 0; i < a.calls.size(); i++) EXPECT_EQ(a.calls[i].ast, b.calls[i].ast) << i;
  for (size_t n = 0; n < bytes.size(); n += 7) EXPECT_THROW(read_schedule(std::span(bytes).first(n), g.arena), Error) << n;
}
