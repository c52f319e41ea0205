// relu behind a batch norm, a residual block's sum between them, and their gradients: one node
// each, to the bit; and what is left alone.
#include <gtest/gtest.h>

#include "core/print.h"
#include "core/verify.h"
#include "memory/compile.h"
#include "memory/front/bound.h"
#include "memory/front/pool.h"
#include "memory/passes/fuse_recompute.h"
#include "ops/elementwise/add.h"
#include "ops/norms/batch_norm.h"
#include "tests/memory/compiled_bits.h"
#include "tests/memory/passes/conv_network.h"
#include "tests/memory/toy_card.h"

namespace pal::test {
namespace {

// A norm of 7 channels, small enough that a sum of 16 bits is rounded.
struct Norm {
  Builder b;
  Val x, gamma, beta, other;
  BatchNorm norm;

  explicit Norm(DType type = DType::f32) {
    x = b.input("x", {{11, 5, 7}, type}), other = b.input("other", {{11, 5, 7}, type});
    gamma = b.input("gamma", {{7}}), beta = b.input("beta", {{7}});
    norm = batch_norm(x, gamma, beta);
  }
  void keep_statistics() {
    b.output("mean", norm.mean), b.output("rstd", norm.rstd), b.output("variance", norm.variance);
  }
  // The gradient of y = relu(..), which stands for max(norm, 0) with these statistics.
  std::vector<Val> gradient(Val y, const BatchNorm& of) {
    Builder::Within phase(b, Phase::backward);
    const Val d = pass_inside(other, y, 0, std::numeric_limits<float>::infinity());
    return b.emit(batch_norm_grad_op, {d, x, gamma, of.mean, of.rstd});
  }
  void output(const std::vector<Val>& gradients) {
    for (size_t i = 0; i < gradients.size(); ++i) b.output("d" + std::to_string(i), gradients[i]);
  }
};

std::vector<float> ordinary(int64_t n, uint32_t state) {
  std::vector<float> out;
  for (int64_t i = 0; i < n; ++i) {
    state = state * 1664525u + 1013904223u;
    out.push_back(float(state >> 8) * 0x1p-22f - 2);
  }
  return out;
}

// On ordinary values, and on few, among them infinities and NaNs.
std::string fused_norms(const Program& p) {
  verify(p);
  const Program out = fuse_epilogues(fuse_first(p));
  verify(out);
  expect_same_bits(p, out, true);
  expect_same_bits(p, out, false, ordinary);
  return ops_in(out);
}

const DType kTypes[] = {DType::f32, DType::bf16, DType::f16};

TEST(FuseNorm, ReluBehindANorm) {
  for (const DType type : kTypes) {
    for (const int form : {0, 1, 2}) {
      Norm n(type);
      const Val y = n.norm.y;
      n.b.output("y", relu(form == 0 ? y : form == 1 ? add(y, n.other) : add(n.other, y)));
      n.keep_statistics();
      EXPECT_EQ(fused_norms(n.b.program()), "batch_norm_relu") << form;
    }
  }
}

TEST(FuseNorm, OnlyReluAndOnlyWhatNobodyElseReads) {
  Norm clipped;
  clipped.b.output("y", clip(clipped.norm.y, 0, 6));
  EXPECT_EQ(fused_norms(clipped.b.program()), "batch_norm clip");
  Norm kept;
  kept.b.output("y", relu(kept.norm.y)), kept.b.output("norm", kept.norm.y);
  EXPECT_EQ(fused_norms(kept.b.program()), "batch_norm relu");
  Norm sum;
  const Val both = add(sum.norm.y, sum.other);
  sum.b.output("y", relu(both)), sum.b.output("sum", both);
  EXPECT_EQ(fused_norms(sum.b.program()), "batch_norm add relu");
}

TEST(FuseNorm, TheGradientSeesByXWhereReluLetPass) {
  for (const DType type : kTypes) {
    Norm n(type);
    const Val y = relu(n.norm.y);
    n.b.output("y", y);
    n.output(n.gradient(y, n.norm));
    EXPECT_EQ(fused_norms(n.b.program()), "batch_norm_relu batch_norm_relu_grad");
  }
}

// In 16 bits a number above zero may be stored as zero, where relu's gradient is none.
TEST(FuseNorm, TheGradientSeesWhatIsStored) {
  Norm n(DType::f16);
  const Val y = relu(n.norm.y);
  n.b.output("y", y);
  n.output(n.gradient(y, n.norm));
  const Program out = fuse_epilogues(fuse_first(n.b.program()));
  Evaluator run(out);
  for (auto& in : out.inputs) {
    const int64_t size = out.value(in.value).spec.numel();
    if (in.name == "gamma" || in.name == "beta") {
      run.set(in.value, std::vector<float>(size_t(size), in.name == "beta" ? 1e-9f : 0));
    } else {
      run.set(in.value, std::vector<float>(size_t(size), 1));
    }
  }
  run.run();
  EXPECT_EQ(run.floats(out.output("d2")), std::vector<float>(7, 0)) << "the gradient of beta";
}

TEST(FuseNorm, GradientsOfOthersAreLeftAlone) {
  // With a residual x alone does not tell.
  Norm residual;
  const Val sum = relu(add(residual.norm.y, residual.other));
  residual.b.output("y", sum);
  residual.output(residual.gradient(sum, residual.norm));
  EXPECT_EQ(fused_norms(residual.b.program()), "batch_norm_relu pass_inside batch_norm_grad");
  // Of another norm of the same values.
  Norm two;
  const BatchNorm second = batch_norm(two.x, two.gamma, two.beta, 0.5f);
  const Val y = relu(second.y);
  two.b.output("y", y), two.b.output("norm", two.norm.y);
  two.output(two.gradient(y, two.norm));
  EXPECT_EQ(fused_norms(two.b.program()), "batch_norm batch_norm_relu pass_inside batch_norm_grad");
  // By way of another interval.
  Norm narrow;
  const Val z = relu(narrow.norm.y);
  narrow.b.output("y", z);
  {
    Builder::Within phase(narrow.b, Phase::backward);
    const Val d = pass_inside(narrow.other, z, 0, 6);
    narrow.output(narrow.b.emit(batch_norm_grad_op,
                                {d, narrow.x, narrow.gamma, narrow.norm.mean, narrow.norm.rstd}));
  }
  EXPECT_EQ(fused_norms(narrow.b.program()), "batch_norm_relu pass_inside batch_norm_grad");
  // Where somebody else reads what passed.
  Norm read;
  const Val w = relu(read.norm.y);
  read.b.output("y", w);
  {
    Builder::Within phase(read.b, Phase::backward);
    const Val d = pass_inside(read.other, w, 0, std::numeric_limits<float>::infinity());
    read.output(
        read.b.emit(batch_norm_grad_op, {d, read.x, read.gamma, read.norm.mean, read.norm.rstd}));
    read.b.output("passed", d);
  }
  EXPECT_EQ(fused_norms(read.b.program()), "batch_norm_relu pass_inside batch_norm_grad");
}

// A norm whose statistics are there: of a step that runs it again, or of a batch over ranks.
TEST(FuseNorm, ReluBehindANormWithItsStatisticsThere) {
  for (const DType type : kTypes) {
    for (const int form : {0, 1, 2}) {
      Norm n(type);
      const Val y = n.b.emit1(batch_norm_apply_op, {n.x, n.gamma, n.beta, n.norm.mean, n.norm.rstd},
                              BatchNormApplyAttrs{});
      n.b.output("y", relu(form == 0 ? y : form == 1 ? add(y, n.other) : add(n.other, y)));
      EXPECT_EQ(fused_norms(n.b.program()), "batch_norm batch_norm_apply") << form;
    }
  }
}

TEST(FuseNorm, SumsThatGoThroughRelusGradient) {
  for (const DType type : kTypes) {
    for (const DType mask : {type, DType::bit}) {
      for (const bool clipped : {false, true}) {
        Builder b;
        const Val x = b.input("x", {{11, 5, 8}, type}), y = b.input("y", {{11, 5, 8}, mask});
        const Val z = b.input("z and", {{11, 5, 8}, type});
        b.output("d", pass_inside(add(x, z), y, clipped ? -1 : 0, clipped ? 1 : 6));
        EXPECT_EQ(fused_norms(b.program()), "sum_inside");
      }
    }
  }
  Builder b;
  const Val x = b.input("x", {{11, 5, 8}}), y = b.input("y", {{11, 5, 8}});
  const Val sum = add(x, y);
  b.output("d", pass_inside(sum, y, 0, 6)), b.output("sum", sum);
  EXPECT_EQ(fused_norms(b.program()), "add pass_inside");
}

TEST(FuseNorm, WhatHasItsReluIsNotTakenForWhatHasNone) {
  Norm n;
  const Val y = n.b.emit1(batch_norm_apply_op, {n.x, n.gamma, n.beta, n.norm.mean, n.norm.rstd},
                          BatchNormApplyAttrs{true});
  n.b.output("y", relu(add(y, n.other)));
  EXPECT_EQ(fused_norms(n.b.program()), "batch_norm batch_norm_apply add relu");
}

// Two residual blocks, the second with a norm on its other path too.
Program residual_network(DType type) {
  Builder b;
  if (type != DType::f32) b.read_weights_as(type, cast);
  std::vector<Val> w;
  const auto state = [&](const Shape& shape) {
    const std::string name = "w" + std::to_string(w.size());
    const Val read = b.state(name, {shape}, Role::weight);
    w.push_back({&b, b.program().find_state(name)->start});
    return read;
  };
  const auto norm_of = [&](Val x, int64_t to) {
    const Val y = conv2d(x, state({to, 3, 3, x.shape()[3]}), conv2d_attrs(1, 1));
    const Val gamma = state({to}), beta = state({to});
    const auto whole = [](Val v) { return v.spec().dtype == DType::f32 ? v : cast(v, DType::f32); };
    return batch_norm(y, whole(gamma), whole(beta)).y;
  };
  Val x = relu(norm_of(b.input("x", {{4, 9, 7, 3}, type}), 8));
  x = relu(add(norm_of(relu(norm_of(x, 8)), 8), x));
  x = relu(add(norm_of(relu(norm_of(x, 12)), 12), norm_of(x, 12)));
  const Val loss = sum_all(mul(x, x));
  b.output("loss", loss);
  const std::vector<Val> d = differentiate(b, loss, w);
  for (size_t i = 0; i < d.size(); ++i) b.output("d" + std::to_string(i), d[i]);
  return b.take();
}

TEST(FuseNorm, InANetworkUnderAllOptions) {
  for (const DType type : {DType::f32, DType::bf16}) {
    const Program step = residual_network(type);
    each_pair_of_epilogues(step, [&](const CompileOptions& options, const Compiled& apart,
                                     const Compiled& fused, const std::string& where) {
      // Before anything is chosen: whatever is made again, these gradients ask nothing of relu's
      // map.
      EXPECT_EQ(count_of(fused.program, "batch_norm_relu_grad"), 3) << where;
      EXPECT_EQ(count_of(apart.program, "batch_norm_relu_grad"), 0) << where;
      if (options.recompute != Recompute::none) return;
      EXPECT_EQ(count_of(fused.program, "batch_norm_relu"), 5) << where << print(fused.program);
      EXPECT_EQ(count_of(fused.program, "sum_inside"), 2) << where;
      EXPECT_EQ(count_of(fused.program, "relu"), 0) << where;
    });
  }
}

// Fronts choose, and bounds are, of the step that all plans begin with; where nothing is fused, of
// the recorded one.
TEST(FuseNorm, FrontsAndBoundsAreOfWhatPlansBeginWith) {
  const Program step = residual_network(DType::f32), begun = fuse_first(step);
  KernelCache cache{Device{}};
  const StateLayout layout(step);
  CompileOptions fused{.profile = toy_card()}, apart = fused;
  apart.fuse_epilogues = false;
  const auto least = [&](const Program& p, const CompileOptions& options) {
    return Bound(p, layout, options, *options.profile).least_ms();
  };
  EXPECT_EQ(least(step, fused), least(begun, fused));
  EXPECT_GT(least(step, apart), least(begun, apart));
  const auto points = [&](const Program& p, const CompileOptions& options) {
    std::vector<std::pair<int64_t, double>> out;
    for (const FrontPoint& point : make_front(p, cache, layout, options).points)
      out.emplace_back(point.bytes, point.step_ms);
    return out;
  };
  EXPECT_EQ(points(step, fused), points(begun, fused));
  EXPECT_NE(points(step, apart), points(begun, apart));
}

}  // namespace
}  // namespace pal::test
