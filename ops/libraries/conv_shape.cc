// Products of a convolution's extents.
#include "ops/libraries/conv_shape.h"

namespace pal {
namespace {

template <class F> int64_t product(const ConvShape& s, int64_t start, F extent) {
  for (int i = 0; i < s.axes; ++i) start *= extent(s.axis[std::size_t(i)]);
  return start;
}

}  // namespace

int64_t ConvShape::pixels_in() const {
  return product(*this, 1, [](const ConvAxis& a) { return a.in; });
}
int64_t ConvShape::pixels_out() const {
  return product(*this, 1, [](const ConvAxis& a) { return a.out; });
}
int64_t ConvShape::weights() const {
  return product(*this, o * (c / groups), [](const ConvAxis& a) { return a.kernel; });
}

}  // namespace pal
