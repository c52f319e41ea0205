// Weight gradients of depthwise convolutions, in which a group has one input channel. oneDNN 2.6
// has a kernel of that kind for 3 x 3 weights alone, and pads each group to 16 x 16 channels for
// others.
#pragma once
#include <cstddef>
#include <string_view>

#include "ops/libraries/conv_shape.h"

namespace pal {

// Ours takes the place of oneDNN's `implementation`, whose name tells a depthwise one.
bool needs_own_depthwise(ConvKind kind, const ConvShape& shape, std::string_view implementation);

int64_t depthwise_scratch_bytes(const ConvShape& shape);
// x, dy -> dw (O, K.., 1) of that many images in a row. One thread, one order: the bits depend on
// the shape alone.
void depthwise_weight_grad(const ConvShape& shape, int64_t images, const float* x, const float* dy,
                           float* dw, std::byte* scratch);

}  // namespace pal
