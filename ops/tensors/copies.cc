// cast: y = x as another type, dx = dy as x's type.        assign: new = x.
// moving_average: new = old + momentum (x - old).          copy_out, copy_in, step_scalars: y = x.
// to_bits: y = [lo < x < hi].
#include "ops/tensors/copies.h"

#include "core/gradient.h"
#include "core/scalars.h"
#include "ops/kernels/cuda.h"
#include "ops/kernels/tiles.h"
#include "ops/sums/gates.h"

namespace pal {
namespace {

void run_copy(const KernelArgs& a) {
  if (a.out[0]) copy_bytes(a.queue, a.out[0], a.in[0], a.out_spec[0].bytes());
}

// Converts floats; any other type has been required to stay as it is.
void convert(const KernelArgs& a, size_t operand) {
  if (!a.out[0]) return;
  const TensorSpec &from = a.in_spec[operand], &to = a.out_spec[0];
  if (from.dtype == to.dtype) return copy_bytes(a.queue, a.out[0], a.in[operand], to.bytes());
  parallel_chunks(a.queue, to.numel(), kElementGrain, [&](int64_t begin, int64_t end) {
    alignas(64) float buffer[kTile];
    for (int64_t i = begin; i < end; i += kTile) {
      const int64_t n = std::min(kTile, end - i);
      store_tile(a.out[0], to.dtype, i, n, load_tile(a.in[operand], from.dtype, i, n, buffer));
    }
  });
}

// Whether an update is to be made, as its gate, operand 2, says.
bool applies(const KernelArgs& a) {
  const auto* gate = a.input<Gate>(2);
  return !gate || gate->apply != 0;
}
bool has_gate(const char* op, SpecSpan in) {
  require_operands(op, in, 2, 3);
  if (in.size() < 3 || in[2].shape.rank() == 0) return false;
  require(in[2] == gate_spec(), op,
          to_string(in[2]) + ": a gate should be " + to_string(gate_spec()));
  return true;
}
ExampleOperand gate_example() {
  return {.spec = gate_spec(), .lo = 0.5f, .hi = 1, .differentiable = false};
}
void keep_old(const KernelArgs& a) {
  if (a.out[0]) copy_bytes(a.queue, a.out[0], a.in[0], a.out_spec[0].bytes());
}

ExampleOperand constant(ExampleOperand operand) {
  operand.differentiable = false;
  return operand;
}

}  // namespace

const OpDef cast_op{
    .name = "cast",
    .formula = "x as another type",
    .infer =
        [](SpecSpan in, const Attrs& attrs) {
          require_operands("cast", in, 1, 1);
          const DType to = attrs.as<CastAttrs>().to;
          require(is_float(in[0].dtype) && is_float(to), "cast",
                  to_string(in[0]) + " to " + to_string(to) + ": not floating-point types");
          return Specs{{in[0].shape, to}};
        },
    .gradient = [](GradientArgs& g) { g.give(0, cast(g.dy(), g.in(0).spec().dtype)); },
    .cpu = {.run = [](const KernelArgs& a) { convert(a, 0); }},
    .cuda = &cast_cuda,
    .examples =
        [] {
          return std::vector<Example>{
              {.operands = {constant(example({3, 7}))}, .attrs = CastAttrs{DType::bf16}},
              {.operands = {example({3, 7}, DType::f16)}, .attrs = CastAttrs{DType::f32}},
              {.operands = {constant(example({33, 1031}))}, .attrs = CastAttrs{DType::f16}}};
        },
};

const OpDef assign_op{
    .name = "assign",
    .formula = "new = x",
    .infer =
        [](SpecSpan in, const Attrs& attrs) {
          require(has_gate("assign", in) == attrs.as<AssignAttrs>().gated, "assign",
                  "a gate must be there when, and only when, it is gated");
          require(in[0].shape == in[1].shape &&
                      (in[0] == in[1] || (is_float(in[0].dtype) && is_float(in[1].dtype))),
                  "assign", to_string(in[0]) + " cannot become " + to_string(in[1]));
          return Specs{in[0]};
        },
    .optional_from = 2,
    .shares = {{0, 0}},
    .reads =
        [](int operand, const Attrs& attrs) {
          return operand || attrs.as<AssignAttrs>().gated ? reads_values() : reads_shape();
        },
    .writes_state = true,
    .cpu = {.run = [](const KernelArgs& a) { applies(a) ? convert(a, 1) : keep_old(a); }},
    .cuda = &assign_cuda,
    .examples =
        [] {
          return std::vector<Example>{
              {.operands = {constant(example({3, 7})), constant(example({3, 7}))},
               .attrs = AssignAttrs{}},
              {.operands = {example({5, 13}, DType::bf16), constant(example({5, 13})),
                            gate_example()},
               .attrs = AssignAttrs{true}},
              {.operands = {constant(example({33, 1031})), constant(example({33, 1031})),
                            absent_example()},
               .attrs = AssignAttrs{}}};
        },
};

const OpDef moving_average_op{
    .name = "moving_average",
    .formula = "new = old + momentum (x - old)",
    .infer =
        [](SpecSpan in, const Attrs&) {
          has_gate("moving_average", in);
          require(in[0].shape == in[1].shape && is_float(in[0].dtype) && is_float(in[1].dtype),
                  "moving_average", to_string(in[0]) + ", " + to_string(in[1]) + ": shapes differ");
          return Specs{{in[0].shape, in[0].dtype}};
        },
    .optional_from = 2,
    .shares = {{0, 0}},
    .writes_state = true,
    .cpu = {.run =
                [](const KernelArgs& a) {
                  if (!applies(a)) return keep_old(a);
                  const float momentum = a.attrs.as<MovingAverageAttrs>().momentum;
                  map_elements<2>(
                      a, [momentum](float old, float x) { return old + momentum * (x - old); });
                }},
    .cuda = &moving_average_cuda,
    .examples =
        [] {
          return std::vector<Example>{
              {.operands = {constant(example({19})), constant(example({19}))},
               .attrs = MovingAverageAttrs{0.1f}},
              {.operands = {example({21}, DType::bf16), constant(example({21})), gate_example()},
               .attrs = MovingAverageAttrs{0.5f}},
              {.operands = {constant(example({33, 1031})), constant(example({33, 1031}))},
               .attrs = MovingAverageAttrs{0.01f}}};
        },
};

const OpDef copy_out_op{
    .name = "copy_out",
    .formula = "x, in host memory",
    .infer =
        [](SpecSpan in, const Attrs&) {
          require_operands("copy_out", in, 1, 1);
          return Specs{in[0]};
        },
    .cpu = {.run = run_copy},
    .cuda = &copy_out_cuda,
    .examples =
        [] {
          return std::vector<Example>{{.operands = {constant(example({3, 7}))}},
                                      {.operands = {example({65}, DType::bit)}},
                                      {.operands = {constant(example({33, 1031}))}}};
        },
};

const OpDef copy_in_op{
    .name = "copy_in",
    .formula = "x, from host memory",
    .infer =
        [](SpecSpan in, const Attrs&) {
          require_operands("copy_in", in, 1, 1);
          return Specs{in[0]};
        },
    .cpu = {.run = run_copy},
    .cuda = &copy_in_cuda,
    .examples =
        [] {
          return std::vector<Example>{{.operands = {constant(example({3, 7}))}},
                                      {.operands = {example({65}, DType::bf16)}},
                                      {.operands = {constant(example({33, 1031}))}}};
        },
};

const OpDef to_bits_op{
    .name = "to_bits",
    .formula = "[lo < x < hi], a bit each",
    .infer =
        [](SpecSpan in, const Attrs&) {
          require_operands("to_bits", in, 1, 1);
          require(is_float(in[0].dtype) || in[0].dtype == DType::bit, "to_bits",
                  to_string(in[0]) + ": not floating-point");
          return Specs{{in[0].shape, DType::bit}};
        },
    .reads =
        [](int, const Attrs& attrs) {
          auto& interval = attrs.as<BitsAttrs>();
          return reads_predicate(interval.lo, interval.hi);
        },
    .cpu = {.run =
                [](const KernelArgs& a) {
                  auto& interval = a.attrs.as<BitsAttrs>();
                  map_elements<1>(
                      a,
                      [lo = interval.lo, hi = interval.hi](float x) {
                        return ((lo < x) & (x < hi)) ? 1.0f : 0.0f;
                      },
                      bits_of_interval(interval.lo, interval.hi));
                }},
    .cuda = &to_bits_cuda,
    .examples =
        [] {
          return std::vector<Example>{
              {.operands = {constant(example({3, 7}))}, .attrs = BitsAttrs{}},
              {.operands = {example({5, 13}, DType::bf16)}, .attrs = BitsAttrs{-1, 1}},
              {.operands = {constant(example({33, 1031}))}, .attrs = BitsAttrs{0, 1}}};
        },
};

const OpDef step_scalars_op{
    .name = "step_scalars",
    .formula = "the step's scalars",
    .infer =
        [](SpecSpan in, const Attrs&) {
          require_operands("step_scalars", in, 1, 1);
          require(in[0] == scalars_spec(), "step_scalars",
                  to_string(in[0]) + ": should be " + to_string(scalars_spec()));
          return Specs{scalars_spec()};
        },
    .cpu = {.run = run_copy},
    .cuda = &step_scalars_cuda,
    .examples =
        [] {
          return std::vector<Example>{
              {.operands = {{.spec = scalars_spec(), .lo = 0, .hi = 9, .differentiable = false}}},
              {.operands = {{.spec = scalars_spec(), .lo = -9, .hi = 0, .differentiable = false}}}};
        },
};

Val cast(Val x, DType to) {
  return x.spec().dtype == to ? x : x.builder->emit1(cast_op, {x}, CastAttrs{to});
}
Val assign(Val old, Val x, Val gate) {
  return old.builder->emit1(assign_op, {old, x, gate}, AssignAttrs{bool(gate)});
}
Val moving_average(Val old, Val x, float momentum, Val gate) {
  return old.builder->emit1(moving_average_op, {old, x, gate}, MovingAverageAttrs{momentum});
}
Val copy_out(Val x) {
  Builder::Within phase(*x.builder, Phase::offload);
  return x.builder->emit1(copy_out_op, {x});
}
Val copy_in(Val x) {
  Builder::Within phase(*x.builder, Phase::reload);
  return x.builder->emit1(copy_in_op, {x});
}
Val to_bits(Val x, float lo, float hi) {
  return x.builder->emit1(to_bits_op, {x}, BitsAttrs{lo, hi});
}
Val step_scalars(Val host) { return host.builder->emit1(step_scalars_op, {host}); }

}  // namespace pal
