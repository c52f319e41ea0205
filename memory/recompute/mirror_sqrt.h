// The baselines that the papers compare with (Chen et al. 2016).
#pragma once
#include "memory/recompute/step_view.h"

namespace pal {

Choice choose_mirror(const StepView& view);  // section 4.3: everything that is cheap
Choice choose_sqrt(const StepView& view);    // section 4.1: what stays inside sqrt(n) segments

}  // namespace pal
