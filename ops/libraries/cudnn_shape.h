// A convolution as cuDNN's descriptors say it. Plain arithmetic, tested without a GPU;
// ops/libraries/cudnn_convolution.cu fills the descriptors.
#pragma once
#include <optional>

#include "ops/libraries/conv_shape.h"

namespace pal {

// Extents are in cuDNN's order, whatever the layout: images, channels, then space. The strides are
// those of channels last; that the weights (outputs, channels of a group, taps) lie so too is said
// by a format.
struct CudnnShape {
  static constexpr int kMostAxes = ConvShape::kMaxAxes, kMostRank = kMostAxes + 2;
  using Extents = std::array<int, kMostRank>;
  using Window = std::array<int, kMostAxes>;

  int axes = 0;  // spatial: 2 or 3
  Extents x{}, x_stride{}, y{}, y_stride{}, w{};
  Window pad{}, stride{}, dilation{};
  int groups = 1;

  int rank() const { return axes + 2; }
};

// None where cuDNN has no words for it: it pads both sides alike, and counts in int.
std::optional<CudnnShape> cudnn_shape(const ConvShape& shape);

}  // namespace pal
