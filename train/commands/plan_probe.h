// pal plan --probe-precision: a table of errors, and memory.dpr_layers for them.
#pragma once
#include "train/commands/commands.h"

namespace pal {

// Instead of a plan. UsageError where args.probe is no run's folder, or probe_error is no positive
// number.
int run_probe(const PlanArgs& args);

}  // namespace pal
