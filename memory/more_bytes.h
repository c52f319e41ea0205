// What a step that is planned may grow to for another queue.
#pragma once
#include "memory/compiled.h"

namespace pal {

struct MoreBytes {
  int64_t plan = 0;  // the plan's
  int64_t peak = 0;  // of them alive at the peak of the program itself
};

// options.queue_budget, or the budget; without one a `part` more than now, and no more than the
// device has (capacity; 0: it does not say). Never less than now: a plan that is over stays.
MoreBytes more_bytes(const Compiled& step, const CompileOptions& options, double part,
                     int64_t capacity);

}  // namespace pal
