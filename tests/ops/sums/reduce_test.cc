// Sums against double precision, the same bits whatever the threads and the alignment, accumulation
// onto a sum, and embeddings: scatter order, padding, ids outside the table.
#include "ops/sums/reduce.h"

#include <gtest/gtest.h>

#include <cmath>

#include "autograd/differentiate.h"
#include "core/error.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/tensors/embedding.h"
#include "tests/support/eval.h"

namespace pal {
namespace {

using Floats = std::vector<float>;

Floats noise(int64_t n) {
  Floats x(static_cast<size_t>(n));
  uint32_t h = 1;
  for (float& v : x) h = h * 1664525u + 1013904223u, v = float(h >> 8) * 0x1p-23f - 1;
  return x;
}

TEST(Reduce, SumsAreRightAndAlwaysTheSameBits) {
  constexpr int64_t kRows = 1031, kColumns = 139;
  Builder builder;
  Val x = builder.input("x", {{kRows, kColumns}});
  builder.output("rows", sum_rows(x, builder.input("sum", {{kColumns}})));
  builder.output("all", sum_all(x));
  const Floats values = noise(kRows * kColumns), sum = noise(kColumns);
  Floats rows, all;
  for (int run = 0; run < 6; ++run) {
    test::Evaluator eval(builder.program(),
                         {.threads = 1 + run % 3, .offset = run * 4, .stride = 12});
    eval.set("x", values);
    eval.set("sum", sum);
    eval.run();
    if (run == 0) rows = eval.floats("rows"), all = eval.floats("all");
    EXPECT_EQ(rows, eval.floats("rows"));
    EXPECT_EQ(all, eval.floats("all"));
  }
  double total = 0;
  for (int64_t c = 0; c < kColumns; ++c) {
    double expected = double(sum[size_t(c)]);
    for (int64_t r = 0; r < kRows; ++r) {
      expected += double(values[size_t(r * kColumns + c)]);
      total += double(values[size_t(r * kColumns + c)]);
    }
    EXPECT_NEAR(rows[size_t(c)], expected, 1e-4);
  }
  EXPECT_NEAR(all[0], total, 1e-2);
}

TEST(Reduce, BroadcastsOverLeadingAxes) {
  Builder builder;
  Val keys = builder.input("keys", {{2, 2, 2}}), q = builder.input("q", {{2, 2}});
  Val y = add_broadcast(keys, q);
  builder.output("y", y);
  Val loss = sum_all(mul(y, keys));
  const std::vector<Val> d = differentiate(builder, loss, {q});
  builder.output("dq", d[0]);
  builder.output("wide", broadcast_leading(q, {3, 2, 2}));
  test::Evaluator eval(builder.take());
  eval.set("keys", {1, 2, 3, 4, 5, 6, 7, 8});
  eval.set("q", {10, 20, 30, 40});
  eval.run();
  EXPECT_EQ(eval.floats("y"), (Floats{11, 22, 33, 44, 15, 26, 37, 48}));
  EXPECT_EQ(eval.floats("dq"), (Floats{6, 8, 10, 12}));
  EXPECT_EQ(eval.floats("wide"), (Floats{10, 20, 30, 40, 10, 20, 30, 40, 10, 20, 30, 40}));
}

// A bias that is read at every time step: one sum, no add nodes.
TEST(Reduce, BiasGradientsAccumulate) {
  Builder builder;
  Val bias = builder.weight("bias", {{3}}, {});
  Val a = add_bias(builder.input("a", {{2, 3}}), bias);
  Val b = add_bias(a, bias);
  builder.output("db", differentiate(builder, sum_all(b), {bias})[0]);
  int sums = 0;
  for (const Node& node : builder.program().nodes) {
    EXPECT_STRNE(node.op->name, "add");
    sums += node.op == &sum_leading_op;
  }
  EXPECT_EQ(sums, 2);
  test::Evaluator eval(builder.take());
  eval.set("a", Floats(6, 1));
  eval.set("bias", Floats(3, 1));
  eval.run();
  EXPECT_EQ(eval.floats("db"), (Floats{4, 4, 4}));
}

TEST(Reduce, Errors) {
  Builder builder;
  Val x = builder.input("x", {{2, 3}}), b = builder.input("b", {{2}});
  EXPECT_THROW(add_bias(x, b), ProgramError);
  EXPECT_THROW(sum_leading(x, 2), ProgramError);
  EXPECT_THROW(sum_rows(x, b), ProgramError);
  EXPECT_THROW(broadcast_leading(b, {2, 3}), ProgramError);
}

struct Lookup {
  Builder builder;
  Val weights = builder.weight("w", {{4, 2}}, {});
  Val ids = builder.input("ids", {{2, 2}, DType::i32});
};

TEST(Embedding, GathersAndScatters) {
  Lookup c;
  Val y = embedding(c.weights, c.ids, 1);
  EXPECT_EQ(y.shape(), (Shape{2, 2, 2}));
  c.builder.output("y", y);
  Val loss = sum_all(mul(y, c.builder.input("r", {{2, 2, 2}})));
  c.builder.output("dw", differentiate(c.builder, loss, {c.weights})[0]);
  test::Evaluator eval(c.builder.take());
  eval.set("w", {1, 2, 3, 4, 5, 6, 7, 8});
  eval.set("ids", {3, 1, 0, 3});
  eval.set("r", {1, 2, 3, 4, 5, 6, 7, 8});
  eval.run();
  EXPECT_EQ(eval.floats("y"), (Floats{7, 8, 3, 4, 1, 2, 7, 8}));
  EXPECT_EQ(eval.floats("dw"), (Floats{5, 6, 0, 0, 0, 0, 8, 10}));  // the padding's row is 0
}

// In f32, 2^24 + 1 + 1 is 2^24 but 1 + 1 + 2^24 is 2^24 + 2: ids are added in their order.
TEST(Embedding, AddsInTheOrderOfTheIds) {
  Builder builder;
  Val dy = builder.input("dy", {{6, 1}}), ids = builder.input("ids", {{6}, DType::i32});
  builder.output("dw", embedding_grad(dy, ids, {}, 2));
  test::Evaluator eval(builder.take(), {.threads = 2});
  eval.set("dy", {0x1p24f, 1, 1, 1, 1, 0x1p24f});
  eval.set("ids", {0, 1, 0, 1, 0, 1});
  eval.run();
  EXPECT_EQ(eval.floats("dw"), (Floats{0x1p24f, 0x1p24f + 2}));
}

TEST(Embedding, AnIdOutsideTheTableIsNamed) {
  for (float bad : {-1.0f, 4.0f}) {
    Lookup c;
    c.builder.output("y", embedding(c.weights, c.ids));
    test::Evaluator eval(c.builder.take());
    eval.set("ids", {0, 3, bad, 0});
    try {
      eval.run();
      FAIL();
    } catch (const ProgramError& error) {
      const std::string what = error.what();
      EXPECT_NE(what.find("id " + std::to_string(int(bad)) + " at position 2"), std::string::npos)
          << what;
    }
  }
}

}  // namespace
}  // namespace pal
