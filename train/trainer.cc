// The training loop.
#include "train/trainer.h"

#include <cmath>
#include <cstring>

#include "core/error.h"
#include "core/scalars.h"
#include "train/initialise.h"
#include "train/schedule.h"

namespace pal {
namespace {

double since(Trainer::Clock::time_point t) {
  return std::chrono::duration<double>(Trainer::Clock::now() - t).count();
}

}  // namespace

CompileOptions compile_options(const MemoryConfig& config) {
  CompileOptions options;
  options.inplace = *config.inplace;
  options.lifetime_schedule = *config.schedule == "lifetime";
  if (config.budget->has_value()) options.budget = (*config.budget)->bytes;
  return options;
}

Device choose_device(const DeviceConfig& config) {
  if (*config.type == "cuda") {
    throw UsageError("device.type: cuda: this build has no CUDA device; use cpu or auto");
  }
  return cpu_device(int(config.threads->value_or(0)));
}

Trainer::Trainer(const TrainArgs& args)
    : args_(args),
      config_(args.config),
      task_(make_task(config_, args.resume ? args.out : std::filesystem::path{})),
      programs_(compile_options(config_.memory), choose_device(config_.device)) {
  largest();
  if (args.resume) {
    state_ = load_checkpoint(file("last.safetensors"), programs_);
    task_->restore(state_.position);
  } else {
    initialise(programs_, uint64_t(*config_.train.seed));
    state_.position = task_->position();
  }
  first_step_ = state_.step;
}

Executable& Trainer::largest() {
  const int64_t n = *config_.train.accumulate;
  return step_program(task_->bucket_count() - 1, micro_batch_of(n - 1, n));
}

Executable& Trainer::step_program(int bucket, MicroBatch kind) {
  const auto [S, T] = task_->bucket_lengths(bucket);
  const std::string name = "train/" + std::to_string(S) + "x" + std::to_string(T) + "/" + to_string(kind);
  if (Executable* ready = programs_.find(name)) return *ready;
  auto forward = [&](Builder& b, Val scalars) { return task_->record(b, bucket, scalars, true); };
  Executable& made = programs_.add(name, record_step(forward, config_.train, kind));
  if (metrics_) {
    const Compiled& c = made.compiled();
    metrics_->write(PlanRow{.step = state_.step, .source_length = S, .target_length = T,
                            .nodes = c.program.node_count(),
                            .values = int64_t(c.program.values.size()),
                            .total_bytes = c.plan.device().bytes, .arena_bytes = c.plan.device().bytes,
                            .lower_bound_bytes = c.plan.device().lower_bound,
                            .compile_seconds = c.seconds});
  }
  return made;
}

void Trainer::train_step() {
  const auto begin = Clock::now();
  const int count = int(*config_.train.accumulate);
  const std::vector<BatchInfo>& batches = task_->next(count);
  StepScalars scalars{.learning_rate = float(learning_rate(config_.train, state_.step)),
                      .step = int32_t(state_.step)};
  const uint64_t seed = uint64_t(*config_.train.seed);
  scalars.seed_low = uint32_t(seed), scalars.seed_high = uint32_t(seed >> 32);
  double normalizer = 0, loss = 0, norm = 0;
  for (const BatchInfo& batch : batches) normalizer += batch.normalizer;
  scalars.tokens = float(normalizer);
  int64_t peak = 0;
  for (int i = 0; i < count; ++i) {
    Executable& program = step_program(batches[size_t(i)].bucket, micro_batch_of(i, count));
    task_->fill(program, i);
    scalars.micro_batch = i;
    std::memcpy(program.input(kScalarsInput), &scalars, sizeof scalars);
    program.run();
    loss += double(*program.output("loss"));
    peak = std::max(peak, program.compiled().plan.device().bytes);
    if (!std::isfinite(loss)) stop_on_nan(program);
    if (i + 1 == count) {
      norm = double(program.output("grad_norm")[2]);
      if (program.output("gate")[1] == 0) stop_on_nan(program);
    }
  }
  ++state_.step;
  state_.position = task_->position();
  state_.epoch = batches.back().epoch;
  for (const BatchInfo& batch : batches) {
    samples_ += batch.samples, tokens_ += batch.tokens;
    epoch_ended_ |= batch.last_of_epoch;
  }
  ++steps_;
  const double seconds = since(begin);
  seconds_ += seconds;

  const bool due = state_.step % *config_.train.log_every == 0;
  const int64_t total = config_.train.steps->value_or(0);
  const double rate = double(tokens_) / seconds_;
  double left = -1;
  if (total > 0) left = double(total - state_.step) * seconds_ / double(steps_);
  progress_.update({.step = state_.step, .total_steps = total, .epoch = state_.epoch, .loss = loss,
                    .tokens_per_s = rate, .seconds_left = left}, due);
  if (!due) return;
  metrics_->write(StepRow{.step = state_.step, .epoch = state_.epoch, .loss = loss,
                          .lr = double(scalars.learning_rate), .grad_norm = norm,
                          .samples_per_s = double(samples_) / seconds_, .tokens_per_s = rate,
                          .step_ms = 1e3 * seconds_ / double(steps_),
                          .arena_bytes = programs_.arena_bytes(), .peak_bytes = peak});
  samples_ = tokens_ = steps_ = 0, seconds_ = 0;
}

void Trainer::stop_on_nan(Executable& program) {
  progress_.finish();
  // The gate has kept the state as it was, so the same step can be run again, watched.
  program.runner().set_options({.check_finite = true});
  const std::string step = "at step " + std::to_string(state_.step + 1);
  metrics_->write(EndRow{.step = state_.step, .epoch = state_.epoch, .reason = "nan",
                         .seconds = seconds()});
  try {
    program.run();
  } catch (const ProgramError& error) {
    throw Error(kExitFailed, std::string(error.what()) + ", " + step +
                                 "; the last checkpoint is whole: lower train.lr or clip, and resume");
  }
  throw Error(kExitFailed, "the loss is not finite " + step + ", though no node made it so");
}

void Trainer::validate() {
  progress_.finish();
  const Validation valid = task_->validate(programs_, "valid");
  validated_ = state_.step;
  std::string line = "valid  step " + std::to_string(state_.step) + "  loss " +
                     std::to_string(valid.loss).substr(0, 6);
  double metric = valid.loss;
  bool higher = false;
  for (auto& [name, value] : valid.metrics) {
    line += "  " + name + " " + std::to_string(value).substr(0, 5);
    if (name == valid.best_by) metric = value, higher = valid.higher_is_better;
  }
  metrics_->write(ValidRow{.step = state_.step, .epoch = state_.epoch, .loss = valid.loss,
                           .metrics = valid.metrics});
  if (!state_.has_best || (higher ? metric > state_.best : metric < state_.best)) {
    state_.best = metric, state_.has_best = true;
    save_weights(file("best.safetensors"), programs_);
    line += "  (best)";
  }
  log_info(line);
}

void Trainer::save() {
  if (saved_ == state_.step) return;
  save_checkpoint(file("last.safetensors"), programs_, state_);
  saved_ = state_.step;
}

bool Trainer::finished() const {
  auto& t = config_.train;
  return (t.steps->has_value() && state_.step >= **t.steps) ||
         (t.max_epochs->has_value() && state_.epoch >= double(**t.max_epochs));
}

std::string Trainer::run(const std::atomic<bool>& stop) {
  metrics_ = args_.resume ? MetricsWriter::resume(file("metrics.jsonl"), state_.step)
                          : MetricsWriter::create(file("metrics.jsonl"));
  auto& t = config_.train;
  while (!finished() && !stop) {
    epoch_ended_ = false;
    train_step();
    const bool valid_due = t.valid_every->has_value() ? state_.step % **t.valid_every == 0
                                                      : epoch_ended_;
    if (valid_due) validate();
    if (t.save_every->has_value() ? state_.step % **t.save_every == 0 : valid_due) save();
  }
  const bool interrupted = stop && !finished();
  if (!interrupted && validated_ != state_.step && state_.step > first_step_) validate();
  progress_.finish();
  save();
  const std::string reason = interrupted                                                  ? "interrupted"
                             : t.steps->has_value() && state_.step >= **t.steps ? "steps"
                                                                                          : "max_epochs";
  metrics_->write(EndRow{.step = state_.step, .epoch = state_.epoch, .reason = reason,
                         .seconds = seconds()});
  return reason;
}

Validation Trainer::evaluate_best(const std::string& part) {
  if (std::filesystem::exists(file("best.safetensors"))) {
    load_weights(file("best.safetensors"), programs_);
  }
  return task_->validate(programs_, part);
}

}  // namespace pal
