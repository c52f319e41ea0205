// The last step of a plan for a card: branches of the step on a second queue, if that is faster.
#pragma once
#include <functional>

#include "core/prepare.h"
#include "memory/compiled.h"

namespace pal {

// Lays the step out on two queues (memory/queues/branches.h), looking ahead less and less far, as
// time would go on options.branch_device, and takes the fastest whose placed bytes fit
// options.queue_budget or the budget; without one, 5 % more than on one queue. `step` is a whole
// plan. It stays as it is where less than 2 % of its time is gained, and where it has other queues:
// copies to the host's memory, exchanges between ranks, a manager's. `place` gives the plan of what
// is tried.
void queue_branches_of(Compiled& step, KernelCache& cache, const CompileOptions& options,
                       const std::function<Plan(const Compiled&)>& place);

}  // namespace pal
