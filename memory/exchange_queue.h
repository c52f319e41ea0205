// The last step of a plan for several ranks: exchanges on a queue of their own, if that is faster.
#pragma once
#include <functional>

#include "core/prepare.h"
#include "memory/compiled.h"

namespace pal {

// Tries orders in which exchanges run beside the computation (memory/schedule/queue_exchanges.h),
// priced for options.exchange_device. Of those whose placed bytes fit the budget (without one, 10 %
// more than without a queue), takes the one with the fewest bytes at the peak among the nearly
// fastest; a plan that is already over keeps to its bytes. `step` is a whole plan, and stays as it
// is where nothing is gained. `place` gives the plan of what is tried.
void queue_exchanges_of(Compiled& step, KernelCache& cache, const CompileOptions& options,
                        const std::function<Plan(const Compiled&)>& place);

}  // namespace pal
