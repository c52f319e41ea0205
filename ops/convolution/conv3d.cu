// conv3d and its gradients (ops/convolution/convolution.cu), on the geometry of their attributes.
#include "ops/convolution/conv3d.h"
#include "ops/convolution/convolution.h"

namespace pal {
namespace {

template <ConvKind kind>
Prepared prepare_conv3d(const Device& device, SpecSpan in, SpecSpan out, const Attrs& attrs) {
  return prepare_conv_cuda(kind, device, in, out, geometry_of(attrs.as<Conv3dAttrs>()));
}

}  // namespace

const Backend conv3d_cuda{.run = run_conv_cuda, .prepare = prepare_conv3d<ConvKind::forward>};
const Backend conv3d_data_grad_cuda{.run = run_conv_cuda,
                                    .prepare = prepare_conv3d<ConvKind::data_grad>};
const Backend conv3d_weight_grad_cuda{.run = run_conv_cuda,
                                      .prepare = prepare_conv3d<ConvKind::weight_grad>};

}  // namespace pal
