// Limits by budget, by parts, by the device.
#include "memory/more_bytes.h"

#include <algorithm>

#include "memory/storages/lifetimes.h"

namespace pal {

MoreBytes more_bytes(const Compiled& step, const CompileOptions& options, double part,
                     int64_t capacity) {
  const int64_t before = step.plan.device().bytes;
  auto unasked = int64_t((1 + part) * double(before));
  if (capacity > 0) unasked = std::min(unasked, capacity);
  const std::optional<int64_t> budget =
      options.queue_budget ? options.queue_budget : options.budget;
  const int64_t limit = std::max(budget.value_or(unasked), before);
  // A peak is of this program's bytes alone, the limit also of state that it does not carry.
  const int64_t own = peak_of(step.storages, lifetimes_of(step.program, step.storages)).bytes;
  return {limit, limit - std::max<int64_t>(0, step.plan.device().lower_bound - own)};
}

}  // namespace pal
