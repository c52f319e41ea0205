// The ways to do a convolution on a GPU, and the one that is taken, as conv_ways.cu prepares it and
// convolution.cu runs it. docs/decisions/cudnn-convolutions.md says which is.
#pragma once
#include <memory>

#include "core/op.h"
#include "ops/libraries/conv_stripes.h"
#include "ops/libraries/cuda_product.h"
#include "ops/libraries/cudnn_convolution.h"

namespace pal {

struct CudaConvState {
  ConvKind kind;
  ConvStripes stripes;
  bool depthwise = false;
  std::unique_ptr<CudnnConvolution> cudnn;     // if there, does it all
  bool adds_bias = false;                      // the bias too
  std::unique_ptr<CudaProduct> product, last;  // of a stripe, and of the lines that are left over
  int64_t windows_at = 0, sums_at = 0;
};

// in: image and weights, or the two images. With relu over the result, where it is wanted and the
// library does it. `run` runs what is prepared: it is what is timed.
Prepared prepare_conv_ways(ConvKind kind, const Device& device, const ConvShape& shape, SpecSpan in,
                           const TensorSpec& out, bool relu, void (*run)(const KernelArgs&));

}  // namespace pal
