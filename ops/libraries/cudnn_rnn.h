// A layer of GRU or LSTM cells in one direction as cuDNN's recurrent layer, prepared once and run
// many times; by the algorithm that gives the same bits again. docs/decisions/recurrent-layers.md.
#pragma once
#include <array>

#include "core/cuda/launch.h"

namespace pal {

struct CudnnRnnShape {
  bool lstm;  // else GRU
  int64_t steps, batch, inputs, hidden;
  DType type;  // of inputs, states and weights: f32, or bf16 or f16 with f32 sums

  int gates() const { return lstm ? 4 : 3; }
};

// A matrix or a bias among the weights: element (row, column), of a matrix (output, input), lies
// row * row_stride + column * column_stride elements behind `at`.
struct CudnnRnnPart {
  void* at;
  int64_t row_stride, column_stride;
};
// Those of r, z and n or of i, f, g and o by the inputs, then of the same by the state. An LSTM has
// both biases too.
struct CudnnRnnParts {
  std::array<CudnnRnnPart, 8> matrix, bias;
};

class CudnnRnn {
 public:
  virtual ~CudnnRnn() = default;
  virtual int64_t workspace() const = 0;  // of any of the calls
  virtual int64_t weights() const = 0;    // bytes of all of them together, and of their gradients
  virtual int64_t reserve() const = 0;

  // Where the parts lie in such memory, which begins on a boundary of kLibraryBoundary bytes.
  virtual CudnnRnnParts parts(void* weights) const = 0;

  // From zero, over all steps of all rows: (steps, batch, inputs) -> (steps, batch, hidden), and
  // the reserve.
  virtual void forward(const Queue& queue, const void* x, const void* weights, void* y,
                       void* reserve, std::byte* workspace) const = 0;
  // The reserve is changed, into what weight_grad wants.
  virtual void data_grad(const Queue& queue, const void* y, const void* dy, const void* weights,
                         void* dx, void* reserve, std::byte* workspace) const = 0;
  // Added to what is in `gradients`, which lie as the weights do.
  virtual void weight_grad(const Queue& queue, const void* x, const void* y, void* gradients,
                           void* reserve, std::byte* workspace) const = 0;
};

// Null: the device is to do without cuDNN or there is none, or it does not take such a layer.
// Itself null in a build without cuDNN's header.
[[gnu::weak]] std::unique_ptr<CudnnRnn> cudnn_rnn(const Device& device, const CudnnRnnShape& shape);

}  // namespace pal
