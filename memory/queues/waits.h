// Which waits two queues of compute need for their values and their bytes.
#pragma once
#include "core/program.h"
#include "memory/plan/plan.h"
#include "memory/price/side_by_side.h"

namespace pal {

// `joined`: a program of two queues of compute, whose nodes wait for what their values and state
// need: two micro-batches (memory/overlap), or a step's branches (memory/queues/branches.h).
//
// Once the first queue has ended, the second's nodes go on there: what is left of them is one
// queue, whose lifetimes are known to the node.
//
// In the order in which nodes begin, each waiting for all that has ended on the other queue by
// then. These waits cost nothing in that timeline, and with them what has died on one queue is
// known to be dead on the other: memory is planned so. `every`: of a queue's nodes every so many
// wait, beside those whose values need it; the others know of what these have waited for. So fewer
// waits, and bytes that go from queue to queue later.
Program in_time(const Program& joined, const SideBySide& run, int every = 1);

// In that order, all on one queue.
Program on_one_queue(const Program& joined, const SideBySide& run);

// The same order with the waits that `joined` has, and those alone which the plan of in_time()'s
// program, `timed`, needs. Who reads bytes waits for who wrote them on the other queue, and who
// writes them for who wrote or read them there: a storage over one that has died, a result in place
// of an operand that the other queue reads too, a piece of a stack. A wait that an earlier one of
// its queue covers is left out, and one wait stands for all up to the next one of `timed`.
Program with_waits_for_bytes(const Program& joined, const SideBySide& run, const Program& timed,
                             const Storages& storages, const Plan& plan);

}  // namespace pal
