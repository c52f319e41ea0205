// Recomputation by prices: which feature maps are worth dropping where every byte has a price at
// every position of the step (memory/recompute/prices.h).
//
// The cut is echo's (memory/recompute/region_cut.h), with times as weights. A stash costs its price
// from its last reader in the forward phase to its first after it. A clone costs the time that a
// roofline gives it on the device at hand, and the price of its results while they are held before
// their own gradients. Bits cost their own price, and the time of making and using them. No node
// counts as heavy: a convolution may be recomputed where bytes are dear.
//
// When a clone runs depends on who else runs again: what a clone reads has to be there when it
// runs. So the cut is made again, each time with the first use that the last choice leads to.
#pragma once
#include "memory/price/predict.h"
#include "memory/recompute/clones.h"
#include "memory/recompute/step_view.h"

namespace pal {

// `view`: with infinite RecomputeOptions::heavy.
Choice choose_priced(const StepView& view, const RecomputeOptions& options,
                     const DeviceProfile& device);
// The step with that choice, or with options.chosen: clones, and bits where options.bits.
// ProgramError where a chosen value is none of the step's.
Clones priced_clones(const StepView& view, const RecomputeOptions& options,
                     const DeviceProfile& device);

}  // namespace pal
