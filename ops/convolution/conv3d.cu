// conv3d and its gradients (ops/convolution/convolution.cu), on the geometry of their attributes.
#include "ops/convolution/conv3d.h"
#include "ops/convolution/convolution.h"

namespace pal {

const Backend conv3d_cuda = conv_backend<Conv3dAttrs, ConvKind::forward>();
const Backend conv3d_data_grad_cuda = conv_backend<Conv3dAttrs, ConvKind::data_grad>();
const Backend conv3d_weight_grad_cuda = conv_backend<Conv3dAttrs, ConvKind::weight_grad>();

}  // namespace pal
