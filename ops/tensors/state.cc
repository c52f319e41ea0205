// assign: new = x.   moving_average: new = old + momentum (x - old), of many states in one node.
#include "ops/tensors/state.h"

#include "core/builder.h"
#include "ops/kernels/gate.h"
#include "ops/kernels/tiles.h"

namespace pal {
namespace {

// Whether an update is to be made, as its gate says.
bool applies(const KernelArgs& a, size_t gate_operand = 2) {
  const auto* gate = a.input<Gate>(gate_operand);
  return !gate || gate->apply != 0;
}

constexpr size_t kAverageOperands = 3;  // old, x, gate

void run_moving_averages(const KernelArgs& a) {
  const float momentum = a.attrs.as<MovingAverageAttrs>().momentum;
  const auto moved = [momentum](float old, float x) { return old + momentum * (x - old); };
  for (size_t k = 0, first = 0; k < a.out.size(); ++k, first += kAverageOperands) {
    if (!a.out[k]) continue;
    const KernelArgs one{.in = a.in.subspan(first, kAverageOperands),
                         .out = a.out.subspan(k, 1),
                         .in_spec = a.in_spec.subspan(first, kAverageOperands),
                         .out_spec = a.out_spec.subspan(k, 1),
                         .attrs = a.attrs,
                         .state = nullptr,
                         .workspace = nullptr,
                         .queue = a.queue};
    applies(one) ? map_elements<2>(one, moved) : copy_operand(one);
  }
}
bool has_gate(SpecSpan in) {
  require_operands(in, 2, 3);
  if (in.size() < 3 || in[2].shape.rank() == 0) return false;
  require(in[2] == gate_spec(), in[2], ": a gate should be ", gate_spec());
  return true;
}
ExampleOperand gate_example() {
  return {.spec = gate_spec(), .lo = 0.5f, .hi = 1, .differentiable = false};
}

// Of one state and of several.
std::vector<Example> moving_average_examples() {
  const ExampleOperand small = constant(example({19})), half = example({21}, DType::bf16),
                       large = constant(example({33, 1031})), no = absent_example();
  return {{.operands = {small, small, no}, .attrs = MovingAverageAttrs{0.1f}},
          {.operands = {half, constant(example({21})), gate_example()},
           .attrs = MovingAverageAttrs{0.5f}},
          {.operands = {large, large, gate_example(), half, half, gate_example(), small, small,
                        gate_example()},
           .attrs = MovingAverageAttrs{0.01f}}};
}

}  // namespace

const OpDef assign_op{
    .name = "assign",
    .formula = "new = x",
    .infer = [](SpecSpan in, const Attrs& attrs) -> Specs {
      require(has_gate(in) == attrs.as<AssignAttrs>().gated,
              "a gate must be there when, and only when, it is gated");
      require(in[0].shape == in[1].shape &&
                  (in[0] == in[1] || (is_float(in[0].dtype) && is_float(in[1].dtype))),
              in[0], " cannot become ", in[1]);
      return {in[0]};
    },
    .optional_from = 2,
    .shares = {{0, 0}},
    .reads = [](int operand, const Attrs& attrs) -> Reads {
      return operand || attrs.as<AssignAttrs>().gated ? reads_values() : reads_shape();
    },
    .writes_state = true,
    .cpu = {.run =
                [](const KernelArgs& a) { applies(a) ? convert_operand(a, 1) : copy_operand(a); }},
    .cuda = &assign_cuda,
    .examples = {{.operands = {constant(example({3, 7})), constant(example({3, 7}))},
                  .attrs = AssignAttrs{}},
                 {.operands = {example({5, 13}, DType::bf16), constant(example({5, 13})),
                               gate_example()},
                  .attrs = AssignAttrs{true}},
                 {.operands = {constant(example({33, 1031})), constant(example({33, 1031})),
                               absent_example()},
                  .attrs = AssignAttrs{}}},
};

const OpDef moving_average_op{
    .name = "moving_average",
    .formula = "new = old + momentum (x - old)",
    .infer = [](SpecSpan in, const Attrs&) -> Specs {
      require(!in.empty() && in.size() % kAverageOperands == 0, "takes groups of old, x, gate");
      Specs out;
      for (size_t first = 0; first < in.size(); first += kAverageOperands) {
        const TensorSpec &old = in[first], &x = in[first + 1];
        has_gate(in.subspan(first, kAverageOperands));
        require(old.shape == x.shape && is_float(old.dtype) && is_float(x.dtype), old, ", ", x,
                ": shapes differ");
        out.push_back({old.shape, old.dtype});
      }
      return out;
    },
    .optional_from = 2,
    .arity = int(kAverageOperands),
    .shares = {{0, 0}},
    .writes_state = true,
    .cpu = {.run = run_moving_averages},
    .cuda = &moving_average_cuda,
    .examples = moving_average_examples(),
};

Val assign(Val old, Val x, Val gate) {
  return old.builder->emit1(assign_op, {old, x, gate}, AssignAttrs{bool(gate)});
}
Val moving_average(Val old, Val x, float momentum, Val gate) {
  return old.builder->emit1(moving_average_op, {old, x, gate}, MovingAverageAttrs{momentum});
}

}  // namespace pal
