// Zico's way of sharing a pool (zico_gate.h) with addresses, so that it can be run.
//
// What is local to a job (all that is not a feature map) lies at its end of the pool, its feature
// maps behind that in the order in which they are made. Of two jobs one grows from the bottom and
// one from the top, so that they meet where both have more regions than there are.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "memory/share/corun_plan.h"
#include "memory/share/zico_gate.h"

namespace pal {

// Offsets of one job from its end of a pool, and its height.
int64_t place_for_zico(const StepShape& shape, PoolOffsets& offset);

// In all that there is within the budget; nothing where a step alone does not fit. The rates are
// those after the scheduler has learned.
std::optional<CorunWay> zico_within(const std::vector<const StepShape*>& shapes, int64_t budget);

// Of a way of this kind, with the regions of its placement. `clock`: milliseconds.
std::unique_ptr<ZicoGate> zico_gate_of(const CorunWay& way,
                                       const std::vector<const StepShape*>& shapes,
                                       const double* clock);

}  // namespace pal
