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

// A lower bound of the bytes that compile() would plan, for a fraction of its time: the same
// passes, no placement, no checks. Placement is seldom 1 % above it. That it is over the budget is
// no error. `passed`: the program after the passes, with its storages; no plan.
int64_t least_bytes(Program program, KernelCache& cache, const StateLayout& layout,
                    const CompileOptions& options = {}, Compiled* passed = nullptr);

}  // namespace pal
