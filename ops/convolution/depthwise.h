// The convolution of groups of one channel on a GPU, without windows laid out.
#pragma once
#include "core/op.h"
#include "ops/libraries/conv_stripes.h"

namespace pal {

int64_t depthwise_workspace(ConvKind kind, const ConvStripes& s);
void run_depthwise(ConvKind kind, const ConvStripes& s, const KernelArgs& a);

}  // namespace pal
