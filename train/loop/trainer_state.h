// Where a run stands, as its checkpoint keeps it.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "train/loop/learning_rate.h"

namespace pal {

// Where a run stands besides its state; nothing that depends on the clock, so that a resumed run
// ends with the same file as an uninterrupted one. Kept in the checkpoint's own metadata, so that a
// run is one file that is replaced as a whole: no moment at which weights and position disagree.
struct TrainerState {
  int64_t step = 0;  // optimizer updates done
  double epoch = 0;
  std::string position;  // Task::position()
  double best = 0;       // the best metric so far
  bool has_best = false;
  Plateau plateau;  // validations since the best, and what they did to the learning rate
  // By program: which of its values are rounded (rounding_of). Empty without a rounding form.
  std::map<std::string, std::string> rounded = {};
  bool valid_due = false;  // the validation of this step was interrupted

  std::string to_json() const;
  // UsageError that names the file where the text is no such state.
  static TrainerState from_json(const std::string& text, const std::string& file);
};

}  // namespace pal
