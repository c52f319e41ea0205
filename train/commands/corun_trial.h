// Whether jobs do more side by side or in turns, as measured: some steps the one way, some the
// other, the first few of each uncounted. A state machine without a clock or threads.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "memory/share/corun_plan.h"

namespace pal {

// What a job has done since it began.
struct JobDone {
  int64_t steps = 0;
  double worked_seconds = 0;  // within steps, without waiting for others
  // What it has done: steps of validation count for what they are predicted to take.
  double predicted_ms = 0;
};

class CorunTrial {
 public:
  explicit CorunTrial(CorunGoal goal) : goal_(goal) {}

  // The way to measure now, and to stay with when it is over.
  bool in_turns() const { return in_turns_; }
  bool over() const { return over_; }
  // From time to time: what all have done. `ready`: they run that way by now.
  void look(const std::vector<JobDone>& done, double seconds, bool ready);
  // What was found, for people.
  std::string line() const;

 private:
  struct Measured {
    // By job: predicted milliseconds done in a second, and seconds within steps for each.
    std::vector<double> done_per_second, seconds_alone;
  };
  bool all_took(const std::vector<JobDone>& done, int64_t steps) const;
  void decide();

  CorunGoal goal_;
  bool in_turns_ = false, over_ = false;
  bool ready_ = false, counts_ = false;  // of the present way: it has begun; its steps count
  std::vector<JobDone> since_;
  double begin_ = 0;
  Measured side_by_side_, turns_;
  double shared_ = 0, alone_ = 0;  // sums of rates, relative to each job alone
};

}  // namespace pal
