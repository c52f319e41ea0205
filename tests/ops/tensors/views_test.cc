// Views, columns and reversal against index formulas, and the gradients that accumulate.
#include "ops/tensors/views.h"

#include <gtest/gtest.h>

#include <numeric>

#include "autograd/differentiate.h"
#include "core/error.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/columns.h"
#include "ops/tensors/row_order.h"
#include "tests/support/eval.h"

namespace pal {
namespace {

using Floats = std::vector<float>;

Floats counting(int64_t n) {
  Floats x(static_cast<size_t>(n));
  std::iota(x.begin(), x.end(), 1.0f);
  return x;
}

struct Case {
  Builder builder;
  Val x;
  explicit Case(Shape shape) : x(builder.input("x", {shape})) {}
  // sum over y of weight * y, weights 1, 2, 3, ..; its gradient with respect to x.
  Floats gradient(const std::vector<Val>& y) {
    Val loss;
    for (Val v : y) {
      Val flat = reshape(v, {v.spec().numel()});
      Val part = sum_all(mul(flat, builder.input("w" + std::to_string(weights++), flat.spec())));
      loss = loss ? sub(part, scale(loss, -1)) : part;
    }
    builder.output("dx", differentiate(builder, loss, {x})[0]);
    return run("dx");
  }
  Floats run(const char* name) {
    test::Evaluator eval(builder.take());
    eval.set("x", counting(eval.program().value(x.id).spec.numel()));
    for (int i = 0; i < weights; ++i) {
      const std::string w = "w" + std::to_string(i);
      eval.set(w, counting(eval.program().value(eval.find(w)).spec.numel()));
    }
    eval.run();
    return eval.floats(name);
  }
  int weights = 0;
};

TEST(Views, SliceTakesRowsAndItsGradientAccumulates) {
  Case rows({4, 2});
  rows.builder.output("y", slice(rows.x, 1, 3));
  EXPECT_EQ(rows.run("y"), (Floats{3, 4, 5, 6}));
  Case both({4, 2});
  EXPECT_EQ(both.gradient({slice(both.x, 0, 3), slice(both.x, 2, 4)}),
            (Floats{1, 2, 3, 4, 5 + 1, 6 + 2, 3, 4}));
}

TEST(Views, UnreadTimeStepsHaveZeroGradient) {
  Case c({3, 2});
  const std::vector<Val> steps = unbind(c.x);
  EXPECT_EQ(c.gradient({steps[2], steps[0]}), (Floats{1, 2, 0, 0, 1, 2}));
}

TEST(Views, StackOfAbsentIsZeroAndAllAbsentIsAnError) {
  Case c({2});
  c.builder.output("y", stack({Val{}, c.x, Val{}}));
  EXPECT_EQ(c.run("y"), (Floats{0, 0, 1, 2, 0, 0}));
  EXPECT_THROW(stack({Val{}, Val{}}), ProgramError);
}

TEST(Views, WindowsAreWhereTheKernelsLook) {
  Case c({4, 2});
  Val part = slice(c.x, 3, 4);
  const Node& node = c.builder.program().nodes[0];
  const auto windows =
      slice_op.windows(std::vector{c.x.spec()}, std::vector{part.spec()}, node.attrs);
  ASSERT_EQ(windows.size(), 1u);
  EXPECT_EQ(windows[0].offset, 3 * 2 * 4);
}

TEST(Views, Errors) {
  Case c({4, 2});
  EXPECT_THROW(slice(c.x, 2, 5), ProgramError);
  EXPECT_THROW(slice(c.x, 3, 2), ProgramError);
  EXPECT_THROW(reshape(c.x, {3, 3}), ProgramError);
  EXPECT_THROW(unbind(c.builder.input("v", {{4}})), ProgramError);
  EXPECT_THROW(slice(c.builder.input("bits", {{4, 3}, DType::bit}), 0, 2), ProgramError);
  EXPECT_THROW(slice(c.builder.input("nibbles", {{4, 3}, DType::u4}), 0, 2), ProgramError);
  EXPECT_EQ(slice(c.builder.input("pairs", {{4, 6}, DType::u4}), 1, 3).spec().bytes(), 6);
  EXPECT_THROW(stack({c.x, c.builder.input("z", {{2, 4}})}), ProgramError);
  EXPECT_THROW(split(c.x, {1, 2}), ProgramError);
  EXPECT_THROW(slice_columns(c.x, 1, 3), ProgramError);
}

TEST(Columns, JoinAndPart) {
  Case c({2, 3});
  const std::vector<Val> parts = split(c.x, {1, 2});
  c.builder.output("y", concatenate({parts[1], parts[0], parts[1]}));
  EXPECT_EQ(c.run("y"), (Floats{2, 3, 1, 2, 3, 5, 6, 4, 5, 6}));
  Case d({2, 3});
  const std::vector<Val> cut = split(d.x, {1, 2});
  EXPECT_EQ(d.gradient({concatenate({cut[1], cut[0], cut[1]})}),
            (Floats{3, 1 + 4, 2 + 5, 8, 6 + 9, 7 + 10}));
}

TEST(Reverse, KeepsPaddingAndIsItsOwnInverse) {
  Builder builder;
  Val x = builder.input("x", {{4, 2}}), lengths = builder.input("lengths", {{2}, DType::i32});
  Val y = reverse(x, lengths);
  builder.output("y", y);
  builder.output("again", reverse(y, lengths));
  test::Evaluator eval(builder.take());
  eval.set("x", counting(8));
  eval.set("lengths", {3, 0});
  eval.run();
  EXPECT_EQ(eval.floats("y"), (Floats{5, 2, 3, 4, 1, 6, 7, 8}));
  EXPECT_EQ(eval.floats("again"), counting(8));
  eval.set("lengths", {3, 5});
  EXPECT_THROW(eval.run(), ProgramError);
}

}  // namespace
}  // namespace pal
