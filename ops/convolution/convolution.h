// What the convolutions of images (conv2d) and of films (conv3d) share: inference, preparation,
// kernels and costs, on the geometry that either's attributes give.
#pragma once
#include "core/gradient.h"
#include "core/op.h"
#include "ops/libraries/conv_shape.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/casts.h"

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

// forward      x (N, X.., C), w (O, K.., C / groups), bias (O), which may be absent -> y (N, Y..,
// O) data_grad    dy, w -> dx weight_grad  x, dy, sum, which may be absent -> dw Images, w, y and
// their gradients are of one type, f32 or 16 bits; the bias and dw are f32.
Specs infer_conv(ConvKind kind, SpecSpan in, const ConvGeometry& g);

// Of a node's operands, for the kernels of any device.
ConvShape conv_shape_of(ConvKind kind, SpecSpan in, const ConvGeometry& g);

Prepared prepare_conv(ConvKind kind, const Device& device, SpecSpan in, SpecSpan out,
                      const ConvGeometry& g);
void run_conv(const KernelArgs& a);
// The same on a GPU.
Prepared prepare_conv_cuda(ConvKind kind, const Device& device, SpecSpan in, SpecSpan out,
                           const ConvGeometry& g);
void run_conv_cuda(const KernelArgs& a);
// A forward convolution, then relu over its result.
Prepared prepare_conv_relu_cuda(const Device& device, SpecSpan in, SpecSpan out,
                                const ConvGeometry& g);
void run_conv_relu_cuda(const KernelArgs& a);
// Products with the zeros around the image count: the kernels that matter do not skip them.
Cost conv_cost(ConvKind kind, SpecSpan in, SpecSpan out);

// The gradients of a convolution with attributes A, by the operators of its two gradients. The
// weights' comes first: its x, which may be a decoded copy, is dead before the image's is born.
template <class A, const OpDef& data_grad, const OpDef& weight_grad>
void conv_gradient(GradientArgs& g) {
  const A& attrs = g.attrs<A>();
  const Val x = g.in(0), w = g.in(1), dy = g.dy();
  if (g.wants(1)) {  // made in f32
    const DType type = g.type(1);
    const Val sum = type == DType::f32 ? g.take_sum(1) : Val{};
    g.give(1,
           cast(g.builder.emit1(weight_grad, {x, dy, sum}, with_extents(attrs, w.shape())), type));
  }
  if (g.wants(2)) g.give(2, sum_rows(dy, g.take_sum(2)));
  if (g.wants(0)) {
    g.give(0, g.builder.emit1(data_grad, {dy, w}, with_extents(attrs, x.shape())));
  }
}

// A convolution with attributes A, or one of its gradients.
template <class A, ConvKind kind>
OpDef conv_op(const char* name, const char* formula, void (*gradient)(GradientArgs&),
              const Backend* cuda, const std::vector<Example>& examples) {
  return {
      .name = name,
      .formula = formula,
      .infer = [](SpecSpan in,
                  const Attrs& attrs) { return infer_conv(kind, in, geometry_of(attrs.as<A>())); },
      .gradient = gradient,
      .optional_from = 2,
      .shares = kind == ConvKind::weight_grad ? std::vector<Share>{{0, 2}} : std::vector<Share>{},
      .reads_codes = kind == ConvKind::weight_grad ? 0 : -1,
      .rows = kind == ConvKind::weight_grad
      ? [](const Attrs&) -> Rows { return {.operands = 3, .sum = 2}; }
      : rows_of_first,
      .cost = [](SpecSpan in, SpecSpan out, const Attrs&) { return conv_cost(kind, in, out); },
      .cpu = {.run = run_conv,
              .prepare =
                  [](const Device& device, SpecSpan in, SpecSpan out, const Attrs& attrs) {
                    return prepare_conv(kind, device, in, out, geometry_of(attrs.as<A>()));
                  }},
      .cuda = cuda,
      .examples = examples,
  };
}
// Its kernels on a GPU.
template <class A, ConvKind kind> constexpr Backend conv_backend() {
  return {.run = run_conv_cuda,
          .prepare = [](const Device& device, SpecSpan in, SpecSpan out, const Attrs& attrs) {
            return prepare_conv_cuda(kind, device, in, out, geometry_of(attrs.as<A>()));
          }};
}

}  // namespace pal
