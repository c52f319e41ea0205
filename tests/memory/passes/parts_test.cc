// Operators taken apart: where that helps recomputation, and that it changes nothing else.
#include "memory/passes/parts.h"

#include <gtest/gtest.h>

#include "autograd/differentiate.h"
#include "core/print.h"
#include "core/scalars.h"
#include "core/verify.h"
#include "memory/passes/fuse_recompute.h"
#include "memory/recompute/recompute.h"
#include "memory/storages/lifetimes.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"
#include "ops/losses/cross_entropy.h"
#include "ops/norms/batch_norm.h"
#include "ops/products/matmul.h"
#include "tests/memory/bits.h"

namespace pal::test {
namespace {

constexpr int64_t kPartRows = 640, kPartWidth = 64;
constexpr double kHeavy = 12;  // below such products

// Blocks as residual networks have them: x = relu(norm(x w) + x), and one without a way around.
Program residual_step(DType type = DType::f32, int blocks = 4) {
  Builder b;
  Val scalars = b.input("scalars", scalars_spec());
  Val x = b.input("x", {{kPartRows, kPartWidth}, type}),
      labels = b.input("labels", {{kPartRows}, DType::i32});
  std::vector<Val> weights;
  auto weight = [&](const std::string& name, Shape shape) {
    weights.push_back(b.state(name, {shape}, Role::weight));
    return weights.back();
  };
  for (int k = 0; k < blocks; ++k) {
    const std::string n = std::to_string(k);
    auto norm = [&](Val y, const std::string& which) {
      return batch_norm(y, weight("gamma" + which + n, {kPartWidth}),
                        weight("beta" + which + n, {kPartWidth}))
          .y;
    };
    auto layer = [&](Val in, const std::string& which, const std::string& norm_name) {
      const Val w = weight(which + n, {kPartWidth, kPartWidth});
      return norm(matmul(in, w, false, false, {}, type), norm_name);
    };
    const Val h = relu(layer(x, "v", "a")), y = layer(h, "w", "b");
    x = relu(k % 2 ? add(y, x) : add(x, y));
  }
  const Val loss = cross_entropy(x, labels, scalars).loss;
  b.output("loss", loss);
  const auto d = differentiate(b, loss, weights);
  for (size_t i = 0; i < d.size(); ++i) b.output("d" + std::to_string(i), d[i]);
  return b.take();
}

int count_in(const Program& p, const OpDef& op, Phase phase) {
  return int(std::count_if(p.nodes.begin(), p.nodes.end(), [&](const Node& node) {
    return node.op == &op && node.phase == phase;
  }));
}

TEST(Parts, TakeTheirOperatorsPlaceAndGiveItsBits) {
  const Program whole = residual_step(), parts = split_parts(whole);
  verify(parts);
  EXPECT_EQ(count_in(parts, batch_norm_op, Phase::forward), 0);
  EXPECT_EQ(count_in(parts, batch_norm_statistics_op, Phase::forward), 8);
  EXPECT_EQ(count_in(parts, batch_norm_apply_op, Phase::forward), 8);
  EXPECT_EQ(parts.values.size(), whole.values.size());
  EXPECT_EQ(difference_of(whole, bits_of(whole), bits_of(parts)), "");
  EXPECT_EQ(peak_bytes(parts), peak_bytes(whole));
}

TEST(Parts, AnOperatorWithoutAnyStays) {
  Builder b;
  b.output("y", relu(b.input("x", {{3}})));
  const Program p = b.take();
  EXPECT_EQ(print(split_parts(p)), print(p));
}

// Only the last part is run again, from statistics that were kept.
TEST(Parts, EchoRunsTheLastOneAgain) {
  const Program p = residual_step();
  const Program out = recompute(p, Recompute::echo, [](const Program& q) { return peak_bytes(q); },
                                nullptr, {.heavy = kHeavy, .overhead = 1e9});
  verify(out);
  EXPECT_LT(peak_bytes(out), peak_bytes(p));
  EXPECT_GT(count_in(out, batch_norm_apply_op, Phase::recompute), 0) << print(out);
  EXPECT_EQ(count_in(out, batch_norm_statistics_op, Phase::recompute), 0);
  EXPECT_EQ(difference_of(p, bits_of(p), bits_of(out)), "");
}

TEST(Parts, TheBaselinesRunWholeLayersAgain) {
  const Program p = residual_step();
  const Program out =
      recompute(p, Recompute::mirror, [](const Program& q) { return peak_bytes(q); }, nullptr,
                {.heavy = kHeavy});
  EXPECT_GT(count_in(out, batch_norm_op, Phase::recompute), 0);
}

// A step in which nothing is recomputed keeps the operator whole.
TEST(Parts, WithoutRecomputationThereAreNone) {
  const Program p = residual_step();
  for (const Recompute method : {Recompute::none, Recompute::echo}) {
    const Program out = recompute(
        p, method, [](const Program&) { return int64_t(1); }, nullptr);  // never better
    EXPECT_EQ(print(out), print(p));
  }
}

// norm, sum and relu of a clone become one node, which rounds where they did.
class Folded : public testing::TestWithParam<DType> {};
TEST_P(Folded, ClonesOfANormAndWhatFollows) {
  const Program p = residual_step(GetParam());
  const Program cloned =
      recompute(p, Recompute::echo, [](const Program& q) { return peak_bytes(q); }, nullptr,
                {.heavy = kHeavy, .heavier = 0, .overhead = 1e9, .bits = false});
  const Program folded = fuse_recompute(cloned);
  verify(folded);
  EXPECT_GT(count_in(cloned, relu_op, Phase::recompute), 4);
  EXPECT_GT(count_in(cloned, add_op, Phase::recompute), 1);
  EXPECT_EQ(count_in(folded, relu_op, Phase::recompute), 0) << print(folded);
  EXPECT_EQ(count_in(folded, add_op, Phase::recompute), 0);
  EXPECT_EQ(count_in(folded, relu_op, Phase::forward), 8) << "the forward pass is left as it is";
  EXPECT_EQ(difference_of(p, bits_of(p), bits_of(folded)), "");
}
INSTANTIATE_TEST_SUITE_P(Parts, Folded, testing::Values(DType::f32, DType::bf16, DType::f16),
                         [](const auto& test) { return std::string(to_string(test.param)); });

}  // namespace
}  // namespace pal::test
