// The choices of Chen et al. 2016, which the papers compare with.
#pragma once
#include "memory/recompute/step_view.h"

namespace pal {

// Everything that is not compute-heavy. Whole layers, but no convolution, however few its channels.
Choice choose_mirror(const StepView& view);
// All but what crosses the borders of sqrt(n) segments.
Choice choose_sqrt(const StepView& view);

}  // namespace pal
