// Jobs that have the device in turns of a minute or so, as Gandiva (Xiao et al. 2018) gives it to
// them: a baseline for the simulator. They change between steps. Where what the others keep leaves
// too little room for the next job, it moves to the host's memory, and back when its job is next.
#pragma once
#include <cstdint>
#include <vector>

#include "memory/share/simulate.h"
#include "memory/share/step_shape.h"

namespace pal {

struct MinutesOptions {
  double slice_ms = 60'000;  // a job's turn ends with the first step that ends after it
  int64_t budget = 0;        // bytes of all jobs on the device
  double link = 0;           // bytes a second to the host and back
};

// For `ms` of the simulated clock; a job's wait for its bytes counts as waiting. ProgramError where
// a job does not fit alone.
SimulatedRun simulate_minutes(const std::vector<const StepShape*>& jobs,
                              const MinutesOptions& options, double ms);

}  // namespace pal
