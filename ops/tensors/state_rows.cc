// put_row: new[m mod n] = x.   moving_averages: new = new + momentum (row - new), row by row.
#include "ops/tensors/state_rows.h"

#include <cstring>

#include "core/builder.h"
#include "core/scalars.h"
#include "ops/kernels/gate.h"
#include "ops/kernels/operands.h"

namespace pal {
namespace {

bool is_number(const TensorSpec& spec) { return spec == TensorSpec{{1}, DType::i32}; }

void run_put_row(const KernelArgs& a) {
  const int64_t bytes = a.in_spec[1].bytes(), rows = a.in_spec[0].shape[0];
  const bool alone = is_number(a.in_spec[2]);
  const int64_t number = alone ? *a.input<int32_t>(2) : as_scalars(a.in[2]).micro_batch;
  const int64_t row = number % rows;
  auto* const to = static_cast<std::byte*>(a.out[0]);
  copy_bytes(a.queue, to, a.in[0], a.in_spec[0].bytes());
  std::memcpy(to + row * bytes, a.in[1], size_t(bytes));
}

void run_averages(const KernelArgs& a) {
  const auto* gate = input_if_present<Gate>(a, 2);
  if (gate && gate->apply == 0) return copy_operand(a);
  const float momentum = a.attrs.as<MovingAverageAttrs>().momentum;
  const float *old = a.input(0), *rows = a.input(1);
  const int64_t count = a.in_spec[1].shape[0], size = a.in_spec[0].numel();
  float* const out = a.output(0);
  parallel_chunks(a.queue, size, kElementGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      float x = old[i];
      for (int64_t r = 0; r < count; ++r) x = x + momentum * (rows[r * size + i] - x);
      out[i] = x;
    }
  });
}

ExampleOperand fixed(Shape shape) { return constant(example(shape)); }
ExampleOperand gate_example() {
  return {.spec = gate_spec(), .lo = 0.5f, .hi = 1, .differentiable = false};
}

ExampleOperand number_example() {
  return {.spec = {{1}, DType::i32}, .lo = 0, .hi = 9, .differentiable = false};
}

}  // namespace

const OpDef put_row_op{
    .name = "put_row",
    .formula = "old, with x as row m mod n of it",
    .infer = [](SpecSpan in, const Attrs&) -> Specs {
      require_operands(in, 3, 3);
      require(in[0].shape.rank() > 0 && in[0].shape.without(0) == in[1].shape &&
                  in[0].dtype == in[1].dtype && bits(in[0].dtype) % 8 == 0 && !in[0].layout,
              in[1], " is no row of ", in[0]);
      require(in[2] == scalars_spec() || is_number(in[2]), in[2], ": want the step's scalars, ",
              scalars_spec(), ", or one number");
      return {in[0]};
    },
    .shares = {{0, 0}},
    .writes_state = true,
    .cpu = {.run = run_put_row},
    .cuda = &put_row_cuda,
    .examples = {{.operands = {fixed({3, 7}), fixed({7}), step_scalars_example()}},
                 {.operands = {fixed({4, 9}), fixed({9}), number_example()}},
                 {.operands = {fixed({2, 5, 700}), fixed({5, 700}), step_scalars_example()}}},
};

const OpDef moving_averages_op{
    .name = "moving_averages",
    .formula = "new = new + momentum (row - new), row by row",
    .infer = [](SpecSpan in, const Attrs&) -> Specs {
      require_operands(in, 2, 3);
      require(in[0].dtype == DType::f32 && in[1].dtype == DType::f32 && in[1].shape.rank() > 0 &&
                  in[1].shape.without(0) == in[0].shape,
              in[1], " are no rows of ", in[0]);
      require(!present(in, 2) || in[2] == gate_spec(), "a gate should be ", gate_spec());
      return {in[0]};
    },
    .optional_from = 2,
    .shares = {{0, 0}},
    .writes_state = true,
    .cpu = {.run = run_averages},
    .cuda = &moving_averages_cuda,
    .examples = {{.operands = {fixed({7}), fixed({3, 7})}, .attrs = MovingAverageAttrs{0.1f}},
                 {.operands = {fixed({5, 13}), fixed({1, 5, 13}), gate_example()},
                  .attrs = MovingAverageAttrs{0.5f}},
                 {.operands = {fixed({33, 1031}), fixed({2, 33, 1031}), absent_example()},
                  .attrs = MovingAverageAttrs{0.01f}}},
};

Val put_row(Val old, Val x, Val number) { return old.builder->emit1(put_row_op, {old, x, number}); }
Val moving_averages(Val old, Val rows, float momentum, Val gate) {
  return old.builder->emit1(moving_averages_op, {old, rows, gate}, MovingAverageAttrs{momentum});
}

}  // namespace pal
