// y = max(x * w + bias, 0): the convolution's kernel, then that of relu over the result where it
// lies, so that the bits are the two nodes'. (oneDNN's own relu makes +0 of -0 and hides NaNs.)
#include "ops/convolution/conv_relu.h"

#include "core/builder.h"
#include "ops/convolution/conv2d.h"
#include "ops/convolution/conv3d.h"
#include "ops/convolution/convolution.h"
#include "ops/elementwise/activations.h"
#include "ops/kernels/operands.h"
#include "ops/kernels/tiles.h"

namespace pal {
namespace {

void run_conv_relu(const KernelArgs& a) {
  run_conv(a);
  map_elements<1>(with_operands(a, a.out, a.out_spec), Relu{});
}

template <class A>
OpDef conv_relu_op(const char* name, const Backend* cuda, const std::vector<Example>& examples) {
  return {
      .name = name,
      .formula = "max(x * w + bias, 0)",
      .infer =
          [](SpecSpan in, const Attrs& attrs) {
            return infer_conv(ConvKind::forward, in, geometry_of(attrs.as<A>()));
          },
      .optional_from = 2,
      .zeros = makes_zeros,
      .rows = rows_of_first,
      .cost = [](SpecSpan in, SpecSpan out, const Attrs&) -> Cost {
        Cost cost = conv_cost(ConvKind::forward, in, out);
        cost.flops += double(out[0].numel());
        return cost;
      },
      .cpu = {.run = run_conv_relu,
              .prepare =
                  [](const Device& device, SpecSpan in, SpecSpan out, const Attrs& attrs) {
                    return prepare_conv(ConvKind::forward, device, in, out,
                                        geometry_of(attrs.as<A>()));
                  }},
      .cuda = cuda,
      .examples = examples,
  };
}

template <const OpDef& conv>
std::vector<FusedPattern> patterns_of_conv_relu(SpecSpan in, const Attrs& attrs) {
  Builder b;
  std::vector<Val> operands;
  for (const TensorSpec& spec : in) {
    operands.push_back(present(spec) ? b.input(std::to_string(operands.size()), spec) : Val{});
  }
  const Val y = relu(b.emit1(conv, operands, attrs));
  FusedPattern pattern{.program = b.take(), .out = {y.id}, .attrs = attrs};
  for (Val v : operands) pattern.in.push_back(v.id);
  return {std::move(pattern)};
}

}  // namespace

const Rewrite conv2d_relu_rewrite{.op = &conv2d_relu_op,
                                  .anchor = &conv2d_op,
                                  .when = Rewrite::When::always,
                                  .cards_alone = true,
                                  .patterns = patterns_of_conv_relu<conv2d_op>};
const Rewrite conv3d_relu_rewrite{.op = &conv3d_relu_op,
                                  .anchor = &conv3d_op,
                                  .when = Rewrite::When::always,
                                  .cards_alone = true,
                                  .patterns = patterns_of_conv_relu<conv3d_op>};

const OpDef conv2d_relu_op =
    conv_relu_op<Conv2dAttrs>("conv2d_relu", &conv2d_relu_cuda, conv2d_examples());
const OpDef conv3d_relu_op =
    conv_relu_op<Conv3dAttrs>("conv3d_relu", &conv3d_relu_cuda, conv3d_examples());

}  // namespace pal
