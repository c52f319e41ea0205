// Where the others are when a job begins.
#include "memory/share/pace.h"

#include <algorithm>
#include <tuple>

namespace pal {
namespace {

int64_t floor_of(int64_t a, int64_t by) { return a >= 0 ? a / by : -((-a + by - 1) / by); }

// The last node of `job` that is done by `time`.
CircleWait done_by(const Circle& circle, size_t job, int64_t time) {
  const JobOnCircle& on = circle.jobs[job];
  const int64_t last = on.shape->moments() / 2 * 2 - 1;
  CircleWait best;
  int64_t best_time = INT64_MIN;
  for (int step = 0; step < on.steps; ++step) {
    const int64_t periods = floor_of(time - on.time(step, last), circle.period);
    // Whole before; then as far as it has come since.
    for (const int64_t period : {periods, periods + 1}) {
      const int64_t since = time - period * circle.period;
      int64_t moment = -1;
      for (int64_t low = 0, high = last / 2; low <= high;) {
        const int64_t node = (low + high) / 2;
        if (on.time(step, 2 * node + 1) <= since) {
          moment = 2 * node + 1, low = node + 1;
        } else {
          high = node - 1;
        }
      }
      // Copies take no time: those before the first node of compute are no progress, or two jobs
      // that begin at once would wait for each other's.
      if (moment < 0 || on.time(step, moment) == on.time(step, 0)) continue;
      const int64_t at = on.time(step, moment) + period * circle.period;
      const auto other_step = int32_t(step + period * on.steps);
      if (std::tie(at, other_step) <= std::tie(best_time, best.other_step)) continue;
      best_time = at;
      best = {.other = JobId(job), .other_step = other_step, .other_moment = moment};
    }
  }
  return best;
}

}  // namespace

CircleWaits paced(const Circle& circle, CircleWaits waits) {
  for (size_t j = 0; j < circle.jobs.size(); ++j) {
    for (size_t other = 0; other < circle.jobs.size(); ++other) {
      if (other == j) continue;
      auto& first = waits[j][0];
      first.insert(first.begin(), done_by(circle, other, circle.jobs[j].begins));
    }
  }
  return waits;
}

}  // namespace pal
