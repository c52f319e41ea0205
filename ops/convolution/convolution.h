// What the convolutions of images (conv2d) and of films (conv3d) share: inference, preparation,
// kernels and costs, on the geometry that either's attributes give.
#pragma once
#include <functional>

#include "core/op.h"
#include "ops/libraries/conv_shape.h"

namespace pal {

// Strides, zeros around, dilation and groups of a convolution; of `axis`, in, kernel and out are
// not set: they come from the operands. `extents`: what a gradient cannot see in its operands, the
// image's for a data gradient, the kernel's for a weight gradient.
struct ConvGeometry {
  int axes = 2;
  std::array<ConvAxis, ConvShape::kMaxAxes> axis;
  std::array<int64_t, ConvShape::kMaxAxes> extents{};
  int64_t groups = 1;
};

struct Conv2dAttrs;
struct Conv3dAttrs;
ConvGeometry geometry_of(const Conv2dAttrs& attrs);
ConvGeometry geometry_of(const Conv3dAttrs& attrs);

// Images, w, y and their gradients are of one type, f32 or 16 bits; the bias and dw are f32.
// x (N, X.., C), w (O, K.., C / groups), bias (O), which may be absent -> y (N, Y.., O).
Specs infer_conv(const char* op, SpecSpan in, const ConvGeometry& g);
// dy, w -> dx.
Specs infer_conv_data_grad(const char* op, SpecSpan in, const ConvGeometry& g);
// x, dy, sum, which may be absent -> dw.
Specs infer_conv_weight_grad(const char* op, SpecSpan in, const ConvGeometry& g);

// Of a node's operands, for the kernels of any device.
ConvShape conv_shape_of(ConvKind kind, SpecSpan in, const ConvGeometry& g);

Prepared prepare_conv(ConvKind kind, const Device& device, SpecSpan in, SpecSpan out,
                      const ConvGeometry& g);
void run_conv(const KernelArgs& a);
// The same on a GPU.
Prepared prepare_conv_cuda(ConvKind kind, const Device& device, SpecSpan in, SpecSpan out,
                           const ConvGeometry& g);
void run_conv_cuda(const KernelArgs& a);
// The gradients of w, which weight_grad(sum) makes in f32, and of the bias.
void give_weight_gradients(GradientArgs& g, const std::function<Val(Val sum)>& weight_grad);
// Products with the zeros around the image count: the kernels that matter do not skip them.
Cost conv_cost(ConvKind kind, SpecSpan in, SpecSpan out);

}  // namespace pal
