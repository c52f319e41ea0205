// y[n,i,j,o] = sum over k,l,c of x[n, i·stride_h + k − top, j·stride_w + l − left, c] w[o,k,l,c] +
// bias[o], with k·dilation_h for k, l·dilation_w for l, and c in o's group. dx is the sum over the
// windows that an input pixel lies in, dw the sum over all windows, and dbias the sum over all
// pixels of dy.
#include "ops/convolution/conv2d.h"

#include "core/gradient.h"
#include "ops/convolution/convolution.h"
#include "ops/kernels/operands.h"
#include "ops/kernels/tiles.h"

namespace pal {

ConvGeometry geometry_of(const Conv2dAttrs& s) {
  ConvGeometry g{.axes = 2, .extents = {s.height, s.width}, .groups = s.groups};
  g.axis[0] = {.stride = s.stride_h, .before = s.top, .after = s.bottom, .dilation = s.dilation_h};
  g.axis[1] = {.stride = s.stride_w, .before = s.left, .after = s.right, .dilation = s.dilation_w};
  return g;
}

Conv2dAttrs with_extents(Conv2dAttrs attrs, const Shape& x) {
  attrs.height = x[1], attrs.width = x[2];
  return attrs;
}

namespace {

// Attributes of examples of the gradients: with an image's extents, and with a kernel's, 3 by 3.
Conv2dAttrs of_image(int64_t stride, int64_t pad, int64_t height, int64_t width,
                     int64_t groups = 1) {
  return with_extents(conv2d_attrs(stride, pad, groups), {1, height, width, 1});
}
Conv2dAttrs of_kernel(int64_t stride, int64_t pad, int64_t groups = 1) {
  return of_image(stride, pad, 3, 3, groups);
}

}  // namespace

std::vector<Example> conv2d_examples() {
  return {{.operands = {example({2, 5, 6, 3}), example({4, 3, 3, 3}), example({4})},
           .attrs = conv2d_attrs(1, 1)},
          {.operands = {example({3, 7, 8, 5}), example({9, 3, 2, 5}), absent_example()},
           .attrs = Conv2dAttrs{.stride_h = 2, .stride_w = 3, .top = 1, .right = 1}},
          {.operands = {example({1, 4, 4, 17}), example({18, 1, 1, 17}), absent_example()},
           .attrs = Conv2dAttrs{}},
          {.operands = {example({19, 9, 9, 16}), example({32, 3, 3, 16}), example({32})},
           .attrs = conv2d_attrs(2, 1)},
          {.operands = {example({2, 6, 5, 6}), example({9, 3, 3, 2}), example({9})},
           .attrs = conv2d_attrs(2, 1, 3)},
          {.operands = {example({2, 7, 7, 20}), example({20, 3, 3, 1}), absent_example()},
           .attrs = conv2d_attrs(2, 1, 20)},
          {.operands = {example({2, 7, 8, 3}), example({4, 3, 2, 3}), absent_example()},
           .attrs = Conv2dAttrs{.top = 2, .bottom = 1, .dilation_h = 2, .dilation_w = 3}},
          {.operands = {example({17, 8, 8, 64}), example({64, 3, 3, 4}), absent_example()},
           .attrs = conv2d_attrs(1, 1, 16)},
          {.operands = {half_example({2, 5, 6, 8}), half_example({16, 3, 3, 8}), example({16})},
           .attrs = conv2d_attrs(1, 1)},
          {.operands = {half_example({2, 7, 5, 3}, DType::f16),
                        half_example({5, 3, 2, 3}, DType::f16), absent_example()},
           .attrs = conv2d_attrs(2, 1)},
          {.operands = {half_example({2, 4, 3, 6}), half_example({10, 1, 1, 6}), absent_example()},
           .attrs = Conv2dAttrs{}},
          {.operands = {half_example({2, 4, 3, 6}), half_example({10, 1, 1, 6}), example({10})},
           .attrs = Conv2dAttrs{}},
          {.operands = {half_example({2, 6, 5, 6}), half_example({9, 3, 3, 2}), example({9})},
           .attrs = conv2d_attrs(2, 1, 3)},
          {.operands = {half_example({2, 7, 7, 20}), half_example({20, 3, 3, 1}), example({20})},
           .attrs = conv2d_attrs(2, 1, 20)}};
}

const OpDef conv2d_op = conv_op<Conv2dAttrs, ConvKind::forward>(
    "conv2d", "x * w + bias",
    conv_gradient<Conv2dAttrs, conv2d_data_grad_op, conv2d_weight_grad_op>, &conv2d_cuda,
    conv2d_examples());

const OpDef conv2d_data_grad_op = conv_op<Conv2dAttrs, ConvKind::data_grad>(
    "conv2d_data_grad", "the gradient of x in x * w", nullptr, &conv2d_data_grad_cuda,
    {{.operands = {example({2, 5, 6, 4}), example({4, 3, 3, 3})}, .attrs = of_image(1, 1, 5, 6)},
     {.operands = {example({3, 3, 2, 9}), example({9, 3, 2, 5})},
      .attrs =
          Conv2dAttrs{.stride_h = 2, .stride_w = 4, .top = 1, .right = 1, .height = 6, .width = 6}},
     {.operands = {example({19, 5, 5, 32}), example({32, 3, 3, 16})},
      .attrs = of_image(2, 1, 9, 9)},
     {.operands = {example({2, 4, 4, 20}), example({20, 3, 3, 1})},
      .attrs = of_image(2, 1, 7, 7, 20)},
     {.operands = {example({17, 8, 8, 64}), example({64, 3, 3, 4})},
      .attrs = of_image(1, 1, 8, 8, 16)},
     {.operands = {half_example({2, 5, 6, 8}), half_example({8, 3, 3, 16})},
      .attrs = of_image(1, 1, 5, 6)},
     {.operands = {half_example({2, 5, 5, 9}, DType::f16), half_example({9, 3, 3, 5}, DType::f16)},
      .attrs = of_image(2, 1, 9, 9)},
     {.operands = {half_example({2, 4, 4, 20}), half_example({20, 3, 3, 1})},
      .attrs = of_image(2, 1, 7, 7, 20)},
     {.operands = {half_example({2, 8, 8, 32}), half_example({32, 3, 3, 2})},
      .attrs = of_image(1, 1, 8, 8, 16)},
     {.operands = {half_example({2, 5, 6, 8}), half_example({8, 1, 1, 6})},
      .attrs = Conv2dAttrs{.height = 5, .width = 6}}});

const OpDef conv2d_weight_grad_op = conv_op<Conv2dAttrs, ConvKind::weight_grad>(
    "conv2d_weight_grad", "the gradient of w in x * w, added to the sum", nullptr,
    &conv2d_weight_grad_cuda,
    {{.operands = {example({2, 5, 6, 3}), example({2, 5, 6, 4}), absent_example()},
      .attrs = of_kernel(1, 1)},
     {.operands = {example({3, 5, 6, 17}), example({3, 5, 6, 4}), example({4, 3, 3, 17})},
      .attrs = of_kernel(1, 1)},
     {.operands = {example({19, 9, 9, 16}), example({19, 5, 5, 32}), example({32, 3, 3, 16})},
      .attrs = of_kernel(2, 1)},
     {.operands = {example({5, 7, 7, 20}), example({5, 4, 4, 20}), example({20, 3, 3, 1})},
      .attrs = of_kernel(2, 1, 20)},
     {.operands = {example({17, 8, 8, 64}), example({17, 8, 8, 64}), absent_example()},
      .attrs = of_kernel(1, 1, 16)},
     {.operands = {half_example({2, 5, 6, 8}), half_example({2, 5, 6, 16}), example({16, 3, 3, 8})},
      .attrs = of_kernel(1, 1)},
     {.operands = {half_example({2, 9, 9, 3}, DType::f16), half_example({2, 5, 5, 5}, DType::f16),
                   absent_example()},
      .attrs = of_kernel(2, 1)},
     {.operands = {half_example({2, 7, 7, 20}), half_example({2, 4, 4, 20}),
                   example({20, 3, 3, 1})},
      .attrs = of_kernel(2, 1, 20)},
     {.operands = {half_example({2, 8, 8, 32}), half_example({2, 8, 8, 32}), absent_example()},
      .attrs = of_kernel(1, 1, 16)},
     {.operands = {example({3, 8, 8, 4}), example({3, 4, 4, 8}), absent_example()},
      .attrs = of_image(2, 0, 1, 1)},
     {.operands = {example({3, 7, 6, 20}), example({3, 4, 3, 40}), example({40, 5, 5, 1})},
      .attrs = of_image(2, 2, 5, 5, 20)},
     {.operands = {half_example({3, 2, 2, 36}), half_example({3, 2, 2, 36}), absent_example()},
      .attrs = of_kernel(1, 1, 36)},
     {.operands = {half_example({2, 5, 6, 8}), half_example({2, 5, 6, 4}), absent_example()},
      .attrs = Conv2dAttrs{.height = 1, .width = 1}}});

Val conv2d(Val x, Val w, const Conv2dAttrs& attrs, Val bias) {
  return x.builder->emit1(conv2d_op, {x, w, bias}, attrs);
}
Val conv2d_data_grad(Val dy, Val w, const Conv2dAttrs& attrs) {
  return dy.builder->emit1(conv2d_data_grad_op, {dy, w}, attrs);
}
Val conv2d_weight_grad(Val x, Val dy, const Conv2dAttrs& attrs, Val sum) {
  return x.builder->emit1(conv2d_weight_grad_op, {x, dy, sum}, attrs);
}

}  // namespace pal
