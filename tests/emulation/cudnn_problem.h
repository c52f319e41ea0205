// What the parts of the emulated cuDNN share: elements in memory, and a convolution as descriptors
// say it, and its run.
#pragma once
#include <cudnn.h>

#include <array>
#include <cstdint>

#include "ops/libraries/conv_kernel.h"

constexpr int kMostRank = 5;
using DnnExtents = std::array<int64_t, kMostRank>;
using DnnPlace = std::array<int64_t, 3>;

struct EmulatedDnn {
  cudaStream_t stream = nullptr;
};
struct EmulatedTensor {
  cudnnDataType_t type;
  int rank = 0;
  DnnExtents extent{}, stride{};
  int64_t elements() const;
};
struct EmulatedFilter : EmulatedTensor {
  cudnnTensorFormat_t format;
};
struct EmulatedConvolution {
  int axes = 0;
  DnnPlace pad{}, stride{}, dilation{};
  cudnnConvolutionMode_t mode;
  cudnnDataType_t compute;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
  int64_t groups = 1;
};

namespace pal::emulation {

size_t element_bytes(cudnnDataType_t type);
float load_element(const void* p, cudnnDataType_t type, int64_t i);
void store_element(void* p, cudnnDataType_t type, int64_t i, float x);

// The strides of packed channels, N, space, C: the only layout that filters of that format go with.
DnnExtents channels_last(const EmulatedTensor& t);

struct DnnProblem {
  EmulatedTensor x, y;
  EmulatedFilter w;
  EmulatedConvolution windows;

  bool consistent() const;
  // What is asked for here is channels last throughout, and sums in f32.
  bool supported() const;
  // As earlier manuals have it of the first choice.
  bool has(cudnnConvolutionFwdAlgo_t algorithm) const;
  size_t workspace() const { return 192 + size_t(w.elements()) / 4 * 4; }
  // An operand's element as it is multiplied: TF32 has 10 bits behind the first. The default takes
  // tensor cores too.
  double factor(float v) const;
};

struct DnnCall {
  cudnnHandle_t handle;
  const void *alpha, *beta;
  void* workspace;
  size_t bytes;
  // Of a forward convolution, before its sums are rounded.
  const void* bias = nullptr;  // a number for each of y's channels; null: none
  cudnnDataType_t bias_type = CUDNN_DATA_FLOAT;
  bool relu = false;
};

cudnnStatus_t ask(const DnnProblem& p, size_t* bytes);
// a, b: x and w; dy and w; x and dy.
cudnnStatus_t run(ConvKind kind, const DnnProblem& p, const DnnCall& call, const void* a,
                  const void* b, void* out);

}  // namespace pal::emulation
