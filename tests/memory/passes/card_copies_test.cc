// Biases that a card reads in 16 bits: one copy each, beside those of the weights.
#include "memory/passes/card_copies.h"

#include <gtest/gtest.h>

#include "core/builder.h"
#include "core/verify.h"
#include "memory/passes/fuse_updates.h"
#include "ops/elementwise/activations.h"
#include "ops/products/matmul.h"
#include "ops/tensors/casts.h"
#include "tests/memory/running.h"

namespace pal::test {
namespace {

// Two layers; the second one's bias is read twice.
Program layers(DType type) {
  Builder b;
  Val x = b.input("x", {{4, 8}, type});
  const auto weight = [&](const char* name) {
    return cast(b.state(name, {{8, 8}}, Role::weight), type);
  };
  const Val first = weight("w0"), second = weight("w1");
  x = relu(linear(x, first, b.state("b0", {{8}}, Role::weight)));
  for (int i = 0; i < 2; ++i) x = linear(x, second, b.state("b1", {{8}}, Role::weight));
  b.output("y", x);
  return b.take();
}

TEST(CardCopies, OneOfEachBiasBesideTheWeights) {
  const Program p = layers(DType::bf16);
  EXPECT_EQ(ops_of(p), "cast cast matmul relu matmul matmul");
  std::string note;
  const Program copied = card_copies(p, &note).value();
  EXPECT_EQ(ops_of(copied), "cast cast cast cast matmul relu matmul matmul");
  EXPECT_EQ(note, "2 biases copied once");
  EXPECT_NO_THROW(verify(copied));
  const Program fused = fuse_updates(copied).value();
  EXPECT_EQ(ops_of(fused), "cast matmul relu matmul matmul");
  for (const Node& node : fused.nodes) {
    if (node.op == &matmul_op) {
      EXPECT_EQ(fused.value(node.in[3]).spec, (TensorSpec{{8}, DType::bf16}));
    }
  }
  EXPECT_FALSE(card_copies(copied)) << "they are there";
}

// They are not held until then.
TEST(CardCopies, NoneBehindTheFirstBackwardNode) {
  Builder b;
  Val x = b.input("x", {{4, 8}, DType::bf16});
  const Val w = cast(b.state("w", {{8, 8}}, Role::weight), DType::bf16);
  const Val bias = b.state("b", {{8}}, Role::weight);
  x = linear(x, w, bias);
  {
    Builder::Within phase(b, Phase::backward);
    x = linear(x, w, bias);
  }
  b.output("y", x);
  const Program copied = card_copies(b.program()).value();
  EXPECT_EQ(ops_of(copied), "cast cast matmul matmul");
  EXPECT_EQ(copied.value(copied.node(2).in[3]).spec.dtype, DType::bf16);
  EXPECT_EQ(copied.node(3).in[3], bias.id);
}

// What a step makes is cast where it is read, as there is no step-long copy to be had.
TEST(CardCopies, NoneOfWhatTheStepMakes) {
  Builder b;
  const Val x = b.input("x", {{4, 8}, DType::bf16});
  const Val w = cast(b.state("w", {{8, 8}}, Role::weight), DType::bf16);
  b.output("y", linear(x, w, relu(b.state("b", {{8}}, Role::weight))));
  EXPECT_FALSE(card_copies(b.program()));
}

TEST(CardCopies, NoneWhereAllIsF32) { EXPECT_FALSE(card_copies(layers(DType::f32))); }

}  // namespace
}  // namespace pal::test
