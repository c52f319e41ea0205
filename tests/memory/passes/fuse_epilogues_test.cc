// fuse_epilogues: where a product takes the relu behind it, or relu's gradient, and where it must
// not; to the bit.
#include <gtest/gtest.h>

#include <limits>

#include "autograd/differentiate.h"
#include "core/print.h"
#include "core/verify.h"
#include "memory/passes/fuse_recompute.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/products/matmul.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/casts.h"
#include "tests/memory/bits.h"
#include "tests/support/random_program.h"

namespace pal::test {
namespace {

// What became of a program's products, to the bit.
std::string with_epilogues(const Program& p) {
  verify(p);
  const Program out = fuse_epilogues(p);
  verify(out);
  EXPECT_EQ(difference_of(p, bits_of(p), bits_of(out)), "") << print(out);
  EXPECT_EQ(ops_in(fuse_recompute(p)), ops_in(p)) << "not where clones are looked for";
  return ops_in(out);
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Layer {
  Builder b;
  Val x = b.input("x", {{6, 5}}), w = b.state("w", {{5, 9}}, Role::weight);
  Val bias = b.state("bias", {{9}}, Role::weight);
  Val y = b.input("y", {{6, 9}});
};

TEST(FuseEpilogues, ReluBehindAProduct) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    Layer l;
    Val sum = l.b.input("sum", {{6, 9}, type});
    l.b.output("plain", relu(matmul(l.x, l.w, false, false, {}, type)));
    l.b.output("sum", relu(matmul(l.x, l.w, false, false, sum, type)));
    l.b.output("transposed", relu(matmul(l.w, l.x, true, true, {}, type)));
    EXPECT_EQ(with_epilogues(l.b.program()), "matmul_relu matmul_relu matmul_relu");
  }
  Layer l;
  l.b.output("r", relu(linear(l.x, l.w, l.bias)));
  EXPECT_EQ(with_epilogues(l.b.program()), "matmul_relu");
}

TEST(FuseEpilogues, ItsGradientBehindAProduct) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    Layer l;
    Val y = cast(l.y, type), sum = l.b.input("sum", {{6, 9}, type});
    auto product = [&](Val c) { return matmul(l.x, l.w, false, false, c, type); };
    l.b.output("d", pass_inside(product({}), y, 0, kInfinity));
    l.b.output("with sum", pass_inside(product(sum), y, 0, kInfinity));
    l.b.output("of bits", pass_inside(product({}), to_bits(y, 0), 0, kInfinity));
    const std::string before = type == DType::f32 ? "" : "cast ";
    EXPECT_EQ(with_epilogues(l.b.program()),
              before + "matmul_relu_grad matmul_relu_grad to_bits matmul_relu_grad");
  }
}

TEST(FuseEpilogues, OnlyWhatNobodyElseReads) {
  for (const Phase again : {Phase::forward, Phase::recompute}) {
    Layer l;
    Val product = linear(l.x, l.w, l.bias);
    l.b.output("r", relu(product));
    {
      Builder::Within phase(l.b, again);
      l.b.output("again", relu(product));
    }
    const std::string mark = again == Phase::forward ? "" : "*";
    EXPECT_EQ(with_epilogues(l.b.program()), "matmul relu " + mark + "relu");
  }
  Layer l;
  Val product = linear(l.x, l.w, l.bias);
  l.b.output("r", relu(product)), l.b.output("product", product);
  EXPECT_EQ(with_epilogues(l.b.program()), "matmul relu");
}

TEST(FuseEpilogues, ClonesTogether) {
  Layer l;
  Builder::Within phase(l.b, Phase::recompute);
  l.b.output("r", relu(linear(l.x, l.w, l.bias)));
  EXPECT_EQ(with_epilogues(l.b.program()), "*matmul_relu");
}

TEST(FuseEpilogues, OnlyReluAndItsInterval) {
  Layer l;
  l.b.output("clip", clip(linear(l.x, l.w), 0, 6));
  l.b.output("d", pass_inside(matmul(l.x, l.w), l.y, 0, 6));
  l.b.output("y", pass_inside(l.y, matmul(l.x, l.w), 0, kInfinity));  // it is the condition
  EXPECT_EQ(with_epilogues(l.b.program()), "matmul clip matmul pass_inside matmul pass_inside");
}

TEST(FuseEpilogues, NotAcrossAnUpdate) {  // the product's operand might be what it wrote over
  Layer l;
  Val product = linear(l.x, l.w);
  update(l.b.state("v", {Shape{6, 9}}, Role::weight), l.y);
  l.b.output("r", relu(product));
  EXPECT_EQ(with_epilogues(l.b.program()), "matmul update relu");
}

// Three layers, differentiated: two relus are passed on the way back.
TEST(FuseEpilogues, OfALayeredNetwork) {
  Builder b;
  Val h = b.input("x", {{7, 12}});
  std::vector<Val> weights;
  for (int i = 0; i < 3; ++i) {
    const std::string n = std::to_string(i);
    weights.push_back(b.state("w" + n, {{12, 12}}, Role::weight));
    weights.push_back(b.state("b" + n, {{12}}, Role::weight));
    h = relu(linear(h, weights[weights.size() - 2], weights.back()));
  }
  Val loss = sum_all(mul(h, b.input("c", {{7, 12}})));
  b.output("loss", loss);
  const std::vector<Val> d = differentiate(b, loss, weights);
  for (size_t i = 0; i < d.size(); ++i) b.output("d" + std::to_string(i), d[i]);
  const Program step = b.take();
  (void)with_epilogues(step);
  const Program out = fuse_epilogues(step);
  EXPECT_EQ(count_of(out, "matmul_relu"), 3);
  EXPECT_EQ(count_of(out, "matmul_relu_grad"), 2);
  EXPECT_EQ(count_of(out, "relu"), 0);
  EXPECT_EQ(count_of(out, "pass_inside"), 1) << "the last layer's gradient comes from no product";
}

}  // namespace
}  // namespace pal::test
