// conv2d and conv3d with relu behind them (ops/convolution/convolution.cu).
#include "ops/convolution/conv2d.h"
#include "ops/convolution/conv3d.h"
#include "ops/convolution/conv_relu.h"
#include "ops/convolution/convolution.h"

namespace pal {
namespace {

template <class A> constexpr Backend conv_relu_backend() {
  return {.run = run_conv_relu_cuda,
          .prepare = [](const Device& device, SpecSpan in, SpecSpan out, const Attrs& attrs) {
            return prepare_conv_relu_cuda(device, in, out, geometry_of(attrs.as<A>()));
          }};
}

}  // namespace

const Backend conv2d_relu_cuda = conv_relu_backend<Conv2dAttrs>();
const Backend conv3d_relu_cuda = conv_relu_backend<Conv3dAttrs>();

}  // namespace pal
