// conv2d and its gradients (ops/convolution/convolution.cu), on the geometry of their attributes.
#include "ops/convolution/conv2d.h"
#include "ops/convolution/convolution.h"

namespace pal {
namespace {

template <ConvKind kind>
Prepared prepare_conv2d(const Device& device, SpecSpan in, SpecSpan out, const Attrs& attrs) {
  return prepare_conv_cuda(kind, device, in, out, geometry_of(attrs.as<Conv2dAttrs>()));
}

}  // namespace

const Backend conv2d_cuda{.run = run_conv_cuda, .prepare = prepare_conv2d<ConvKind::forward>};
const Backend conv2d_data_grad_cuda{.run = run_conv_cuda,
                                    .prepare = prepare_conv2d<ConvKind::data_grad>};
const Backend conv2d_weight_grad_cuda{.run = run_conv_cuda,
                                      .prepare = prepare_conv2d<ConvKind::weight_grad>};

}  // namespace pal
