// Every channel of an image times a factor of its own: squeeze-and-excitation's last step (Hu et
// al. 2018, "Squeeze-and-Excitation Networks", equation 4).
#pragma once
#include "core/op.h"
#include "core/val.h"

namespace pal {

extern const OpDef dot_channels_op, scale_channels_op;
[[gnu::weak]] extern const Backend dot_channels_cuda, scale_channels_cuda;

// x (N, .., C), factor (N, C) -> (N, .., C), floats alike: y[n,..,c] = x[n,..,c] factor[n,c].
Val scale_channels(Val x, Val factor);
// a, b (N, .., C) -> (N, C), floats alike: the f32 sum of a b over the axes between. The gradient
// of the factor.
Val dot_channels(Val a, Val b);

// Pixels that dot_channels adds up one after the other before they join the sum, on every device.
constexpr int64_t kDotRun = 64;

}  // namespace pal
