// A convolution or a gradient of one as cuDNN's, prepared once and run many times; always by an
// algorithm that gives the same bits again.
#pragma once
#include <memory>
#include <string>
#include <vector>

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
  // Which of the graph API's engines it is, with its knobs: text without spaces. Empty: of none, or
  // of one that the library does not name.
  virtual std::string engine() const { return {}; }
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

// A convolution for the graph API, of operands in `type` with sums in f32: in 16 bits, or in f32
// that may be rounded to TF32. It adds to nothing. A forward one adds its f32 bias, and does relu
// where that is wanted and the library does it with the same sums as without, before the sums are
// rounded to `result`.
struct GraphConvolution {
  ConvKind kind;
  const ConvShape& shape;
  DType type, result;
  bool relu = false;  // of a forward one
  CudnnBoundaries boundaries = {};
  int64_t most_workspace = 0;
  std::string engine = {};  // that one alone; empty: any
};
// Null as above, of exact f32, and where a sum is there already; what the library refused, or why
// relu is not done, is in `why_not`.
[[gnu::weak]] std::unique_ptr<CudnnConvolution> cudnn_convolution_graph(
    const Device& device, const GraphConvolution& convolution, std::string* why_not = nullptr);

// By several engines, `most` at most, the library's best first, but one of each number before
// others of the same; none: as null above.
[[gnu::weak]] std::vector<std::unique_ptr<CudnnConvolution>> cudnn_convolution_graphs(
    const Device& device, const GraphConvolution& convolution, size_t most,
    std::string* why_not = nullptr);

}  // namespace pal
