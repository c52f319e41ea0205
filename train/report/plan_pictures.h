// The pictures of a plan, as SVG: live bytes over the step, the arena, and the queues.
#pragma once
#include <string>
#include <vector>

#include "memory/compile.h"
#include "memory/plan/report.h"

namespace pal {

// What both draw, computed once.
struct PlanView {
  explicit PlanView(const Compiled& compiled);

  const Compiled& c;
  ByStorage<Lifetime> lifetimes;
  std::vector<Held> held;
  Footprint footprint;
};

// Bytes alive on the device from the step's first node to its last, stacked by role, the peak
// marked, and below it which phase the step is in.
std::string live_picture(const PlanView& view);
// The arena: time to the right, addresses upwards, a rectangle for each value that a storage holds.
// Of very large plans only the largest rectangles; the caption says how many.
std::string arena_picture(const PlanView& view);
// Where bytes leave the device: live bytes there and in the host's memory over the predicted time,
// and below them what the compute queue and both copy queues do. "" where none leave.
std::string queues_picture(const PlanView& view);
// Swatches of the roles that the plan has.
std::string role_legend(const PlanView& view);

}  // namespace pal
