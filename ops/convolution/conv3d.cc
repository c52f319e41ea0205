// y[n,d,i,j,o] = the sum over a box of x's pixels and channels, times w[o], + bias[o]: conv2d with
// one axis more, and the same gradients.
#include "ops/convolution/conv3d.h"

#include "core/gradient.h"
#include "ops/convolution/convolution.h"
#include "ops/kernels/operands.h"
#include "ops/kernels/tiles.h"

namespace pal {

ConvGeometry geometry_of(const Conv3dAttrs& s) {
  ConvGeometry g{.axes = 3, .extents = {s.depth, s.height, s.width}};
  g.axis[0] = {.stride = s.stride_d, .before = s.pad_d, .after = s.pad_d};
  g.axis[1] = {.stride = s.stride_h, .before = s.pad_h, .after = s.pad_h};
  g.axis[2] = {.stride = s.stride_w, .before = s.pad_w, .after = s.pad_w};
  return g;
}

Conv3dAttrs with_extents(Conv3dAttrs attrs, const Shape& x) {
  attrs.depth = x[1], attrs.height = x[2], attrs.width = x[3];
  return attrs;
}

namespace {

const Conv3dAttrs kUneven{.stride_d = 1, .stride_h = 2, .stride_w = 2, .pad_d = 1, .pad_h = 2};

}  // namespace

std::vector<Example> conv3d_examples() {
  return {{.operands = {example({2, 3, 4, 5, 2}), example({3, 2, 3, 3, 2}), example({3})},
           .attrs = conv3d_attrs(1, 1)},
          {.operands = {example({1, 4, 6, 5, 3}), example({4, 3, 5, 1, 3}), absent_example()},
           .attrs = kUneven},
          {.operands = {example({17, 3, 5, 5, 16}), example({32, 3, 3, 3, 16}), example({32})},
           .attrs = conv3d_attrs(2, 1)},
          {.operands = {half_example({2, 3, 4, 5, 2}), half_example({3, 2, 3, 3, 2}), example({3})},
           .attrs = conv3d_attrs(1, 1)},
          {.operands = {half_example({1, 4, 6, 5, 3}, DType::f16),
                        half_example({4, 3, 5, 1, 3}, DType::f16), absent_example()},
           .attrs = kUneven}};
}

const OpDef conv3d_op = conv_op<Conv3dAttrs, ConvKind::forward>(
    "conv3d", "x * w + bias",
    conv_gradient<Conv3dAttrs, conv3d_data_grad_op, conv3d_weight_grad_op>, &conv3d_cuda,
    conv3d_examples());

const OpDef conv3d_data_grad_op = conv_op<Conv3dAttrs, ConvKind::data_grad>(
    "conv3d_data_grad", "the gradient of x in x * w", nullptr, &conv3d_data_grad_cuda,
    {{.operands = {example({2, 3, 3, 3, 2}), example({2, 3, 3, 3, 4})},
      .attrs = with_extents(conv3d_attrs(1, 1), {2, 3, 3, 3, 4})},
     {.operands = {example({17, 2, 3, 3, 32}), example({32, 3, 3, 3, 16})},
      .attrs = with_extents(conv3d_attrs(2, 1), {17, 3, 5, 5, 16})},
     {.operands = {example({2, 3, 3, 3, 2}, DType::bf16), example({2, 3, 3, 3, 4}, DType::bf16)},
      .attrs = with_extents(conv3d_attrs(1, 1), {2, 3, 3, 3, 4})},
     {.operands = {example({2, 2, 3, 3, 8}, DType::f16), example({8, 3, 3, 3, 5}, DType::f16)},
      .attrs = with_extents(conv3d_attrs(2, 1), {2, 3, 5, 5, 5})}});

const OpDef conv3d_weight_grad_op = conv_op<Conv3dAttrs, ConvKind::weight_grad>(
    "conv3d_weight_grad", "the gradient of w in x * w, added to the sum", nullptr,
    &conv3d_weight_grad_cuda,
    {{.operands = {example({3, 3, 4, 5, 2}), example({3, 3, 4, 5, 3}), absent_example()},
      .attrs = with_extents(conv3d_attrs(1, 1), {3, 3, 3, 3, 2})},
     {.operands = {example({17, 3, 5, 5, 16}), example({17, 2, 3, 3, 32}),
                   example({32, 3, 3, 3, 16})},
      .attrs = with_extents(conv3d_attrs(2, 1), {32, 3, 3, 3, 16})},
     {.operands = {example({2, 3, 4, 5, 2}, DType::bf16), example({2, 4, 4, 5, 3}, DType::bf16),
                   example({3, 2, 3, 3, 2})},
      .attrs = with_extents(conv3d_attrs(1, 1), {3, 2, 3, 3, 2})},
     {.operands = {example({2, 3, 5, 5, 5}, DType::f16), example({2, 2, 3, 3, 8}, DType::f16),
                   absent_example()},
      .attrs = with_extents(conv3d_attrs(2, 1), {8, 3, 3, 3, 5})}});

Val conv3d(Val x, Val w, const Conv3dAttrs& attrs, Val bias) {
  return x.builder->emit1(conv3d_op, {x, w, bias}, attrs);
}

}  // namespace pal
