// assign: new = x.   moving_average: new = old + momentum (x - old).
#include "ops/tensors/state.h"

#include "core/builder.h"
#include "ops/kernels/gate.h"
#include "ops/kernels/tiles.h"

namespace pal {
namespace {

// Whether an update is to be made, as its gate, operand 2, says.
bool applies(const KernelArgs& a) {
  const auto* gate = a.input<Gate>(2);
  return !gate || gate->apply != 0;
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
      has_gate(in);
      require(in[0].shape == in[1].shape && is_float(in[0].dtype) && is_float(in[1].dtype), in[0],
              ", ", in[1], ": shapes differ");
      return {{in[0].shape, in[0].dtype}};
    },
    .optional_from = 2,
    .shares = {{0, 0}},
    .writes_state = true,
    .cpu = {.run =
                [](const KernelArgs& a) {
                  if (!applies(a)) return copy_operand(a);
                  const float momentum = a.attrs.as<MovingAverageAttrs>().momentum;
                  map_elements<2>(
                      a, [momentum](float old, float x) { return old + momentum * (x - old); });
                }},
    .cuda = &moving_average_cuda,
    .examples = {{.operands = {constant(example({19})), constant(example({19}))},
                  .attrs = MovingAverageAttrs{0.1f}},
                 {.operands = {example({21}, DType::bf16), constant(example({21})), gate_example()},
                  .attrs = MovingAverageAttrs{0.5f}},
                 {.operands = {constant(example({33, 1031})), constant(example({33, 1031}))},
                  .attrs = MovingAverageAttrs{0.01f}}},
};

Val assign(Val old, Val x, Val gate) {
  return old.builder->emit1(assign_op, {old, x, gate}, AssignAttrs{bool(gate)});
}
Val moving_average(Val old, Val x, float momentum, Val gate) {
  return old.builder->emit1(moving_average_op, {old, x, gate}, MovingAverageAttrs{momentum});
}

}  // namespace pal
