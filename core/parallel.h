// Parallel loops over fixed chunks. Where a chunk begins depends on n and the grain alone, never on
// the number of threads, so reductions made chunk by chunk have the same bits on every machine.
#pragma once
#include <algorithm>
#include <cstdint>

#include "core/device.h"

namespace pal {

// Calls f(begin, end) for every chunk of `grain` elements of [0, n), on the queue's workers.
template <class F> void parallel_chunks(const Queue& queue, int64_t n, int64_t grain, F&& f) {
  const int64_t chunks = (n + grain - 1) / grain;
  if (chunks <= 1 || queue.workers <= 1) {
    for (int64_t c = 0; c < chunks; ++c) f(c * grain, std::min(n, (c + 1) * grain));
    return;
  }
#pragma omp parallel for schedule(static) num_threads(queue.workers)
  for (int64_t c = 0; c < chunks; ++c) f(c * grain, std::min(n, (c + 1) * grain));
}

// Elements an elementwise loop must have before a second thread pays.
constexpr int64_t kElementGrain = 16384;

}  // namespace pal
