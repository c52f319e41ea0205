// What to run again and what to send to the host, for each of a fixed grid of sizes between the
// step as it was recorded and a floor: found over a sketch of the step (memory/front/sketch.h).
//
// A size begins with nothing chosen, and with what the size above ended with; the better one is
// renewed, where that paid at the sizes before. Then the other way: what a size below ended with,
// less what need not be, may be better. Between two sizes far apart in time another is tried, from
// both. How often is counted depends on the size of the step, not on a clock.
#pragma once
#include <cstdint>
#include <vector>

#include "core/program.h"
#include "memory/compiled.h"

namespace pal {

struct Chosen {
  int64_t limit = 0;                 // bytes that it was chosen for
  int64_t bytes = 0;                 // alive at the peak, by the sketch
  double added_ms = 0;               // likewise
  std::vector<ValueId> again, away;  // RecomputeOptions::chosen, SwapOptions::chosen
};

// The recorded step as the pass sees it that runs values again.
Program before_clones(const Program& program, const CompileOptions& options);

// Those that no other beats, the largest first. `program`: recorded.
std::vector<Chosen> choose_plans(const Program& program, const CompileOptions& options,
                                 const DeviceProfile& device, int64_t floor);

}  // namespace pal
