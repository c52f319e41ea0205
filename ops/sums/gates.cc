// sum_of_squares: sum_i g_i^2, of one tensor or of many at once.
// encodings_fit: a gate of the counts of sparse encodings. gate_and: both gates.
// clip_norm_gate (Pascanu et al. 2013): norm = sqrt(sum of partials) / loss_scale; the gradients'
// scale, and whether updates are applied. A gradient's sum of squares may be taken as soon as it is
// there, so no gradient lives longer for the norm.
#include "ops/sums/gates.h"

#include <algorithm>

#include "core/builder.h"
#include "core/scalars.h"
#include "ops/kernels/gate.h"
#include "ops/kernels/operands.h"
#include "ops/sums/sum_products.h"

namespace pal {
namespace {

void run_squares(const KernelArgs& a) {
  for (size_t k = 0; k < a.in.size(); ++k) {
    if (a.out[k]) sum_products(a, k, k, nullptr, a.output(k));
  }
}
Prepared prepare_squares(const Device& device, SpecSpan in, SpecSpan out, const Attrs& attrs) {
  Prepared most;
  for (size_t k = 0; k < in.size(); ++k) {
    const Prepared one = prepare_products(device, in.subspan(k, 1), out.subspan(k, 1), attrs);
    most.workspace = std::max(most.workspace, one.workspace);
  }
  return most;
}

// scalars, loss, partials...
void run_gate(const KernelArgs& a) {
  auto& attrs = a.attrs.as<ClipNormAttrs>();
  const double loss_scale = as_scalars(a.in[0]).loss_scale;
  double sum = 0;
  for (size_t k = 2; k < a.in.size(); ++k) {
    if (const float* partial = input_if_present<float>(a, k)) sum += double(*partial);
  }
  // The output may lie where an operand did: written last.
  const Gate gate = make_gate(sum, loss_scale, input_if_present<float>(a, 1), attrs);
  *a.output<Gate>(0) = gate;
}

void run_fit(const KernelArgs& a) {
  int misses = 0;
  for (const void* in : a.in) {
    const auto* count = static_cast<const int32_t*>(in);
    misses += count[0] > count[1];
  }
  *a.output<Gate>(0) = {1, misses ? 0.0f : 1.0f, 0, float(misses)};
}
void run_and(const KernelArgs& a) {
  *a.output<Gate>(0) = gate_and(*a.input<Gate>(0), *a.input<Gate>(1));
}

ExampleOperand count_example() { return constant(example({2}, DType::i32, 0, 9)); }
ExampleOperand gate_example() { return constant({.spec = gate_spec(), .lo = 0, .hi = 1}); }
Val as_gate(Val gate) {
  gate.builder->program().value(gate.id).role = Role::gate;
  return gate;
}
ExampleOperand one_example() { return example({1}, DType::f32, 0, 4); }
}  // namespace

const OpDef sum_of_squares_op{
    .name = "sum_of_squares",
    .formula = "sum_i g_i^2",
    .infer = [](SpecSpan in, const Attrs&) -> Specs {
      for (const TensorSpec& g : in) require(is_float(g.dtype), g, ": want floats");
      require(!in.empty(), "takes one float tensor or several");
      return Specs(in.size(), {Shape{1}});
    },
    .arity = 1,
    .cost = [](SpecSpan in, SpecSpan, const Attrs&) -> Cost {
      Cost cost;
      for (const TensorSpec& g : in) {
        cost.flops += 2.0 * double(g.numel()), cost.bytes += double(g.bytes());
      }
      return cost;
    },
    .cpu = {.run = run_squares, .prepare = prepare_squares},
    .cuda = &sum_of_squares_cuda,
    .examples = {{.operands = {example({3, 7})}},
                 {.operands = {example({5, 13}, DType::bf16)}},
                 {.operands = {example({33, 1031})}}},
};

const OpDef clip_norm_gate_op{
    .name = "clip_norm_gate",
    .formula = "{min(1, max_norm / norm) / loss_scale, finite, norm = sqrt(sum partials), 0}",
    .infer = [](SpecSpan in, const Attrs& attrs) -> Specs {
      require(in.size() >= 2 && in[0] == scalars_spec(),
              "takes the step's scalars, the loss, and any sums of squares");
      require(attrs.as<ClipNormAttrs>().max_norm >= 0, "max_norm is negative; 0 clips nothing");
      for (size_t k = 1; k < in.size(); ++k) {
        require(!present(in[k]) || one_number(in[k]), in[k],
                ": want f32[1] of the loss and of every sum of squares");
      }
      return {gate_spec()};
    },
    .optional_from = 1,
    .cpu = {.run = run_gate},
    .cuda = &clip_norm_gate_cuda,
    .examples = {{.operands = {step_scalars_example(), one_example(), one_example()},
                  .attrs = ClipNormAttrs{}},
                 {.operands = {step_scalars_example(), absent_example(), one_example(),
                               one_example(), one_example()},
                  .attrs = ClipNormAttrs{0.5f}}},
};

const OpDef encodings_fit_op{
    .name = "encodings_fit",
    .formula = "{1, all fit, 0, how many do not}: of each (n, capacity), n <= capacity",
    .infer = [](SpecSpan in, const Attrs&) -> Specs {
      for (const TensorSpec& count : in) {
        require(count == TensorSpec{Shape{2}, DType::i32}, count,
                ": want i32[2], a count and its capacity");
      }
      return {gate_spec()};
    },
    .cpu = {.run = run_fit},
    .cuda = &encodings_fit_cuda,
    .examples = {{.operands = {count_example()}},
                 {.operands = {count_example(), count_example(), count_example()}}},
};

const OpDef gate_and_op{
    .name = "gate_and",
    .formula = "a, shut where b is shut",
    .infer = [](SpecSpan in, const Attrs&) -> Specs {
      require(in.size() == 2 && in[0] == gate_spec() && in[1] == gate_spec(), "takes two gates");
      return {gate_spec()};
    },
    .shares = {{0, 0}},
    .cpu = {.run = run_and},
    .cuda = &gate_and_cuda,
    .examples = {{.operands = {gate_example(), gate_example()}},
                 {.operands = {gate_example(), constant({.spec = gate_spec(), .lo = 0, .hi = 0})}}},
};

Val encodings_fit(const std::vector<Val>& counts) {
  return as_gate(counts.at(0).builder->emit1(encodings_fit_op, counts));
}
Val gate_and(Val a, Val b) { return as_gate(a.builder->emit1(gate_and_op, {a, b})); }

Val sum_of_squares(Val g) { return g.builder->emit1(sum_of_squares_op, {g}); }

Val clip_norm_gate(Val scalars, Val loss, const std::vector<Val>& partials, ClipNormAttrs attrs) {
  std::vector<Val> in{scalars, loss};
  in.insert(in.end(), partials.begin(), partials.end());
  return as_gate(scalars.builder->emit1(clip_norm_gate_op, std::move(in), attrs));
}

}  // namespace pal
