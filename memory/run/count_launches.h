// What a compiled step launches on an accelerator, node by node, without one.
#pragma once
#include <vector>

#include "core/kernel_counter.h"
#include "memory/run/program_set.h"

namespace pal {

// The step's inputs are those that Executable::input() was filled with. Every node runs once, where
// the plan has placed its values; equal nodes are counted once, unless what they make are numbers
// that others go by (ids, lengths).
ByNode<std::vector<LaunchCount>> count_launches(Executable& step, KernelCounter& counter,
                                                Accelerator& accelerator);

}  // namespace pal
