// A short training of an image classifier for a paper's figure: as the trainer's steps, without a
// folder, checkpoints and validation of its own, and with the recorded step rewritten where a
// figure asks for what no configuration has.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "train/config/config.h"
#include "train/loop/task.h"

namespace pal {

class TrainingRun {
 public:
  using Rewrite = std::function<Program(Program recorded)>;

  // UsageError where the configuration trains no image classifier, or accumulates.
  explicit TrainingRun(const Config& config, const Rewrite& rewrite = {});

  // One update; its loss.
  double step();
  int64_t steps() const { return steps_; }
  bool epoch_ended() const { return epoch_ended_; }  // with the last step
  // Percent of a part ("valid", "test") with the weights as they stand.
  double top1(const std::string& part);
  Executable& program() { return *step_; }
  ProgramSet& programs() { return programs_; }
  const Task& task() const { return *task_; }

 private:
  Config config_;
  std::unique_ptr<Task> task_;
  ProgramSet programs_;
  Executable* step_ = nullptr;
  int64_t steps_ = 0;
  bool epoch_ended_ = false;
};

}  // namespace pal
