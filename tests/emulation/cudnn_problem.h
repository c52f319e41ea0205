// What the parts of the emulated cuDNN share: elements in memory, and a convolution as descriptors
// say it, and its run.
#pragma once
#include <cudnn.h>

#include <array>
#include <cstdint>

#include "ops/libraries/conv_kernel.h"
#include "tests/emulation/library_elements.h"

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

inline DType element_type(cudnnDataType_t type) {
  return type == CUDNN_DATA_BFLOAT16 ? DType::bf16
         : type == CUDNN_DATA_HALF   ? DType::f16
                                     : DType::f32;
}
inline size_t element_bytes(cudnnDataType_t type) { return size_t(bits(element_type(type))) / 8; }
inline float load_element(const void* p, cudnnDataType_t type, int64_t i) {
  return load_element(p, element_type(type), i);
}
inline void store_element(void* p, cudnnDataType_t type, int64_t i, float x) {
  store_element(p, element_type(type), i, x);
}

// An element as it is multiplied: f32 in TF32 unless it is told not to.
inline double dnn_factor(cudnnDataType_t type, cudnnMathType_t math, float v) {
  return type == CUDNN_DATA_FLOAT && math != CUDNN_FMA_MATH ? tf32_factor(v) : double(v);
}

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
  // An operand's element as it is multiplied. The default takes tensor cores too.
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
  // Of a weight gradient: how far it advances the clock of events, and into how many its sums are
  // divided.
  int64_t ms = 0, parts = 1;
};

cudnnStatus_t ask(const DnnProblem& p, size_t* bytes);
// a, b: x and w; dy and w; x and dy.
cudnnStatus_t run(ConvKind kind, const DnnProblem& p, const DnnCall& call, const void* a,
                  const void* b, void* out);

}  // namespace pal::emulation
