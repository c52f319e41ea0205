// Sums against double precision, the same bits whatever the threads and the alignment, accumulation
// onto a sum.
#include "ops/sums/reduce.h"

#include <gtest/gtest.h>

#include <cmath>

#include "autograd/differentiate.h"
#include "core/error.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/kernels/tiles.h"
#include "ops/sums/square_tiles.h"
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

// A rank's piece is read once, and what it sends on is a float for each tile.
TEST(SquareTiles, CostAProductAndASumOfEachElement) {
  for (const DType type : {DType::f32, DType::bf16}) {
    const Specs in{{{7 * kTile + 3}, type}};
    const Cost cost = cost_of(square_tiles_op, in, infer_specs(square_tiles_op, in, {}), {});
    EXPECT_EQ(cost.flops, 2 * (7 * kTile + 3));
    EXPECT_EQ(cost.bytes, (7 * kTile + 3) * bits(type) / 8 + 8 * 4);
  }
}

}  // namespace
}  // namespace pal
