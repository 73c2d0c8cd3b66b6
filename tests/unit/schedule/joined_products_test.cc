// Which products of one activation are joined, what is picked, what kernels they become, and that these compute the same.
#include "base/settings.h"
#include "ir/eval.h"
#include "ir/eval_kernel.h"
#include "schedule/choice.h"
#include "small_graph.h"

using namespace tg;

namespace {

class JoinedProductsTest : public SmallGraph {
 protected:
  Target target = [] {
    Target t;
    t.vector_bytes = 64, t.fma_per_cycle_bytes = 128, t.l2_bytes = 1 << 20;
    return t;
  }();

  UOp weight_of(std::vector<i64> d, i64 modulus, Kind k = Kind::F32) {
    UOp u = weight(d, k);
    bytes.back() = encode(values(k, d, counting(tg::count(d), modulus)));
    g.constants.back().bytes = bytes.back();
    return u;
  }
  void finish(std::vector<UOp> outs) {
    g.arena = arena;
    for (UOp o : outs) g.outputs.push_back({"y", o.dtype(), shape(o)});
    g.sink = node(Op::Sink, Kind::Void, std::span<const UOp>(outs));
  }
  std::vector<Choice> choices(i64 wish = -1) {
    Context c{{settings::JOIN, wish}, {settings::SPLIT, 0}, {settings::A16W8, 0}, {settings::ATTENTION, 0}};
    return find_choices(g, target);
  }
  size_t kernel_count(i64 wish = 1) { return schedule(with_choices(g, target, choices(wish)), target).calls.size(); }
  // The outputs, by the kernels of the joined graph in the interpreter.
  std::vector<Values> run(const std::vector<Values>& in, bool derive = false) {
    Graph c = with_choices(g, target, choices(1), derive);
    for (ConstantData& k : c.constants)
      if (k.made_of) {
        EvalEnv env;
        env.constants = &c.constants;
        bytes.push_back(encode(eval(k.made_of, env)));
        k.bytes = bytes.back(), made++;
      }
    return computed(c, schedule(c, target), in);
  }
  i64 made = 0;
  static UOp with_bias(UOp y, UOp b) { return y + to(b, y); }
  static f64 product(const std::vector<f64>& a, i64 row, i64 depth, i64 column, i64 columns, i64 modulus) {
    std::vector<f64> w = counting(depth * columns, modulus);
    f64 sum = 0;
    for (i64 k = 0; k < depth; k++) sum += a[size_t(row * depth + k)] * w[size_t(k * columns + column)];
    return sum;
  }
};

TEST_F(JoinedProductsTest, HeadsOfFewColumnsAreOneProduct) {
  UOp x = input({8, 2048});
  finish({matmul(x, weight({2048, 4})), matmul(x, weight({2048, 10})), matmul(x, weight({2048, 2}))});
  std::vector<Choice> c = choices();
  ASSERT_EQ(c.size(), 1u);
  EXPECT_EQ(c[0].label, "products of 8x2048 with 4, 10, 2");
  EXPECT_EQ(c[0].picked, 1u);
  EXPECT_EQ(kernel_count(1), 4u);  // and a copy for each output
}

TEST_F(JoinedProductsTest, MultipliesAsTheyDoApart) {
  UOp x = input({3, 6});
  UOp y0 = with_bias(matmul(x, weight_of({6, 4}, 7)), weight_of({4}, 3)), y1 = matmul(x, weight_of({6, 5}, 11)),
      y2 = with_bias(matmul(x, weight_of({6, 2}, 5)), weight_of({2}, 7));
  finish({relu(y0), relu(y1), relu(y2)});
  ASSERT_EQ(choices(1).size(), 1u);
  std::vector<f64> a = counting(18, 13);
  std::vector<Values> got = run({values(Kind::F32, {3, 6}, a)});
  const i64 n[] = {4, 5, 2}, modulus[] = {7, 11, 5}, bias[] = {3, 0, 7};
  for (size_t m = 0; m < 3; m++)
    for (i64 i = 0; i < 3; i++)
      for (i64 j = 0; j < n[m]; j++) {
        f64 want = product(a, i, 6, j, n[m], modulus[m]) + (bias[m] ? counting(n[m], bias[m])[size_t(j)] : 0);
        EXPECT_EQ(got[m].number(i * n[m] + j), std::max(want, 0.0)) << m << " " << i << " " << j;
      }
}

// Keys of free size, as of a cache that grows, multiply one of the products: that one stays apart, the other two are joined.
TEST_F(JoinedProductsTest, WhatAReaderOfFreeSizeTakesStaysApart) {
  UOp x = input({4, 512}), n = var("P", 1, 64, 1), keys = tensor::param(1, Kind::F32, {n, idx(8)});
  g.inputs.push_back({"keys", Kind::F32, shape(keys)});
  UOp q = matmul(x, weight({512, 8}));
  Shape pairs{idx(4), n, idx(8)};
  UOp score = tensor::reduce(tensor::expand(tensor::reshape(q, {idx(4), idx(1), idx(8)}), pairs) * tensor::expand(tensor::reshape(keys, {idx(1), n, idx(8)}), pairs),
                             ReduceKind::Add, {2});
  finish({score, matmul(x, weight({512, 4})), matmul(x, weight({512, 10}))});
  std::vector<Choice> c = choices(1);
  ASSERT_EQ(c.size(), 1u);
  EXPECT_EQ(c[0].label, "products of 4x512 with 4, 10");
}

TEST_F(JoinedProductsTest, LargeWeightsAreMadeAtOpen) {
  UOp x = input({2, 64});
  finish({matmul(x, weight_of({64, 48}, 7)), matmul(x, weight_of({64, 80}, 11))});
  std::vector<f64> a = counting(128, 13);
  std::vector<Values> got = run({values(Kind::F32, {2, 64}, a)}, true);
  EXPECT_EQ(made, 1);
  const i64 n[] = {48, 80}, modulus[] = {7, 11};
  for (size_t m = 0; m < 2; m++)
    for (i64 i = 0; i < 2; i++)
      for (i64 j = 0; j < n[m]; j++) EXPECT_EQ(got[m].number(i * n[m] + j), product(a, i, 64, j, n[m], modulus[m]));
}

TEST_F(JoinedProductsTest, BytesStayBytes) {
  UOp x = input({2, 8});
  finish({matmul(x, cast(weight_of({8, 3}, 7, Kind::I8), Kind::F32)), matmul(x, cast(weight_of({8, 4}, 11, Kind::I8), Kind::F32))});
  std::vector<f64> a = counting(16, 13);
  std::vector<Values> got = run({values(Kind::F32, {2, 8}, a)});
  for (i64 i = 0; i < 2; i++)
    for (i64 j = 0; j < 4; j++) EXPECT_EQ(got[1].number(i * 4 + j), product(a, i, 8, j, 4, 11));
  EXPECT_EQ(with_choices(g, target, choices(1)).constants.back().dtype, DType(Kind::I8));
}

TEST_F(JoinedProductsTest, KeysStayApart) {
  const i64 t = 64, d = 32;
  UOp x = input({t, d}), q = matmul(x, weight({d, d})), k = matmul(x, weight({d, d})), v = matmul(x, weight({d, d}));
  finish({matmul(softmax(matmul(q, tensor::permute(k, Ints{1, 0}))), v)});
  std::vector<Choice> c = choices();
  ASSERT_EQ(c.size(), 1u);
  EXPECT_EQ(c[0].label, "products of 64x32 with 32, 32");
}

TEST_F(JoinedProductsTest, ManyRowsStayApart) {
  UOp x = input({128, 384}), q = matmul(x, weight({384, 384})), v = matmul(x, weight({384, 384}));
  finish({matmul(relu(q), weight({384, 64})), v});
  ASSERT_EQ(choices().size(), 1u);
  EXPECT_EQ(choices()[0].picked, 0u);
}

TEST_F(JoinedProductsTest, OtherActivationsAreOtherProducts) {
  UOp x = input({4, 64}), y = input({4, 64});
  finish({matmul(x, weight({64, 8})), matmul(y, weight({64, 8}))});
  EXPECT_TRUE(choices(1).empty());
}

TEST_F(JoinedProductsTest, ActivationsAreNoWeights) {
  UOp x = input({4, 64}), y = input({64, 8}), z = input({64, 8});
  finish({matmul(x, y), matmul(x, z)});
  EXPECT_TRUE(choices(1).empty());
}

}  // namespace
