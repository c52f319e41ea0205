// The training loop.
#include "train/loop/trainer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "core/clock.h"
#include "core/error.h"
#include "core/scalars.h"
#include "memory/passes/divide_weights.h"
#include "memory/passes/encode.h"
#include "train/loop/choose_bucket.h"
#include "train/loop/exchange_device.h"
#include "train/loop/initialise.h"
#include "train/loop/learning_rate.h"
#include "train/loop/ranks_of_run.h"
#include "train/loop/run_options.h"
#include "train/loop/sums_over_ranks.h"
#include "train/report/traffic_report.h"
#include "train/run_files/algorithm_file.h"
#include "train/run_files/process_memory.h"

namespace pal {
namespace {

Device device_of(const TrainArgs& args, bool alone, std::string* said) {
  Device device = training_device(args.config, said);
  if (device.algorithms && !args.dry_run) {
    device.algorithms = std::make_shared<AlgorithmFile>(args.out / "algorithms.txt",
                                                        AlgorithmFile::of_machine(), alone);
  }
  join_ranks(device, args.group, *args.config.train.rank_timeout, said);
  return device;
}

// A plan that is only shown has no steps to time, and a shared pool's steps have their own clocks.
std::filesystem::path times_folder(const TrainArgs& args, const PoolShare& share) {
  return args.dry_run || share.pool ? std::filesystem::path() : args.out;
}

ProgramSet programs_of(const TrainArgs& args, const PoolShare& share, std::string* said) {
  const Device device = device_of(args, !share.pool, said);
  check_started_alike(args);  // before they exchange anything that depends on it
  CompileOptions options = run_options(args.config.memory);
  options.exchange_device = exchange_device(args.config, device, said);
  options.branch_device = branch_device(args.config.device, device, said);
  return {std::move(options), device, share};
}

}  // namespace

Trainer::Trainer(const TrainArgs& args, std::unique_ptr<Task> task, const PoolShare& share)
    : args_(args),
      config_(args.config),
      ranks_(args.group),
      task_(std::move(task)),
      programs_(programs_of(args, share, &device_line_)),
      steps_(config_, *task_, programs_, file("last.safetensors").string(),
             times_folder(args, share)),
      sharded_(sharded_state()),
      watch_(programs_.device().accelerator,
             *config_.train.log_every * steps_.update().per_rank()) {
  config_ = with_bucket(std::move(config_), *task_, longest_lengths(), programs_.kernels(),
                        programs_.options(), args.group.get());
  if (sharded_.divides_weights()) {
    // Validation and decoding are recorded with whole weights.
    const int64_t ranks = config_.ranks, bytes = bucket_bytes(config_.train);
    programs_.rewrite_recorded([=](Program p) {
      return has_divided_weights(p) ? std::move(p) : divide_weights(p, ranks, bytes);
    });
  }
  task_->take_share(ranks_.share(steps_.update()));
  steps_.add_largest_pair();
  // No rank waits while another plans a step that only it has met.
  if (!ranks_.is_alone()) steps_.add_all();
  if (steps_.chosen().on()) add_validation();
  Loaded loaded;
  if (args.resume) {
    state_ = load_checkpoint(file("last.safetensors"), programs_, sharded_, &loaded);
    steps_.round_as(state_.rounded);
    if (state_.has_best) best_saved_ = state_.best;
    task_->restore(state_.position);
  } else {
    initialise(programs_, uint64_t(*config_.train.seed), sharded_);
    if (config_.train.init_from->has_value()) {
      const std::string from =
          ranks_.of_first([&] { return initial_file(**config_.train.init_from).string(); });
      loaded = load_initial(from, programs_, sharded_);
    }
    state_.position = task_->position();
  }
  first_step_ = state_.step;
  if (!ranks_.is_alone()) check_alike(loaded);
}

ShardedState Trainer::sharded_state() const {
  if (!steps_.update().has_pieces()) return {};
  Config alone = config_;
  alone.ranks = 1;
  return {args_.group, record_plan_step(*task_, alone, task_->bucket_lengths(0)),
          steps_.update().divides_weights()};
}

// Of a step that train.bucket is chosen for: all exchange the same.
std::pair<int64_t, int64_t> Trainer::longest_lengths() const {
  return task_->bucket_lengths(task_->largest_candidates().back());
}

// Ranks that differ would wait for each other, or train different weights.
void Trainer::check_alike(const Loaded& loaded) {
  const auto lines = [](const std::map<std::string, std::string>& by_program) {
    std::string all;
    for (const auto& [program, text] : by_program) all += program + " " + text + "\n";
    return all;
  };
  ranks_.require_alike(
      {{"the machine: processor, device, libraries", numerics_of(programs_.device())},
       {"the data and their place in it", state_.position},
       {"the step they go on from", std::to_string(state_.step)},
       content_of(loaded),
       {"the values that they round", lines(steps_.rounded())},
       {"what they exchange", exchanges_of(largest().program())},
       {"the steps that they recorded", lines(steps_.recorded())}});
}

std::pair<std::string, std::string> Trainer::content_of(const Loaded& loaded) {
  return {"the weights in " + loaded.file.string(), loaded.checksums};
}

void Trainer::load_alike(const char* name) {
  ranks_.require_alike({content_of(load_weights(file(name), programs_, sharded_))});
}

StepScalars Trainer::scalars_of(double normalizer) const {
  StepScalars scalars{
      .learning_rate = float(learning_rate(config_.train, state_.step, state_.plateau)),
      .step = int32_t(state_.step)};
  const uint64_t seed = uint64_t(*config_.train.seed);
  scalars.seed_low = uint32_t(seed), scalars.seed_high = uint32_t(seed >> 32);
  scalars.tokens = float(normalizer);
  return scalars;
}

void Trainer::fill(Executable& program, const StepScalars& scalars, int i) {
  task_->fill(program, i);
  std::memcpy(program.input(kScalarsInput), &scalars, sizeof scalars);
}

// Returns the program whose outputs and updates count.
Executable& Trainer::run_micro_batch(int bucket, MicroBatch kind, const StepScalars& scalars,
                                     int i) {
  last_ran_ = steps_.name(bucket, kind);
  return steps_.run(
      bucket, kind, [&](Executable& program) { fill(program, scalars, i); },
      [&](const std::vector<std::string>& layers) {
        write(OverflowRow{.step = state_.step + 1,
                          .micro_batch = scalars.micro_batch,
                          .program = last_ran_,
                          .layers = layers});
      });
}

Trainer::Ran Trainer::run_micro_batches(const std::vector<BatchInfo>& batches, StepScalars scalars,
                                        bool look) {
  Ran ran;
  const int count = int(batches.size());
  for (int i = 0; i < count;) {
    scalars.micro_batch = number_of(i);
    Executable* const pair = run_pair(batches, i, scalars);
    Executable& program =
        pair ? *pair
             : run_micro_batch(batches[size_t(i)].bucket, steps_.update().kind(i), scalars, i);
    ran.peak = std::max(ran.peak, program.compiled().plan.device().bytes);
    ran.last = &program;
    for (int part = 0; part < (pair ? 2 : 1); ++part, ++i) {
      if (pair) pair->look_at(part);
      if (look) {
        read(program, ran, i + 1 == count);
      } else {
        watch_.keep(program, state_.step, i + 1 == count);
      }
    }
  }
  return ran;
}

// Micro-batches i and i + 1; null where they are to run one behind the other.
Executable* Trainer::run_pair(const std::vector<BatchInfo>& batches, int i, StepScalars scalars) {
  const int count = int(batches.size()), bucket = batches[size_t(i)].bucket;
  if (i + 1 == count || batches[size_t(i) + 1].bucket != bucket) return nullptr;
  Executable* const pair =
      steps_.find_pair(bucket, steps_.update().kind(i), steps_.update().kind(i + 1));
  if (!pair) return nullptr;
  for (int part = 0; part < 2; ++part) {
    scalars.micro_batch = number_of(i + part);
    pair->look_at(part);
    fill(*pair, scalars, i + part);
  }
  pair->run();
  return pair;
}

// The results of a micro-batch; `last`: of the update.
void Trainer::read(Executable& program, Ran& ran, bool last) {
  // All at once: each wait costs a round trip.
  program.fetch(last ? std::vector<std::string>{"loss", "grad_norm", "gate"}
                     : std::vector<std::string>{"loss"});
  check_watch();
  const auto loss = double(*program.output("loss"));
  if (steps_.update().is_whole()) {
    ran.loss = loss;  // the last one's is that of all
    // Alone, this one is run again, watched; several ranks end together, at the update's end.
    if (!last && !ranks_.is_alone()) return;
  } else {
    ran.loss += loss;
  }
  if (!std::isfinite(ran.loss)) stop_on_nan(program);
  if (!last) return;
  ran.norm = double(program.output("grad_norm")[2]);
  if (program.output("gate")[1] == 0 || std::isnan(ran.norm)) stop_on_nan(program);
}

void Trainer::train_step() {
  const auto begin = Clock::now();
  ranks_.now("step " + std::to_string(state_.step + 1));
  const std::vector<BatchInfo>& batches = task_->next(int(steps_.update().per_rank()));
  const RankTalk::Counts counts = ranks_.count(batches);
  const StepScalars scalars = scalars_of(counts.normalizer);
  const bool due = (state_.step + 1) % *config_.train.log_every == 0;
  // Reading anything waits for an accelerator: there the loss of the steps that are logged is read.
  // Those in between are watched, and a gate that was shut has left the state as it was.
  const bool looked_at = due || !programs_.device().accelerator;
  const Ran ran = run_micro_batches(batches, scalars, looked_at);
  if (looked_at) loss_ = ran.loss;
  ++state_.step;
  state_.position = task_->position();
  state_.epoch = batches.back().epoch;
  samples_ += counts.samples, tokens_ += counts.tokens;
  for (const BatchInfo& batch : batches) epoch_ended_ |= batch.last_of_epoch;
  ++updates_;
  seconds_ += seconds_since(begin);
  if (ranks_.writes()) show_progress(due);
  if (due) write_row(ran, double(scalars.learning_rate));
  steps_.update_done();
}

void Trainer::show_progress(bool due) {
  const int64_t total = config_.train.steps->value_or(0);
  double left = -1;
  if (total > 0) left = double(total - state_.step) * seconds_ / double(updates_);
  progress_.update({.step = state_.step,
                    .total_steps = total,
                    .epoch = state_.epoch,
                    .loss = loss_,
                    .tokens_per_s = double(tokens_) / seconds_,
                    .seconds_left = left,
                    .unit = task_->unit()},
                   due);
}

void Trainer::write_row(const Ran& ran, double lr) {
  const StepRow row{.step = state_.step,
                    .epoch = state_.epoch,
                    .loss = ran.loss,
                    .lr = lr,
                    .grad_norm = ran.norm,
                    .samples_per_s = double(samples_) / seconds_,
                    .tokens_per_s = double(tokens_) / seconds_,
                    .step_ms = 1e3 * seconds_ / double(updates_),
                    .arena_bytes = programs_.arena_bytes(),
                    .peak_bytes = ran.peak,
                    .process_peak_bytes = process_peak_bytes(),
                    .traffic = traffic_json(ran.last->compiled())};
  write(row);
  if (events_) events_->write(row);
  if (steps_.sparse().on()) {
    write(DensityRow{
        .step = state_.step, .program = last_ran_, .maps = steps_.sparse().densities(*ran.last)});
  }
  samples_ = tokens_ = updates_ = 0, seconds_ = 0;
}

void Trainer::write_end(int64_t step, const std::string& reason) {
  write(EndRow{.step = step,
               .epoch = state_.epoch,
               .reason = reason,
               .seconds = seconds(),
               .arena_bytes = arena_bytes(),
               .process_peak_bytes = process_peak_bytes()});
}

std::string Trainer::from_where() const {
  std::error_code failed;
  return std::filesystem::exists(file("last.safetensors"), failed)
             ? "; the last checkpoint is whole: resume from it"
             : "; there is no checkpoint yet: start again";
}

void Trainer::check_watch() {
  const std::optional<int64_t> bad = watch_.first_bad();
  if (!bad) return;
  progress_.finish();
  write_end(*bad, "nan");
  throw Error(kExitFailed, "the loss or a gradient was not finite at step " +
                               std::to_string(*bad + 1) + from_where() +
                               " with train.log_every=1 to see which node made it so, or lower "
                               "train.lr or clip");
}

void Trainer::stop_on_nan(Executable& program) {
  progress_.finish();
  if (!ranks_.is_alone()) {  // whose steps end only together
    const std::vector<int> bad = ranks_.who(!std::isfinite(*program.output(kOwnLoss)));
    write_end(state_.step, "nan");
    std::string where;
    for (const int rank : bad) where += (where.empty() ? " on rank " : ", ") + std::to_string(rank);
    throw Error(kExitFailed, (bad.empty() ? "a gradient" : "the loss") +
                                 std::string(" is not finite at step ") +
                                 std::to_string(state_.step + 1) + where + from_where() +
                                 " with one rank to see which node made it so, or lower train.lr "
                                 "or clip");
  }
  // The gate has kept the state as it was, so the same step can be run again, watched. (Where it
  // judged by the loss alone, and only gradients are NaNs, these show again.)
  program.runner().set_options({.check_finite = true});
  const std::string step = "at step " + std::to_string(state_.step + 1);
  write_end(state_.step, "nan");
  try {
    program.run();
  } catch (const ProgramError& error) {
    throw Error(kExitFailed, std::string(error.what()) + ", " + step + from_where() +
                                 " with a lower train.lr, or clip");
  }
  throw Error(kExitFailed, "the loss is not finite " + step + ", though no node made it so");
}

std::string Trainer::finished() const {
  auto& t = config_.train;
  if (t.steps->has_value() && state_.step >= **t.steps) return "steps";
  if (t.max_epochs->has_value() && state_.epoch >= double(**t.max_epochs)) return "max_epochs";
  if (t.patience->has_value() && state_.plateau.stale >= **t.patience) return "patience";
  return "";
}

void Trainer::add_validation() {
  try {
    task_->add_programs(programs_, "valid");
    task_->add_programs(programs_, "test");
  } catch (const BudgetError& error) {
    throw BudgetError(std::string("validation and decoding: ") + error.what());
  }
}

void Trainer::add_all_programs() {
  steps_.add_all();
  add_validation();
}

bool Trainer::may_renew_device() const { return !steps_.sparse().on() && !rounds(config_.memory); }

void Trainer::renew_device() {
  Device device = training_device(config_, &device_line_);
  device.accelerator = programs_.device().accelerator;
  device.algorithms = programs_.device().algorithms;
  device.group = programs_.device().group;
  device.device_group = programs_.device().device_group;
  programs_.use_device(device);
  add_all_programs();
}

std::string Trainer::run(const std::atomic<bool>& stop, const std::function<bool()>& go_on) {
  if (ranks_.writes()) {
    metrics_ = args_.resume ? MetricsWriter::resume(file("metrics.jsonl"), state_.step)
                            : MetricsWriter::create(file("metrics.jsonl"));
    events_.emplace(args_.out, state_.step);
  }
  if (args_.resume) keep();  // one that was ended right after it saved did not
  // One that was killed after its last step may lack what comes behind it.
  const bool was_done = !args_.resume || ranks_.of_first([this] { return metrics_->was_done(); });
  steps_.tell([this](PlanRow row) {
    row.step = state_.step;
    write(row);
  });
  auto& t = config_.train;
  // What a validation that was interrupted would have done, had it not been.
  const bool owes = state_.valid_due;
  bool go = !owes || after_update(true, stop);
  while (go && finished().empty() && !ranks_.any(stop) && (!go_on || go_on())) {
    epoch_ended_ = false;
    train_step();
    go = after_update(
        t.valid_every->has_value() ? state_.step % **t.valid_every == 0 : epoch_ended_, stop);
  }
  std::string reason = go ? finished() : "";
  const bool complete = !reason.empty(), did = state_.step > first_step_ || owes || !was_done;
  if (!complete) reason = "interrupted";
  save();
  if (complete && validated_ != state_.step && did) validate(false);
  if (complete && did) try_average();
  progress_.finish();
  write_end(state_.step, reason);
  write_report(reason);
  return reason;
}

// Validates and saves where that is due. False: it was told to stop.
bool Trainer::after_update(bool valid_due, const std::atomic<bool>& stop) {
  state_.valid_due = false;
  try {
    if (valid_due) validate(true, &stop);
  } catch (const Interrupted&) {
    state_.valid_due = true;
    return false;
  }
  const auto& every = config_.train.save_every;
  if (every->has_value() ? state_.step % **every == 0 : valid_due) save();
  if (valid_due) write_report("training");
  return true;
}

}  // namespace pal
