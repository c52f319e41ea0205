// Which paddings come to the same, and which tensors are too large.
#include "ops/libraries/cudnn_shape.h"

#include <limits>

namespace pal {
namespace {

using Extents = CudnnShape::Extents;

// cuDNN's manual: a tensor has fewer than 2^31 elements.
bool fits(int64_t elements) { return elements <= std::numeric_limits<int>::max(); }

// Windows when zeros as before the axis are behind it too. Zeros that no window reaches do not
// matter, and all windows lie where they lay, so only their number can differ.
int64_t windows_if_alike(const ConvAxis& a) {
  const int64_t room = a.in + 2 * a.before - (a.kernel - 1) * a.dilation - 1;
  return room < 0 ? 0 : room / a.stride + 1;
}

// Strides of channels last: the channels are next to each other, then the innermost axis.
Extents channels_last(const Extents& extents, int rank) {
  Extents strides{};
  int step = strides[1] = 1;
  step *= extents[1];
  for (int i = rank - 1; i >= 2; --i) strides[size_t(i)] = step, step *= extents[size_t(i)];
  strides[0] = step;
  return strides;
}

}  // namespace

std::optional<CudnnShape> cudnn_shape(const ConvShape& shape) {
  const int64_t x = shape.n * shape.pixels_in() * shape.c;
  const int64_t y = shape.n * shape.pixels_out() * shape.o;
  if (!fits(x) || !fits(y) || !fits(shape.weights())) return std::nullopt;
  CudnnShape s{.axes = shape.axes, .groups = int(shape.groups)};
  s.x[0] = s.y[0] = int(shape.n), s.x[1] = int(shape.c), s.y[1] = int(shape.o);
  s.w[0] = int(shape.o), s.w[1] = int(shape.c / shape.groups);
  for (size_t i = 0; i < size_t(shape.axes); ++i) {
    const ConvAxis& a = shape.axis[i];
    if (windows_if_alike(a) != a.out) return std::nullopt;
    s.x[i + 2] = int(a.in), s.y[i + 2] = int(a.out), s.w[i + 2] = int(a.kernel);
    s.pad[i] = int(a.before), s.stride[i] = int(a.stride), s.dilation[i] = int(a.dilation);
  }
  s.x_stride = channels_last(s.x, s.rank()), s.y_stride = channels_last(s.y, s.rank());
  return s;
}

}  // namespace pal
