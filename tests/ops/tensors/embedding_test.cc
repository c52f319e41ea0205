// Embeddings: scatter order, padding, ids outside the table.
#include "ops/tensors/embedding.h"

#include <gtest/gtest.h>

#include "autograd/differentiate.h"
#include "core/error.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/sums/reduce.h"
#include "tests/support/eval.h"

namespace pal {
namespace {

using Floats = std::vector<float>;

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

// Of the table the rows of its ids alone are read and written; without a sum it is filled before.
TEST(Embedding, ItsGradientCostsTheRowsThatItTouches) {
  const TensorSpec dy{{10, 3}}, ids{{10}, DType::i32}, table{{500, 3}};
  const Specs out{table};
  const auto cost = [&](const TensorSpec& sum) {
    return cost_of(embedding_grad_op, Specs{dy, ids, sum}, out, EmbeddingGradAttrs{500});
  };
  EXPECT_EQ(cost(table).flops, 30);
  EXPECT_EQ(cost(table).bytes, 10 * 4 + 3 * 30 * 4);
  EXPECT_EQ(cost({}).bytes, cost(table).bytes + 500 * 3 * 4);
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
