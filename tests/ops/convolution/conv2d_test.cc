// conv2d and its gradients against plain loops in double, from plain and from preferred weights,
// with the same bits for any number of threads; reorder; max_pool and batch_norm at their edges.
#include "ops/convolution/conv2d.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/builder.h"
#include "core/prepare.h"
#include "memory/passes/layouts.h"
#include "ops/convolution/max_pool.h"
#include "ops/norms/batch_norm.h"
#include "ops/tensors/reorder.h"
#include "tests/support/eval.h"
#include "tests/support/numbers.h"

namespace pal {
namespace {

using test::Evaluator;
using test::numbers;
using Floats = std::vector<float>;

constexpr int64_t N = 5, H = 9, W = 8, C = 19, O = 21, K = 3;
const Shape kImage{N, H, W, C}, kWeights{O, K, K, C};
const Conv2dAttrs kAttrs = conv2d_attrs(2, 1);

// y, dx and dw in one program, from x, w and dy.
Program record() {
  Builder builder;
  Val x = builder.input("x", {kImage}), w = builder.input("w", {kWeights});
  Val y = conv2d(x, w, kAttrs);
  Val dy = builder.input("dy", y.spec());
  Conv2dAttrs image = kAttrs, kernel = kAttrs;
  image.height = H, image.width = W, kernel.height = kernel.width = K;
  builder.output("y", y);
  builder.output("dx", conv2d_data_grad(dy, w, image));
  builder.output("dw", conv2d_weight_grad(x, dy, kernel));
  return builder.take();
}

struct Results {
  Floats y, dx, dw;
  bool operator==(const Results&) const = default;
};

Results run(const Program& program, test::EvalOptions options = {}) {
  Evaluator eval(program, options);
  eval.set("x", numbers(kImage.numel(), 1));
  eval.set("w", numbers(kWeights.numel(), 2));
  eval.set("dy", numbers(program.value(program.input("dy")).spec.numel(), 3));
  eval.run();
  return {eval.floats("y"), eval.floats("dx"), eval.floats("dw")};
}

TEST(Conv2d, AgreesWithLoops) {
  const Results got = run(record());
  const int64_t OH = 5, OW = 4;
  ASSERT_EQ(got.y.size(), size_t(N * OH * OW * O));
  const Floats x = numbers(kImage.numel(), 1), w = numbers(kWeights.numel(), 2);
  const Floats dy = numbers(int64_t(got.y.size()), 3);
  std::vector<double> y(got.y.size()), dx(x.size()), dw(w.size());
  for (int64_t n = 0; n < N; ++n)
    for (int64_t i = 0; i < OH; ++i)
      for (int64_t j = 0; j < OW; ++j)
        for (int64_t k = 0; k < K; ++k)
          for (int64_t l = 0; l < K; ++l) {
            const int64_t h = 2 * i + k - 1, v = 2 * j + l - 1;
            if (h < 0 || h >= H || v < 0 || v >= W) continue;
            for (int64_t o = 0; o < O; ++o)
              for (int64_t c = 0; c < C; ++c) {
                const size_t at_x = size_t(((n * H + h) * W + v) * C + c);
                const size_t at_w = size_t(((o * K + k) * K + l) * C + c);
                const size_t at_y = size_t(((n * OH + i) * OW + j) * O + o);
                y[at_y] += double(x[at_x]) * double(w[at_w]);
                dx[at_x] += double(dy[at_y]) * double(w[at_w]);
                dw[at_w] += double(x[at_x]) * double(dy[at_y]);
              }
          }
  for (size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(got.y[i], y[i], 1e-4) << "y " << i;
  for (size_t i = 0; i < dx.size(); ++i) ASSERT_NEAR(got.dx[i], dx[i], 1e-4) << "dx " << i;
  for (size_t i = 0; i < dw.size(); ++i) ASSERT_NEAR(got.dw[i], dw[i], 1e-4) << "dw " << i;
}

TEST(Conv2d, BitsDependNeitherOnThreadsNorOnAddresses) {
  const Program program = record();
  const Results once = run(program);
  for (int threads : {2, 4}) EXPECT_EQ(once, run(program, {.threads = threads}));
  EXPECT_EQ(once, run(program, {.threads = 2, .offset = 4, .stride = 12}));
}

TEST(Conv2d, PreferredWeightsGiveTheSameBitsAndOneReorderServesAllReaders) {
  Program program = record();
  program.nodes.push_back(program.nodes[0]);  // a second reader of the same weights
  Value again = program.value(program.nodes[0].out[0]);
  program.values.push_back(again);
  program.nodes.back().out = {ValueId(program.values.size()) - 1};
  program.relink();
  KernelCache cache(cpu_device(1));
  LayoutsEffect effect;
  const Program chosen = choose_layouts(program, cache, &effect);
  EXPECT_EQ(effect.readers, 3);
  EXPECT_GE(effect.reorders, 1);
  EXPECT_LE(effect.reorders, 2);  // forward's, and the data gradient's where it is another
  EXPECT_EQ(chosen.node(0).op, &reorder_op);
  EXPECT_EQ(chosen.nodes.back().in[1], chosen.node(1).in[1]);
  EXPECT_EQ(run(chosen), run(program));
}

TEST(Reorder, ThereAndBackIsTheSame) {
  KernelCache cache(cpu_device(1));
  const Program conv = record();
  const auto kernel = cache.get(conv, conv.node(0));
  ASSERT_GE(kernel->prepared.preferred.size(), 2u);
  Builder builder;
  Val w = builder.input("w", {kWeights});
  Val blocked = reorder(w, kernel->prepared.preferred[1]);
  EXPECT_GE(blocked.spec().bytes(), w.spec().bytes());
  builder.output("back", reorder(blocked, nullptr));
  Evaluator eval(builder.take());
  eval.set("w", numbers(kWeights.numel(), 5));
  eval.run();
  EXPECT_EQ(eval.floats("back"), numbers(kWeights.numel(), 5));
}

TEST(MaxPool, FirstOfEqualsWinsAndNanIsLargest) {
  Builder builder;
  Val x = builder.input("x", {{1, 2, 4, 1}});
  const MaxPool pool = max_pool(x, max_pool_attrs(2, 2));
  builder.output("y", pool.y);
  builder.output("map", pool.map);
  Evaluator eval(builder.take());
  const float nan = std::numeric_limits<float>::quiet_NaN();
  eval.set("x", {1, 3, 9, 2, 3, 3, nan, 4});
  eval.run();
  const Floats y = eval.floats("y");
  EXPECT_EQ(y[0], 3);
  EXPECT_TRUE(std::isnan(y[1]));
  EXPECT_EQ(eval.floats("map"), (Floats{1, 2}));
}

// A mean much larger than the deviation: a single sum of squares would lose every digit.
TEST(BatchNorm, VarianceSurvivesALargeMean) {
  Builder builder;
  const int64_t rows = 4099, channels = 3;
  const BatchNorm norm =
      batch_norm(builder.input("x", {{rows, channels}}), builder.input("gamma", {{channels}}),
                 builder.input("beta", {{channels}}), 0);
  builder.output("mean", norm.mean);
  builder.output("variance", norm.variance);
  builder.output("y", norm.y);
  Evaluator eval(builder.take());
  Floats x;
  for (int64_t i = 0; i < rows * channels; ++i) x.push_back(10000.0f + float(i / channels % 2));
  eval.set("x", x);
  eval.set("gamma", Floats(channels, 1));
  eval.set("beta", Floats(channels, 0));
  eval.run();
  const double p = double(rows / 2) / rows;  // the share of ones
  EXPECT_NEAR(eval.floats("mean")[1], 10000 + p, 1e-3);
  EXPECT_NEAR(eval.floats("variance")[1], p * (1 - p) * rows / (rows - 1), 1e-5);
  EXPECT_NEAR(eval.floats("y")[0], -p / std::sqrt(p * (1 - p)), 3e-3);
}

}  // namespace
}  // namespace pal
