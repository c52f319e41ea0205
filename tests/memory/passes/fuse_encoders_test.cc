// fuse_encoders: relu and clip make the bits of their results themselves, where bits are kept; to
// the bit, for all kinds of numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "autograd/differentiate.h"
#include "core/print.h"
#include "core/verify.h"
#include "memory/compile.h"
#include "memory/passes/fuse_recompute.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/casts.h"
#include "tests/memory/compiled_bits.h"
#include "tests/support/random_program.h"

namespace pal::test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// What is left of the steps of a relu or clip of an odd number of elements, to the bit.
std::string fused(DType type, float lo, float hi, float bits_lo, float bits_hi, bool rectify) {
  Builder b;
  constexpr int64_t n = 20011;  // two chunks, and a part of a byte
  Val x = b.input("x", {{n}, type});
  Val y = rectify ? relu(x) : clip(x, lo, hi);
  {
    Builder::Within phase(b, Phase::encode);
    b.output("bits", to_bits(y, bits_lo, bits_hi));
  }
  b.output("y", y);
  const Program& p = b.program();
  const Program out = fuse_encoders(p);
  verify(out);
  EXPECT_EQ(ops_in(fuse_epilogues(p)), ops_in(p)) << "not where epilogues are looked for";
  const float special[] = {0.0f, -0.0f, kInf, -kInf, NAN, 0x1p-130f, -0x1p-130f, lo, hi, 1, -1};
  std::vector<float> values;
  for (int64_t i = 0; i < n; ++i) {
    values.push_back(i % 3 ? float(i % 101) * 0.07f - 3.5f : special[i / 3 % std::size(special)]);
  }
  for (int threads : {1, 2, 3}) {
    Evaluator apart(p, {.threads = threads}), together(out, {.threads = threads});
    apart.set("x", values), together.set("x", values);
    apart.run(), together.run();
    for (auto& o : p.outputs) {
      EXPECT_EQ(first_difference(p.value(o.value).spec, apart.bytes(o.value),
                                 together.bytes(out.output(o.name))),
                "")
          << o.name;
    }
  }
  for (const Node& node : out.nodes) {
    EXPECT_EQ(node.phase == Phase::encode, node.op == &to_bits_op) << print(out);
  }
  return ops_in(out);
}

TEST(FuseEncoders, ReluAndClipMakeTheirBits) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    EXPECT_EQ(fused(type, 0, kInf, 0, kInf, true), "clip_bits");
    EXPECT_EQ(fused(type, 0, 6, 0, 6, false), "clip_bits");
    EXPECT_EQ(fused(type, -0.1f, 1.7f, -0.1f, 1.7f, false), "clip_bits");  // not bf16
  }
}

TEST(FuseEncoders, OnlyOfTheirOwnInterval) {
  EXPECT_EQ(fused(DType::f32, 0, kInf, 0, 6, true), "relu +to_bits");
  EXPECT_EQ(fused(DType::f32, 0, 6, 0, kInf, false), "clip +to_bits");
}

// Other readers of relu's result stay behind it, and a plan with fusing needs no more bytes.
TEST(FuseEncoders, InAPlan) {
  Builder b;
  Val x = b.input("x", {{64, 1000}}), c = b.input("c", {{64, 1000}});
  Val w = b.state("w", {{64, 1000}}, Role::weight);
  Val y = w;
  for (int i = 0; i < 6; ++i) y = scale(relu(pal::add(y, x)), 0.5f);
  Val loss = sum_all(mul(y, c));
  b.output("loss", loss);
  b.output("dw", differentiate(b, loss, {w})[0]);
  const Program step = b.take();
  KernelCache cache{Device{}};
  const StateLayout layout(step);
  for (const bool inplace : {false, true}) {
    for (const Schedule schedule : {Schedule::program, Schedule::lifetime}) {
      CompileOptions options{.inplace = inplace, .encode = kBits, .schedule = schedule};
      options.fuse_epilogues = false;
      const Compiled apart = compile(step, cache, layout, options);
      options.fuse_epilogues = true;
      const Compiled together = compile(step, cache, layout, options);
      EXPECT_EQ(count_of(apart.program, "clip_bits"), 0);
      EXPECT_GE(count_of(apart.program, "to_bits"), 5);
      EXPECT_EQ(count_of(together.program, "clip_bits"), count_of(apart.program, "to_bits"));
      EXPECT_EQ(difference_of(step, bits_of(apart), bits_of(together)), "");
      EXPECT_LE(together.plan.device().lower_bound, apart.plan.device().lower_bound);
    }
  }
}

}  // namespace
}  // namespace pal::test
