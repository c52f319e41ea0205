// What the convolutions of images (conv2d) and of films (conv3d) share: inference, preparation,
// kernels and costs, on the geometry that either's attributes give.
#pragma once
#include <functional>

#include "core/gradient.h"
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
// With the spatial extents of `x`, an image or a kernel.
Conv2dAttrs with_extents(Conv2dAttrs attrs, const Shape& x);
Conv3dAttrs with_extents(Conv3dAttrs attrs, const Shape& x);

// Images, w, y and their gradients are of one type, f32 or 16 bits; the bias and dw are f32.
// x (N, X.., C), w (O, K.., C / groups), bias (O), which may be absent -> y (N, Y.., O).
Specs infer_conv(SpecSpan in, const ConvGeometry& g);
// dy, w -> dx.
Specs infer_conv_data_grad(SpecSpan in, const ConvGeometry& g);
// x, dy, sum, which may be absent -> dw.
Specs infer_conv_weight_grad(SpecSpan in, const ConvGeometry& g);

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

// The same as members of an OpDef, for the attributes A of either.
template <class A, ConvKind kind>
Prepared prepare_conv_of(const Device& device, SpecSpan in, SpecSpan out, const Attrs& attrs) {
  return prepare_conv(kind, device, in, out, geometry_of(attrs.as<A>()));
}
template <ConvKind kind> Cost conv_cost_of(SpecSpan in, SpecSpan out, const Attrs&) {
  return conv_cost(kind, in, out);
}
// `data_grad` and `weight_grad` record the gradients.
template <class A>
void conv_gradient(GradientArgs& g, Val (*data_grad)(Val dy, Val w, const A&),
                   Val (*weight_grad)(Val x, Val dy, const A&, Val sum)) {
  const A& attrs = g.attrs<A>();
  const Val x = g.in(0), w = g.in(1), dy = g.dy();
  if (g.wants(0)) g.give(0, data_grad(dy, w, with_extents(attrs, x.shape())));
  give_weight_gradients(
      g, [&](Val sum) { return weight_grad(x, dy, with_extents(attrs, w.shape()), sum); });
}

}  // namespace pal
