// relu behind a convolution: one node on a card, and two on a processor; to the bit, for all kinds
// of numbers.
#include <gtest/gtest.h>

#include "core/print.h"
#include "core/verify.h"
#include "memory/compile.h"
#include "memory/passes/fuse_recompute.h"
#include "ops/convolution/conv3d.h"
#include "ops/elementwise/add.h"
#include "tests/memory/compiled_bits.h"
#include "tests/memory/passes/conv_network.h"
#include "tests/support/random_program.h"

namespace pal::test {
namespace {

// x by w, with a bias or without.
struct Convolution {
  Builder b;
  Val x, w, bias, y;

  explicit Convolution(DType type = DType::f32, bool biased = true, bool film = false) {
    x = b.input("x", {film ? Shape{2, 4, 7, 5, 3} : Shape{3, 9, 7, 5}, type});
    w = b.input("weights", {film ? Shape{6, 2, 3, 3, 3} : Shape{19, 3, 3, 5}, type});
    if (biased) bias = b.input("bias", {{w.shape()[0]}});
    y = film ? conv3d(x, w, conv3d_attrs(1, 1), bias) : conv2d(x, w, conv2d_attrs(2, 1), bias);
  }
};

std::string fused_convolutions(const Program& p) {
  verify(p);
  const Program out = fuse_epilogues(p);
  verify(out);
  expect_same_bits(p, out);
  EXPECT_EQ(ops_in(fuse_recompute(p)), ops_in(p)) << "not where clones are looked for";
  return ops_in(out);
}

TEST(FuseConv, ReluBehindAConvolution) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    for (const bool biased : {false, true}) {
      for (const bool film : {false, true}) {
        Convolution c(type, biased, film);
        c.b.output("y", relu(c.y));
        EXPECT_EQ(fused_convolutions(c.b.program()), film ? "conv3d_relu" : "conv2d_relu");
      }
    }
  }
}

TEST(FuseConv, OnlyReluAndOnlyWhatNobodyElseReads) {
  Convolution clipped;
  clipped.b.output("y", clip(clipped.y, 0, 6));
  EXPECT_EQ(fused_convolutions(clipped.b.program()), "conv2d clip");
  Convolution kept;
  kept.b.output("y", relu(kept.y)), kept.b.output("sums", kept.y);
  EXPECT_EQ(fused_convolutions(kept.b.program()), "conv2d relu");
  Convolution again;
  again.b.output("y", relu(again.y));
  Builder::Within phase(again.b, Phase::recompute);
  again.b.output("again", relu(again.y));
  EXPECT_EQ(fused_convolutions(again.b.program()), "conv2d relu *relu");
}

TEST(FuseConv, ClonesTogether) {
  Convolution c;
  Builder::Within phase(c.b, Phase::recompute);
  Val again = conv2d(c.x, c.w, conv2d_attrs(1, 1), c.bias);
  c.b.output("y", relu(again)), c.b.output("sums", c.y);
  EXPECT_EQ(fused_convolutions(c.b.program()), "conv2d *conv2d_relu");
}

// The step planned for a card that is not here, and run here.
CompileOptions for_card(CompileOptions options) {
  options.profile = DeviceProfile{.name = "card",
                                  .elsewhere = true,
                                  .f32 = 1e13,
                                  .vector = 1e13,
                                  .memory = 1e12,
                                  .capacity = int64_t(1) << 34,
                                  .launch = 1e-6};
  return options;
}

// The sums of two convolutions' results: of relu's the way back asks bits alone.
Program branches(DType type) {
  ConvStep step(type);
  Val x = step.input({{4, 19, 17, 8}, type});
  for (int i = 0; i < 3; ++i) x = pal::add(step.conv(x, 16), step.conv(x, 16));
  return step.take(sum_all(x));
}

void expect_bits_on_a_card(const Program& step, int relus, int* bits_kept) {
  KernelCache cache{Device{}};
  const StateLayout layout(step);
  each_plan_of_epilogues([&](CompileOptions options, const std::string& where) {
    options.fuse_epilogues = false;
    const Compiled apart = compile(step, cache, layout, for_card(options));
    options.fuse_epilogues = true;
    const Compiled fused = compile(step, cache, layout, for_card(options));
    const Compiled here = compile(step, cache, layout, options);
    ASSERT_EQ(difference_of(step, bits_of(apart), bits_of(fused)), "") << where;
    ASSERT_LE(fused.plan.device().lower_bound, apart.plan.device().lower_bound) << where;
    EXPECT_EQ(count_of(here.program, "conv2d_relu"), 0) << where;
    const int all = count_of(fused.program, "conv2d_relu");
    if (options.recompute == Recompute::none) {
      EXPECT_EQ(all, relus) << where << print(fused.program);
    }
    *bits_kept += all > 0 ? count_of(fused.program, "to_bits") : 0;
  });
}

TEST(FuseConv, OnACardUnderAllOptions) {
  int bits_kept = 0;
  for (const DType type : {DType::f32, DType::bf16}) {
    expect_bits_on_a_card(conv_network(max_pool_attrs(2, 2), type), 4, &bits_kept);
    expect_bits_on_a_card(branches(type), 6, &bits_kept);
  }
  EXPECT_GT(bits_kept, 0);
}

}  // namespace
}  // namespace pal::test
