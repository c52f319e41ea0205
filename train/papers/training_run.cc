// A set with one step program and the task's own validation.
#include "train/papers/training_run.h"

#include <cstring>
#include <utility>
#include <variant>

#include "core/error.h"
#include "core/scalars.h"
#include "train/loop/initialise.h"
#include "train/loop/learning_rate.h"
#include "train/loop/run_options.h"
#include "train/loop/step_program.h"
#include "train/tasks/make_task.h"

namespace pal {
namespace {

const Config& checked(const Config& config) {
  if (!std::holds_alternative<ImageConfig>(config.data)) {
    throw UsageError("reproduce: model.type: this is trained with image classifiers alone");
  }
  if (micro_batches(config.train) != 1) {
    throw UsageError("reproduce: train.accumulate: steps here have one micro-batch");
  }
  return config;
}

}  // namespace

TrainingRun::TrainingRun(const Config& config, const Rewrite& rewrite)
    : config_(checked(config)),
      task_(make_task(config_)),
      programs_(compile_options(config_.memory), training_device(config_)) {
  Program recorded =
      record_step([&](Builder& b, Val scalars) { return task_->record(b, 0, scalars, true); },
                  config_.train, MicroBatch::only);
  step_ = &programs_.add("train", rewrite ? rewrite(std::move(recorded)) : std::move(recorded));
  initialise(programs_, uint64_t(*config_.train.seed));
}

double TrainingRun::step() {
  const BatchInfo batch = task_->next(1).front();
  task_->fill(*step_, 0);
  const uint64_t seed = uint64_t(*config_.train.seed);
  StepScalars scalars{.learning_rate = float(learning_rate(config_.train, steps_)),
                      .step = int32_t(steps_),
                      .seed_low = uint32_t(seed),
                      .seed_high = uint32_t(seed >> 32),
                      .tokens = float(batch.normalizer)};
  std::memcpy(step_->input(kScalarsInput), &scalars, sizeof scalars);
  step_->run();
  ++steps_;
  epoch_ended_ = batch.last_of_epoch;
  return double(*step_->output("loss"));
}

double TrainingRun::top1(const std::string& part) {
  for (const auto& [name, value] : task_->validate(programs_, part, {}).metrics) {
    if (name == "top1") return value;
  }
  throw ProgramError("reproduce: the task has no top1");
}

}  // namespace pal
