// Puts operands into the layouts that the prepared kernels prefer.
#pragma once
#include "core/prepare.h"
#include "core/program.h"

namespace pal {

struct LayoutsEffect {
  int reorders = 0, readers = 0;  // nodes inserted, operands that they serve
  int64_t bytes = 0;              // of the values they make
};

// For every operand whose kernel prefers another layout, one reorder per (value, layout, forward or
// not) directly before the first such reader, in its phase and scope, shared by all later ones: but
// not by forward nodes and those after them, between which it would be alive at the peak. A value
// that has a blocked layout already is left as it is. Runs after the passes that look for layers:
// kernels are prepared anew for the specs that result.
Program choose_layouts(const Program& program, KernelCache& cache, LayoutsEffect* effect = nullptr);

}  // namespace pal
