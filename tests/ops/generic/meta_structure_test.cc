// Proof that the checks of inference, facts, updates and gradients can fail, on operators broken in
// one way each.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "ops/elementwise/add.h"
#include "tests/ops/generic/toys.h"

namespace pal::test {
namespace {

// The problems of the gradient check other than the toys' not being listed.
Problems gradient_problems(const Case& c, const std::vector<int>& statistics = {}) {
  Problems out;
  for (auto& p : check_gradient(c, statistics)) {
    if (p.find("not in all_ops") == std::string::npos) out.push_back(p);
  }
  return out;
}

TEST(GenericMeta, InferenceThatAcceptsWhatTheKernelCannotDo) {
  OpDef op = sound();
  op.infer = [](SpecSpan in, const Attrs&) {  // bf16 would be read as f32
    require(in.size() == 1, "toy", "takes one operand");
    return Specs{in[0]};
  };
  EXPECT_TRUE(mentions(check_infer(case_of(op)), "is accepted, but"));
  op.infer = [](SpecSpan in, const Attrs&) {
    if (in.empty() || in[0].dtype != DType::f32) throw ProgramError("f32 only");
    return Specs{in[0]};
  };
  EXPECT_TRUE(mentions(check_infer(case_of(op)), "does not name the operator"));
  op.infer = [](SpecSpan in, const Attrs&) {
    if (in.empty() || in[0].dtype != DType::f32) throw std::out_of_range("7");
    return Specs{in[0]};
  };
  EXPECT_TRUE(mentions(check_infer(case_of(op)), "something else"));
  op = update();  // without its gate it writes nothing
  op.cpu.run = [](const KernelArgs& a) {
    if (a.input(2)) update().cpu.run(a);
  };
  EXPECT_TRUE(mentions(check_infer(case_of(op)), "operand 2 absent is accepted, but"));
}

TEST(GenericMeta, AnOptionalOperandThatMayNotBeAbsent) {
  OpDef op = update();
  EXPECT_EQ(check_optional({case_of(op)}), Problems{});
  op.infer = [](SpecSpan in, const Attrs&) {
    require(in[1].shape.rank() > 0, "toy: takes a gradient");
    return Specs{in[0]};
  };
  EXPECT_EQ(check_optional({case_of(op)}), Problems{});
  op.optional_from = 1;
  EXPECT_TRUE(mentions(check_optional({case_of(op)}), "operand 1 is optional, but"));
  op.infer = [](SpecSpan in, const Attrs&) {  // both or none
    require((in[1] == TensorSpec{}) == (in[2] == TensorSpec{}), "toy: takes a gate as well");
    return Specs{in[0]};
  };
  EXPECT_EQ(check_optional({case_of(op)}), Problems{});
}

TEST(GenericMeta, Updates) {
  OpDef op = update();
  EXPECT_EQ(check_update(case_of(op)), Problems{});
  op.cpu.run = [](const KernelArgs& a) {  // wrong where old and new share bytes
    for (int64_t i = 0; i < count(a); ++i) a.output(0)[i] = 1;
    for (int64_t i = 0; i < count(a); ++i) a.output(0)[i] += a.input(0)[i];
  };
  EXPECT_TRUE(mentions(check_update(case_of(op)), "in place"));
  op.cpu.run = [](const KernelArgs& a) { std::memmove(a.out[0], a.in[0], size_t(count(a)) * 4); };
  EXPECT_TRUE(mentions(check_update(case_of(op)), "changes nothing"));
  op.cpu.run = [](const KernelArgs& a) {  // 0 g is not 0 where g is not finite
    const float rate = a.input(2)[1] != 0 ? 0.5f : 0.0f;
    for (int64_t i = 0; i < count(a); ++i) {
      a.output(0)[i] = a.input(0)[i] - rate * a.input(1)[i];
    }
  };
  EXPECT_TRUE(mentions(check_update(case_of(op)), "when the gate is shut"));
  EXPECT_TRUE(has_gate(case_of(op)));
}

TEST(GenericMeta, GroupsThatAllTakeTheFirstGradient) {
  OpDef op = update();
  op.arity = 3;
  op.infer = [](SpecSpan in, const Attrs&) {
    Specs out;
    for (size_t i = 0; i < in.size(); i += 3) out.push_back(in[i]);
    return out;
  };
  op.cpu.run = [](const KernelArgs& a) {
    for (size_t g = 0; g < a.out.size(); ++g) {
      for (int64_t i = 0; i < a.in_spec[3 * g].numel(); ++i) {
        a.output(g)[i] = a.input(3 * g)[i] - 0.5f * a.input(3 * g + 1)[i];
      }
    }
  };
  EXPECT_EQ(check_groups(op, op.examples), Problems{});
  op.cpu.run = [](const KernelArgs& a) {
    for (size_t g = 0; g < a.out.size(); ++g) {
      for (int64_t i = 0; i < a.in_spec[3 * g].numel(); ++i) {
        a.output(g)[i] = a.input(3 * g)[i] - 0.5f * a.input(1)[i];
      }
    }
  };
  EXPECT_TRUE(mentions(check_groups(op, op.examples), "other bits in many groups"));
}

TEST(GenericMeta, Facts) {
  OpDef op = sound();
  op.formula = "";
  EXPECT_TRUE(mentions(check_facts(case_of(op)), "no formula"));
  op.cost = [](SpecSpan, SpecSpan, const Attrs&) { return Cost{NAN, 1}; };
  EXPECT_TRUE(mentions(check_facts(case_of(op)), "flops"));
  op.cost = [](SpecSpan, SpecSpan, const Attrs&) { return Cost{}; };
  EXPECT_TRUE(mentions(check_facts(case_of(op)), "costs nothing"));
}

struct ForgetfulAttrs {  // equal by one field, printed by none
  int a = 0;
  auto fields() const { return std::tuple{field("a", 0.0f * float(a))}; }
};
// y = x^2: zero where x is, and hardly elsewhere.
TEST(GenericMeta, ZerosThatAreNotThere) {
  OpDef op = sound();
  op.zeros = keeps_zeros;
  EXPECT_EQ(check_zeros({case_of(op)}), Problems{});
  op.zeros = gathers_zeros;
  EXPECT_EQ(check_zeros({case_of(op)}), Problems{});
  op.zeros = makes_zeros;
  EXPECT_TRUE(mentions(check_zeros({case_of(op)}), "hardly one"));
  op.cpu.run = [](const KernelArgs& a) {  // of -x
    for (int64_t i = 0; i < count(a); ++i) a.output(0)[i] = -a.input(0)[i];
  };
  op.zeros = keeps_zeros;
  EXPECT_TRUE(mentions(check_zeros({case_of(op)}), "it keeps zeros"));
  // Of two operands one alone does not do, where it needs both.
  op.infer = [](SpecSpan in, const Attrs&) { return Specs{in[0]}; };
  op.cpu.run = [](const KernelArgs& a) {
    for (int64_t i = 0; i < count(a); ++i) a.output(0)[i] = a.input(0)[i] + a.input(1)[i];
  };
  op.examples[0].operands.push_back(op.examples[0].operands[0]);
  EXPECT_TRUE(mentions(check_zeros({case_of(op)}), "it keeps zeros"));
  op.zeros = gathers_zeros;
  EXPECT_EQ(check_zeros({case_of(op)}), Problems{});
}

TEST(GenericMeta, AttributesThatHideAField) {
  struct NanAttrs {
    float a = NAN;  // differs from itself
    auto fields() const { return std::tuple{field("a", a)}; }
  };
  EXPECT_FALSE(check_attrs({{.attrs = NanAttrs{}}, {.attrs = NanAttrs{}}}).empty());
  EXPECT_TRUE(check_attrs({{.attrs = ForgetfulAttrs{1}}, {.attrs = ForgetfulAttrs{2}}}).empty());
}

TEST(GenericMeta, WrongGradients) {
  OpDef op = sound();
  EXPECT_EQ(gradient_problems(case_of(op)), Problems{});
  op.gradient = [](GradientArgs& g) { g.give(0, add(g.dy(), g.dy())); };
  EXPECT_TRUE(mentions(gradient_problems(case_of(op)), "differences say"));
  op.gradient = [](GradientArgs&) {};
  EXPECT_TRUE(mentions(gradient_problems(case_of(op)), "differences say"));
  // Right, but it loses the sum that it claims to have added to.
  static const OpDef base = sound();
  op.gradient = [](GradientArgs& g) {
    base.gradient(g);
    g.take_sum(0);
  };
  const Problems lost = gradient_problems(case_of(op));
  EXPECT_TRUE(mentions(lost, "summed over two readers"));
  EXPECT_TRUE(mentions(lost, "added to a start"));
  EXPECT_FALSE(mentions(lost, "differences say"));
}

// y0 = x0 x1, y1 = x0: gradients wrong in one combination of outputs or operands alone.
OpDef two_by_two() {
  OpDef op = sound();
  op.infer = [](SpecSpan in, const Attrs&) { return Specs{in[0], in[0]}; };
  op.shares = {};
  op.examples = {{.operands = {{.spec = {{5}}}, {.spec = {{5}}}}}};
  op.cpu.run = [](const KernelArgs& a) {
    for (int64_t i = 0; i < count(a); ++i) {
      if (a.out[0]) a.output(0)[i] = a.input(0)[i] * a.input(1)[i];
      if (a.out[1]) a.output(1)[i] = a.input(0)[i];
    }
  };
  return op;
}
const OpDef product{.name = "toy_product",
                    .formula = "a b",
                    .infer = [](SpecSpan in, const Attrs&) { return Specs{in[0]}; },
                    .cpu = {.run = [](const KernelArgs& a) {
                      for (int64_t i = 0; i < count(a); ++i) {
                        a.output(0)[i] = a.input(0)[i] * a.input(1)[i];
                      }
                    }}};

TEST(GenericMeta, GradientsOfSubsets) {
  OpDef op = two_by_two();
  op.gradient = [](GradientArgs& g) {
    Val a = g.dy(0) ? g.builder.emit1(product, {g.dy(0), g.in(1)}) : Val{};
    Val b = g.dy(0) ? g.builder.emit1(product, {g.dy(0), g.in(0)}) : Val{};
    if (g.dy(1)) a = a ? add(a, g.dy(1)) : g.dy(1);
    if (g.wants(0)) g.give(0, a);
    if (g.wants(1) && b) g.give(1, b);
  };
  EXPECT_EQ(gradient_problems(case_of(op)), Problems{});
  OpDef other = op;  // forgets output 1 where output 0 has no cotangent
  other.gradient = [](GradientArgs& g) {
    if (!g.dy(0)) return;
    Val a = g.builder.emit1(product, {g.dy(0), g.in(1)});
    Val b = g.builder.emit1(product, {g.dy(0), g.in(0)});
    if (g.dy(1)) a = add(a, g.dy(1));
    if (g.wants(0)) g.give(0, a);
    if (g.wants(1)) g.give(1, b);
  };
  EXPECT_TRUE(mentions(gradient_problems(case_of(other)), "through output 1 alone"));
  EXPECT_EQ(gradient_problems(case_of(other), {1}), Problems{});  // a statistic is left out
  OpDef third = op;  // gives operand 1 only beside operand 0
  third.gradient = [](GradientArgs& g) {
    Val a = g.dy(0) ? g.builder.emit1(product, {g.dy(0), g.in(1)}) : Val{};
    Val b = g.dy(0) ? g.builder.emit1(product, {g.dy(0), g.in(0)}) : Val{};
    if (g.dy(1)) a = a ? add(a, g.dy(1)) : g.dy(1);
    if (g.wants(0)) g.give(0, a);
    if (g.wants(0) && g.wants(1) && b) g.give(1, b);
  };
  EXPECT_TRUE(mentions(gradient_problems(case_of(third)), "of one operand alone"));
}

TEST(GenericMeta, GradientWhoseOperatorIsNotListed) {
  EXPECT_TRUE(mentions(check_gradient(case_of(sound())), "[toy_grad] is not in all_ops()"));
}

}  // namespace
}  // namespace pal::test
