// Rates side by side, rates in turns.
#include "train/commands/corun_trial.h"

#include <algorithm>

#include "train/config/wording.h"

namespace pal {
namespace {

constexpr int64_t kWarmSteps = 3, kCountedSteps = 8;  // of each job, at least

}  // namespace

bool CorunTrial::all_took(const std::vector<JobDone>& done, int64_t steps) const {
  for (size_t j = 0; j < done.size(); ++j) {
    if (done[j].steps < since_[j].steps + steps) return false;
  }
  return true;
}

void CorunTrial::look(const std::vector<JobDone>& done, double seconds, bool ready) {
  if (over_ || !ready) return;
  if (!ready_) {
    ready_ = true, counts_ = false, since_ = done;
    return;
  }
  if (!counts_) {
    if (!all_took(done, kWarmSteps)) return;
    counts_ = true, since_ = done, begin_ = seconds;
    return;
  }
  if (!all_took(done, kCountedSteps)) return;
  Measured& now = in_turns_ ? turns_ : side_by_side_;
  for (size_t j = 0; j < done.size(); ++j) {
    const double ms = done[j].predicted_ms - since_[j].predicted_ms;
    now.done_per_second.push_back(ms / (seconds - begin_));
    now.seconds_alone.push_back((done[j].worked_seconds - since_[j].worked_seconds) / ms);
  }
  if (in_turns_) return decide();
  in_turns_ = true, ready_ = false;
}

// In turns a job within a step has the device alone: so long does its step take.
void CorunTrial::decide() {
  bool all_gain = true;
  for (size_t j = 0; j < turns_.done_per_second.size(); ++j) {
    const double alone = turns_.seconds_alone[j];
    shared_ += side_by_side_.done_per_second[j] * alone;
    alone_ += turns_.done_per_second[j] * alone;
    all_gain &= side_by_side_.done_per_second[j] >= turns_.done_per_second[j];
  }
  over_ = true;
  in_turns_ = shared_ < alone_ || (goal_ == CorunGoal::fair && !all_gain);
}

std::string CorunTrial::line() const {
  return "measured: side by side " + fixed(shared_, 2) +
         " of the steps that a job alone would take, " + "in turns " + fixed(alone_, 2) + ": " +
         (in_turns_ ? "in turns" : "side by side") + " from now on";
}

}  // namespace pal
