// relu behind a batch norm, a residual block's sum between them, and their gradients: one node
// each, to the bit; and what is left alone.
#include <gtest/gtest.h>

#include "core/print.h"
#include "core/verify.h"
#include "memory/compile.h"
#include "memory/passes/fuse_recompute.h"
#include "ops/elementwise/add.h"
#include "ops/norms/batch_norm.h"
#include "tests/memory/compiled_bits.h"
#include "tests/memory/passes/conv_network.h"

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

// On ordinary values, and on few, among them infinities and NaNs. Of two NaNs a sum has the sign of
// either, as the compiler likes.
std::string fused_norms(const Program& p, bool of_nans = true) {
  verify(p);
  const Program out = fuse_epilogues(p);
  verify(out);
  if (of_nans) expect_same_bits(p, out);
  std::vector<Evaluator> both;
  for (const Program* each : {&p, &out}) {
    both.emplace_back(*each);
    uint32_t seed = 0;
    for (auto& in : p.inputs) {
      both.back().set(in.value, ordinary(p.value(in.value).spec.numel(), ++seed));
    }
    both.back().run();
  }
  for (auto& o : p.outputs) {
    const TensorSpec& spec = p.value(o.value).spec;
    EXPECT_EQ(first_difference(spec, both[0].bytes(o.value), both[1].bytes(out.output(o.name))), "")
        << o.name;
  }
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
      EXPECT_EQ(fused_norms(n.b.program(), form == 0), "batch_norm_relu") << form;
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
struct Applied : Norm {
  Val apply(Phase phase, bool with_relu = false) {
    Builder::Within within(b, phase);
    return b.emit1(batch_norm_apply_op, {x, gamma, beta, norm.mean, norm.rstd},
                   BatchNormApplyAttrs{with_relu});
  }
};

TEST(FuseNorm, ANormWithItsStatisticsThere) {
  for (const bool whole : {false, true}) {
    Applied n;
    const Val y = whole ? n.apply(Phase::forward, true) : relu(n.apply(Phase::forward));
    n.b.output("y", y);
    n.output(n.gradient(y, n.norm));
    EXPECT_EQ(fused_norms(n.b.program()), "batch_norm batch_norm_apply batch_norm_relu_grad");
  }
  Applied residual;
  const Val y = relu(add(residual.apply(Phase::forward), residual.other));
  residual.b.output("y", y);
  residual.output(residual.gradient(y, residual.norm));
  EXPECT_EQ(fused_norms(residual.b.program()),
            "batch_norm batch_norm_apply pass_inside batch_norm_grad");
}

TEST(FuseNorm, AClonesReaderIsNotTakenAway) {
  Applied dead;  // a clone for the gradient alone would run for nobody
  dead.output(dead.gradient(dead.apply(Phase::recompute, true), dead.norm));
  EXPECT_EQ(fused_norms(dead.b.program()),
            "batch_norm *batch_norm_apply pass_inside batch_norm_grad");
  Applied read;
  const Val y = read.apply(Phase::recompute, true);
  read.b.output("y", y);
  read.output(read.gradient(y, read.norm));
  EXPECT_EQ(fused_norms(read.b.program()), "batch_norm *batch_norm_apply batch_norm_relu_grad");
  for (const bool is_read : {false, true}) {  // of two clones the first is read by the second
    Applied two;
    Val z;
    {
      Builder::Within phase(two.b, Phase::recompute);
      z = relu(two.apply(Phase::recompute));
    }
    if (is_read) two.b.output("y", z);
    two.output(two.gradient(z, two.norm));
    EXPECT_EQ(fused_norms(two.b.program()),
              is_read ? "batch_norm *batch_norm_apply batch_norm_relu_grad"
                      : "batch_norm *batch_norm_apply pass_inside batch_norm_grad");
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
    KernelCache cache{Device{}};
    const StateLayout layout(step);
    int gradients_of_clones = 0;
    each_plan_of_epilogues([&](CompileOptions options, const std::string& where) {
      options.fuse_epilogues = false;
      const Compiled apart = compile(step, cache, layout, options);
      options.fuse_epilogues = true;
      const Compiled fused = compile(step, cache, layout, options);
      ASSERT_EQ(difference_of(step, bits_of(apart), bits_of(fused)), "") << where;
      ASSERT_LE(fused.plan.device().lower_bound, apart.plan.device().lower_bound) << where;
      if (options.recompute == Recompute::none) {
        EXPECT_EQ(count_of(fused.program, "batch_norm_relu"), 5) << where << print(fused.program);
        EXPECT_EQ(count_of(fused.program, "batch_norm_relu_grad"), 3) << where;
        EXPECT_EQ(count_of(fused.program, "sum_inside"), 2) << where;
        EXPECT_EQ(count_of(fused.program, "relu"), 0) << where;
      } else if (options.recompute == Recompute::echo) {
        gradients_of_clones += count_of(fused.program, "batch_norm_relu_grad");
      }
    });
    EXPECT_GT(gradients_of_clones, 0);
  }
}

}  // namespace
}  // namespace pal::test
