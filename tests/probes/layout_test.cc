// Probe 3: convolutions read their weights in a blocked layout that the library chose. One reorder
// node makes it, for all readers that want it: two convolutions with the same weights share it.
#include <gtest/gtest.h>

#include <cstring>

#include "autograd/differentiate.h"
#include "core/error.h"
#include "core/op.h"
#include "core/print.h"
#include "core/verify.h"
#include "memory/passes/layouts.h"
#include "ops/convolution/conv2d.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/reorder.h"
#include "tests/probes/probe.h"

namespace pal::test {
namespace {

constexpr int64_t kImages = 2, kSide = 9, kChannels = 32;
const Shape kWeights{kChannels, 3, 3, kChannels};

// Two images sets through the same convolution; with `gradient`, d loss / dw and d loss / dx too.
Program step(bool gradient) {
  Builder b;
  const TensorSpec images{{kImages, kSide, kSide, kChannels}};
  Val x1 = b.state("x1", images, Role::weight), x2 = b.input("x2", images);
  Val c = b.input("c", images);
  Val w = b.state("w", {kWeights}, Role::weight);
  Val y1 = conv2d(x1, w, conv2d_attrs(1, 1)), y2 = conv2d(x2, w, conv2d_attrs(1, 1));
  Val loss = sum_all(mul(mul(y1, y2), c));
  b.output("loss", loss);
  b.output("y1", y1), b.output("y2", y2);
  if (gradient) {
    const auto g = differentiate(b, loss, {w, x1});
    b.output("dw", g[0]), b.output("dx", g[1]);
  }
  return b.take();
}

Program blocked(const Program& p) {
  KernelCache cache(cpu_device(1));
  Program out = choose_layouts(p, cache);
  verify(out);
  return out;
}

std::vector<std::vector<float>> results(const Program& program) {
  Planned p(program);
  const int64_t n = kImages * kSide * kSide * kChannels;
  p.set("x1", random_floats(n, 1)), p.set("x2", random_floats(n, 2));
  p.set("c", random_floats(n, 3));
  p.set("w", random_floats(kWeights.numel(), 4));
  p.run();
  std::vector<std::vector<float>> out;
  for (auto& o : program.outputs) out.push_back(p.floats(o.name));
  return out;
}

TEST(Layout, OneReorderServesTwoConvolutions) {
  const Program plain = step(false), fast = blocked(plain);
  ASSERT_EQ(count_nodes(fast, "reorder"), 1) << print(fast);
  const Node& reorder = fast.node(find_node(fast, "reorder"));
  EXPECT_EQ(reorder.in[0], fast.find_state("w")->start);
  EXPECT_NE(fast.value(reorder.out[0]).spec.layout, nullptr);
  const NodeId first = find_node(fast, "conv2d"), second = find_node(fast, "conv2d", first + 1);
  EXPECT_EQ(fast.node(first).in[1], reorder.out[0]);
  EXPECT_EQ(fast.node(second).in[1], reorder.out[0]);
  EXPECT_EQ(readers_of(fast)[size_t(reorder.out[0])].size(), 2u);

  const auto a = results(fast), b = results(plain);
  for (size_t i = 0; i < a.size(); ++i) EXPECT_LT(difference(a[i], b[i]), 1e-5) << i;
}

TEST(Layout, TheGradientsReadWhatTheyPrefer) {
  const Program plain = step(true), fast = blocked(plain);
  EXPECT_LT(count_nodes(fast, "reorder"), 4) << "shared where readers agree\n" << print(fast);
  EXPECT_GE(count_nodes(fast, "reorder"), 1);
  const auto a = results(fast), b = results(plain);
  for (size_t i = 0; i < a.size(); ++i) EXPECT_LT(difference(a[i], b[i]), 1e-5) << i;
}

// Blocked bytes are not plain bytes: read as such they give other numbers, and verify objects.
TEST(Layout, AMixedUpLayoutIsNoticed) {
  const Program plain = step(false);
  Program mixed = blocked(plain);
  const Node& reorder = mixed.node(find_node(mixed, "reorder"));
  mixed.value(reorder.out[0]).spec.layout = nullptr;  // says plain, holds blocked
  EXPECT_NE(error_of([&] { verify(mixed); }).find("[reorder]"), std::string::npos);
  // A plain node cannot read it at all.
  Program wrong = blocked(plain);
  Node& conv = wrong.node(find_node(wrong, "conv2d"));
  conv.op = &mul_op, conv.attrs = {};
  EXPECT_NE(error_of([&] { verify(wrong); }), "");
}

// The same program with the reorder left out: the convolution takes the plain bytes for blocked
// ones.
TEST(Layout, AForgottenReorderWouldChangeTheResult) {
  const Program plain = step(false), fast = blocked(plain);
  const auto expected = results(plain);
  Builder b;
  const TensorSpec images{{kImages, kSide, kSide, kChannels}};
  Val x1 = b.state("x1", images, Role::weight), x2 = b.input("x2", images);
  Val c = b.input("c", images);
  TensorSpec layout = fast.value(fast.node(find_node(fast, "reorder")).out[0]).spec;
  ASSERT_EQ(layout.bytes(), TensorSpec{kWeights}.bytes());
  Val w = b.state("w", layout, Role::weight);  // never reordered
  Val y1 = conv2d(x1, w, conv2d_attrs(1, 1)), y2 = conv2d(x2, w, conv2d_attrs(1, 1));
  b.output("loss", sum_all(mul(mul(y1, y2), c)));
  Planned p(b.take());
  const int64_t n = kImages * kSide * kSide * kChannels;
  p.set("x1", random_floats(n, 1)), p.set("x2", random_floats(n, 2));
  p.set("c", random_floats(n, 3));
  const auto plain_weights = random_floats(kWeights.numel(), 4);
  std::memcpy(p.runner().data(p.program().find_state("w")->start), plain_weights.data(),
              plain_weights.size() * sizeof(float));
  p.run();
  EXPECT_GT(difference(p.floats("loss"), expected[0]), 0.05);
}

}  // namespace
}  // namespace pal::test
