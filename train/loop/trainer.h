// The training loop: takes batches, runs steps, validates, saves. It knows neither the model nor
// where a byte lives.
#pragma once
#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/clock.h"
#include "core/scalars.h"
#include "memory/run/program_set.h"
#include "train/loop/checkpoint.h"
#include "train/loop/rank_talk.h"
#include "train/loop/step_programs.h"
#include "train/loop/step_watch.h"
#include "train/loop/task.h"
#include "train/loop/train_args.h"
#include "train/report/run_curves.h"
#include "train/run_files/log.h"
#include "train/run_files/metrics.h"
#include "train/run_files/tensorboard.h"

namespace pal {

class Trainer {
 public:
  // Compiles the largest bucket's step, and draws the weights or, to resume, loads them. `task` is
  // the configuration's; `share`: its place in a pool, where jobs share memory. Throws before
  // anything is written.
  Trainer(const TrainArgs& args, std::unique_ptr<Task> task, const PoolShare& share = {});

  // Compiles all programs that the run may need: steps, validation, the final test. (Sparse plans
  // follow from what is counted.)
  void add_all_programs();
  // Between steps: as the configuration's device says by now, which may have another number of
  // threads. All programs are compiled anew.
  void renew_device();
  // Whether it may be renewed: which values are rounded, or kept sparse, depends on the plans.
  bool may_renew_device() const;

  // Trains until train.steps, train.max_epochs or train.patience ends it, or until `stop` turns
  // true, or `go_on`, which is asked before each step, does not; then saves. Returns the reason:
  // "steps", "max_epochs", "patience", "interrupted".
  std::string run(const std::atomic<bool>& stop, const std::function<bool()>& go_on = {});

  // The metric of the best checkpoint on a part of the data.
  Validation evaluate_best(const std::string& part);

  // Writes report.html into the run's folder; `state` is a word or two, "training", "steps". A
  // report that cannot be written is a warning, no error.
  void write_report(const std::string& state, const Validation* test = nullptr);

  ProgramSet& programs() { return programs_; }
  Task& task() { return *task_; }
  const TrainerState& state() const { return state_; }
  double seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }
  const std::string& device_line() const { return device_line_; }  // what steps run on
  // The step program with the largest plan, and its bucket.
  Executable& largest() { return steps_.largest(); }
  // Of all programs of the run so far, validation and decoding included.
  int64_t arena_bytes() const { return programs_.arena_bytes(); }
  int largest_bucket() { return steps_.largest_bucket(); }

 private:
  void add_validation();
  void train_step();
  StepScalars scalars_of(double normalizer) const;
  // What an update computed; loss and norm only where they were looked at.
  struct Ran {
    double loss = 0, norm = 0;
    int64_t peak = 0;            // bytes of the largest plan
    Executable* last = nullptr;  // of the last micro-batch
  };
  // Its own micro-batch i, and the number that it has among those of all ranks.
  void fill(Executable& program, const StepScalars& scalars, int i);
  int32_t number_of(int i) const { return int32_t(ranks_.rank() * steps_.update().per_rank()) + i; }
  Executable* run_pair(const std::vector<BatchInfo>& batches, int i, StepScalars scalars);
  void read(Executable& program, Ran& ran, bool last);
  Executable& run_micro_batch(int bucket, MicroBatch kind, const StepScalars& scalars, int i);
  Ran run_micro_batches(const std::vector<BatchInfo>& batches, StepScalars scalars, bool look);
  void show_progress(bool due);
  void write_row(const Ran& ran, double lr);
  [[noreturn]] void stop_on_nan(Executable& program);
  void write_end(int64_t step, const std::string& reason);
  std::string from_where() const;  // how errors end that lose what came after a checkpoint
  void check_watch();              // ends the run where a step that was not looked at had a NaN
  bool after_update(bool valid_due, const std::atomic<bool>& stop);
  // Interrupted, and nothing has changed, once `stop` is true on some rank.
  void validate(bool scheduled, const std::atomic<bool>* stop = nullptr);
  Dealt dealt(const std::atomic<bool>* stop = nullptr) const;
  void save();
  void save_best();
  void keep();  // train.keep_last, of what was saved last
  // train.average_last: validates the mean of the last checkpoints.
  void try_average();
  // Why training is over, or nothing.
  std::string finished() const;
  std::filesystem::path file(const char* name) const { return args_.out / name; }
  // Rows of metrics; rank 0's.
  template <class Row> void write(const Row& row) {
    if (metrics_) metrics_->write(row);
  }
  void check_alike(const Loaded& loaded);
  static std::pair<std::string, std::string> content_of(const Loaded& loaded);
  // Loads the weights of a file of the run's folder; UsageError where another rank finds others.
  void load_alike(const char* name);
  ShardedState sharded_state() const;
  std::pair<int64_t, int64_t> longest_lengths() const;

  const TrainArgs& args_;
  Config config_;  // args_'s, and what is found out before the first step
  const RankTalk ranks_;
  std::unique_ptr<Task> task_;
  std::string device_line_;
  ProgramSet programs_;
  StepPrograms steps_;
  const ShardedState sharded_;
  std::string last_ran_;  // the name of the micro-batch's program
  StepWatch watch_;
  double loss_ = 0;  // as last read
  TrainerState state_;
  std::optional<MetricsWriter> metrics_;
  std::optional<EventWriter> events_;
  RunCurves curves_;  // of the report
  Progress progress_;
  const Clock::time_point begin_ = Clock::now();
  int64_t first_step_ = 0;
  int64_t validated_ = -1, saved_ = -1;  // at which step last
  std::vector<std::pair<std::string, std::string>> samples_of_valid_;
  bool epoch_ended_ = false;
  std::optional<double> best_saved_;  // the metric of best.safetensors, as far as it is known
  // Since the last step row: for throughput.
  int64_t samples_ = 0, tokens_ = 0, updates_ = 0;
  double seconds_ = 0;
};

}  // namespace pal
