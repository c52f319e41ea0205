// From a recorded step to one that can run: passes, kernels, storages, plan, checks.
#pragma once
#include "memory/compiled.h"

namespace pal {

// Runs the passes that the options ask for, verifies after each, and plans. `layout` must hold the
// program's state; programs that share state pass the same one. ProgramError when the program or a
// pass is wrong; BudgetError when the plan must fit and is over the budget: by how much, because of
// what, and what would help.
Compiled compile(Program program, KernelCache& cache, const StateLayout& layout,
                 const CompileOptions& options = {});

struct PassMemory;  // memory/pass.h

// A lower bound of the bytes that compile() would plan, for a fraction of its time: the same
// passes, no placement, no checks. Placement is seldom 1 % above it. That it is over the budget is
// no error. `passed`: the program after the passes, with its storages; no plan. `memory`: of other
// plans of this step.
int64_t least_bytes(Program program, KernelCache& cache, const StateLayout& layout,
                    const CompileOptions& options = {}, Compiled* passed = nullptr,
                    PassMemory* memory = nullptr);
// The plan that compile() would make, of what least_bytes() passed with the same options.
// Unchecked.
Plan plan_passed(const Compiled& passed, const StateLayout& layout, const CompileOptions& options);

// What a step's maps take: feature maps and gradient maps, with encoded and decoded copies
// (is_map); no state, inputs, weight gradients, workspace (Gist, section V-A).
struct MapsAlone {
  Program program;          // after all passes
  int64_t ours = 0;         // bytes as Baselines::ours: recorded, before any pass
  int64_t lower_bound = 0;  // bytes alive at the peak
  int64_t bytes = 0;        // placed
};
// All passes judge by the bytes of maps alone, so that what they make is another step than
// compile()'s: where weights are the peak, that one leaves maps as they are. It has no addresses
// for anything but maps, and is for counting.
MapsAlone plan_maps_alone(Program program, KernelCache& cache, CompileOptions options = {});

}  // namespace pal
