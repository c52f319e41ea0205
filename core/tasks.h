// Pieces of work that do not need each other, on several threads.
#pragma once
#include <cstddef>
#include <functional>

namespace pal {

// Calls f(worker, task) for every task below `count`, on at most `workers` threads (fewer where the
// machine refuses more), of which the caller's is number 0. Tasks begin in their order; which
// worker has which is left to chance. Returns when all have ended; of their exceptions the one of
// the first task goes on.
void run_tasks(int workers, size_t count, const std::function<void(int worker, size_t task)>& f);

}  // namespace pal
