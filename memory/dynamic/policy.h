// Decides, node after node, what leaves the device and what comes back (DELTA, algorithms 1 to 4;
// DTR). It goes by predicted time alone, so it decides the same in every step and every run, and it
// touches no bytes: what it decided is written into the program (memory/dynamic/lower.h).
#pragma once
#include <cstdint>

#include "memory/dynamic/decisions.h"
#include "memory/dynamic/facts.h"
#include "memory/dynamic/options.h"

namespace pal {

// `bytes`: on the device, for what comes and goes. BudgetError when a single node touches more
// than that, when a node cannot have all it touches at once, or when the step would spend its time
// on bringing back: its message names storages, and says what the manager can do.
Decisions decide(const StepFacts& facts, const DynamicOptions& options, int64_t bytes,
                 int64_t host_bytes);

}  // namespace pal
