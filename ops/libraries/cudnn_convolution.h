// A convolution or a gradient of one as cuDNN's, prepared once and run many times; always by an
// algorithm that gives the same bits again.
#pragma once
#include "core/boundary.h"
#include "core/cuda/launch.h"
#include "ops/libraries/conv_shape.h"

namespace pal {

// forward: x, w -> y; data_grad: dy, w -> dx; weight_grad: x, dy -> dw.
struct CudnnOperands {
  const void *a, *b;
  void* out;
  bool add = false;            // to what is in out
  const void* bias = nullptr;  // of what takes one
};

class CudnnConvolution {
 public:
  virtual ~CudnnConvolution() = default;
  virtual int64_t workspace() const = 0;
  virtual bool does_relu() const { return false; }  // to its result
  virtual void run(cudaStream_t stream, const CudnnOperands& operands,
                   std::byte* workspace) const = 0;
};

// Operands and results all of `type`: f32, multiplied as such unless the device is set to TF32; or
// bf16 or f16, with f32 sums. Null: the device is to do without cuDNN or there is none, or it does
// not take such a convolution, or not with so many bytes of workspace. Itself null in a build
// without cuDNN's header.
[[gnu::weak]] std::unique_ptr<CudnnConvolution> cudnn_convolution(const Device& device,
                                                                  ConvKind kind,
                                                                  const ConvShape& shape,
                                                                  DType type,
                                                                  int64_t most_workspace);

// On which bytes its operands, its result and its bias begin at least: row_boundary of their specs.
// The graph API takes multiples of an element alone.
struct CudnnBoundaries {
  int64_t a = kWidestBoundary, b = kWidestBoundary, out = kWidestBoundary, bias = kWidestBoundary;
};

// A weight gradient in f32 of operands in 16 bits (`type`), which the other does not do: by the
// graph API. It adds to nothing. Null as above.
[[gnu::weak]] std::unique_ptr<CudnnConvolution> cudnn_weight_grad(const Device& device,
                                                                  const ConvShape& shape,
                                                                  DType type,
                                                                  const CudnnBoundaries& boundaries,
                                                                  int64_t most_workspace);

// A forward convolution whose f32 bias, and relu where there is one, are added to its sums before
// they are rounded, in one call: by the graph API. relu is done where the library does it with the
// same sums as without. It adds to nothing. Null as above, without a bias, and in f32 that is
// multiplied as such: the engines that fuse are for tensor cores.
[[gnu::weak]] std::unique_ptr<CudnnConvolution> cudnn_with_epilogue(
    const Device& device, const ConvShape& shape, DType type, bool relu,
    const CudnnBoundaries& boundaries, int64_t most_workspace);

}  // namespace pal
