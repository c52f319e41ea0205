// Dynamic memory management (DELTA, Tang et al. 2022; DTR, Kirisame et al. 2021), decided before
// the first step: a policy walks over the program with predicted times, and its decisions become a
// program and a plan like any other (docs/decisions/managers-before-the-step.md).
#pragma once
#include <cstdint>
#include <optional>

#include "memory/dynamic/facts.h"
#include "memory/dynamic/lower.h"
#include "memory/dynamic/options.h"
#include "memory/dynamic/policy.h"
#include "memory/plan/plan.h"

namespace pal {

struct Managed {
  Lowered step;
  DynamicStats stats;
};

// The least bytes on the device at all: state, inputs in two slots, outputs, and what the largest
// node touches.
int64_t least_managed(const StepFacts& facts, const StateLayout& layout);

// Whether a budget will do, and about the least that will (within a hundredth; none: no budget
// would), as simulated.
bool is_managed_within(const StepFacts& facts, const StateLayout& layout,
                       const DynamicOptions& options, int64_t budget,
                       std::optional<int64_t> host_budget = {});
std::optional<int64_t> least_working(const StepFacts& facts, const StateLayout& layout,
                                     const DynamicOptions& options,
                                     std::optional<int64_t> host_budget = {});

// The step within `budget` bytes on the device and `host_budget` in the host's memory (none: as
// many as it takes). BudgetError where it cannot be done, with the least budget that would do.
Managed manage(const StepFacts& facts, const StateLayout& layout, const DynamicOptions& options,
               int64_t budget, std::optional<int64_t> host_budget = {});

}  // namespace pal
