// A small convolution for tests of cuDNN's.
#pragma once
#include "ops/libraries/conv_shape.h"

namespace pal::test {

constexpr int64_t kPlenty = 1 << 20;  // bytes of workspace
// y (2, 3, 3, 4) = x (2, 5, 5, 3) by w (4, 3, 3, 3), two pixels apart, zeros around.
inline const ConvShape kImage{.axes = 2,
                              .axis = {ConvAxis{5, 3, 3, 2, 1, 1}, ConvAxis{5, 3, 3, 2, 1, 1}},
                              .n = 2,
                              .c = 3,
                              .o = 4};

}  // namespace pal::test
