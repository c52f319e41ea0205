// Kernels of several nodes as the planner sees them: what clones save, and what each node takes.
#include "memory/front/fused_clones.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "autograd/differentiate.h"
#include "core/op.h"
#include "memory/compile.h"
#include "memory/front/choose.h"
#include "memory/passes/parts.h"
#include "ops/convolution/conv2d.h"
#include "ops/elementwise/activations.h"
#include "ops/norms/batch_norm.h"
#include "ops/products/matmul.h"
#include "ops/sums/reduce.h"
#include "tests/memory/passes/conv_network.h"
#include "tests/memory/toy_card.h"
#include "tests/support/random_network.h"

namespace pal::test {
namespace {

double sum_of(const ByNode<double>& ms) { return std::accumulate(ms.begin(), ms.end(), 0.0); }

Program with_gradients(Builder& b, Val result, const std::vector<Val>& weights) {
  const Val loss = sum_all(result);
  b.output("loss", loss);
  const std::vector<Val> d = differentiate(b, loss, weights);
  for (size_t i = 0; i < d.size(); ++i) b.output("d" + std::to_string(i), d[i]);
  Program program = b.take();
  for (ValueId v : program.values.ids()) program.value(v).origin = v;
  return program;
}

// Convolutions, each with a batch norm and relu behind it.
Program conv_norm_relu(int layers) {
  Builder b;
  std::vector<Val> weights;
  const auto weight = [&](const std::string& name, const TensorSpec& spec) {
    weights.push_back(b.state(name, spec, Role::weight));
    return weights.back();
  };
  Val x = b.input("x", {{8, 12, 12, 16}});
  for (int k = 0; k < layers; ++k) {
    const std::string name = std::to_string(k);
    const Val y = conv2d(x, weight("w" + name, {{16, 3, 3, 16}}), conv2d_attrs(1, 1));
    const Val gamma = weight("g" + name, {{16}}), beta = weight("b" + name, {{16}});
    x = relu(batch_norm(y, gamma, beta).y);
  }
  return with_gradients(b, x, weights);
}

Program products_and_relus(int layers) {
  Builder b;
  std::vector<Val> weights;
  Val x = b.input("x", {{16, 32}});
  for (int k = 0; k < layers; ++k) {
    weights.push_back(b.state("w" + std::to_string(k), {{32, 32}}, Role::weight));
    x = relu(matmul(x, weights.back()));
  }
  return with_gradients(b, x, weights);
}

TEST(StepTimes, AddUpToTheFusedStep) {
  const auto check = [&](const Program& step) {
    const DeviceProfile card = toy_card();
    const StepTimes times = step_times(step, card, {});
    EXPECT_EQ(times.alone, predict(step, card).node_ms);
    const Prediction fused = predict(fused_by({}, step), card);
    EXPECT_NEAR(sum_of(times.in_step), fused.step_ms, 1e-9);
    double forward = 0;
    for (NodeId n : step.nodes.ids()) {
      if (step.node(n).phase == Phase::forward) forward += times.in_step[n];
    }
    EXPECT_NEAR(forward, fused.of(Phase::forward), 1e-9);
    EXPECT_EQ(step_times(step, card, kNoFusions).in_step, times.alone);
    return sum_of(times.in_step) / sum_of(times.alone);
  };
  for (uint64_t seed = 0; seed < 20; ++seed) {
    check(random_network(seed, {.layers = 12, .batch = 16, .width = 32}));
  }
  // A pool's gradient does what relu's would, and does without the map that relu's read.
  check(conv_network(max_pool_attrs(2, 2), DType::f32));
  EXPECT_LT(check(conv_norm_relu(3)), 0.99);
  EXPECT_LT(check(split_parts(conv_norm_relu(3))), 0.99);
}

std::vector<FusedClones> found_in(const StepView& view, const Fusions& fusions) {
  const DeviceProfile card = toy_card();
  return fused_clones(view, step_times(view.program, card, fusions), card, fusions);
}

// relu and the product before it are one node, made again too; nobody writes what is between them.
TEST(FusedClones, FindEpilogues) {
  const Program step = products_and_relus(3);
  const StepView view(step, {.heavy = std::numeric_limits<double>::infinity()});
  const auto products = [&](const Fusions& fusions) {
    int found = 0;
    for (const FusedClones& one : found_in(view, fusions)) {
      if (one.nodes.size() != 2) continue;
      const OpDef* const first = step.node(std::min(one.nodes[0], one.nodes[1])).op;
      found += first == &matmul_op && one.interior.size() == 1 && one.saved_ms > 0;
    }
    return found;
  };
  EXPECT_EQ(products({}), 3);
  EXPECT_EQ(products({.recomputed = true, .epilogues = false}), 0);
  EXPECT_TRUE(found_in(view, kNoFusions).empty());
}

// Its gradient does what relu's would, without the map that relu's reads: what makes that map is no
// part of it.
TEST(FusedClones, APoolsGradientRunsNothingThatItDoesWithout) {
  const Program step = split_parts(conv_network(max_pool_attrs(2, 2), DType::f32));
  const StepView view(step, {.heavy = std::numeric_limits<double>::infinity()});
  int with_relu = 0;
  for (const FusedClones& one : found_in(view, {})) {
    int convolutions = 0;
    for (const NodeId n : one.nodes) convolutions += step.node(n).op == &conv2d_op;
    EXPECT_TRUE(one.gradients.empty() || convolutions == 0);
    EXPECT_LE(convolutions, 1);
    with_relu += convolutions;
  }
  EXPECT_GT(with_relu, 2);
}

// Copies have the time that nodes take in the step that is run, and what runs again takes what its
// kernels do: plans take what choices claim, and wait for no copy.
TEST(Choose, ClaimsWhatPassesMakeOfIt) {
  const Program step = conv_norm_relu(20);
  KernelCache cache{Device{}};
  const StateLayout layout(step);
  CompileOptions plain;
  plain.layouts = false, plain.profile = toy_card(1e7);
  CompileOptions options = plain;
  options.recompute = Recompute::chosen;
  const auto ms_of = [&](const CompileOptions& asked) {
    Compiled passed;
    least_bytes(step, cache, layout, asked, &passed);
    return predict(passed.program, *options.profile, &passed.storages).step_ms;
  };
  const double plain_ms = ms_of(plain);
  const int64_t whole = least_bytes(step, cache, layout, plain);
  size_t copied = 0;
  const std::vector<Chosen> plans = choose_plans(step, options, *options.profile, whole / 4);
  for (const Chosen& plan : plans) {
    CompileOptions asked = options;
    asked.recompute_options.chosen = plan.again;
    if (!plan.away.empty()) asked.swap = {.method = Swap::planned, .chosen = plan.away};
    asked.budget = plan.limit;
    const double claimed = plain_ms + plan.added_ms, ms = ms_of(asked);
    EXPECT_LE(ms, claimed) << plan.limit;
    EXPECT_NEAR(ms, claimed, 0.01 * claimed) << plan.limit;
    copied += !plan.away.empty();
  }
  EXPECT_GT(copied, 10u);
}

}  // namespace
}  // namespace pal::test
