// conv2d and its gradients (ops/convolution/convolution.cu), on the geometry of their attributes.
#include "ops/convolution/conv2d.h"
#include "ops/convolution/convolution.h"

namespace pal {

const Backend conv2d_cuda = conv_backend<Conv2dAttrs, ConvKind::forward>();
const Backend conv2d_data_grad_cuda = conv_backend<Conv2dAttrs, ConvKind::data_grad>();
const Backend conv2d_weight_grad_cuda = conv_backend<Conv2dAttrs, ConvKind::weight_grad>();

}  // namespace pal
