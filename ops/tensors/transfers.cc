// copy_out, copy_in, move, step_scalars: y = x.
#include "ops/tensors/transfers.h"

#include "core/builder.h"
#include "core/scalars.h"
#include "ops/kernels/tiles.h"

namespace pal {

namespace {

OpDef copy_op(const char* name, const char* formula, const Backend* cuda, const TensorSpec& other) {
  return {
      .name = name,
      .formula = formula,
      .infer = [](SpecSpan in, const Attrs&) -> Specs {
        require_operands(in, 1, 1);
        return {in[0]};
      },
      .cpu = {.run = copy_operand},
      .cuda = cuda,
      .examples = {{.operands = {constant(example({3, 7}))}},
                   {.operands = {example(other.shape, other.dtype)}},
                   {.operands = {constant(example({33, 1031}))}}},
  };
}

}  // namespace

const OpDef copy_out_op =
    copy_op("copy_out", "x, in host memory", &copy_out_cuda, {{65}, DType::bit});
const OpDef copy_in_op =
    copy_op("copy_in", "x, from host memory", &copy_in_cuda, {{65}, DType::bf16});

const OpDef move_op =
    copy_op("move", "x, in other bytes of the device", &move_cuda, {{65}, DType::bf16});

const OpDef step_scalars_op{
    .name = "step_scalars",
    .formula = "the step's scalars",
    .infer = [](SpecSpan in, const Attrs&) -> Specs {
      require_operands(in, 1, 1);
      require(in[0] == scalars_spec(), in[0], ": should be ", scalars_spec());
      return {scalars_spec()};
    },
    .cpu = {.run = copy_operand},
    .cuda = &step_scalars_cuda,
    .examples =
        {{.operands = {{.spec = scalars_spec(), .lo = 0, .hi = 9, .differentiable = false}}},
         {.operands = {{.spec = scalars_spec(), .lo = -9, .hi = 0, .differentiable = false}}}},
};

Val copy_out(Val x) {
  Builder::Within phase(*x.builder, Phase::offload);
  return x.builder->emit1(copy_out_op, {x});
}
Val copy_in(Val x) {
  Builder::Within phase(*x.builder, Phase::reload);
  return x.builder->emit1(copy_in_op, {x});
}
Val step_scalars(Val host) { return host.builder->emit1(step_scalars_op, {host}); }

}  // namespace pal
