// pal plan --front: the fastest plans of a step by bytes, and the one that a budget picks.
#pragma once
#include "train/commands/commands.h"

namespace pal {

// In place of the plan that the memory section asks for. UsageError where another answer is asked
// for too; BudgetError, once the front is printed, where no point fits.
int run_front(const PlanArgs& args);

}  // namespace pal
