// Which waits two queues of compute need for their values and their bytes.
#pragma once
#include "core/program.h"
#include "memory/overlap/side_by_side.h"
#include "memory/plan/plan.h"

namespace pal {

// Once the first queue has ended, the second's nodes go on there: what is left of them is one
// queue, whose lifetimes are known to the node.
//
// In the order in which nodes begin, each waiting for all that has ended on the other queue by
// then. These waits cost nothing in that timeline, and with them what has died on one queue is
// known to be dead on the other: memory is planned so.
Program in_time(const Program& joined, const SideBySide& run);

// In that order, all on one queue.
Program on_one_queue(const Program& joined, const SideBySide& run);

// The same order with the waits that `joined` has, and those alone which the plan of in_time()
// needs: where a storage lies over one that the other queue has used, its first node waits for the
// last one of that.
Program with_waits_for_bytes(const Program& joined, const SideBySide& run, const Storages& storages,
                             const Plan& plan);

}  // namespace pal
